//! Wrong inputs of every command, and what the user reads: a snapshot each, with a hint.

use crate::common::{CONFIG, Project, RUN, files};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const STUDY: &str = r#"
name = "two"
base = "small.toml"
seeds = 2

[set]
train.steps = 2

[[axis]]
key = "position"
values = ["rope", "alibi"]

[[evaluate]]
lengths = [32, 64]

[[claim]]
says = "rope = alibi at 64"
tolerance = 1.0
"#;

/// Runs the program on a wrong input each time, and compares what it says with the snapshot of that name.
fn told(project: &Project, cases: &[(&str, &[&str])]) {
    for (name, arguments) in cases {
        let outcome = project.run(arguments);
        assert!(matches!(outcome.code, Some(1 | 2)), "{name}: {outcome:?}");
        assert!(outcome.stdout.is_empty() && !outcome.stderr.contains("panicked"), "{name}: {outcome:?}");
        assert!(outcome.stderr.contains("\n\nhint: "), "{name}: no hint: {}", outcome.stderr);
        insta::assert_snapshot!(*name, outcome.stderr);
    }
}

fn trained() -> Project {
    let project = Project::new();
    project.train(&["--threads=1"]);
    project
}

#[test]
fn of_the_command_line() {
    told(
        &Project::new(),
        &[
            ("a_command_that_there_is_not", &["trian", "small.toml"]),
            ("a_command_that_nothing_resembles", &["dance"]),
            ("an_option_that_there_is_not", &["train", "small.toml", "--step", "3"]),
            ("a_key_of_the_config_as_an_option", &["train", "small.toml", "--steps", "40"]),
            ("an_option_without_its_value", &["train", "small.toml", "--out"]),
            ("a_command_without_its_file", &["validate"]),
            ("two_configs", &["validate", "small.toml", "other.toml"]),
            ("a_number_that_is_none", &["generate", RUN, "--temperature", "hot"]),
            ("a_number_out_of_its_range", &["train", "small.toml", "--seeds", "0"]),
            ("no_jobs", &["study", "two.toml", "--jobs", "0"]),
            ("a_device_that_there_is_not", &["train", "small.toml", "--device", "tpu"]),
            ("no_threads", &["train", "small.toml", "--threads", "0"]),
            ("an_assignment_without_a_value", &["validate", "small.toml", "--set", "train.steps"]),
            ("a_launcher_without_its_template", &["study", "two.toml", "--launcher", "command"]),
            ("a_time_that_is_none", &["study", "two.toml", "--budget", "soon"]),
        ],
    );
}

#[test]
fn of_a_config() {
    let set = |name: &'static str, change: &'static str| (name, ["validate", "small.toml", "--set", change]);
    let cases = [
        set("a_learning_rate_below_zero", "train.learning_rate=-1"),
        set("no_steps", "train.steps=0"),
        set("no_layers", "model.layers=0"),
        set("a_batch_that_does_not_part", "train.accumulation=3"),
        set("a_schedule_that_there_is_not", "train.schedule=linear"),
        set("a_size_that_there_is_not", "model.size=huge"),
        set("a_dropout_above_one", "model.dropout=1.5"),
        set("a_feed_forward_that_there_is_not", "model.feed_forward=relu"),
        set("a_tokenizer_that_there_is_not", "data.tokenizer={ kind = \"words\" }"),
        set("a_vocabulary_below_the_bytes", "data.tokenizer={ kind = \"bpe\", vocab_size = 255 }"),
        set("a_task_that_there_is_not", "data={ task = { kind = \"adding\" } }"),
        set("a_task_beside_a_corpus", "data.task={ kind = \"copy\" }"),
        set("no_lengths", "evaluate=[{ lengths = [] }]"),
        set("no_way_to_read", "evaluate=[{ extend = [] }]"),
        set(
            "bounds_in_the_wrong_order",
            "evaluate=[{ extend = [{ kind = \"yarn\", alpha = 32, beta = 1 }] }]",
        ),
        set("a_base_below_zero", "position.base=-1"),
        set("more_than_all_of_the_head", "position.fraction=2"),
        set(
            "a_name_that_a_formula_does_not_know",
            "position={ kind = \"formula\", bias = \"-0.1 * distanc\" }",
        ),
        set("a_formula_that_does_not_end", "position={ kind = \"formula\", bias = \"-(n\" }"),
        set("fewer_positions_than_tokens", "train.positions={ kind = \"pose\", max_position = 8 }"),
        set("more_targets_than_the_window", "evaluate=[{ target = 128, lengths = [64] }]"),
        set("a_name_that_is_no_folder", "name=a/b"),
    ];
    let cases: Vec<(&str, &[&str])> = cases.iter().map(|(name, arguments)| (*name, &arguments[..])).collect();
    told(&Project::new(), &cases);
}

#[test]
fn of_files() {
    let project = Project::new();
    project.write("broken.toml", "name = \"small\n");
    fs::write(project.path("latin.toml"), b"name = \"caf\xe9\"\n").unwrap();
    let slip = CONFIG.replace("[position]", "[possition]");
    assert_ne!(slip, CONFIG);
    project.write("slip.toml", &slip);
    project.write("few.jsonl", "{\"text\": \"one\"}\n");
    project.write("field.toml", &CONFIG.replace("\"corpus\"", "\"field.jsonl\""));
    project.write("few.toml", &CONFIG.replace("\"corpus\"", "\"few.jsonl\""));
    project.write("field.jsonl", &"{\"body\": \"one\"}\n".repeat(9));
    project.write("cut.jsonl", &("{\"text\": \"one\"}\n".repeat(8) + "{\"text\": \"tw\n"));
    project.write("cut.toml", &CONFIG.replace("\"corpus\"", "\"cut.jsonl\""));
    told(
        &project,
        &[
            ("a_config_that_is_no_toml", &["validate", "broken.toml"]),
            ("a_config_that_is_no_text", &["validate", "latin.toml"]),
            ("a_slip_in_the_name_of_a_section", &["validate", "slip.toml"]),
            ("a_slip_in_the_name_of_a_config", &["validate", "smal.toml"]),
            ("a_folder_in_the_place_of_a_config", &["validate", "corpus"]),
            ("a_document_without_its_field", &["train", "field.toml"]),
            ("a_document_that_is_cut_off", &["train", "cut.toml"]),
            ("too_few_documents", &["train", "few.toml"]),
            ("a_study_that_there_is_not", &["study", "nothing.toml"]),
            ("a_config_in_the_place_of_a_study", &["study", "small.toml"]),
            ("a_config_to_write_that_there_is_not", &["init", "ropee"]),
            ("a_task_file_that_there_is_not", &["task", "nothing.json"]),
            ("a_store_that_there_is_not", &["runs", "prune", "--store", "nowhere"]),
        ],
    );
}

#[test]
fn of_a_study() {
    let project = Project::new();
    let mut cases = Vec::new();
    for (name, from, to) in [
        ("a_wrong_key_of_an_axis", "values = [", "vals = ["),
        ("an_axis_over_a_key_that_there_is_not", "key = \"position\"", "key = \"positoin\""),
        ("an_axis_without_values", "[\"rope\", \"alibi\"]", "[]"),
        ("an_axis_with_a_value_twice", "[\"rope\", \"alibi\"]", "[\"rope\", \"rope\"]"),
        ("an_axis_with_an_encoding_that_there_is_not", "\"alibi\"]", "\"aliby\"]"),
        ("encodings_beside_the_axes", "seeds = 2", "encodings = [\"rope\", \"alibi\"]"),
        ("a_section_of_the_config_in_a_study", "[set]", "[train]\nsteps = 60\n[set]"),
        ("no_seeds", "seeds = 2", "seeds = 0"),
        ("a_base_that_there_is_not", "small.toml", "smal.toml"),
        ("a_study_without_a_base", "base = \"small.toml\"\n", ""),
        ("a_claim_that_compares_nothing", "rope = alibi at 64", "rope beats alibi at 64"),
        ("a_claim_about_what_nobody_varies", "rope = alibi at 64", "rope = alibbi at 64"),
        ("a_claim_at_a_length_that_is_not_read", "rope = alibi at 64", "rope = alibi at 8L"),
        ("the_same_without_a_tolerance", "tolerance = 1.0\n", ""),
    ] {
        assert!(STUDY.contains(from), "{from}");
        project.write(&format!("{name}.toml"), &STUDY.replace(from, to));
        cases.push((name, format!("{name}.toml")));
    }
    for (name, file) in &cases {
        told(&project, &[(name, &["study", file, "--dry-run"])]);
        fs::remove_file(project.path(file)).unwrap();
    }
}

#[test]
fn of_commands_on_a_run() {
    let project = trained();
    project.write("full/notes.txt", "mine");
    let llama = "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 8, \"num_attention_heads\": 1, \
                 \"intermediate_size\": 8, \"vocab_size\": 8, \"max_position_embeddings\": 8}";
    project.write("model/config.json", llama);
    project.write("mamba/config.json", "{\"model_type\": \"mamba\"}");
    fs::create_dir(project.path("empty")).unwrap();
    told(
        &project,
        &[
            ("an_extension_that_there_is_not", &["eval", RUN, "--extend", "yran"]),
            ("an_encoding_as_an_extension", &["eval", RUN, "--extend", "alibi"]),
            ("a_run_without_its_folder", &["eval", "small-0"]),
            ("a_run_to_compare_without_its_folder", &["compare", RUN, "small-0"]),
            ("an_export_in_the_place_of_a_run", &["generate", "model"]),
            ("a_protocol_that_there_is_not", &["eval", RUN, "--protocol", "slidng"]),
            ("a_checkpoint_that_there_is_not", &["eval", RUN, "--checkpoint", "newest"]),
            ("a_reading_that_is_not_measured", &["eval", RUN, "--against", "yarn"]),
            ("a_text_that_there_is_not", &["eval", RUN, "--corpus", "nowhere"]),
            ("a_length_of_nothing", &["eval", RUN, "--lengths", "0"]),
            ("a_run_to_compare_that_there_is_not", &["compare", RUN, "runs/none"]),
            ("a_metric_that_there_is_not", &["compare", RUN, RUN, "--metric", "luck"]),
            ("a_length_that_was_not_measured", &["compare", RUN, RUN, "--lengths", "512"]),
            ("a_report_of_no_run", &["report", "corpus"]),
            ("a_report_of_nothing", &["report", "nowhere"]),
            ("a_report_against_what_was_not_read", &["report", RUN, "--against", "yarn"]),
            ("a_width_without_its_unit", &["report", RUN, "--pdf", "--width", "85"]),
            ("a_font_that_is_none", &["report", RUN, "--pdf", "--font", "corpus/train/0.txt"]),
            ("an_export_into_a_folder_in_use", &["export", RUN, "full"]),
            ("an_export_without_the_longest_text", &["export", RUN, "out", "--extend", "yarn"]),
            (
                "an_export_of_what_others_cannot_read",
                &["export", RUN, "out", "--extend", "self_extend", "--length", "4L"],
            ),
            ("an_import_of_an_empty_folder", &["import", "empty"]),
            ("an_import_without_weights", &["import", "model"]),
            ("an_import_of_another_model_type", &["import", "mamba"]),
            ("an_inspection_of_nothing", &["inspect"]),
        ],
    );
}

/// The messages of all snapshots, by the name of the wrong input.
fn messages(folder: &Path) -> BTreeMap<String, String> {
    let message = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let message = text.splitn(3, "---\n").nth(2).filter(|message| message.contains("error: "))?;
        Some((path.file_stem().unwrap().to_string_lossy().into_owned(), message.to_owned()))
    };
    let paths = files(folder).into_iter().map(PathBuf::from);
    let snapshots = paths.filter(|path| path.extension().is_some_and(|extension| extension == "snap"));
    snapshots.filter_map(|path| message(&path)).collect()
}

#[test]
fn are_more_than_a_hundred_and_have_a_hint() {
    let messages = messages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workspace"));
    for (name, message) in &messages {
        assert!(message.contains("\n\nhint: "), "{name}: {message}");
    }
    let mut different: Vec<&String> = messages.values().collect();
    different.sort();
    different.dedup();
    assert!(different.len() > 100, "{} different of {}", different.len(), messages.len());
}
