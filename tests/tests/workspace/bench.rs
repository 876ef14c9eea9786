//! `longwave bench` and `longwave selfcheck` as a user meets them.

use crate::common::Project;
use crate::common::trainer::metrics;
use longwave_position::{encodings, extensions};
use longwave_train::checkpoint::Checkpoint;
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
    let arguments = ["train", "--config", "small.toml"];
    let train = lines(&project, &arguments);
    let [step, products] = &train[..] else { panic!("{train:?}") };
    assert_eq!((step["direction"].as_str(), step["tokens"].as_u64()), (Some("step"), Some(256)));
    assert_eq!(step["case"], "rope, 2 x 32, 8 x 32");
    assert!(step["speedup"].is_number() && step["peak_bytes"].as_u64() > Some(0), "{step}");
    assert_eq!(products["case"], "rope, 2 x 32, 8 x 32, products");
    assert!(products["seconds"].as_f64() < step["seconds"].as_f64(), "{train:?}");
    let train = lines(&project, &[&arguments[..], &["--alone"]].concat());
    assert_eq!(train.len(), 2);
    assert!(train[0].get("reference_seconds").is_none() && train[0]["tokens_per_second"].is_number());

    let eval = ["eval", "--config", "small.toml", "--set", "position.kind=alibi", "--lengths", "64,8192"];
    let eval = lines(&project, &eval);
    let full = |line: &Value| line["tokens"] == 8192 && line["peak_bytes"].as_u64() > Some(0);
    assert!(eval.len() == 2 && eval.iter().all(full), "{eval:?}");
    assert!(find(&eval, "alibi, 128 x 64", "forward").get("speedup").is_some());
    assert!(find(&eval, "alibi, 1 x 8192", "forward").get("speedup").is_none());
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
    let arguments = ["bench", "train", "--config", "small.toml", "--export", "out", "--steps", "3"];
    // What a batch alone does not hold is rejected.
    for (change, part) in [
        ("train.positions={ kind = \"segments\", count = 2 }", "drawn positions"),
        ("train.precision=bf16", "\"bf16\""),
    ] {
        project.refuses(2, &[&arguments[..], &["--set", change]].concat(), &[part]);
        assert!(!project.exists("out"), "{change}");
    }
    let outcome = project.ok(&arguments);
    assert!(outcome.stderr.contains("step 3 of 3"), "{}", outcome.stderr);
    let run = project.json("out/run.json");
    assert_eq!((run["steps"].as_u64(), run["width"].as_u64()), (Some(3), Some(32)));
    let batches = project.read("out/batches.bin");
    assert_eq!(batches.len(), 3 * 2 * 256 * 4);
    assert_eq!(batches[4..8], batches[4 * 256..][..4], "a target is the next input");
    assert!(Checkpoint::load(&project.path("out/weights.safetensors")).is_ok());
    // Fresh weights know nothing: the first loss is that of a uniform guess over the bytes.
    let loss = |step: usize| run["losses"][step].as_f64().unwrap();
    assert!((loss(0) - 256f64.ln()).abs() < 0.2 && loss(2) < loss(0), "{}", run["losses"]);
    // The losses are those that training shows.
    project.train(&["--set", "train.steps=2", "--set", "train.accumulation=1"]);
    let trained = metrics(&project, "runs/small-0")[0].loss;
    assert!((trained - loss(0)).abs() < 1e-5, "{trained} {}", loss(0));
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

/// Every check of a selfcheck passed, one a line; what stands below them.
fn below_checks(stdout: &str) -> &str {
    let (checks, below) = stdout.split_once("\n\n").unwrap();
    let passed = |what: &str| {
        let start = format!("pass  {what}");
        checks.lines().filter(|line| line.starts_with(&start)).count()
    };
    assert_eq!(passed(""), checks.lines().count(), "{checks}");
    assert_eq!(passed("encoding"), encodings::kinds().len());
    assert!(passed("kernel") >= 15 && passed("device") >= 3 && passed("law") >= 3, "{checks}");
    assert!(below.contains(&format!("all {} checks passed", passed(""))), "{below}");
    below
}

#[test]
fn selfcheck_compares_everything_in_a_table() {
    let project = Project::new();
    let full =
        ["selfcheck", "--device", "cpu", "--full", "--lengths", "24,37", "--precisions", "bf16,f32,f16"];
    let outcome = project.ok(&full);
    let (table, end) = below_checks(&outcome.stdout).split_once("\n\n").unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        ["off by, at length ", " 24 |", " 37 |"].iter().all(|part| lines[0].contains(part)),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("|---"), "{}", lines[1]);
    assert!(lines[2..].iter().all(|line| line.ends_with("| pass |")), "{table}");
    for row in ["| attention, slopes ", "| encoding: rope ", "| extension: yarn", "| linear and gelu "] {
        assert!(lines.iter().any(|line| line.starts_with(row)), "{row}: {table}");
    }
    assert!(end.ends_with("checks passed, and every line of the table\n"), "{end}");

    // Every line compares something: nothing is undefined at so short a length.
    assert!(!table.contains("not defined"), "{table}");
    let column = |precision: &str| format!(" | {precision:4} | ");
    let first = lines.iter().find(|line| line.starts_with("| encoding: ")).unwrap();
    assert!(first.contains(&column("bf16")), "the order that was asked for: {first}");
    for precision in ["f32", "f16", "bf16"] {
        let about = |what: &str| {
            let (start, column) = (format!("| {what}"), column(precision));
            lines.iter().filter(|line| line.starts_with(&start) && line.contains(&column)).count()
        };
        assert_eq!(about("encoding: "), encodings::kinds().len(), "{precision}: {table}");
        assert!(about("extension: ") >= extensions::kinds().len(), "{precision}: {table}");
        assert_eq!(about("linear"), 1, "{precision}: {table}");
    }
    let other = project.refused(2, &["selfcheck", "--full", "--precisions", "f64"]);
    assert!(other.contains("it must be `f32`, `f16` or `bf16`"), "{other}");

    let short = project.refused(2, &["selfcheck", "--device", "cpu", "--full", "--lengths", "24,23"]);
    assert!(short.starts_with("error: `--lengths = 23` is not allowed: it must be at least 24"), "{short}");
}

/// With the kernels that a user meets, the table above has passed them.
#[test]
fn selfcheck_passes_with_plain_operations() {
    let outcome = Project::new().ok(&["selfcheck", "--device", "cpu", "--kernels", "reference"]);
    let below = below_checks(&outcome.stdout);
    assert!(below.starts_with("all ") && below.ends_with(" checks passed\n"), "{below}");
}
