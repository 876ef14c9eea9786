//! Evaluations, searches, reports, exports, imports and studies.

use super::{Case, files, may_be_missing};
use crate::common::Project;
use std::collections::BTreeMap;
use std::fs;

pub(super) const RUN: &str = "runs/small-0";
pub(super) const EVALUATION: [&str; 7] = [
    "eval",
    RUN,
    "--device=cpu",
    "--threads=1",
    "--lengths=32,64",
    "--extend=direct,linear",
    "--tokens=tokens.csv",
];
pub(super) const SEARCH: &str =
    "{ kind = \"longrope\", search = { budget = 6, population = 4, parents = 2 } }";

/// A run that is trained and not measured.
pub(super) fn trained() -> Project {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]", "--threads=1"]);
    project
}

/// All files that are there at the end, but for the cache and for those that hold a time.
pub(super) fn everything(project: &Project) -> BTreeMap<String, Vec<u8>> {
    let top = project.path("").display().to_string();
    let names = files(&project.path("")).into_iter().map(|path| path[top.len()..].to_owned());
    let lasting = names.filter(|name| !name.starts_with(".cache") && !name.contains("tensorboard"));
    lasting.map(|name| (name.clone(), project.read(&name))).collect()
}

fn never(_: &str) -> bool {
    false
}

fn check(project: &Project, arguments: &[&str], steps: [usize; 2]) {
    let case = Case { project, arguments, ends: everything, may_pass: never, clean: "." };
    case.check_every("fail", 1, steps[0]);
    case.check_every("kill", 1, steps[1]);
}

#[test]
fn an_evaluation_goes_on() {
    check(&trained(), &EVALUATION, [7, 8]);
}

#[test]
fn a_search_goes_on() {
    let arguments = ["eval", RUN, "--device=cpu", "--threads=1", "--lengths=64", "--extend", SEARCH];
    check(&trained(), &arguments, [11, 12]);
}

#[test]
fn a_report_goes_on() {
    let project = Project::new();
    project.train(&["--threads=1"]);
    check(&project, &["report", RUN, "--pdf"], [9, 10]);
}

#[test]
fn an_export_and_an_import_go_on() {
    let project = trained();
    check(&project, &["export", RUN, "exported"], [3, 2]);
    assert_eq!(project.run(&["export", RUN, "exported"]).code, Some(0));
    check(&project, &["import", "exported", "--out", "runs/back"], [3, 2]);
}

/// The study's answers, and the states and rows of its runs.
pub(super) fn answers(project: &Project) -> BTreeMap<String, Vec<u8>> {
    let mut ends = everything(project);
    let is_answer = |name: &str| {
        // The plan and its tasks hold absolute paths.
        let holds_places = name.ends_with("plan.toml") || name.contains("/tasks/");
        name.starts_with("runs/studies/") && !holds_places
            || ["last.safetensors", "best.safetensors", "config.toml", "results.jsonl"]
                .iter()
                .any(|end| name.ends_with(end))
    };
    ends.retain(|name, _| is_answer(name) || name.contains("/rows-"));
    ends
}

pub(super) const STUDY: [&str; 4] = ["study", "two.toml", "--jobs", "2"];

/// A study of two short runs.
pub(super) fn with_study() -> Project {
    let project = Project::new();
    project.write(
        "two.toml",
        "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nthreads = 1\n\n[set]\ntrain.steps = 2\n\n\
         [[evaluate]]\nlengths = [32]\nwindows_per_document = 2\n",
    );
    project
}

/// Each process of the study, its own and those of its runs, meets the fault.
#[test]
#[cfg(unix)]
fn a_study_goes_on() {
    let project = with_study();
    let case =
        Case { project: &project, arguments: &STUDY, ends: answers, may_pass: may_be_missing, clean: "." };
    case.check_every("fail", 1, 29);
    case.check_every("kill", 1, 31);
}

/// Nothing is replaced where an export was stopped in a folder that another one is written to.
#[test]
fn an_export_never_replaces_another() {
    let project = trained();
    project.train(&["--out", "runs/other", "--set", "seed=1", "--set", "evaluate=[]"]);
    assert_eq!(project.run(&["export", RUN, "exported"]).code, Some(0));
    let weights = project.read("exported/model.safetensors");
    for name in ["config.json", "tokenizer_config.json"] {
        fs::remove_file(project.path("exported").join(name)).unwrap();
    }
    let said = project.refused(2, &["export", "runs/other", "exported"]);
    assert!(said.contains("`exported/model.safetensors` is there with another content"), "{said}");
    assert!(said.contains("hint: name a new folder, or remove this one"), "{said}");
    assert_eq!(project.read("exported/model.safetensors"), weights);
    assert!(!project.exists("exported/config.json"));
}
