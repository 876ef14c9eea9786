//! Runs that were moved: their text is known by its content, wherever it lies.

use crate::common::{self, Project, RUN, json_lines, row_of};
use longwave_eval::ResultRow;
use std::fs;
use std::path::Path;

const MOVED: &str = "far/away/run";

/// Runs the program in the folder `far`, which must succeed.
fn ok(project: &Project, arguments: &[&str]) -> String {
    project.ok_in("far", arguments).stdout
}

fn rows(text: &str) -> Vec<ResultRow> {
    json_lines(text)
}

fn identities(rows: &[ResultRow]) -> Vec<(String, u64)> {
    rows.iter().map(|row| (row.identity().unwrap(), row.nll().to_bits())).collect()
}

fn move_to(project: &Project, from: &str, to: &str) {
    fs::create_dir_all(project.path(to).parent().unwrap()).unwrap();
    fs::rename(project.path(from), project.path(to)).unwrap();
}

/// A trained run and its corpus, both moved apart; and the rows of before.
fn moved() -> (Project, Vec<ResultRow>) {
    let project = Project::new();
    project.train(&[]);
    let before = rows(&project.text(&format!("{RUN}/results.jsonl")));
    assert!(before.iter().all(|row| row.text_hash.as_ref().is_some_and(|hash| hash.len() == 64)));
    move_to(&project, RUN, MOVED);
    move_to(&project, "corpus", "texts/kept");
    (project, before)
}

#[test]
fn a_moved_run_reads_its_text_where_it_lies_and_its_rows_match() {
    let (project, before) = moved();
    let again = rows(&ok(&project, &["eval", "away/run", "--json", "--corpus", "../texts/kept"]));
    assert_eq!(identities(&again), identities(&before), "every row is known");
    assert_eq!(
        again.iter().map(|row| &row.difference).collect::<Vec<_>>(),
        before.iter().map(|row| &row.difference).collect::<Vec<_>>()
    );
    // Measured again, they differ from the baseline of before the move.
    let path = project.path(MOVED).join("results.jsonl");
    let kept: String = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .filter(|line| !line.contains("\"ntk\""))
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(&path, kept).unwrap();
    let again = rows(&ok(&project, &["eval", "away/run", "--json", "--corpus", "../texts/kept"]));
    let [again, before] = [&again, &before].map(|rows| &row_of(rows, "ntk", 64).difference);
    assert!(again.is_some());
    assert_eq!(again, before);
    // The table has no word of other text.
    let table = ok(&project, &["eval", "away/run", "--corpus", "../texts/kept"]);
    assert!(!table.contains("split of"), "{table}");
}

#[test]
fn a_text_that_is_not_found_is_named_with_the_places_and_a_hint() {
    let (project, _) = moved();
    let record = project.json(&format!("{MOVED}/data.json"));
    let hash = &record["content_hash"].as_str().unwrap()[..16];
    let lay = project.path("corpus");
    project.run_in("far", &["eval", "away/run"]).refuses(
        2,
        &[
            "`away/run`",
            "`corpus`",
            "away/run/corpus`",
            lay.to_str().unwrap(),
            hash,
            "hint: ",
            "--corpus PATH",
        ],
    );
    project
        .run_in("far", &["eval", "away/run", "--corpus", "nowhere"])
        .refuses(2, &["`--corpus = \"nowhere\"`"]);
    // Nothing else needs the text.
    ok(&project, &["generate", "away/run", "--max-tokens", "4"]);
    ok(&project, &["export", "away/run", "out"]);
    ok(&project, &["report", "away/run"]);
}

#[test]
fn a_text_beside_the_run_or_where_it_lay_is_found() {
    let (project, before) = moved();
    for place in ["far/away/run/corpus", "far/away/corpus", "far/corpus", "corpus"] {
        move_to(&project, "texts/kept", place);
        let again = rows(&ok(&project, &["eval", "away/run", "--json"]));
        assert_eq!(identities(&again), identities(&before), "{place}");
        move_to(&project, place, "texts/kept");
    }
    // Other text in the place is not taken for it.
    project.write("far/corpus/train/0.txt", &common::text(300, 99));
    project.write("far/corpus/test/0.txt", &common::text(300, 98));
    project.run_in("far", &["eval", "away/run"]).refuses(2, &["other text lies at `corpus`"]);
}

#[test]
fn runs_are_compared_by_the_text_and_not_by_its_place() {
    let (project, _) = moved();
    project.write(
        "small.toml",
        &common::CONFIG
            .replace("\"corpus\"", "\"texts/kept\"")
            .replace("\"rope\"", "\"alibi\"")
            .replace(", \"linear\", \"ntk\"", ""),
    );
    project.train(&["--out", "alibi"]);
    let table = ok(&project, &["compare", "away/run", "../alibi"]);
    assert!(table.contains("direct"), "{table}");
    // Its own text and the same text given to another run are one text.
    project.write("other/train/0.txt", &common::text(700, 50));
    project.write("other/test/0.txt", &common::text(700, 51));
    project.write("small.toml", &common::CONFIG.replace("\"corpus\"", "\"other\""));
    project.train(&["--out", "elsewhere"]);
    ok(&project, &["eval", "../elsewhere", "--corpus", "../texts/kept", "--lengths", "64"]);
    let table = ok(&project, &["compare", "away/run", "../elsewhere"]);
    assert!(table.contains("window_baseline"), "{table}");
}

#[test]
fn other_text_makes_rows_of_its_own() {
    let (project, before) = moved();
    project.write("other/a.txt", &common::text(500, 77));
    let outcome =
        project.run_in("far", &["eval", "away/run", "--corpus", "../other", "--extend", "ntk"]).done();
    assert!(outcome.stdout.contains("test split of ../other"), "{}", outcome.stdout);
    let said = "../other: its rows are of other text than the run's own; whether the run was trained on any of it is not checked";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    let all = rows(&project.text(&format!("{MOVED}/results.jsonl")));
    let (others, own): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| row.settings.corpus_hash.is_some());
    assert_eq!((identities(&own), others.len()), (identities(&before), 4));
    let baseline =
        |rows: &[ResultRow]| rows.iter().find(|row| row.extend == "window_baseline").unwrap().clone();
    let ntk = row_of(&others, "ntk", 64);
    assert!(ntk.difference.is_some() && ntk.minus(&baseline(&own)).is_none());
    assert_eq!((&ntk.config_hash, ntk.corpus.as_deref()), (&before[0].config_hash, Some("../other")));
}

#[test]
fn renamed_files_of_the_same_text_are_that_text() {
    let project = Project::new();
    project.write("one.txt", &common::text(4_000, 3));
    project.write("small.toml", &common::CONFIG.replace("\"corpus\"", "\"one.txt\""));
    project.train(&[]);
    let before = rows(&project.text(&format!("{RUN}/results.jsonl")));
    fs::rename(project.path("one.txt"), project.path("renamed.txt")).unwrap();
    let again = project.ok(&["eval", RUN, "--json", "--corpus", "renamed.txt"]);
    assert_eq!(identities(&rows(&again.stdout)), identities(&before));
}

#[test]
fn a_run_whose_tokenizer_was_a_file_that_is_gone_knows_its_text() {
    let project = Project::new();
    project.train(&["--out", "first"]);
    fs::copy(project.path("first/tokenizer.json"), project.path("tokens.json")).unwrap();
    // The same tokenizer in other words: its hash is not that of the run's own file.
    let text = project.text("tokens.json");
    project.write("tokens.json", &format!("{text}\n"));
    project.train(&["--set", "data.tokenizer={ kind = \"file\", path = \"tokens.json\" }"]);
    let before = rows(&project.text(&format!("{RUN}/results.jsonl")));
    fs::remove_file(project.path("tokens.json")).unwrap();
    let again = project.ok(&["eval", RUN, "--json"]);
    assert_eq!(identities(&rows(&again.stdout)), identities(&before));
}

#[test]
fn training_goes_on_with_the_text_in_another_place() {
    let project = Project::new();
    let wsd = ["--set", "train.schedule=wsd", "--set", "train.warmup=1"];
    project.train(&wsd);
    move_to(&project, "corpus", "texts/kept");
    let further = ["--set", "data.corpus=texts/kept", "--set", "train.steps=8", "--resume"];
    project.train(&[&wsd[..], &further].concat());
    project.write("texts/kept/train/0.txt", "changed, and long enough to be read. ");
    project.refuses(
        2,
        &[
            &["train", "--config", "small.toml"],
            &wsd[..],
            &["--set", "data.corpus=texts/kept", "--set", "train.steps=9", "--resume"],
        ]
        .concat(),
        &["was trained on other text"],
    );
}

#[test]
fn a_copy_without_its_text_reads_what_is_given_and_meets_its_original() {
    let project = Project::new();
    project.train(&[]);
    for file in
        ["config.toml", "data.json", "tokenizer.json", "metrics.jsonl", "checkpoints/last.safetensors"]
    {
        let text = project.read(&format!("{RUN}/{file}"));
        let path = project.path("far/copy").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    move_to(&project, "corpus", "texts/kept");
    ok(&project, &["eval", "copy", "--corpus", "../texts/kept"]);
    let compared = ok(&project, &["compare", "copy", &format!("../{RUN}"), "--json"]);
    let compared: Vec<serde_json::Value> = json_lines(&compared);
    assert_eq!(compared.len(), 8, "every row has its partner");
    assert!(compared.iter().all(|one| one["difference"] == 0.0));
    ok(&project, &["export", "copy", "out"]);
    ok(&project, &["report", "copy", "--format", "markdown"]);
    assert!(project.exists("far/out/model.safetensors") && project.exists("far/copy/report.html"));
}

#[test]
fn an_imported_run_reads_the_text_that_is_given() {
    let (project, before) = moved();
    ok(&project, &["export", "away/run", "out"]);
    ok(&project, &["import", "out", "--out", "back"]);
    let again = rows(&ok(&project, &["eval", "back", "--json", "--corpus", "../texts/kept"]));
    assert_eq!(identities(&again), identities(&before), "it is the run that was exported");
    assert!(!Path::new("far/corpus").exists());
}
