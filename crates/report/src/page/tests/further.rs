//! Runs that were trained further, or renamed, after they were measured.

use super::{Report, configured};
use crate::example;
use longwave_eval::ResultRow;
use std::fs;

#[test]
fn a_run_that_was_trained_further_is_shown_at_its_new_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = |step: u64, extend: &str, length: usize| ResultRow {
        step,
        config_hash: format!("of {step} steps"),
        ..example::row("rope", extend, length, 12.0 + length as f64 / step as f64)
    };
    let all = |extend: &str| [128, 256].map(|length| at(7, extend, length));
    let again = ["direct", "window_baseline"].map(|extend| at(40, extend, 128));
    let rows = [&all("direct")[..], &all("linear"), &all("window_baseline"), &again].concat();
    configured(&folder.path().join("rope-0"), &rows, 0, 40);
    let report = Report::read(folder.path(), None).unwrap();
    let table = report.tables().remove(0);
    let lines: Vec<String> = table.rows.iter().map(|row| row.labels.join(", ")).collect();
    assert_eq!((lines.len(), table.columns[0].as_str()), (2, "128 (L)"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("linear")), "{lines:?}");
    // `linear` at both lengths, and the others at the longer one.
    let [note] = report.notes() else { panic!("{:?}", report.notes()) };
    for said in [
        "tables and charts by length show step 40, and leave out what was measured only before, at step 7 (4 rows)",
        "/rope-0 --protocol fixed_target --split test --lengths 128,256 --extend direct --extend linear ",
    ] {
        assert!(note.contains(said), "no `{said}` in {note}");
    }
    report.write(folder.path()).unwrap();
    let [csv, tables, page] = ["results.csv", "results.md", "report.html"]
        .map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
    assert_eq!(csv.lines().count(), 1 + rows.len(), "all rows, each with its step");
    assert!(tables.starts_with("## Results of rope\n") && tables.contains(note.as_str()), "{tables}");
    assert!(!page.contains(">of 7 steps</td>") && page.contains(">of 40 steps</td>"));
}

#[test]
fn a_run_that_was_renamed_is_told_from_others_of_its_new_name() {
    let folder = tempfile::tempdir().unwrap();
    let row = |name: &str, step: u64, ppl: f64| ResultRow {
        run: name.to_owned(),
        step,
        config_hash: format!("of {step} steps"),
        ..example::row("rope", "direct", 128, ppl)
    };
    // `--set name=b --resume` went on with what was `a`.
    configured(&folder.path().join("x"), &[row("a", 7, 30.0), row("b", 40, 12.0)], 0, 40);
    let other = ResultRow { seed: 1, ..row("b", 60, 20.0) };
    configured(&folder.path().join("y"), &[other], 1, 60);
    let report = Report::read(folder.path(), None).unwrap();
    let note = &report.notes()[0];
    assert!(note.starts_with("`x` and `y` are called `b`, and are no seeds of one run"), "{note}");
    let table = report.tables().remove(0);
    let lines: Vec<String> = table.rows.iter().map(|row| row.labels.join(", ")).collect();
    assert_eq!(lines.len(), 2, "neither a mean of both, nor `a` beside what it became: {lines:?}");
}
