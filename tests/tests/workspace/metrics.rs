//! What evaluations show beside perplexity: other text, single tokens, tasks, and choices on a validation split.

#![allow(clippy::float_cmp, reason = "the same number, not a near one")]

use crate::common::{self, Project, RUN, row_of, trainer};
use longwave_eval::{LastSeen, Protocol, ResultRow, Split};
use serde_json::Value;

/// Evaluates the run, which must succeed, and gives the rows.
fn eval(project: &Project, more: &[&str]) -> Vec<ResultRow> {
    project.ok(&[&["eval", RUN, "--device", "cpu", "--json"], more].concat()).rows()
}

#[test]
fn rows_tell_accuracy_bigrams_and_documents() {
    let project = Project::new();
    project.train(&["--set", "train.steps=30"]);
    let rows = project.results(RUN);
    for row in &rows {
        let accuracy = row.values.get("accuracy").unwrap();
        assert!(
            accuracy > 0.0 && accuracy < 1.0 && row.values.get("accuracy_se").unwrap() > 0.0,
            "{accuracy}"
        );
        assert_eq!(row.corpus.as_deref(), Some("corpus"));
        let documents = row.per_document.as_ref().unwrap();
        assert_eq!(documents.tokens.iter().sum::<u64>(), row.tokens);
        assert!(
            (documents.get("nll").unwrap().iter().sum::<f64>() / row.tokens as f64 - row.nll()).abs() < 1e-12
        );
        let bigrams = row.bigrams.as_ref().unwrap();
        assert_eq!(bigrams.iter().map(|part| part.tokens).sum::<u64>(), row.tokens);
        let sum: f64 = bigrams.iter().map(|part| part.nll * part.tokens as f64).sum();
        assert!((sum / row.tokens as f64 - row.nll()).abs() < 1e-12);
        let correct: f64 = bigrams.iter().map(|part| part.accuracy * part.tokens as f64).sum();
        assert!((correct / row.tokens as f64 - accuracy).abs() < 1e-12);
    }
    // The split is the text's: it does not depend on how the text is read.
    let parts = |row: &ResultRow| {
        let parts = row.bigrams.as_ref().unwrap().iter();
        parts.map(|part| (part.last_seen, part.tokens)).collect::<Vec<(LastSeen, u64)>>()
    };
    assert!(parts(&rows[0]).len() > 1);
    assert!(rows.iter().all(|row| parts(row) == parts(&rows[0])));
    let difference = row_of(&rows, "linear", 64).minus(row_of(&rows, "window_baseline", 64)).unwrap();
    let apart = row_of(&rows, "linear", 64).nll() - row_of(&rows, "window_baseline", 64).nll();
    assert!((difference.mean - apart).abs() < 1e-12);
    let table = project.text(&format!("{RUN}/results.md"));
    assert!(table.contains("| Δ at 2L |") && table.contains("paired by document"), "{table}");
}

#[test]
fn other_text_and_splits_are_rows_of_their_own() {
    let project = Project::new();
    project.train(&[]);
    project.write("other/a.txt", &common::text(400, 21));
    project.write("other/b.txt", &common::text(300, 22));
    let own = eval(&project, &["--extend", "direct"]);
    let other = eval(&project, &["--extend", "direct", "--corpus", "other"]);
    assert_eq!((other[0].documents, other[0].corpus.as_deref()), (2, Some("other")));
    assert_ne!(other[0].nll(), own[0].nll());
    assert_ne!(other[0].identity().unwrap(), own[0].identity().unwrap());
    assert_eq!(other[0].minus(&own[0]), None, "other documents are no pairs");
    // The same text under another name is the same measurement; changed text is not.
    project.write("copy/a.txt", &common::text(400, 21));
    project.write("copy/b.txt", &common::text(300, 22));
    let copy = eval(&project, &["--extend", "direct", "--corpus", "copy"]);
    assert_eq!((copy[0].identity().unwrap(), copy[0].nll()), (other[0].identity().unwrap(), other[0].nll()));
    project.write("other/b.txt", &common::text(301, 22));
    let changed = eval(&project, &["--extend", "direct", "--corpus", "other"]);
    assert_ne!(changed[0].identity().unwrap(), other[0].identity().unwrap());

    let valid = eval(&project, &["--extend", "direct", "--split", "validation"]);
    assert_eq!((valid[0].settings.split, valid[0].documents), (Split::Valid, 2));
    let train = eval(&project, &["--extend", "direct", "--split", "train", "--corpus", "corpus"]);
    assert_eq!((train[0].settings.split, train[0].documents), (Split::Train, 6));
    project.refuses(
        2,
        &["eval", RUN, "--corpus", "other", "--split", "train"],
        &["read whole, as the split `test`"],
    );
    project.refused(2, &["eval", RUN, "--corpus", "nowhere"]);

    let table = project.run(&["eval", RUN, "--corpus", "other", "--extend", "direct"]);
    assert!(table.stdout.contains("test split of other"), "{}", table.stdout);
}

#[test]
fn every_scored_token_can_be_written() {
    let project = Project::new();
    project.train(&[]);
    let rows = eval(&project, &["--tokens", "tokens.jsonl", "--extend", "direct,linear"]);
    let lines: Vec<Value> = project.rows("tokens.jsonl");
    assert_eq!(lines.len() as u64, rows.iter().map(|row| row.tokens).sum::<u64>());
    for row in &rows {
        let own = lines.iter().filter(|line| {
            line["extend"] == row.extend.as_str() && line["length"] == row.settings.length as u64
        });
        let nll: Vec<f64> = own.clone().map(|line| line["nll"].as_f64().unwrap()).collect();
        assert!((nll.iter().sum::<f64>() / row.tokens as f64 - row.nll()).abs() < 1e-12);
        let correct = own.filter(|line| line["correct"] == true).count();
        assert!((correct as f64 / row.tokens as f64 - row.values.get("accuracy").unwrap()).abs() < 1e-12);
    }
    let line = &lines[0];
    assert_eq!((&line["document"], &line["protocol"]), (&"0.txt".into(), &"fixed_target".into()));
    let document = project.read("corpus/test/0.txt");
    for line in lines.iter().filter(|line| line["document"] == "0.txt") {
        let position = usize::try_from(line["position"].as_u64().unwrap()).unwrap();
        assert_eq!(line["token"].as_u64().unwrap(), u64::from(document[position]));
    }
    eval(&project, &["--tokens", "tokens.csv", "--extend", "direct", "--lengths", "32"]);
    let csv = project.text("tokens.csv");
    assert!(csv.starts_with("run,seed,extend,") && csv.lines().nth(1).unwrap().contains("fixed_target"));
}

/// The small config with a task in place of its corpus.
fn task(project: &Project, kind: &str) {
    let config = common::CONFIG.replace("corpus = \"corpus\"", &format!("task = {{ kind = \"{kind}\" }}"));
    let config = config.replace("windows_per_document = 2", "protocol = \"task\"\nsequences = 40");
    project.write("small.toml", &config);
}

#[test]
fn a_task_is_trained_and_asked_at_every_length() {
    let project = Project::new();
    task(&project, "copy");
    let outcome = project.train(&["--set", "train.steps=40"]);
    assert!(outcome.stderr.contains("data      copy: new sequences every step"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("Exact match in % of small (rope): task copy"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("Accuracy in % of small (rope): task copy"));
    let rows = project.results(RUN);
    assert_eq!(rows.len(), 8);
    for row in &rows {
        assert_eq!((row.settings.protocol, row.settings.keys.get("sequences")), (Protocol::Task, Some(40)));
        assert_eq!((row.corpus.as_deref(), row.documents), (Some("copy"), 40));
        // As many answers as fit into the length, and one token for `=`.
        assert_eq!(row.tokens, 40 * (row.settings.length as u64 / 2));
        assert!(
            row.values.get("exact_match").unwrap() <= row.values.get("accuracy").unwrap()
                && row.values.get("bpb").is_none()
        );
    }
    // What a constant guess gets right: a little more than one of eight letters.
    assert!(rows.iter().all(|row| (0.125..0.25).contains(&row.values.get("chance").unwrap())));
    for chart in ["exact_match.svg", "accuracy.svg"] {
        let chart = project.text(&format!("{RUN}/{chart}"));
        assert!(chart.lines().any(|line| line.trim() == "chance"));
    }
    // None of 40 right says that the share is at most 8.8%.
    assert_eq!(
        rows.iter().find(|row| row.settings.length == 64).unwrap().values.get("exact_match"),
        Some(0.0)
    );
    assert!(outcome.stdout.contains("0.0 [0.0, 8.8]"), "{}", outcome.stdout);
    let compared = project.run(&[
        "compare",
        &format!("{RUN}:linear"),
        &format!("{RUN}:direct"),
        "--metric",
        "exact_match",
    ]);
    assert!(
        compared.stdout.contains("paired by sequence") && compared.stdout.contains("  sequences\n"),
        "{compared:?}"
    );
    let csv = project.text(&format!("{RUN}/results.csv"));
    assert!(csv.starts_with("run,") && csv.contains(",exact_match_low,exact_match_high,chance,"), "{csv}");
    assert!(csv.contains(",0.0,0.0876"), "{csv}");
    let losses: Vec<f64> =
        trainer::metrics(&project, RUN).iter().filter_map(|metric| metric.valid_loss).collect();
    // Eight letters are guessed at ln 8 = 2.08 nats once the alphabet is known; 256 bytes cost ln 256 = 5.5.
    assert!(losses.last().unwrap() < &2.8 && losses.first().unwrap() > &4.0, "{losses:?}");

    project.refuses(2, &["eval", RUN, "--protocol", "sliding"], &["the run was trained on a task"]);
    // Text is text to it all the same: its tokens are bytes.
    let rows = eval(&project, &["--corpus", "corpus", "--extend", "direct"]);
    assert_eq!((rows[0].settings.protocol, rows[0].values.get("exact_match")), (Protocol::FixedTarget, None));
}

const WINDOWS: &str = "{ kind = \"rerope\", window = [2, \"L/4\"] }";
const SEARCH: &str = "{ kind = \"longrope\", search = { budget = 6, population = 4, parents = 2 } }";

#[test]
fn what_a_task_chooses_is_chosen_by_other_questions() {
    let project = Project::new();
    task(&project, "copy");
    let stage = "[[stage]]\nlength = 64\nsteps = 3\nextend = \"linear\"\nvalidate_every = 3\n";
    let config = project.text("small.toml");
    project.write("small.toml", &config.replace("[[evaluate]]", &format!("{stage}[[evaluate]]")));
    project.train(&["--set", "evaluate=[]"]);
    let last = trainer::metrics(&project, RUN).pop().unwrap();
    assert!(last.stage == 1 && last.valid_loss.is_some(), "a stage of a task: {last:?}");

    let asked = ["--protocol", "task", "--set", "sequences=20", "--lengths", "64,128", "--extend", "direct"];
    let rows = eval(&project, &[&asked[..], &["--extend", WINDOWS, "--extend", SEARCH]].concat());
    assert!(rows.iter().all(|row| row.stage == 1 && row.documents == 20));
    let count = |split: Split, extend: &str| {
        rows.iter().filter(|row| row.settings.split == split && row.extend == extend).count()
    };
    assert_eq!((count(Split::Valid, "rerope"), count(Split::Test, "rerope")), (4, 2));
    assert_eq!((count(Split::Valid, "longrope"), count(Split::Test, "longrope")), (1, 2));
    let chosen = rows.iter().find(|row| row.extend == "rerope" && row.settings.split == Split::Test).unwrap();
    let tried = rows.iter().find(|row| {
        row.settings.split == Split::Valid
            && row.settings.length == chosen.settings.length
            && row.extend_config == chosen.extend_config
    });
    assert_ne!(tried.unwrap().nll(), chosen.nll(), "the same questions");
}

#[test]
fn what_other_text_chooses_is_chosen_by_its_own_validation_split() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    for (split, document) in [("train", 31), ("valid", 32), ("test", 33)] {
        project.write(&format!("other/{split}/a.txt"), &common::text(600, document));
    }
    let asked = ["--lengths", "32,64", "--extend", WINDOWS, "--extend", SEARCH];
    let of_split = |rows: &[ResultRow], split: Split| -> Vec<ResultRow> {
        rows.iter().filter(|row| row.settings.split == split).cloned().collect()
    };
    let own = eval(&project, &asked);
    let other = eval(&project, &[&asked[..], &["--corpus", "other", "--tokens", "tokens.jsonl"]].concat());
    // A search of one text is not taken for that of another, and is found again.
    let searched = |rows: &[ResultRow]| {
        of_split(rows, Split::Valid).into_iter().find(|row| row.extend == "longrope").unwrap()
    };
    assert_eq!(searched(&own).corpus.as_deref(), Some("corpus"));
    assert_eq!((searched(&other).corpus.as_deref(), searched(&other).documents), (Some("other"), 1));
    let before = project.read(&format!("{RUN}/results.jsonl"));
    assert_eq!(eval(&project, &[&asked[..], &["--corpus", "other"]].concat()), other);
    assert_eq!(project.read(&format!("{RUN}/results.jsonl")), before);
    // Tokens are written of what is reported, not of what was tried.
    let tokens = project.text("tokens.jsonl");
    let reported: u64 = of_split(&other, Split::Test).iter().map(|row| row.tokens).sum();
    assert_eq!(tokens.lines().count() as u64, reported);

    project.write("whole/a.txt", &common::text(600, 34));
    project.refuses(
        2,
        &[&["eval", RUN, "--corpus", "whole"], &asked[..]].concat(),
        &["choosing on the validation split: `split = \"valid\"`", "one value in place of a list"],
    );
    let search = "{ kind = \"longrope\", search = { length = 40 } }";
    let short = ["--protocol", "repeated_text", "--lengths", "64", "--extend", search];
    project.refuses(
        2,
        &[&["eval", RUN], &short[..]].concat(),
        &["it must reach back to a copy of the passage"],
    );
}

#[test]
fn a_task_that_cannot_be_asked_is_refused_before_training() {
    let project = Project::new();
    let refused = |kind: &str, more: &[&str]| {
        task(&project, kind);
        let outcome = project.refused(2, &[&["train", "--config", "small.toml"], more].concat());
        assert!(!project.exists("runs"));
        outcome
    };
    assert!(refused("passkey", &[]).contains("`train.length = 32` is not allowed"));
    assert!(refused("copyy", &[]).contains("data.task.kind"));
    let lengths = refused("assoc_recall", &["--set", "evaluate.lengths=[32, 4096]"]);
    assert!(lengths.contains("`evaluate.lengths = 4096`") && lengths.contains("676 keys"), "{lengths}");
    let protocol = refused("copy", &["--set", "evaluate=[{ lengths = [32] }]"]);
    assert!(protocol.contains("hint: use `protocol = \"task\"`"), "{protocol}");
    project.write("small.toml", common::CONFIG);
    let text = project.run(&["train", "--config", "small.toml", "--set", "evaluate.protocol=task"]);
    assert!(text.stderr.contains("no meaning for `protocol = \"task\"`"), "{}", text.stderr);
}

#[test]
fn readings_are_compared_with_the_one_that_is_named() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    let asked = ["--lengths", "32,64", "--extend", "direct,linear,ntk"];
    let against = |method: &str| eval(&project, &[&asked[..], &["--against", method]].concat());
    let rows = against("ntk");
    for row in rows.iter().filter(|row| row.extend != "ntk") {
        let ntk = row_of(&rows, "ntk", row.settings.length);
        let (difference, expected) = (row.difference.as_ref().unwrap(), row.minus(ntk).unwrap());
        assert_eq!((difference.nll, difference.nll_se), (expected.mean, expected.se));
        assert_eq!(difference.against["kind"], "ntk");
    }
    assert!(row_of(&rows, "ntk", 64).difference.is_none());
    let file = format!("{RUN}/results.jsonl");
    let kept = project.read(&file);
    assert_eq!(against("ntk"), rows);
    assert_eq!(project.read(&file), kept, "nothing is written again");
    // Other readings stay as they are measured; only the difference is another.
    let other = against("{ kind = \"linear\" }");
    assert_eq!((row_of(&other, "direct", 64).nll(), row_of(&other, "direct", 32).nll()), {
        (row_of(&rows, "direct", 64).nll(), row_of(&rows, "direct", 32).nll())
    });
    assert_eq!(row_of(&other, "direct", 64).difference.as_ref().unwrap().against["kind"], "linear");

    let report = |more: &[&str]| {
        project.ok(&[&["report", RUN], more].concat());
        project.text(&format!("{RUN}/results.md"))
    };
    assert!(report(&[]).contains("minus that of linear, in nats"), "as it was evaluated");
    let kept = project.read(&file);
    assert!(report(&["--against", "window_baseline"]).contains("minus that of window_baseline"));
    let csv = project.text(&format!("{RUN}/results.csv"));
    assert!(csv.contains(",against,difference,difference_se,") && csv.contains(",window_baseline,"), "{csv}");
    assert_eq!(project.read(&file), kept, "a report changes no row");

    for (command, method, part) in [
        ("eval", "yarn", "none of the readings"),
        ("eval", "yarrn", "did you mean `yarn`?"),
        ("eval", "ntk,linear", "takes one extension"),
        ("report", "yarn", "no row is the reading"),
    ] {
        let more: &[&str] = if command == "eval" { &asked } else { &[] };
        project.refuses(2, &[&[command, RUN, "--against", method], more].concat(), &[part, "hint: "]);
    }
}
