use super::example::row;
use super::*;
use serde_json::json;
use std::path::PathBuf;
use tempfile::TempDir;

fn results_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.jsonl");
    (folder, path)
}

#[test]
fn a_row_has_the_documented_fields_and_survives_the_file() {
    let (_folder, path) = results_file();
    let rows = [row("direct", 128, 0.1 + 0.2), row("yarn", 1024, 2.5)];
    write_rows(&path, &rows).unwrap();
    assert_eq!(read_rows(&path).unwrap(), rows);
    let text = std::fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for key in "run config_hash seed encoding extend extend_config protocol split train_length length \
                target max_length window_stride windows_per_document stride tokens skipped_documents \
                nll nll_se ppl bpb device threads version format checkpoint step stage"
        .split_whitespace()
    {
        assert!(line.get(key).is_some(), "no `{key}` in {line}");
    }
    assert_eq!(line["protocol"], "fixed_target");
    let absent = [
        "difference",
        "positions",
        "bigrams",
        "repeatable",
        "unknown_tokens",
        "unread_bytes",
        "key_tokens_file",
    ];
    for key in MEASURED.iter().filter(|key| !absent.contains(key)) {
        assert!(line.get(key).is_some(), "no measured `{key}`");
    }
}

#[test]
fn key_tokens_are_measured_apart() {
    let all = row("direct", 128, 2.0);
    let mut key = all.clone();
    (key.settings.key_tokens, key.key_tokens_file) = (Some("0f".into()), Some("keys.json".into()));
    assert_ne!(key.identity().unwrap(), all.identity().unwrap());
    assert_ne!(key.settings.without_length(), all.settings.without_length());
    assert!(key.minus(&all).is_none() && key.minus(&key).is_some());
    // The name of the file is none of the measurement.
    let renamed = ResultRow { key_tokens_file: Some("moved.json".into()), ..key.clone() };
    assert_eq!(renamed.identity().unwrap(), key.identity().unwrap());
}

#[test]
fn measuring_again_replaces_and_the_rest_stays() {
    let (_folder, path) = results_file();
    write_rows(&path, &[row("direct", 128, 2.0), row("yarn", 128, 2.0)]).unwrap();
    // A field of another program is kept, byte for byte.
    let later = |line: &str| {
        let fields = &line[..line.rfind(",\"checksum\"").unwrap()];
        longwave_core::sealed_line::seal(&format!("{fields},\"new\": 1}}")) + "\n"
    };
    let text: String = std::fs::read_to_string(&path).unwrap().lines().map(later).collect();
    std::fs::write(&path, &text).unwrap();
    let again = ResultRow { threads: 4, device: "gpu:0".into(), ..row("direct", 128, 3.0) };
    write_rows(&path, &[again.clone(), row("direct", 256, 4.0)]).unwrap();
    let rows = read_rows(&path).unwrap();
    assert_eq!(rows, [again, row("yarn", 128, 2.0), row("direct", 256, 4.0)]);
    let lines = std::fs::read_to_string(&path).unwrap();
    assert_eq!(lines.lines().nth(1), text.lines().nth(1));
}

#[test]
fn a_chosen_value_and_a_given_one_are_two_rows() {
    let (_folder, path) = results_file();
    let given = row("linear", 128, 2.0);
    let chosen = ResultRow { chosen_among: Some(json!({ "scale": [1.5, 2.0] })), ..given.clone() };
    write_rows(&path, &[given.clone(), chosen.clone(), given.clone(), chosen.clone()]).unwrap();
    assert_eq!(read_rows(&path).unwrap(), [given.clone(), chosen.clone()]);
    assert_eq!(given.measurement().unwrap(), chosen.measurement().unwrap());
    // Of what was tried to choose, each candidate is one row.
    let tried = [given, chosen].map(|mut row| {
        row.settings.split = Split::Valid;
        row.identity().unwrap()
    });
    assert_eq!(tried[0], tried[1]);
}

#[test]
fn the_order_of_config_keys_is_no_part_of_the_identity() {
    let with = |config: Value| ResultRow { extend_config: config, ..row("yarn", 128, 2.0) };
    let a = with(json!({ "a": 1, "b": { "c": 2, "d": 3 } })).identity().unwrap();
    assert_eq!(a, with(json!({ "b": { "d": 3, "c": 2 }, "a": 1 })).identity().unwrap());
    assert_ne!(a, with(json!({ "a": 1, "b": { "c": 2, "d": 4 } })).identity().unwrap());
    let best = ResultRow { checkpoint: "best".into(), ..row("yarn", 128, 2.0) };
    assert_ne!(best.identity().unwrap(), row("yarn", 128, 2.0).identity().unwrap());
}

#[test]
fn what_is_no_number_is_null_and_comes_back() {
    let (_folder, path) = results_file();
    let exploded = row("direct", 1024, 1000.0).with("nll_se", None);
    let broken = row("linear", 1024, f64::NAN);
    write_rows(&path, &[exploded, broken]).unwrap();
    let rows = read_rows(&path).unwrap();
    assert!(rows[0].nll() == 1000.0 && rows[0].values.get("ppl").unwrap().is_nan());
    assert_eq!(rows[0].error(Metric::Perplexity), None);
    assert!(rows[1].nll().is_nan() && rows[1].value(Metric::Perplexity).unwrap().is_nan());
    assert!(rows[1].per_document.as_ref().unwrap().get("nll").unwrap()[0].is_nan());
}

#[test]
fn a_damaged_line_is_named_and_left_alone() {
    let (_folder, path) = results_file();
    write_rows(&path, &[row("direct", 128, 2.0)]).unwrap();
    let damaged = std::fs::read_to_string(&path).unwrap() + "{\"format\": 1, \"run\"";
    std::fs::write(&path, &damaged).unwrap();
    let error = read_rows(&path).unwrap_err();
    assert!(error.message().contains("results.jsonl` line 2 is no JSON"), "{error}");
    assert!(write_rows(&path, &[row("yarn", 128, 2.0)]).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    std::fs::write(&path, "{\"format\": 1}").unwrap();
    assert!(read_rows(&path).unwrap_err().message().contains("line 1 is no result row"));
    let without =
        serde_json::to_string(&row("direct", 128, 2.0)).unwrap().replace("\"target\":128", "\"target\":null");
    std::fs::write(&path, without).unwrap();
    let error = read_rows(&path).unwrap_err();
    assert!(error.message().ends_with("is no result row: one of `fixed_target` has a `target`"), "{error}");
}

#[test]
fn a_newer_format_is_refused() {
    let (_folder, path) = results_file();
    let newer = ResultRow { format: FORMAT + 1, ..row("direct", 128, 2.0) };
    write_rows(&path, &[newer]).unwrap();
    let error = read_rows(&path).unwrap_err();
    assert!(error.message().ends_with("has row format 2, and this program reads up to 1"), "{error}");
}

#[test]
fn a_row_of_an_earlier_program_is_the_same_measurement() {
    let Value::Object(mut fields) = serde_json::to_value(row("direct", 128, 2.0)).unwrap() else { panic!() };
    fields.retain(|key, _| !["accuracy", "accuracy_se", "per_document", "corpus"].contains(&key.as_str()));
    let old: ResultRow = serde_json::from_value(Value::Object(fields)).unwrap();
    assert_eq!(old.value(Metric::Accuracy), None);
    assert_eq!(old.identity().unwrap(), row("direct", 128, 2.0).identity().unwrap());
    assert_eq!(old.minus(&row("yarn", 128, 2.0)), None);
}

#[test]
fn differences_pair_documents_of_the_same_tokens() {
    let with = |nll: [f64; 2], tokens: [u64; 2]| ResultRow {
        per_document: Some(DocumentSums::new(tokens.to_vec()).with_numbers("nll", nll.to_vec())),
        ..row("yarn", 128, 2.0)
    };
    let difference = with([300.0, 100.0], [100, 100]).minus(&with([260.0, 80.0], [100, 100])).unwrap();
    assert!((difference.mean - 0.3).abs() < 1e-15, "{difference:?}");
    assert!((difference.se.unwrap() - 0.1).abs() < 1e-15, "{difference:?}");
    assert_eq!(with([1.0, 1.0], [100, 100]).minus(&with([1.0, 1.0], [100, 101])), None);
    let mut valid = with([1.0, 1.0], [100, 100]);
    valid.settings.split = Split::Valid;
    assert_eq!(valid.minus(&with([1.0, 1.0], [100, 100])), None);
}

#[cfg(unix)]
#[test]
fn rows_added_at_the_same_time_are_all_kept() {
    let (_folder, path) = results_file();
    std::thread::scope(|scope| {
        for length in 1..=8 {
            let path = &path;
            scope.spawn(move || write_rows(path, &[row("direct", length, 2.0)]).unwrap());
        }
    });
    assert_eq!(read_rows(&path).unwrap().len(), 8);
}
