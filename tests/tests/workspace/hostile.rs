//! Files that somebody made to break the program: each ends with a message within a second or two, and no panic.

use crate::common::{Outcome, Project, json_lines};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// Runs the program, which must say why it rejects the arguments, soon.
fn rejected(project: &Project, arguments: &[&str], part: &str) {
    let begin = Instant::now();
    let Outcome { code, stderr, .. } = project.run(arguments);
    assert!(matches!(code, Some(1 | 2)) && stderr.contains(part), "{arguments:?}: {code:?} {stderr}");
    assert!(stderr.contains("\n\nhint: ") && !stderr.contains("panicked"), "{stderr}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{arguments:?}");
}

type Change = fn(&mut Value);

fn change_json(project: &Project, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value = project.json(name);
    change(&mut value);
    project.write(name, &value.to_string());
}

/// A run of two steps and its export.
fn exported() -> Project {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    project.ok(&["export", "runs/small-0", "exported"]);
    project
}

#[test]
fn sizes_of_a_config_json_are_bounded() {
    let project = exported();
    let gpt2 = json!({
        "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2, "activation_function": "gelu", "vocab_size": 256,
        "n_positions": 32,
    });
    let llama = json!({
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
        "intermediate_size": 64, "vocab_size": 256, "max_position_embeddings": 32,
    });
    for published in [gpt2, llama] {
        for key in published.as_object().unwrap().keys().filter(|key| published[*key].is_number()) {
            for size in [0u64, 1 << 25, i64::MAX as u64, u64::MAX] {
                let mut config = published.clone();
                config[key] = size.into();
                project.write("exported/config.json", &config.to_string());
                rejected(&project, &["import", "exported", "--out", "back"], key);
            }
        }
    }
    assert!(!project.exists("back"));
}

#[test]
fn a_tokenizer_that_breaks_its_library_is_an_error() {
    let project = exported();
    let whole = project.read("exported/tokenizer.json");
    let hostile: [(&str, Change); 3] = [
        ("it has the id 4294967295", |json| json["model"]["vocab"]["zz"] = u32::MAX.into()),
        ("the library of tokenizers fails on it", |json| {
            json["normalizer"] = json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" });
        }),
        ("its vocabulary is empty", |json| json["model"]["vocab"] = json!({})),
    ];
    for (part, change) in hostile {
        fs::write(project.path("exported/tokenizer.json"), &whole).unwrap();
        change_json(&project, "exported/tokenizer.json", change);
        rejected(&project, &["import", "exported", "--out", "back"], part);
    }
    assert!(!project.exists("back"));
}

#[cfg(unix)]
#[test]
fn a_config_may_be_a_pipe_and_has_an_end() {
    let project = Project::new();
    let pipe = project.path("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = project.read("small.toml");
    // To open a pipe waits for the other end.
    let writer = std::thread::spawn(move || fs::write(pipe, text).unwrap());
    project.ok(&["validate", "pipe.toml"]);
    writer.join().unwrap();
    rejected(&project, &["validate", "/dev/zero"], "`/dev/zero` gives more than 16 MiB");
    std::os::unix::fs::symlink("nowhere", project.path("gone.toml")).unwrap();
    let gone = project.refused(2, &["validate", "gone.toml"]);
    assert!(gone.contains("there is no config `gone.toml`") && !gone.contains("mean `gone.toml`"), "{gone}");
}

#[test]
fn rows_that_contradict_themselves_are_named_by_their_line() {
    let project = Project::new();
    project.train(&[]);
    let text = project.text("runs/small-0/results.jsonl");
    let changes: [(&str, Change); 3] = [
        ("`per_document.nll` has 1 numbers", |row| row["per_document"]["nll"] = json!([1.5])),
        ("`length = 0` is no length", |row| row["length"] = 0.into()),
        ("`length = 18446744073709551615` is no length", |row| row["length"] = u64::MAX.into()),
    ];
    for (part, change) in changes {
        let mut rows: Vec<Value> = json_lines(&text);
        change(&mut rows[2]);
        // A row of a program that knew no checksums.
        rows[2].as_object_mut().unwrap().remove("checksum");
        let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
        project.write("runs/small-0/results.jsonl", &lines.join("\n"));
        rejected(&project, &["report", "runs/small-0"], "results.jsonl` line 3 is no result row");
        rejected(&project, &["report", "runs/small-0"], part);
    }
}

#[test]
fn names_that_change_what_others_look_like_are_rejected() {
    let project = Project::new();
    for label in ["a\\u001b[31mred", "a\\nb", "a\\u202eb"] {
        let point = format!("points = [{{ label = \"{label}\", train.clip = 1.0 }}, {{ label = \"b\" }}]");
        project.write("s.toml", &format!("name = \"s\"\nbase = \"small.toml\"\n[[axis]]\n{point}\n"));
        rejected(&project, &["study", "s.toml", "--dry-run"], "no control characters");
    }
}
