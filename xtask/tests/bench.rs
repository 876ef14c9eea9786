//! `cargo xtask bench` as a developer meets it.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test fails by a panic, and holds numbers that are exact"
)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::{fs, iter};

fn bench(arguments: &[&str]) -> Output {
    let common = ["--json", "--device", "cpu", "--seconds", "0"];
    let arguments = iter::once(&"bench").chain(arguments).chain(&common);
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

/// The JSON lines of a bench that must succeed.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let line: Value = serde_json::from_slice(line).unwrap();
            assert_eq!((line["bench"].as_str(), line["device"].as_str()), (Some(arguments[0]), Some("CPU")));
            let number = |key: &str| line[key].as_f64().unwrap();
            assert!(number("seconds") > 0.0 && number("seconds_min") <= number("seconds"), "{line}");
            line
        })
        .collect();
    assert!(!lines.is_empty());
    lines
}

/// The message of a bench that must fail.
fn refused(arguments: &[&str]) -> String {
    let output = bench(arguments);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

/// The options of a small model with a corpus of its own.
fn small(folder: &Path) -> Vec<String> {
    for split in ["train", "valid", "test"] {
        let path = folder.join("texts").join(split);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("0.txt"), "the long wave turns and the phase is long ".repeat(20)).unwrap();
    }
    let [texts, cache] = ["texts", "cache"].map(|name| folder.join(name).display().to_string());
    [
        format!("data.corpus={texts}"),
        format!("data.cache={cache}"),
        "data.tokenizer={ kind = \"bytes\" }".to_owned(),
        "model={ layers = 2, width = 16, heads = 2 }".to_owned(),
        "train={ length = 16, steps = 9, batch_tokens = 64 }".to_owned(),
    ]
    .into_iter()
    .flat_map(|change| ["--set".to_owned(), change])
    .collect()
}

fn with<'a>(arguments: &[&'a str], model: &'a [String]) -> Vec<&'a str> {
    arguments.iter().copied().chain(model.iter().map(String::as_str)).collect()
}

#[test]
fn the_rotation_stands_beside_the_copy() {
    let lines = lines(&["rope", "--elements", "65536"]);
    assert_eq!(lines.len(), 2 * (1 + 4));
    for line in &lines {
        let is_copy = line["case"] == "copy";
        // The numbers in and out, and a table of 128 x 64.
        let table = if is_copy { 0 } else { 4 * 128 * 64 };
        assert_eq!(
            (line["elements"].as_u64(), line["bytes"].as_u64()),
            (Some(65_536), Some(8 * 65_536 + table))
        );
        let copy = lines.iter().find(|copy| copy["case"] == "copy" && copy["direction"] == line["direction"]);
        let fraction = copy.unwrap()["seconds"].as_f64().unwrap() / line["seconds"].as_f64().unwrap();
        assert!((line["copy_fraction"].as_f64().unwrap() / fraction - 1.0).abs() < 1e-9, "{line}");
        assert_eq!(line.get("reference_seconds").is_some(), !is_copy);
    }
    // The output is the only large thing that is allocated: 4 bytes a number.
    let forward = lines.iter().find(|line| line["case"] == "rotate, half").unwrap();
    assert!(forward["peak_bytes"].as_u64().unwrap().abs_diff(4 * 65_536) < 1 << 16, "{forward}");

    let message = refused(&["rope", "--elements", "1000"]);
    assert!(message.ends_with("it must be a multiple of 65536\n\nhint: use 65536\n"), "{message}");
}

#[test]
fn attention_is_measured_by_length_and_its_memory_is_linear() {
    let peers = lines(&["attention", "--lengths", "64,100"]);
    let cases: Vec<&str> = peers.iter().filter_map(|line| line["case"].as_str()).collect();
    assert_eq!(cases.len(), 12);
    for case in ["32 x 64, none", "20 x 100, alibi", "32 x 64, rerope"] {
        assert!(cases.contains(&case), "{cases:?}");
    }
    assert!(peers.iter().all(|line| line["speedup"].is_number() && line["peak_bytes"].is_number()));
    assert!(peers.iter().all(|line| line.get("copy_fraction").is_none()));
    assert_eq!(peers[0]["tokens"], 2048);

    // Twice the length takes twice the memory, not four times. What two threads hold at once depends on when they run.
    let long = lines(&["attention", "--alone", "--lengths", "2048,4096", "--threads", "1"]);
    for (short, long) in long[..6].iter().zip(&long[6..]) {
        let peak = |line: &Value| line["peak_bytes"].as_u64().unwrap();
        assert!(peak(long) < 5 * peak(short) / 2, "{short} {long}");
    }
    assert!(refused(&["attention", "--lengths", "0"]).contains("it must be at least 1"));
}

#[test]
fn growth_writes_both_curves() {
    let folder = tempfile::tempdir().unwrap();
    let model = small(folder.path());
    let out = folder.path().join("out").display().to_string();
    let measured =
        lines(&with(&["growth", "--lengths", "512,16", "--widths", "16,32", "--out", &out], &model));
    // Two lengths are read; at each width a step stands beside its products.
    assert_eq!(measured.len(), 2 + 2 * 2);
    let lengths = ["16", "512"].map(|length| format!(" x {length}"));
    for (line, length) in measured.iter().zip(&lengths) {
        assert!(line["case"].as_str().unwrap().ends_with(length), "{line}");
    }
    for pair in measured[2..].chunks_exact(2) {
        assert!(pair[1]["seconds_min"].as_f64() < pair[0]["seconds_min"].as_f64(), "{pair:?}");
    }
    let tables = fs::read_to_string(folder.path().join("out/growth.md")).unwrap();
    assert!(tables.contains("\n| 16 | ") && tables.contains("\n| 512 | "), "{tables}");
    assert!(tables.contains("products alone"), "{tables}");
    for chart in ["length.svg", "length.png", "width.svg", "width.png"] {
        assert!(folder.path().join("out").join(chart).is_file(), "{chart}");
    }
    let once = refused(&with(&["growth", "--lengths", "16,16"], &model));
    assert!(once.contains("`--lengths = 16,16` is not allowed"), "{once}");
    let odd = refused(&with(&["growth", "--widths", "16,20"], &model));
    assert!(odd.contains("it must be a multiple of 8"), "{odd}");
}

#[test]
fn every_number_of_threads_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let model = small(folder.path());
    let lines = lines(&with(&["scaling", "--length", "64", "--threads", "3"], &model));
    let threads: Vec<u64> = lines.iter().filter_map(|line| line["threads"].as_u64()).collect();
    assert_eq!(threads, [1, 2, 3, 1, 2, 3]);
    assert_eq!((&lines[0]["direction"], &lines[3]["direction"]), (&"step".into(), &"forward".into()));
    assert!(lines.iter().all(|line| line.get("speedup").is_some() == (line["threads"].as_u64() > Some(1))));
}
