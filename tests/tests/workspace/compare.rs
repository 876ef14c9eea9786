//! `longwave compare` as a user meets it: readings, seeds, filters, widths and formats.

use crate::common::{Outcome, PROGRAM, Project};
use serde_json::Value;
use std::process::Command;

/// Two encodings with two seeds each, in `rope-0` and so on.
fn trained() -> Project {
    let project = Project::new();
    for (name, kind) in [("rope", "rope"), ("alibi", "alibi")] {
        for seed in ["0", "1"] {
            let (kind, seed_key) = (format!("position.kind={kind}"), format!("seed={seed}"));
            let extend = "evaluate=[{ lengths = [32, 64], extend = [\"direct\", \"linear\"], windows_per_document = 2 }]";
            project.train(&[
                "--set",
                &kind,
                "--set",
                &seed_key,
                "--set",
                extend,
                "--out",
                &format!("{name}-{seed}"),
            ]);
        }
    }
    project
}

fn done(outcome: Outcome) -> String {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

fn lines_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn sides_are_readings_seeds_and_checkpoints() {
    let project = trained();
    // Two readings of one run.
    let found = lines_of(&done(project.run(&["compare", "rope-0:linear", "rope-0:direct", "--json"])));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| one["reading"] == "linear - direct" && one["seeds"] == 1));
    assert_eq!(found[0]["difference"], 0.0, "at L both read as trained");
    assert_ne!(found[1]["difference"], 0.0);
    // Several seeds, by a list and by a pattern.
    let list = done(project.run(&[
        "compare",
        "rope-0,rope-1:linear",
        "alibi-*:direct",
        "--json",
        "--lengths",
        "2L",
    ]));
    let found = lines_of(&list);
    assert_eq!((found.len(), &found[0]["seeds"], &found[0]["length"]), (1, &2.into(), &64.into()));
    // Every row once: at L, `linear` repeats `direct`, and so does the window baseline.
    let all = lines_of(&done(project.run(&["compare", "rope-0", "alibi-0", "--json"])));
    let repeats: Vec<&Value> = all.iter().filter(|one| one["repeats"] == true).collect();
    assert!(repeats.iter().all(|one| one["length"] == 32) && !repeats.is_empty(), "{all:?}");
    let kept =
        lines_of(&done(project.run(&["compare", "rope-0", "alibi-0", "--json", "--extend", "linear"])));
    assert!(kept.iter().all(|one| one["extend"] == "linear") && kept.len() == 2);
    let checkpoint = project.run(&["compare", "rope-0@best", "alibi-0"]);
    assert_eq!(checkpoint.code, Some(2));
    assert!(checkpoint.stderr.contains("its checkpoints last"), "{}", checkpoint.stderr);
    let both = project.run(&["compare", "rope-0,alibi-0", "rope-1"]);
    assert_eq!(both.code, Some(2));
    assert!(both.stderr.contains("`rope-0,alibi-0` has `seed` 0 twice"), "{}", both.stderr);
    let none = project.run(&["compare", "rope-9*", "rope-1"]);
    assert_eq!(
        (none.code, none.stderr.contains("no run matches `rope-9*`")),
        (Some(2), true),
        "{}",
        none.stderr
    );
}

#[test]
fn the_table_is_as_wide_as_asked_and_has_other_forms() {
    let project = trained();
    let arguments = ["compare", "rope-0", "alibi-0"];
    for columns in [60, 80, 120] {
        let output = Command::new(PROGRAM)
            .args(arguments)
            .current_dir(project.path(""))
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
        assert!(text.contains("nats") && text.contains("p (Holm)"), "{columns}:\n{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains("the terminal is too narrow for"), columns < 120, "{text}");
    }
    let latex = done(project.run(&[&arguments[..], &["--format", "latex"]].concat()));
    assert!(latex.contains("\\begin{tabular}{lrrrrrrrrr}") && latex.contains("window\\_baseline"), "{latex}");
    let markdown = done(project.run(&[&arguments[..], &["--format", "markdown"]].concat()));
    assert!(markdown.contains("| extend | length | ppl |"), "{markdown}");
    let csv = done(project.run(&[&arguments[..], &["--format", "csv"]].concat()));
    assert_eq!(csv.lines().next().unwrap().split(',').count(), 10, "{csv}");
    let wrong = project.run(&[&arguments[..], &["--format", "tex"]].concat());
    assert_eq!(wrong.code, Some(2));
}

#[test]
fn what_hinders_a_comparison_is_named_by_key() {
    let project = trained();
    let short = "evaluate=[{ lengths = [48], extend = [\"direct\"], windows_per_document = 2 }]";
    project.train(&["--set", short, "--out", "short"]);
    let refused = project.run(&["compare", "rope-0", "short"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("differ in `length` (32 and 48)"), "{}", refused.stderr);
}
