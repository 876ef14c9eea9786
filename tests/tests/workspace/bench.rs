//! `longwave bench` and `longwave selfcheck` as a user meets them.

use crate::common::Project;
use crate::common::trainer::metrics;
use serde_json::Value;

/// The JSON lines of a bench that must succeed.
fn lines(project: &Project, arguments: &[&str]) -> Vec<Value> {
    let common = ["--json", "--device", "cpu", "--seconds", "0"];
    let outcome = project.ok(&[&["bench"], arguments, &common].concat());
    let lines: Vec<Value> = outcome.rows();
    for line in &lines {
        let number = |key: &str| line[key].as_f64().unwrap();
        assert!(number("seconds") > 0.0 && number("seconds_min") <= number("seconds"), "{line}");
        assert_eq!((line["bench"].as_str(), line["device"].as_str()), (Some(arguments[0]), Some("CPU")));
        if let Some(reference) = line["reference_seconds"].as_f64() {
            assert!((number("speedup") * number("seconds") / reference - 1.0).abs() < 1e-9, "{line}");
        }
    }
    lines
}

fn find<'a>(lines: &'a [Value], case: &str, direction: &str) -> &'a Value {
    let wanted = |line: &&Value| line["case"] == case && line["direction"] == direction;
    lines.iter().find(wanted).unwrap_or_else(|| panic!("no {case} {direction} in {lines:?}"))
}

#[test]
fn training_and_reading_need_no_trained_run() {
    let project = Project::new();
    let train = lines(&project, &["train", "--config", "small.toml", "--alone"]);
    assert_eq!(train.len(), 2);
    assert_eq!((train[0]["direction"].as_str(), train[0]["tokens"].as_u64()), (Some("step"), Some(256)));
    assert!(train[0].get("reference_seconds").is_none() && train[0]["tokens_per_second"].is_number());
    let eval = ["eval", "--config", "small.toml", "--set", "position.kind=alibi", "--lengths", "64,8192"];
    let eval = lines(&project, &eval);
    assert_eq!(find(&eval, "alibi, 1 x 8192", "forward")["tokens"], 8192);
    assert!(!project.exists("runs"), "nothing is written");
}

#[test]
fn the_table_explains_itself() {
    let project = Project::new();
    let arguments = ["bench", "eval", "--config", "small.toml", "--lengths"];
    let outcome = project.ok(&[&arguments[..], &["L", "--seconds", "0", "--device", "cpu"]].concat());
    for part in ["case", "rope, 256 x 32", "ms: the median run", "speedup: over the same reading"] {
        assert!(outcome.stdout.contains(part), "{part} in {}", outcome.stdout);
    }
    project.refuses(2, &[&arguments[..], &["0"]].concat(), &["invalid value '0' for '--lengths"]);
}

#[test]
fn an_export_holds_what_another_program_needs() {
    let project = Project::new();
    let arguments = ["bench", "train", "--config", "small.toml", "--export", "out", "--steps", "2"];
    project.ok(&arguments);
    let run = project.json("out/run.json");
    assert_eq!((run["steps"].as_u64(), run["width"].as_u64()), (Some(2), Some(32)));
    assert_eq!(project.read("out/batches.bin").len(), 2 * 2 * 256 * 4);
    // The losses are those that training shows.
    project.train(&["--set", "train.steps=2", "--set", "train.accumulation=1"]);
    let trained = metrics(&project, "runs/small-0")[0].loss;
    let exported = run["losses"][0].as_f64().unwrap();
    assert!((trained - exported).abs() < 1e-5, "{trained} {exported}");
}

#[cfg(not(feature = "gpu"))]
#[test]
fn selfcheck_lists_what_a_build_without_gpus_reaches() {
    let outcome = Project::new().run(&["selfcheck", "--list"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(
        outcome.stdout,
        "cpu    the CPU\nthis build has no GPU support: build it in with `--features gpu`\n"
    );
}

#[test]
fn selfcheck_compares_everything_in_a_table() {
    let project = Project::new();
    let full = ["selfcheck", "--device", "cpu", "--full", "--lengths", "24,37", "--precisions", "f32,bf16"];
    let outcome = project.ok(&full);
    let (_, table) = outcome.stdout.split_once("\n\n").unwrap();
    let (table, end) = table.split_once("\n\n").unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].contains("off by, at length") && lines[0].contains(" 24 |") && lines[0].contains(" 37 |")
    );
    assert!(lines[1].starts_with("|---"), "{}", lines[1]);
    assert!(lines[2..].iter().all(|line| line.ends_with("| pass |")), "{table}");
    for row in ["| attention, slopes ", "| encoding: rope ", "| extension: yarn", "| linear and gelu "] {
        assert!(lines.iter().any(|line| line.starts_with(row)), "{row}: {table}");
    }
    assert!(end.ends_with("checks passed, and every line of the table\n"), "{end}");

    let models = |precision: &str| {
        let column = format!(" | {precision:4} | ");
        lines.iter().filter(|line| line.starts_with("| encoding: ") && line.contains(&column)).count()
    };
    assert!(models("f32") >= 34 && models("bf16") == models("f32") && models("f16") == 0, "{table}");
    let other = project.refused(2, &["selfcheck", "--full", "--precisions", "f64"]);
    assert!(other.contains("it must be `f32`, `f16` or `bf16`"), "{other}");

    let short = project.refused(2, &["selfcheck", "--device", "cpu", "--full", "--lengths", "48,12"]);
    assert!(short.starts_with("error: `--lengths = 12` is not allowed: it must be at least 24"), "{short}");
}

#[test]
fn selfcheck_passes_line_by_line() {
    let project = Project::new();
    let outcome = project.ok(&["selfcheck", "--device", "cpu"]);
    let passed = outcome.stdout.lines().filter(|line| line.starts_with("pass  ")).count();
    assert!(outcome.stdout.contains(&format!("all {passed} checks passed")), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("FAIL"));
}
