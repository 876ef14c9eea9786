//! `--out` of commands: everything is written into another folder, which is none of something else, and a run that is read-only stays as it is.

use crate::common::{Project, RUN, files};
use longwave_core::file::sha256_of;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The hashes of all files below a folder, by path.
fn hashes(folder: &Path) -> BTreeMap<String, String> {
    files(folder).into_iter().map(|path| (path.clone(), sha256_of(&fs::read(path).unwrap()))).collect()
}

#[test]
fn a_run_is_evaluated_and_reported_into_another_folder() {
    let project = Project::new();
    project.train(&[]);
    let before = hashes(&project.path(RUN));
    let eval = ["eval", RUN, "--extend", "direct,linear", "--lengths", "32,128", "--json"];
    let elsewhere = project.ok(&[&eval[..], &["--out", "rows"]].concat());
    project.ok(&["report", RUN, "--out", "page"]);
    assert!(hashes(&project.path(RUN)) == before, "the run changed");
    for file in
        ["rows/results.md", "rows/report.html", "page/results.csv", "page/report.html", "page/perplexity.svg"]
    {
        assert!(project.exists(file), "{file}");
    }
    assert!(!project.exists("page/results.jsonl"));
    // What the run had is copied, and what is there is not measured again: the same file, whose rows hold their durations.
    let rows = project.read("rows/results.jsonl");
    // Two readings and the window baseline, at two lengths.
    assert_eq!(rows.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 6);
    assert_eq!(project.ok(&[&eval[..], &["--out", "rows"]].concat()).stdout, elsewhere.stdout);
    assert!(project.read("rows/results.jsonl") == rows && hashes(&project.path(RUN)) == before);
    // The run's own folder gets the same numbers.
    let own = project.ok(&eval).losses();
    assert_eq!(own.len(), 6);
    assert_eq!(own, elsewhere.losses());
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let project = Project::new();
    project.train(&[]);
    project.train(&["--set", "seed=1"]);
    let eval = |run: &str, out: &str| project.refused(2, &["eval", run, "--lengths", "32", "--out", out]);
    let report = |out: &str| project.refused(2, &["report", RUN, "--out", out]);
    project.write("texts/a.txt", "of mine");
    // Another program's page.
    project.write("coverage/report.html", "<title>Coverage</title>");
    project.ok(&["eval", "runs/small-1", "--extend", "direct", "--lengths", "32", "--out", "rows"]);
    let before = hashes(&project.path(""));
    insta::assert_snapshot!("rows_into_a_run", eval(RUN, "runs/small-1"));
    insta::assert_snapshot!("rows_beside_those_of_another_run", eval(RUN, "rows"));
    insta::assert_snapshot!("rows_into_a_folder_of_something_else", eval(RUN, "texts"));
    insta::assert_snapshot!("a_report_into_a_run", report("runs/small-1"));
    insta::assert_snapshot!("a_report_into_a_folder_of_something_else", report("texts"));
    let no_report = "`--out coverage` is not empty and holds no report";
    assert!(report("coverage").contains(no_report));
    assert!(project.refused(2, &["explain", RUN, "--out", "coverage"]).contains(no_report));
    assert!(project.refused(2, &["inspect", RUN, "--out", "coverage"]).contains(no_report));
    let own_run = "`--out runs/small-1` holds a run of its own";
    assert!(project.refused(2, &["explain", RUN, "--out", "runs/small-1"]).contains(own_run));
    let exported = ["bench", "train", "--config", "small.toml", "--steps", "1", "--export", "coverage"];
    assert!(project.refused(2, &exported).contains("`coverage` is not empty"));
    // A folder of runs may have a page of its owner.
    fs::rename(project.path("coverage/report.html"), project.path("runs/report.html")).unwrap();
    assert!(project.refused(2, &["report", "runs"]).contains("`runs/report.html` is of no report"));
    fs::rename(project.path("runs/report.html"), project.path("coverage/report.html")).unwrap();
    assert!(hashes(&project.path("")) == before);
    for _ in 0..2 {
        project.ok(&["report", "runs"]);
        project.ok(&["inspect", RUN, "--out", "pictures"]);
    }
}
