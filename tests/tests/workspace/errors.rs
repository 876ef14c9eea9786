//! What a user reads when something is wrong: one message with a hint, the right exit code, and
//! nothing half-written.

use crate::common;
use crate::common::{CONFIG, Project};

/// Trains with a changed config and gives the message; nothing may be written.
fn refused(code: i32, change: impl FnOnce(&Project) -> String, arguments: &[&str]) -> String {
    let project = Project::new();
    let config = change(&project);
    project.write("small.toml", &config);
    let outcome = project.run(&[&["train", "--config", "small.toml"], arguments].concat());
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    assert!(!project.exists("runs"), "something was written");
    assert!(!outcome.stderr.contains("panicked"));
    outcome.stderr
}

fn with(from: &str, to: &str) -> impl FnOnce(&Project) -> String + use<> {
    assert!(CONFIG.contains(from), "{from}");
    let config = CONFIG.replace(from, to);
    move |_| config
}

#[test]
fn a_wrong_key() {
    insta::assert_snapshot!(refused(2, with("steps = 6", "step = 6"), &[]));
}

#[test]
fn a_wrong_section() {
    insta::assert_snapshot!(refused(2, with("[train]", "[trian]"), &[]));
}

#[test]
fn a_wrong_type() {
    insta::assert_snapshot!(refused(2, with("steps = 6", "steps = \"many\""), &[]));
}

#[test]
fn a_precision_that_there_is_not() {
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", "train.precision=f64"]));
}

#[test]
fn a_stage_in_another_precision() {
    let stage = "stage=[{ length = 64, steps = 2, precision = \"bf16\" }]";
    let arguments = ["--set", "train.precision=f16", "--set", stage];
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &arguments));
}

#[test]
fn a_wrong_encoding() {
    insta::assert_snapshot!(refused(2, with("\"rope\"", "\"ropee\""), &[]));
}

#[test]
fn a_key_of_another_encoding() {
    insta::assert_snapshot!(refused(2, with("kind = \"rope\"", "kind = \"none\"\nbase = 3.0"), &[]));
}

#[test]
fn an_extension_that_does_not_apply() {
    insta::assert_snapshot!(refused(2, with("\"rope\"", "\"none\""), &[]));
}

#[test]
fn an_encoding_that_linear_attention_cannot_read() {
    let change = with("kind = \"rope\"", "kind = \"alibi\"");
    insta::assert_snapshot!(refused(2, change, &["--set", "model.attention=linear"]));
}

#[test]
fn an_attention_that_there_is_not() {
    let attention = "model.attention={ kind = \"stick_breaking\", rest = \"drop\" }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", attention]));
}

#[test]
fn log_n_of_stick_breaking_attention() {
    let arguments = ["--set", "model.attention=stick_breaking", "--set", "model.log_n=true"];
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &arguments));
}

#[test]
fn an_alpha_of_entmax_that_there_is_not() {
    let attention = "model.attention={ kind = \"entmax\", alpha = 2.5 }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", attention]));
}

#[test]
fn a_power_of_lssar_that_there_is_not() {
    let attention = "model.attention={ kind = \"lssar\", power = 0 }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", attention]));
}

#[test]
fn a_sink_beside_entmax() {
    let arguments = ["--set", "model.attention=entmax", "--set", "position=[\"rope\", \"sink_logit\"]"];
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &arguments));
}

#[test]
fn scales_of_queries_and_keys_beside_lssar() {
    let arguments = ["--set", "model.attention=lssar", "--set", "model.qk_norm=rms"];
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &arguments));
}

#[test]
fn log_n_of_an_extension_of_lssar() {
    let extend = "evaluate.extend=[{ kind = \"direct\", log_n = true }]";
    insta::assert_snapshot!(refused(
        2,
        |_| CONFIG.to_owned(),
        &["--set", "model.attention=lssar", "--set", extend]
    ));
}

#[test]
fn sinks_of_stick_breaking_attention() {
    let extend = "evaluate.extend=[{ kind = \"sinks\", n_sink = 2, window = \"L/2\" }]";
    let arguments = ["--set", "model.attention=stick_breaking", "--set", extend];
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &arguments));
}

#[test]
fn log_n_beside_an_encoding_that_scales_scores() {
    let change = with("kind = \"rope\"", "kind = \"scale_invariant\"");
    insta::assert_snapshot!(refused(2, change, &["--set", "model.log_n=true"]));
}

#[test]
fn an_extension_with_log_n_for_an_encoding_that_scales_scores() {
    let change = with("kind = \"rope\"", "kind = \"scale_invariant\"");
    let extension = "evaluate.extend=[{ kind = \"direct\", log_n = true }]";
    insta::assert_snapshot!(refused(2, change, &["--set", extension]));
}

#[test]
fn an_extension_that_linear_attention_cannot_read() {
    let arguments = ["--set", "model.attention=linear", "--set", "evaluate.extend=[\"rerope\"]"];
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &arguments));
}

#[test]
fn a_layer_that_no_pattern_reaches() {
    let stack = "position={ kind = \"mixed\", layers = [\"rope\", \"none\"], pattern = [0] }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", stack]));
}

#[test]
fn an_extension_that_no_layer_of_a_stack_can_take() {
    let stack = "position={ kind = \"mixed\", layers = [{ kind = \"fox\", window = 8 }, \"none\"] }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", stack]));
}

#[test]
fn an_encoding_of_digits_whose_tokenizer_joins_them() {
    let change = |project: &Project| {
        project.write("corpus/train/years.txt", &"1789 1812 1865 1945 ".repeat(2000));
        CONFIG.replace("\"rope\"", "\"abacus\"").replace(", \"linear\", \"ntk\"", "")
    };
    let tokenizer = "data.tokenizer={ kind = \"bpe\", vocab_size = 270 }";
    insta::assert_snapshot!(refused(2, change, &["--set", tokenizer]));
}

#[test]
fn a_text_as_long_as_the_table_of_places() {
    let change = |_: &Project| {
        let config = CONFIG.replace("\"rope\"", "\"abacus\"\ntable_size = 40\nmax_offset = 4\ndigits = [3]");
        config.replace(", \"linear\", \"ntk\"", "")
    };
    insta::assert_snapshot!(refused(2, change, &[]));
}

#[test]
fn a_learned_encoding_past_its_table() {
    let change = |_: &Project| CONFIG.replace("\"rope\"", "\"learned\"").replace(", \"linear\", \"ntk\"", "");
    insta::assert_snapshot!(refused(2, change, &[]));
}

#[test]
fn an_odd_head_dimension() {
    insta::assert_snapshot!(refused(2, with("width = 32", "width = 30"), &[]));
}

#[test]
fn heads_that_do_not_divide() {
    insta::assert_snapshot!(refused(2, with("heads = 2", "heads = 3"), &[]));
}

#[test]
fn a_batch_that_is_no_multiple() {
    insta::assert_snapshot!(refused(2, with("batch_tokens = 256", "batch_tokens = 100"), &[]));
}

#[test]
fn a_length_that_is_none() {
    insta::assert_snapshot!(refused(2, with("lengths = [32, 64]", "lengths = [32, \"2l\"]"), &[]));
}

#[test]
fn a_length_below_one_token() {
    insta::assert_snapshot!(refused(2, with("lengths = [32, 64]", "target = \"L/64\""), &[]));
}

#[test]
fn a_table_whose_size_is_no_length() {
    let learned = "position={ kind = \"learned\", table_size = \"four L\" }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", learned]));
}

#[test]
fn a_length_on_the_command_line_that_is_none() {
    let project = Project::new();
    for arguments in [
        &["eval", "runs/x", "--lengths", "L,2x"][..],
        &["inspect", "--config", "small.toml", "--length", "2x"],
    ] {
        let outcome = project.run(arguments);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("invalid value '2x'"), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("a whole number of tokens, at least 1, or a multiple"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_window_that_hides_nothing_is_told_once_and_taken() {
    let project = Project::new();
    let set = "evaluate=[{ lengths = [32, 64], extend = [{ kind = \"window\", window = \"4L\" }] }]";
    let outcome = project.run(&["validate", "small.toml", "--set", set]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let told = "`evaluate[0].extend[0].window = \"4L\"` hides nothing: a window of 128 tokens, and the longest of \
                `lengths` is 64";
    assert_eq!(outcome.stderr.matches(told).count(), 1, "{}", outcome.stderr);
}

#[test]
fn a_size_that_nothing_has() {
    let convolution = "position={ kind = \"causal_conv\", kernel = 4000000000 }";
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", convolution]));
    insta::assert_snapshot!(
        "a_width_that_nothing_has",
        refused(2, |_| CONFIG.to_owned(), &["--set", "model.width=1000000000"])
    );
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
    let message = |set: &str| without_the_free(&refused(2, |_| CONFIG.to_owned(), &["--set", set]));
    insta::assert_snapshot!(message("train.batch_tokens=32000000000000"));
    insta::assert_snapshot!("weights_that_no_memory_holds", message("model.width=9000000"));
    let network = "position={ kind = \"cpb\", hidden = 16777216 }";
    let message = |arguments: &[&str]| {
        let project = Project::new();
        let set = ["--set", network, "--set", "evaluate=[]"];
        let outcome = project.run(&[arguments, &["small.toml"], &set].concat());
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(!project.exists("runs"), "something was written");
        without_the_free(&outcome.stderr)
    };
    let told = message(&["train", "--config"]);
    insta::assert_snapshot!("an_encoding_that_no_memory_holds", told);
    // Who only asks is told the same.
    assert_eq!(message(&["validate"]), told);
}

#[test]
fn a_missing_corpus() {
    insta::assert_snapshot!(refused(2, with("corpus = \"corpus\"", "corpus = \"nowhere\""), &[]));
}

#[test]
fn an_empty_corpus() {
    let change = |project: &Project| {
        std::fs::create_dir(project.path("empty")).unwrap();
        CONFIG.replace("corpus = \"corpus\"", "corpus = \"empty\"")
    };
    insta::assert_snapshot!(refused(1, change, &[]));
}

#[test]
fn no_document_as_long_as_the_length() {
    insta::assert_snapshot!(refused(1, with("[32, 64]", "[32, 1048576]"), &[]));
}

#[test]
fn a_training_text_shorter_than_a_sequence() {
    let change = |_: &Project| {
        CONFIG
            .replace("length = 32\n", "length = 131072\n")
            .replace("batch_tokens = 256", "batch_tokens = 262144")
            + "target = 32\n"
    };
    insta::assert_snapshot!(refused(2, change, &[]));
}

/// The config with other extensions.
fn extend(extend: &str) -> impl FnOnce(&Project) -> String + use<> {
    with("[\"direct\", \"linear\", \"ntk\"]", &format!("[{extend}]"))
}

#[test]
fn a_window_that_training_never_showed() {
    insta::assert_snapshot!(refused(2, extend("{ kind = \"rerope\", window = \"L\" }"), &[]));
    // Who asks for it gets it.
    let project = Project::new();
    let allowed = "evaluate.extend=[{ kind = \"rerope\", window = \"L\", allow_untrained = true }]";
    project.train(&["--set", allowed]);
}

#[test]
fn a_group_that_cannot_reach_the_length() {
    let change = |project: &Project| {
        extend("{ kind = \"self_extend\", window = \"L/2\", group = 2 }")(project)
            .replace("[32, 64]", "[32, 128]")
    };
    insta::assert_snapshot!(refused(2, change, &[]));
}

#[test]
fn factors_of_the_wrong_number() {
    insta::assert_snapshot!(refused(2, extend("{ kind = \"longrope\", long_factor = [1.0, 2.0] }"), &[]));
    let frequencies = "{ kind = \"frequencies\", inv_freq = [1.0, 0.1] }";
    insta::assert_snapshot!("frequencies_of_the_wrong_number", refused(2, extend(frequencies), &[]));
}

#[test]
fn a_search_that_has_nothing_to_search() {
    let search = "{ kind = \"longrope\", search = { length = 32 } }";
    insta::assert_snapshot!("a_search_at_the_training_length", refused(2, extend(search), &[]));
    let change = |_: &Project| {
        CONFIG
            .replace("\"rope\"", "\"alibi\"")
            .replace("[\"direct\", \"linear\", \"ntk\"]", "[{ kind = \"longrope\", search = {} }]")
    };
    insta::assert_snapshot!("a_search_without_frequencies", refused(2, change, &[]));
}

#[test]
fn a_list_that_cannot_be_tried() {
    let windows = "{ kind = \"rerope\", window = [\"L/4\", \"2L\"] }";
    insta::assert_snapshot!("a_list_with_an_untrained_value", refused(2, extend(windows), &[]));
    // The test documents are long enough, those of the validation split are not.
    let change = |project: &Project| {
        project.write("corpus/valid/0.txt", &common::text(20, 0));
        project.write("corpus/valid/1.txt", &common::text(20, 1));
        extend("{ kind = \"rerope\", window = [\"L/4\", \"L/2\"] }")(project).replace("[32, 64]", "[32, 512]")
    };
    insta::assert_snapshot!("a_list_without_validation_documents", refused(1, change, &[]));
}

#[test]
fn a_stage_that_cannot_be_trained() {
    let staged = |stage: &str| {
        let config = CONFIG.replace("[[evaluate]]", &format!("[[stage]]\n{stage}\n[[evaluate]]"));
        move |_: &Project| config
    };
    insta::assert_snapshot!("a_stage_without_steps", refused(2, staged("length = 64"), &[]));
    let wrong = staged("length = 64\nsteps = 2\nextned = \"linear\"");
    insta::assert_snapshot!("a_wrong_key_of_a_stage", refused(2, wrong, &[]));
    let table = staged("length = 64\nsteps = 2\nextend = \"table\"");
    insta::assert_snapshot!("a_stage_whose_extension_does_not_apply", refused(2, table, &[]));
    let long = staged("length = 131072\nsteps = 2\nbatch_tokens = 262144");
    insta::assert_snapshot!("a_stage_longer_than_the_text", refused(2, long, &[]));
}

#[test]
fn a_wrong_assignment() {
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--set", "train.lenght=3"]));
}

#[cfg(not(feature = "gpu"))]
#[test]
fn a_gpu_without_the_feature() {
    insta::assert_snapshot!(refused(2, |_| CONFIG.to_owned(), &["--device", "gpu"]));
}

#[test]
fn a_missing_config() {
    let project = Project::new();
    let outcome = project.run(&["train", "--config", "nothing.toml"]);
    assert_eq!(outcome.code, Some(2));
    insta::assert_snapshot!(outcome.stderr);
}

#[test]
fn a_folder_that_holds_no_run() {
    let project = Project::new();
    let outcome = project.run(&["eval", "corpus"]);
    assert_eq!(outcome.code, Some(2));
    insta::assert_snapshot!(outcome.stderr);
}

#[test]
fn a_run_that_may_not_be_continued_this_way() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let message = |arguments: &[&str]| {
        let outcome = project.run(&[&["train", "--config", "small.toml"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        outcome.stderr
    };
    insta::assert_snapshot!("the_same_without_resume", message(&["--set", "train.steps=2"]));
    insta::assert_snapshot!("another_config_without_resume", message(&["--set", "model.width=64"]));
    let other = ["--set", "train.steps=2", "--set", "train.clip=2.0", "--resume"];
    insta::assert_snapshot!("another_config_with_resume", message(&other));
}

#[test]
fn a_loss_that_is_not_finite() {
    let project = Project::new();
    let arguments = ["--set", "train.learning_rate=1e30", "--set", "train.checkpoint_every=1"];
    let outcome = project.run(&[&["train", "--config", "small.toml"], &arguments[..]].concat());
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let message = outcome.stderr.split("error: ").nth(1).unwrap();
    for part in [
        "step ",
        "learning rate ",
        "the last good checkpoint is",
        "(step ",
        "hint: lower `train.learning_rate`",
    ] {
        assert!(message.contains(part), "no `{part}` in {message}");
    }
    assert!(!project.exists("runs/small-0/results.jsonl"), "a table of a broken model");
}
