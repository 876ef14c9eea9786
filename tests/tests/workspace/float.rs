//! Random Float Sampling: training at drawn real positions, and reading at an even grid of them.

use crate::common::{CONFIG, Project};
use serde_json::Value;

fn config(position: &str, extend: &str) -> String {
    CONFIG
        .replace("kind = \"rope\"", position)
        .replace("length = 32\n", "length = 32\npositions = { kind = \"float\", span = \"8L\" }\n")
        .replace("[\"direct\", \"linear\", \"ntk\"]", extend)
}

#[test]
fn a_run_trains_at_floats_is_read_at_a_grid_and_repeats_bit_for_bit() {
    let project = Project::new();
    project.write(
        "small.toml",
        &config("kind = \"rope\"", "[\"direct\", \"float\", { kind = \"float\", span = 64.5 }]"),
    );
    let train = |arguments: &[&str]| {
        project.ok(&[&["train", "--config", "small.toml"], arguments].concat());
    };
    train(&["--out", "a"]);
    train(&["--out", "b"]);
    assert_eq!(project.read("a/results.csv"), project.read("b/results.csv"), "draws follow from the seed");
    let rows: Vec<Value> = project.rows("a/results.jsonl");
    let nll = |extend: &str, span: Value| {
        let fits = |row: &&Value| {
            row["extend"] == extend && row["extend_config"]["span"] == span && row["length"] == 64
        };
        rows.iter().find(fits).unwrap_or_else(|| panic!("{extend} {span}"))["nll"].clone()
    };
    assert_ne!(nll("float", "8L".into()), nll("direct", Value::Null));
    assert_ne!(nll("float", "8L".into()), nll("float", 64.5.into()));
    // Text is generated piece by piece, at the grid of the whole.
    let generate = ["generate", "a", "--prompt", "a", "--max-tokens", "4", "--extend", "float"];
    project.ok(&generate);
}

#[test]
fn what_has_no_value_between_whole_positions_is_refused() {
    let project = Project::new();
    for position in ["t5", "shaw", "deberta", "learned", "tupe", "none", "cope"] {
        project.write("small.toml", &config(&format!("kind = \"{position}\""), "[\"direct\"]"));
        project.refuses(2, &["train", "--config", "small.toml"], &["train.positions", "hint: "]);
        assert!(!project.exists("runs"), "{position}: something was written");
        let direct = config(&format!("kind = \"{position}\""), "[\"float\"]");
        project.write("small.toml", &direct.replace("positions = { kind = \"float\", span = \"8L\" }\n", ""));
        project.refuses(2, &["train", "--config", "small.toml"], &["`float`", "hint: "]);
    }
}

#[test]
fn a_span_is_above_zero_and_a_key_of_floats_alone() {
    let project = Project::new();
    for (keys, message) in [
        ("kind = \"float\", span = 0", "`train.positions.span = 0` is not allowed"),
        ("kind = \"float\", max_position = 64", "kind \"float\" takes `span` and no other key"),
        (
            "kind = \"randpos\", span = 64",
            "takes `max_position` and no other key; `span` has no meaning for it",
        ),
        ("kind = \"float\", span = \"8M\"", "a multiple of the training length L"),
    ] {
        let set = format!("train.positions={{ {keys} }}");
        project.refuses(2, &["train", "--config", "small.toml", "--set", &set], &[message, "hint: "]);
    }
}
