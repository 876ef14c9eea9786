//! `longwave compare` as a user meets it: readings, seeds, filters, widths and formats.

use crate::common::{Project, set};
use serde_json::Value;
use std::sync::OnceLock;

/// Two encodings with two seeds each, in `rope-0` and so on.
fn trained() -> Project {
    static TRAINED: OnceLock<Project> = OnceLock::new();
    Project::copy_of(&TRAINED, |project| {
        for (kind, seed) in [("rope", 0), ("rope", 1), ("alibi", 0), ("alibi", 1)] {
            let keys = [format!("position.kind={kind}"), format!("seed={seed}")];
            let extend = "evaluate=[{ lengths = [32, 64], extend = [\"direct\", \"linear\"], windows_per_document = 2 }]";
            let out = format!("{kind}-{seed}");
            project.train(&[&set(&[&keys[0], &keys[1], extend])[..], &["--out", &out]].concat());
        }
    })
}

#[test]
fn sides_are_readings_seeds_and_checkpoints() {
    let project = trained();
    // Two readings of one run.
    let found: Vec<Value> = project.ok(&["compare", "rope-0:linear", "rope-0:direct", "--json"]).rows();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| one["reading"] == "linear - direct" && one["seeds"] == 1));
    assert_eq!(found[0]["difference"], 0.0, "at L both read as trained");
    assert_ne!(found[1]["difference"], 0.0);
    // Several seeds, by a list and by a pattern.
    let list =
        project.ok(&["compare", "rope-0,rope-1:linear", "alibi-*:direct", "--json", "--lengths", "2L"]);
    let found: Vec<Value> = list.rows();
    assert_eq!((found.len(), &found[0]["seeds"], &found[0]["length"]), (1, &2.into(), &64.into()));
    // Every row once: at L, `linear` repeats `direct`, and so does the window baseline.
    let all: Vec<Value> = project.ok(&["compare", "rope-0", "alibi-0", "--json"]).rows();
    let repeats: Vec<&Value> = all.iter().filter(|one| one["repeats"] == true).collect();
    assert!(repeats.iter().all(|one| one["length"] == 32) && !repeats.is_empty(), "{all:?}");
    let kept: Vec<Value> =
        project.ok(&["compare", "rope-0", "alibi-0", "--json", "--extend", "linear"]).rows();
    assert!(kept.iter().all(|one| one["extend"] == "linear") && kept.len() == 2);
    project.refuses(2, &["compare", "rope-0@best", "alibi-0"], &["its checkpoints last"]);
    let mixed =
        ["`alibi-0` and `rope-1` are no seeds of one run: `position.kind` is \"alibi\" and \"rope\"; "];
    project.refuses(2, &["compare", "alibi-0,rope-1", "rope-0,rope-1"], &mixed);
    project.refuses(2, &["compare", "rope-0,rope-0", "rope-1"], &["`rope-0,rope-0` has `seed` 0 twice"]);
    project.refuses(2, &["compare", "rope-9*", "rope-1"], &["no run matches `rope-9*`"]);
}

#[test]
fn the_table_is_as_wide_as_asked_and_has_other_forms() {
    let project = trained();
    let arguments = ["compare", "rope-0", "alibi-0"];
    for columns in [60, 80, 120] {
        let text = project.run_with("COLUMNS", &columns.to_string(), &arguments).stdout;
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
        assert!(text.contains("nats") && text.contains("p (Holm)"), "{columns}:\n{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains("the terminal is too narrow for"), columns < 120, "{text}");
    }
    let latex = project.ok(&[&arguments[..], &["--format", "latex"]].concat()).stdout;
    assert!(latex.contains("\\begin{tabular}{lrrrrrrrrr}") && latex.contains("window\\_baseline"), "{latex}");
    let markdown = project.ok(&[&arguments[..], &["--format", "markdown"]].concat()).stdout;
    assert!(markdown.contains("| extend | length | ppl |"), "{markdown}");
    let csv = project.ok(&[&arguments[..], &["--format", "csv"]].concat()).stdout;
    assert_eq!(csv.lines().next().unwrap().split(',').count(), 10, "{csv}");
    project.refused(2, &[&arguments[..], &["--format", "tex"]].concat());
}

#[test]
fn what_hinders_a_comparison_is_named_by_key() {
    let project = trained();
    let short = "evaluate=[{ lengths = [48], extend = [\"direct\"], windows_per_document = 2 }]";
    project.train(&["--set", short, "--out", "short"]);
    project.run(&["compare", "rope-0", "short"]).refuses(1, &["differ in `length` (32 and 48)"]);
}
