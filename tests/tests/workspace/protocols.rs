//! What each protocol reads and scores, as rows, tables and charts show it.

use crate::common::{Project, RUN, row_of};
use longwave_eval::ResultRow;

/// Evaluates the run, which must succeed, and gives the rows.
fn eval(project: &Project, more: &[&str]) -> Vec<ResultRow> {
    project.ok(&[&["eval", RUN, "--device", "cpu", "--json", "--extend", "direct"], more].concat()).rows()
}

fn scored(row: &ResultRow) -> Vec<u64> {
    row.per_document.as_ref().unwrap().tokens.clone()
}

#[test]
fn every_length_scores_the_same_tokens() {
    let project = Project::new();
    project.train(&[]);
    let note = "the lengths score different tokens";
    for protocol in ["sliding", "non_overlapping", "by_position"] {
        let rows = eval(&project, &["--protocol", protocol, "--lengths", "32,64,128"]);
        assert!(rows.iter().all(|row| row.settings.keys.get("max_length") == Some(128)), "{protocol}");
        assert!(rows.iter().all(|row| scored(row) == scored(&rows[0])), "{protocol}");
        let table = project.text(&format!("{RUN}/results.md"));
        assert!(table.contains("over the tokens of windows of 128, up to 2 of each document"), "{table}");
        assert!(!table.contains(note), "{table}");
    }
    // Two windows of 128 and all windows of 32 that hold their tokens.
    let sliding = eval(&project, &["--protocol", "sliding", "--lengths", "32,128", "--set", "stride=16"]);
    assert_eq!(scored(&sliding[0]), [128 + 16; 3]);
    // Windows of 48 do not fill those of 128, and each place must be scored equally often.
    let asked = ["--protocol", "by_position", "--lengths", "48,128"];
    let rows = eval(&project, &asked);
    assert_ne!(scored(row_of(&rows, "direct", 48)), scored(row_of(&rows, "direct", 128)));
    for file in ["results.md", "report.html"] {
        let text = project.text(&format!("{RUN}/{file}")).to_lowercase();
        assert!(text.contains(note), "{file}");
    }
    let terminal = project.run(&[&["eval", RUN, "--extend", "direct"], &asked[..]].concat());
    assert!(terminal.stdout.contains(note), "{}", terminal.stdout);
}

#[test]
fn the_window_baseline_loses_the_copy_of_repeated_text() {
    let project = Project::new();
    project.train(&["--set", "train.steps=30"]);
    let asked = ["--protocol", "repeated_text", "--set", "exact=true"];
    let rows = eval(&project, &asked);
    let key = |row: &ResultRow, key: &str| row.settings.keys.get(key);
    assert!(rows.iter().all(|row| (key(row, "passage"), key(row, "target")) == (Some(33), Some(32))));
    assert!(rows.iter().all(|row| row.bigrams.is_none() && row.values.get("bpb").is_none()));
    assert!(rows.iter().all(|row| scored(row) == scored(&rows[0]) && row.tokens % 32 == 0));
    // At the training length there is no copy, and the baseline reads the same.
    assert_eq!(
        row_of(&rows, "direct", 32).nll().to_bits(),
        row_of(&rows, "window_baseline", 32).nll().to_bits()
    );
    let table = project.run(&["eval", RUN, "--protocol", "repeated_text", "--extend", "direct"]);
    assert!(table.stdout.contains("Accuracy in % of small (rope): repeated_text"), "{}", table.stdout);
    assert!(table.stdout.contains("(each copy is in reach from 64 tokens on)"), "{}", table.stdout);
    let refused = project.refused(2, &["eval", RUN, "--protocol", "repeated_text", "--lengths", "L"]);
    for part in ["`eval.lengths = 32`", "that takes 64 tokens", "hint: add a length of 64 tokens or more"] {
        assert!(refused.contains(part), "no `{part}` in {refused}");
    }
}

#[test]
fn a_curve_by_position_has_its_baseline() {
    let project = Project::new();
    project.train(&[]);
    let rows = eval(&project, &["--protocol", "by_position", "--lengths", "64"]);
    let curve = |row: &ResultRow| -> Vec<(usize, u64)> {
        row.positions.as_ref().unwrap().iter().map(|place| (place.position, place.tokens)).collect()
    };
    let (direct, baseline) = (row_of(&rows, "direct", 64), row_of(&rows, "window_baseline", 64));
    assert_eq!(curve(direct), curve(baseline));
    assert_eq!(curve(direct).len(), 16);
    // Within the trained length both read the same.
    for place in 0..8 {
        let nll = |row: &ResultRow| row.positions.as_ref().unwrap()[place].nll;
        assert!((nll(direct) - nll(baseline)).abs() < 1e-5, "{place}");
    }
}
