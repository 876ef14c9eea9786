//! The program of `examples/own-encoding`, a crate outside of this workspace: its encoding and its extension are known to
//! the whole command line.

use crate::common::{Outcome, PROGRAM, Project, row_of, same};
#[cfg(unix)]
use crate::common::{set, signal, wait_until};
use serde_json::Value;

/// The example, built from the same file.
const OWN: &str = env!("CARGO_BIN_EXE_longwave-own-encoding");

/// A project in which the example runs, with its encoding.
fn project() -> Project {
    let project = Project::with_program(OWN);
    let config = project.text("small.toml");
    let config = config.replace("kind = \"rope\"", "kind = \"log_distance\"\nslope = 0.5");
    project
        .write("small.toml", &config.replace(r#"["direct", "linear", "ntk"]"#, r#"["direct", "sharpen"]"#));
    project
}

#[test]
fn it_trains_extends_and_comes_back() {
    let project = project();
    let table = project.train(&["--out", "run"]).stdout;
    assert!(table.lines().any(|line| line.starts_with("sharpen")), "{table}");
    let config = project.text("run/config.toml");
    assert!(config.contains("kind = \"log_distance\"\nslope = 0.5"), "{config}");
    let rows = project.results("run");
    assert!(rows.iter().all(|row| row.encoding == "log_distance"));
    let nll = |extend: &str, length: usize| row_of(&rows, extend, length).nll();
    let changed = |length: usize| (nll("sharpen", length) - nll("direct", length)).abs();
    assert!(changed(32) < 1e-9 && changed(64) > 1e-6, "{} {}", changed(32), changed(64));

    // Training moved the slopes, which a checkpoint and an export hold.
    let shown = project.ok(&["inspect", "run/config.toml", "--json"]).json();
    assert_eq!(shown[0]["parameters"], serde_json::json!([["slopes", [2, 2]]]));
    project.ok(&["export", "run", "exported"]);
    project.ok(&["import", "exported", "--out", "back"]);
    let [run, back] = ["run", "back"].map(|run| {
        let read = project.ok(&["eval", run, "--extend", "sharpen", "--lengths", "2L", "--json"]);
        read.rows::<Value>()[0]["nll"].clone()
    });
    assert_eq!(run, back);
    let generate = ["generate", "run", "--prompt", "the wave", "--max-tokens", "4", "--extend", "sharpen"];
    let text = project.ok(&generate).stdout;
    assert!(!text.is_empty());
}

#[cfg(unix)]
#[test]
fn a_training_that_was_stopped_ends_with_the_same_bits() {
    let project = project();
    let steps = set(&["train.steps=300", "train.validate_every=50"]);
    project.train(&[&["--out", "whole"], &steps[..]].concat());
    let arguments =
        [&["train", "--config", "small.toml", "--device", "cpu", "--out", "parts"], &steps[..]].concat();
    let child = project.start(&arguments);
    wait_until("a checkpoint", || project.exists("parts/checkpoints/last.safetensors"));
    signal("-TERM", &child.id().to_string());
    let stopped = Outcome::at_end(child);
    assert_eq!(stopped.code, Some(130), "{}", stopped.stderr);
    project.ok(&[&arguments[..], &["--resume"]].concat());
    let last = |run: &str| project.path(&format!("{run}/checkpoints/last.safetensors"));
    assert!(same(&last("whole"), &last("parts")));
}

#[test]
fn lists_and_messages_name_it() {
    let project = project();
    let schema = project.ok(&["schema"]).stdout;
    for text in ["\"log_distance\"", "\"sharpen\"", "What the penalty of a key at distance n"] {
        assert!(schema.contains(text), "{text} is not in the schema");
    }
    let list = project.ok(&["inspect", "--list"]).stdout;
    let line = |start: &str| list.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let encoding = "| `log_distance` | a penalty that grows with the logarithm of the distance | \
                    examples/own-encoding | a bias on the logits | `slopes [layers, heads]` |";
    assert!(line("| `log_distance`").starts_with(encoding), "{}", line("| `log_distance`"));
    assert!(line("| `sharpen`").contains("| every encoding | `strength = 0.1` |"), "{}", line("| `sharpen`"));
    assert!(line("| `direct`").contains("every encoding"));

    let set = |value: &str| project.refused(2, &["validate", "small.toml", "--set", value]);
    let unknown = set("position.kind=log_distanc");
    assert!(
        unknown.contains("`mixed`") && unknown.ends_with("hint: did you mean `log_distance`?\n"),
        "{unknown}"
    );
    assert!(set("position.slop=1.0").contains("unknown key `position.slop`: allowed are `slope`"));
    let extension = set("evaluate.extend=[\"sharpn\"]");
    assert!(extension.ends_with("hint: did you mean `sharpen`?\n"), "{extension}");
    // What does not apply to it names what does.
    project.refuses(
        2,
        &["inspect", "small.toml", "--extend", "ntk"],
        &["`ntk` does not apply to `log_distance`", "`sharpen`"],
    );
    // The program without it does not know it.
    let plain = std::process::Command::new(PROGRAM)
        .args(["validate", "small.toml"])
        .current_dir(project.path(""))
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), Some(2));
}

#[test]
fn it_stands_beside_others_in_a_stack() {
    let project = project();
    let layers =
        "position={ kind = \"mixed\", layers = [{ kind = \"log_distance\", window = 16 }, \"rope\"] }";
    let table = project.train(&["--set", layers, "--out", "run"]).stdout;
    assert!(table.contains("Perplexity of small"), "{table}");
    let rows: Vec<Value> = project.rows("run/results.jsonl");
    assert!(rows.iter().all(|row| row["encoding"] == "log_distance[16]/rope"), "{}", rows[0]);
}

#[test]
fn a_study_compares_it() {
    let project = project();
    project.write(
        "study.toml",
        "name = \"own\"\nbase = \"small.toml\"\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \
         \"log_distance\"]\n[[evaluate]]\nlengths = [32, 64]\nextend = [\"direct\", \"sharpen\"]\nonly = { encoding \
         = [\"rope\", \"log_distance\"] }\n[[claim]]\nsays = \"log_distance < rope at 2L\"\n",
    );
    let Outcome { stdout, stderr, .. } =
        project.ok(&["study", "study.toml", "--devices", "cpu", "--jobs", "2"]);
    let line = stdout.lines().find(|line| line.contains("log_distance") && line.contains("sharpen"));
    assert!(line.is_some(), "{stdout}\n{stderr}");
    let results = project.text("runs/studies/own/results.csv");
    assert_eq!(
        results.lines().filter(|line| line.contains(",log_distance,sharpen,")).count(),
        2,
        "{results}"
    );
}

#[test]
fn the_guide_shows_it() {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |path: &str| std::fs::read_to_string(format!("{repository}/{path}")).unwrap();
    let source = read("examples/own-encoding/src/main.rs");
    assert!(read("docs/src/guides/own-encoding.md").contains(&format!("```rust\n{source}```")));
    assert!(source.lines().count() < 60, "{} lines", source.lines().count());
}

#[test]
fn its_config_is_valid() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/own-encoding/config.toml");
    // That of the shipped configs, which takes seconds to train.
    let tokenizer = "tokenizer = { kind = \"bpe\", vocab_size = 512 }";
    assert!(std::fs::read_to_string(config).unwrap().contains(tokenizer));
    let arguments = ["validate", config, "--set", "data.tokenizer={ kind = \"bytes\" }"];
    let Outcome { stdout, stderr, .. } = project().ok(&arguments);
    assert!(!stdout.is_empty() && !stderr.contains("warning"), "{stdout}{stderr}");
}
