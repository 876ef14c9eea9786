//! Evaluations, searches, reports, exports, imports and studies.

use super::{Case, files, may_be_missing};
use crate::common::{Project, RUN};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A run that is trained and not measured.
fn trained() -> Project {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]", "--threads=1"]);
    project
}

/// All files that are there at the end, but for the cache and for those that hold a time.
fn everything(project: &Project) -> BTreeMap<String, Vec<u8>> {
    let top = project.path("").display().to_string();
    let names = files(&project.path("")).into_iter().map(|path| path[top.len()..].to_owned());
    let lasting = names.filter(|name| !name.starts_with(".cache") && !name.contains("tensorboard"));
    lasting.map(|name| (name.clone(), project.read(&name))).collect()
}

/// A command that notices every fault.
fn case(project: Project, arguments: &[&str]) -> Case {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Case { project, arguments, ends: everything, may_pass: |_| false, kept: |_| Vec::new(), clean: "." }
}

/// The files of a folder that are whole.
fn whole(project: &Project, folder: &str) -> Vec<String> {
    let all = if project.exists(folder) { files(&project.path(folder)) } else { Vec::new() };
    all.into_iter().filter(|name| !name.contains(".part")).collect()
}

fn lines(path: impl AsRef<Path>) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What the rows of a run measured; their difference to the baseline is added when that is measured.
pub(super) fn measured(project: &Project) -> Vec<String> {
    let rows = lines(project.path(RUN).join("results.jsonl"));
    rows.iter().map(|row| row.split(",\"per_document\"").next().unwrap().to_owned()).collect()
}

/// What a search tried.
fn tried(project: &Project) -> Vec<String> {
    whole(project, "runs/small-0/searches").iter().flat_map(lines).collect()
}

/// The exported files with their times.
fn exported(project: &Project) -> Vec<String> {
    let time = |name: &str| fs::metadata(name).unwrap().modified().unwrap();
    let files = whole(project, "exported").into_iter().map(|name| (time(&name), name));
    let files: BTreeSet<_> = files.collect();
    files.iter().map(|file| format!("{file:?}")).collect()
}

/// An evaluation of one window of each document: no operation on a file is about a window.
fn evaluates(read: &[&str]) -> Case {
    let one = ["eval", RUN, "--device=cpu", "--threads=1", "--set=windows_per_document=1"];
    case(trained(), &[&one, read].concat())
}

pub(super) fn evaluation() -> Case {
    let read = ["--lengths=32,64", "--extend=direct,linear", "--tokens=tokens.csv"];
    Case { kept: measured, ..evaluates(&read) }
}

pub(super) fn search() -> Case {
    let search = "{ kind = \"longrope\", search = { budget = 6, population = 4, parents = 2 } }";
    Case { kept: tried, ..evaluates(&["--lengths=64", "--extend", search]) }
}

pub(super) fn report() -> Case {
    let project = Project::new();
    project.train(&["--threads=1"]);
    case(project, &["report", RUN, "--pdf"])
}

pub(super) fn export() -> Case {
    Case { kept: exported, ..case(trained(), &["export", RUN, "exported"]) }
}

pub(super) fn import() -> Case {
    let project = trained();
    project.ok(&["export", RUN, "exported"]);
    case(project, &["import", "exported", "--out", "runs/back"])
}

/// A study of two short runs.
pub(super) fn study() -> Case {
    let project = Project::new();
    project.write(
        "two.toml",
        "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nthreads = 1\n\n[set]\ntrain.steps = 2\n\n\
         [[evaluate]]\nlengths = [32]\nwindows_per_document = 2\n",
    );
    let case = case(project, &["study", "two.toml", "--jobs", "2"]);
    Case { ends: answers, may_pass: may_be_missing, ..case }
}

fn check(case: &Case, steps: [usize; 2]) {
    case.check_every("fail", 1, steps[0]);
    case.check_every("kill", 1, steps[1]);
}

#[test]
fn an_evaluation_goes_on() {
    check(&evaluation(), [7, 8]);
}

#[test]
fn a_search_goes_on() {
    check(&search(), [11, 12]);
}

#[test]
fn a_report_goes_on() {
    check(&report(), [9, 10]);
}

#[test]
fn an_export_and_an_import_go_on() {
    check(&export(), [3, 2]);
    check(&import(), [3, 2]);
}

/// Each process of the study, its own and those of its runs, meets the fault.
#[test]
#[cfg(unix)]
fn a_study_goes_on() {
    check(&study(), [29, 31]);
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

/// Nothing is replaced where an export was stopped in a folder that another one is written to.
#[test]
fn an_export_never_replaces_another() {
    let project = trained();
    project.train(&["--out", "runs/other", "--set", "seed=1", "--set", "evaluate=[]"]);
    project.ok(&["export", RUN, "exported"]);
    let weights = project.read("exported/model.safetensors");
    for name in ["config.json", "tokenizer_config.json"] {
        fs::remove_file(project.path("exported").join(name)).unwrap();
    }
    project.refuses(
        2,
        &["export", "runs/other", "exported"],
        &[
            "`exported/model.safetensors` is there with another content",
            "hint: name a new folder, or remove this one",
        ],
    );
    assert_eq!(project.read("exported/model.safetensors"), weights);
    assert!(!project.exists("exported/config.json"));
}
