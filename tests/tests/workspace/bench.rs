//! `longwave bench` and `longwave selfcheck` as a user meets them.

use crate::common::Project;
use serde_json::Value;

/// The JSON lines of a bench that must succeed.
fn lines(project: &Project, arguments: &[&str]) -> Vec<Value> {
    let common = ["--json", "--device", "cpu", "--seconds", "0"];
    let outcome = project.run(&[&["bench"], arguments, &common].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
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
fn operations_are_measured_against_a_copy_and_a_peer() {
    let project = Project::new();
    let rope = lines(&project, &["rope", "--elements", "65536"]);
    for direction in ["forward", "backward"] {
        let copy = find(&rope, "copy", direction);
        let half = find(&rope, "rotate, half", direction);
        assert_eq!(half["elements"], 65_536);
        // n numbers in and out, and a table for 128 positions of 64 channels.
        assert_eq!(half["bytes"], 8 * 65_536 + 4 * 128 * 64);
        let fraction = copy["seconds"].as_f64().unwrap() / half["seconds"].as_f64().unwrap();
        assert!((half["copy_fraction"].as_f64().unwrap() - fraction).abs() < 1e-9);
        assert!(half["speedup"].is_number() && copy.get("speedup").is_none());
        assert!(find(&rope, "split and rotate, interleaved", direction)["peak_bytes"].as_u64() > Some(0));
    }
    let attention = lines(&project, &["attention", "--lengths", "64"]);
    assert_eq!(attention.len(), 6);
    assert_eq!(find(&attention, "32 x 64, rerope", "backward")["reference"], "plain tensor operations");
    let alibi = find(&attention, "32 x 64, alibi", "backward");
    assert_eq!(alibi["tokens"], 2048);
    // burn's own keeps the scores, ours does not.
    assert!(alibi["reference_peak_bytes"].as_u64() > alibi["peak_bytes"].as_u64(), "{alibi}");
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
fn growth_is_drawn_and_fitted() {
    let project = Project::new();
    let sizes = ["--lengths", "32,64,128", "--widths", "16,32", "--out", "grown"];
    let growth = lines(&project, &[&["growth", "--config", "small.toml"], &sizes[..]].concat());
    // Three lengths, and for each width a step and its products.
    assert_eq!(growth.len(), 3 + 2 * 2);
    for name in ["length.svg", "width.svg", "length.png", "width.png"] {
        assert!(project.exists(&format!("grown/{name}")), "{name}");
    }
    let table = String::from_utf8(project.read("grown/growth.md")).unwrap();
    for part in ["time per token by length", "time per token by width", "| 128 |", "| products alone |"] {
        assert!(table.contains(part), "{part} in {table}");
    }
    let wrong = project.run(&["bench", "growth", "--config", "small.toml", "--widths", "16"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("at least two different values"), "{}", wrong.stderr);
}

#[test]
fn threads_are_measured() {
    let project = Project::new();
    let arguments = ["bench", "scaling", "--config", "small.toml", "--length", "64", "--threads", "2"];
    let common = ["--device", "cpu", "--seconds", "0"];
    let outcome = project.run(&[&arguments[..], &common, &["--json"]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let measured: Vec<Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let threads: Vec<_> = measured.iter().map(|line| line["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 2, 1, 2]);
    assert!(measured[1]["speedup"].is_number() && measured[1]["reference"] == "one thread");
    let outcome = project.run(&[&arguments[..], &common].concat());
    for part in ["2 threads", "over one thread"] {
        assert!(outcome.stdout.contains(part), "{part} in {}", outcome.stdout);
    }
    assert!(!project.exists("runs"), "nothing is written");
}

#[test]
fn the_table_explains_itself() {
    let project = Project::new();
    let arguments = ["bench", "rope", "--elements", "65536", "--seconds", "0", "--device", "cpu"];
    let outcome = project.run(&arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for part in ["case", "split and rotate, half", "copy: bytes a second", "speedup: over burn's"] {
        assert!(outcome.stdout.contains(part), "{part} in {}", outcome.stdout);
    }
    let wrong = project.run(&["bench", "rope", "--elements", "1000"]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("`--elements = 1000`") && wrong.stderr.contains("use 65536"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn an_export_holds_what_another_program_needs() {
    let project = Project::new();
    let arguments = ["bench", "train", "--config", "small.toml", "--export", "out", "--steps", "2"];
    let outcome = project.run(&arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let run: Value = serde_json::from_slice(&project.read("out/run.json")).unwrap();
    assert_eq!((run["steps"].as_u64(), run["width"].as_u64()), (Some(2), Some(32)));
    assert_eq!(project.read("out/batches.bin").len(), 2 * 2 * 256 * 4);
    // The losses are those that training shows.
    project.train(&["--set", "train.steps=2", "--set", "train.accumulation=1"]);
    let metrics = String::from_utf8(project.read("runs/small-0/metrics.jsonl")).unwrap();
    let first: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
    let (trained, exported) = (first["loss"].as_f64().unwrap(), run["losses"][0].as_f64().unwrap());
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
    let outcome = project.run(&["selfcheck", "--device", "cpu", "--full", "--lengths", "24,37"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
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

    let short = project.run(&["selfcheck", "--device", "cpu", "--full", "--lengths", "48,12"]);
    assert_eq!(short.code, Some(2));
    assert!(
        short.stderr.starts_with("error: `--lengths = 12` is not allowed: it must be at least 24"),
        "{}",
        short.stderr
    );
}

#[test]
fn selfcheck_passes_line_by_line() {
    let project = Project::new();
    let outcome = project.run(&["selfcheck", "--device", "cpu"]);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let passed = outcome.stdout.lines().filter(|line| line.starts_with("pass  ")).count();
    assert!(outcome.stdout.contains(&format!("all {passed} checks passed")), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("FAIL"));
}
