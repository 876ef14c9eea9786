//! What a user reads when something is wrong: one message with a hint, the right exit code, and
//! nothing half-written.

use crate::common::{self, CONFIG, Project, set};

/// Trains a config with changed keys; nothing may be written. What is said is compared with the snapshot of this name.
fn refused(project: &Project, name: &str, code: i32, config: &str, changes: &[&str]) {
    project.write("small.toml", config);
    let told = project.refused(code, &[&["train", "--config", "small.toml"], &set(changes)[..]].concat());
    assert!(!project.exists("runs"), "{name}: something was written");
    insta::assert_snapshot!(name, told);
}

/// The small config with other words in the place of these, which are there.
fn with(words: &[(&str, &str)]) -> String {
    words.iter().fold(CONFIG.to_owned(), |config, (from, to)| {
        assert!(config.contains(from), "{from}");
        config.replace(from, to)
    })
}

const EXTENSIONS: &str = "[\"direct\", \"linear\", \"ntk\"]";
const DIRECT: (&str, &str) = (EXTENSIONS, "[\"direct\"]");

#[test]
fn a_config_with_other_words() {
    let project = Project::new();
    for (name, code, words) in [
        ("a_wrong_key", 2, &[("steps = 6", "step = 6")][..]),
        ("a_wrong_section", 2, &[("[train]", "[trian]")]),
        ("a_wrong_type", 2, &[("steps = 6", "steps = \"many\"")]),
        ("a_wrong_encoding", 2, &[("\"rope\"", "\"ropee\"")]),
        ("a_key_of_another_encoding", 2, &[("kind = \"rope\"", "kind = \"none\"\nbase = 3.0")]),
        ("an_extension_that_does_not_apply", 2, &[("\"rope\"", "\"none\"")]),
        (
            "a_text_as_long_as_the_table_of_places",
            2,
            &[("\"rope\"", "\"abacus\"\ntable_size = 40\nmax_offset = 4\ndigits = [3]"), DIRECT],
        ),
        ("a_learned_encoding_past_its_table", 2, &[("\"rope\"", "\"learned\""), DIRECT]),
        ("an_odd_head_dimension", 2, &[("width = 32", "width = 30")]),
        ("heads_that_do_not_divide", 2, &[("heads = 2", "heads = 3")]),
        ("a_batch_that_is_no_multiple", 2, &[("batch_tokens = 256", "batch_tokens = 100")]),
        ("a_length_that_is_none", 2, &[("lengths = [32, 64]", "lengths = [32, \"2l\"]")]),
        ("a_length_below_one_token", 2, &[("lengths = [32, 64]", "target = \"L/64\"")]),
        ("a_missing_corpus", 2, &[("corpus = \"corpus\"", "corpus = \"nowhere\"")]),
        ("no_document_as_long_as_the_length", 1, &[("[32, 64]", "[32, 1048576]")]),
        (
            "a_training_text_shorter_than_a_sequence",
            2,
            &[
                ("length = 32\n", "length = 131072\n"),
                ("batch_tokens = 256", "batch_tokens = 262144"),
                ("windows_per_document = 2\n", "windows_per_document = 2\ntarget = 32\n"),
            ],
        ),
        (
            "a_search_without_frequencies",
            2,
            &[("\"rope\"", "\"alibi\""), (EXTENSIONS, "[{ kind = \"longrope\", search = {} }]")],
        ),
    ] {
        refused(&project, name, code, &with(words), &[]);
    }
}

#[test]
fn a_key_that_is_set() {
    let project = Project::new();
    for (name, changes) in [
        ("a_precision_that_there_is_not", &["train.precision=f64"][..]),
        (
            "a_stage_in_another_precision",
            &["train.precision=f16", "stage=[{ length = 64, steps = 2, precision = \"bf16\" }]"],
        ),
        (
            "an_encoding_that_linear_attention_cannot_read",
            &["position={ kind = \"alibi\" }", "model.attention=linear"],
        ),
        (
            "an_attention_that_there_is_not",
            &["model.attention={ kind = \"stick_breaking\", rest = \"drop\" }"],
        ),
        ("log_n_of_stick_breaking_attention", &["model.attention=stick_breaking", "model.log_n=true"]),
        ("an_alpha_of_entmax_that_there_is_not", &["model.attention={ kind = \"entmax\", alpha = 2.5 }"]),
        ("a_power_of_lssar_that_there_is_not", &["model.attention={ kind = \"lssar\", power = 0 }"]),
        ("a_sink_beside_entmax", &["model.attention=entmax", "position=[\"rope\", \"sink_logit\"]"]),
        ("scales_of_queries_and_keys_beside_lssar", &["model.attention=lssar", "model.qk_norm=rms"]),
        (
            "log_n_of_an_extension_of_lssar",
            &["model.attention=lssar", "evaluate.extend=[{ kind = \"direct\", log_n = true }]"],
        ),
        (
            "sinks_of_stick_breaking_attention",
            &[
                "model.attention=stick_breaking",
                "evaluate.extend=[{ kind = \"sinks\", n_sink = 2, window = \"L/2\" }]",
            ],
        ),
        (
            "log_n_beside_an_encoding_that_scales_scores",
            &["position={ kind = \"scale_invariant\" }", "model.log_n=true"],
        ),
        (
            "an_extension_with_log_n_for_an_encoding_that_scales_scores",
            &[
                "position={ kind = \"scale_invariant\" }",
                "evaluate.extend=[{ kind = \"direct\", log_n = true }]",
            ],
        ),
        (
            "an_extension_that_linear_attention_cannot_read",
            &["model.attention=linear", "evaluate.extend=[\"rerope\"]"],
        ),
        (
            "a_layer_that_no_pattern_reaches",
            &["position={ kind = \"mixed\", layers = [\"rope\", \"none\"], pattern = [0] }"],
        ),
        (
            "an_extension_that_no_layer_of_a_stack_can_take",
            &["position={ kind = \"mixed\", layers = [{ kind = \"fox\", window = 8 }, \"none\"] }"],
        ),
        ("a_table_whose_size_is_no_length", &["position={ kind = \"learned\", table_size = \"four L\" }"]),
        ("a_size_that_nothing_has", &["position={ kind = \"causal_conv\", kernel = 4000000000 }"]),
        ("a_width_that_nothing_has", &["model.width=1000000000"]),
        ("a_wrong_assignment", &["train.lenght=3"]),
    ] {
        refused(&project, name, 2, CONFIG, changes);
    }
}

#[test]
fn a_value_that_is_not_allowed() {
    let project = Project::new();
    let (task, length) = ("data={ task = { kind = \"passkey\" } }", "train.length=64");
    for (changes, part) in [
        (&["train.optimiser=muon"][..], "unknown key `train.optimiser`\n\nhint: did you mean `optimizer`?"),
        (&["train.length=2L"], "`train.length = \"2L\"` is not allowed: it is L itself"),
        (&["train.length=0"], "`train.length = 0` is not allowed: it must be at least 1"),
        (&["train.learning_rate=nan"], "`train.learning_rate = NaN` is not allowed"),
        (&["train.warmup=1.5"], "`train.warmup = 1.5` is not allowed"),
        (&["train.validate_every=0"], "`train.validate_every = 6` for a validation at the end"),
        (&["train.checkpoint_every=0"], "`train.checkpoint_every = 6` for a checkpoint at the end"),
        (&["train.on_non_finite=rolback"], "did you mean `rollback`?"),
        (&["position=RoPE"], "did you mean `rope`?"),
        (&["evaluate.lengths=8L,4L"], "a list is written `--set 'evaluate.lengths=[\"8L\", \"4L\"]'`"),
        (&["evaluate.lengths=[L,2L]"], "a list is written `--set 'evaluate.lengths=[\"L\", \"2L\"]'`"),
        (&["evaluate.extend=yarn,ntk"], "a list is written `--set 'evaluate.extend=[\"yarn\", \"ntk\"]'`"),
        (&["train.keep_checkpoints=2,4"], "a list is written `--set 'train.keep_checkpoints=[2, 4]'`"),
        (&["train.positions=pose"], "hint: write `{ kind = \"pose\" }`"),
        (&["train.positions={ kind = \"offset\" }"], "`train.positions.max_position` is missing"),
        (
            &[
                "data.tokenizer={ kind = \"bpe\", vocab_size = 270 }",
                "data.tokenizer.kind=file",
                "data.tokenizer.path=t.json",
            ],
            "`--set 'data.tokenizer={ kind = \"file\", path = \"t.json\" }'` replaces the whole table",
        ),
        (&[task, length, "train.sampling=shuffled"], "`train.sampling` has no meaning"),
        (&[task, length, "stage=[{ length = 16, steps = 5 }]"], "`stage[0].length = 16`"),
        (
            &[task, length, "stage=[{ length = 64, steps = 5, sampling = \"shuffled\" }]"],
            "`stage[0].sampling` has no meaning",
        ),
    ] {
        let arguments = [&["validate", "small.toml"], &set(changes)[..]].concat();
        project.refuses(2, &arguments, &[part, "\n\nhint: "]);
    }
}

#[test]
fn an_extension_that_cannot_be_read() {
    let project = Project::new();
    for (name, extend) in [
        ("a_window_that_training_never_showed", "{ kind = \"rerope\", window = \"L\" }"),
        ("factors_of_the_wrong_number", "{ kind = \"longrope\", long_factor = [1.0, 2.0] }"),
        ("frequencies_of_the_wrong_number", "{ kind = \"frequencies\", inv_freq = [1.0, 0.1] }"),
        ("a_search_at_the_training_length", "{ kind = \"longrope\", search = { length = 32 } }"),
        ("a_list_with_an_untrained_value", "{ kind = \"rerope\", window = [\"L/4\", \"2L\"] }"),
    ] {
        refused(&project, name, 2, &with(&[(EXTENSIONS, &format!("[{extend}]"))]), &[]);
    }
    let group = "[{ kind = \"self_extend\", window = \"L/2\", group = 2 }]";
    let far = with(&[(EXTENSIONS, group), ("[32, 64]", "[32, 128]")]);
    refused(&project, "a_group_that_cannot_reach_the_length", 2, &far, &[]);
    // The test documents are long enough, those of the validation split are not.
    for index in 0..2 {
        project.write(&format!("corpus/valid/{index}.txt"), &common::text(20, index));
    }
    let windows = "[{ kind = \"rerope\", window = [\"L/4\", \"L/2\"] }]";
    let listed = with(&[(EXTENSIONS, windows), ("[32, 64]", "[32, 512]")]);
    refused(&project, "a_list_without_validation_documents", 1, &listed, &[]);
    // Who asks for an untrained window gets it.
    let allowed = "evaluate.extend=[{ kind = \"rerope\", window = \"L\", allow_untrained = true }]";
    Project::new().train(&set(&[allowed]));
}

#[test]
fn a_stage_that_cannot_be_trained() {
    let project = Project::new();
    for (name, stage) in [
        ("a_stage_without_steps", "length = 64"),
        ("a_wrong_key_of_a_stage", "length = 64\nsteps = 2\nextned = \"linear\""),
        ("a_stage_whose_extension_does_not_apply", "length = 64\nsteps = 2\nextend = \"table\""),
        ("a_stage_longer_than_the_text", "length = 131072\nsteps = 2\nbatch_tokens = 262144"),
    ] {
        let config = with(&[("[[evaluate]]", &format!("[[stage]]\n{stage}\n[[evaluate]]"))]);
        refused(&project, name, 2, &config, &[]);
    }
}

#[test]
fn a_corpus_that_does_not_fit() {
    let project = Project::new();
    std::fs::create_dir(project.path("empty")).unwrap();
    refused(&project, "an_empty_corpus", 1, &with(&[("corpus = \"corpus\"", "corpus = \"empty\"")]), &[]);
    project.write("corpus/train/years.txt", &"1789 1812 1865 1945 ".repeat(2000));
    let tokenizer = "data.tokenizer={ kind = \"bpe\", vocab_size = 270 }";
    let digits = with(&[("\"rope\"", "\"abacus\""), DIRECT]);
    refused(&project, "an_encoding_of_digits_whose_tokenizer_joins_them", 2, &digits, &[tokenizer]);
}

#[test]
fn a_length_on_the_command_line_that_is_none() {
    let project = Project::new();
    for arguments in [
        &["eval", "runs/x", "--lengths", "L,2x"][..],
        &["inspect", "--config", "small.toml", "--length", "2x"],
    ] {
        project.refuses(
            2,
            arguments,
            &["invalid value '2x'", "a whole number of tokens, at least 1, or a multiple"],
        );
    }
}

#[test]
fn a_window_that_hides_nothing_is_told_once_and_taken() {
    let project = Project::new();
    let set = "evaluate=[{ lengths = [32, 64], extend = [{ kind = \"window\", window = \"4L\" }] }]";
    let outcome = project.ok(&["validate", "small.toml", "--set", set]);
    let told = "`evaluate[0].extend[0].window = \"4L\"` hides nothing: a window of 128 tokens, and the longest of \
                `lengths` is 64";
    assert_eq!(outcome.stderr.matches(told).count(), 1, "{}", outcome.stderr);
}

/// What is free is another amount at every time.
fn without_the_free(message: &str) -> String {
    let (before, after) = message.split_once(", and ").unwrap();
    let (free, after) = after.split_once(" are free").unwrap();
    assert!(free.ends_with("iB"), "{message}");
    format!("{before}, and .. are free{after}")
}

#[test]
fn a_training_that_no_memory_holds() {
    let project = Project::new();
    let message = |command: &[&str], changes: &[&str]| {
        let told = project.refused(2, &[command, &["small.toml"], &set(changes)[..]].concat());
        assert!(!project.exists("runs"), "something was written");
        without_the_free(&told)
    };
    let network = "position={ kind = \"cpb\", hidden = 16777216 }";
    for (name, changes) in [
        ("a_training_that_no_memory_holds", &["train.batch_tokens=32000000000000"][..]),
        ("weights_that_no_memory_holds", &["model.width=9000000"]),
        ("an_encoding_that_no_memory_holds", &[network, "evaluate=[]"]),
    ] {
        let told = message(&["train", "--config"], changes);
        // `validate` refuses it in the same words as `train`.
        assert_eq!(message(&["validate"], changes), told);
        insta::assert_snapshot!(name, told);
    }
}

#[test]
fn arguments_of_train_and_eval() {
    let project = Project::new();
    for (name, arguments) in [
        #[cfg(not(feature = "gpu"))]
        ("a_gpu_without_the_feature", &["train", "--config", "small.toml", "--device", "gpu"][..]),
        ("a_missing_config", &["train", "--config", "nothing.toml"][..]),
        ("a_folder_that_holds_no_run", &["eval", "corpus"]),
    ] {
        insta::assert_snapshot!(name, project.refused(2, arguments));
        assert!(!project.exists("runs"), "{name}: something was written");
    }
}

#[test]
fn a_run_that_may_not_be_continued_this_way() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let message =
        |arguments: &[&str]| project.refused(2, &[&["train", "--config", "small.toml"], arguments].concat());
    insta::assert_snapshot!("the_same_without_resume", message(&["--set", "train.steps=2"]));
    insta::assert_snapshot!("another_config_without_resume", message(&["--set", "model.width=64"]));
    let other = ["--set", "train.steps=2", "--set", "train.clip=2.0", "--resume"];
    insta::assert_snapshot!("another_config_with_resume", message(&other));
}

#[test]
fn seeds_that_count_past_the_largest() {
    let project = Project::new();
    let last = "seed=9223372036854775807";
    let hint = "hint: use `seed = 9223372036854775805`";
    let arguments = ["train", "small.toml", "--set", last, "--seeds", "3"];
    project.refuses(2, &arguments, &["`seed = 9223372036854775807` is not allowed", hint]);
    assert!(!project.exists("runs"));
}
