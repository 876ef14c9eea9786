//! Synthetic tasks as a user asks them: every kind, which answers are scored, and other values for their keys.

use crate::common::{CONFIG, Project, RUN};
use longwave_eval::{ResultRow, Scoring, WINDOW_BASELINE};
use serde_json::{Value, json};

/// A project whose run is trained on a task.
fn project(task: &str, evaluate: &str) -> Project {
    let project = Project::new();
    let config = CONFIG.replace("corpus = \"corpus\"", &format!("task = {{ {task} }}"));
    let config = config.replace("windows_per_document = 2", "protocol = \"task\"\nsequences = 6");
    project.write("small.toml", &format!("{config}\n{evaluate}\n"));
    project
}

#[test]
fn every_kind_trains_and_is_asked() {
    let kinds = [
        ("kind = \"flip_flop\", ignore = 0.5", Some(Scoring::Every)),
        ("kind = \"mqar\"", Some(Scoring::Every)),
        (
            "kind = \"mqar\", key_len = 2, value_len = 2, fill = 0.5, queries = 2, score = \"last\"",
            Some(Scoring::Last),
        ),
        ("kind = \"variable_tracking\"", None),
        ("kind = \"selective_copy\", items = 3", None),
        ("kind = \"argmax\"", None),
        ("kind = \"n_back\", offset = 3", Some(Scoring::Every)),
        ("kind = \"needle\", depth = 0.5, distractors = 2, filler = \"text\"", None),
        ("kind = \"needle\", filler = \"repeated\"", None),
    ];
    for (task, score) in kinds {
        let project = project(task, "");
        let outcome = project.train(&["--set", "train.steps=2", "--set", "evaluate.extend=[\"direct\"]"]);
        let said = match score {
            Some(Scoring::Every) => "every answer of a sequence is scored",
            Some(Scoring::Last) => "the last answer of a sequence alone is scored",
            None => "new sequences every step, vocabulary",
        };
        assert!(outcome.stderr.contains(said), "{task}: {}", outcome.stderr);
        let rows = project.results(RUN);
        assert_eq!(rows.len(), 4, "two lengths, and the baseline at each");
        for row in &rows {
            assert_eq!((row.settings.score, row.documents), (score, 6), "{task}");
            assert!(row.values.get("chance").is_some() && row.values.get("accuracy").is_some(), "{task}");
        }
        assert!(outcome.stdout.contains("\nchance "), "{task}: {}", outcome.stdout);
    }
}

/// Which questions are asked follows from the task, and how long training sequences are changes none.
#[test]
fn answers_to_other_questions_are_not_compared() {
    let project = project("kind = \"copy\"", "");
    let train = |name: &str, task: &str| {
        let task = format!("data.task={{ kind = \"copy\", {task} }}");
        project.train(&["--set", "train.steps=1", "--set", &task, "--out", name]);
    };
    for (name, task) in [
        ("one", "alphabet = 8"),
        ("letters", "alphabet = 4"),
        ("seed", "alphabet = 8, seed = 1"),
        ("sizes", "alphabet = 8, sizes = \"full\""),
    ] {
        train(name, task);
    }
    for other in ["letters", "seed"] {
        let asked =
            ["the two runs were asked different questions: those of `copy` and of `copy`", "`data.task`"];
        project.refuses(1, &["compare", "one", other], &asked);
    }
    project.ok(&["compare", "one", "sizes"]);
    std::fs::create_dir(project.path("both")).unwrap();
    for name in ["one", "letters"] {
        std::fs::rename(project.path(name), project.path("both").join(name)).unwrap();
    }
    let told = project.ok(&["report", "both", "--format", "text"]).stdout;
    assert!(told.contains("the runs were asked different questions"), "{told}");
}

#[test]
fn every_answer_or_the_last_is_scored() {
    let blocks =
        "[[evaluate]]\nlengths = [64]\nprotocol = \"task\"\nsequences = 6\ntask = { score = \"last\" }";
    let project = project("kind = \"n_back\"", blocks);
    let outcome = project.train(&["--set", "train.steps=2"]);
    // Pairs of 65 tokens are 32, of which two have no symbol that far back.
    let tokens = |score: Scoring| {
        let of = |row: &ResultRow| row.settings.score == Some(score) && row.settings.length == 64;
        project.results(RUN).into_iter().filter(of).map(|row| row.tokens).collect::<Vec<_>>()
    };
    assert_eq!(tokens(Scoring::Last), [6, 6]);
    assert!(tokens(Scoring::Every).iter().all(|tokens| *tokens == 6 * 30), "{:?}", tokens(Scoring::Every));
    for said in [
        "the answers are scored, every one of a sequence; ",
        "the last one of a sequence alone; asked with score = last; ",
    ] {
        assert!(outcome.stdout.contains(said), "no `{said}` in {}", outcome.stdout);
    }
    // Every answer of a sequence is a line of `--tokens`, and nothing between.
    let asked =
        ["eval", RUN, "--device", "cpu", "--lengths", "64", "--tokens", "tokens.jsonl", "--extend", "direct"];
    project.ok(&asked);
    let lines: Vec<Value> = project.rows("tokens.jsonl");
    assert_eq!(lines.len(), 2 * 6 * 30);
    assert!(lines.iter().all(|line| line["position"].as_u64().unwrap() % 2 == 1));
}

#[test]
fn depth_by_length_is_a_table_and_a_heat_map() {
    let blocks = "task = { depth = [0, 0.5, 1.0] }";
    let project = project("kind = \"assoc_recall\"", blocks);
    let outcome = project.train(&["--threads=1", "--set", "train.steps=2"]);
    insta::assert_snapshot!("depth_by_length", outcome.stdout);
    let rows = project.results(RUN);
    // Three extensions and the baseline, at three depths and two lengths.
    assert_eq!(rows.len(), 24);
    for depth in [json!(0), json!(0.5), json!(1)] {
        let of = |row: &&ResultRow| row.settings.task.fields().get("depth") == Some(&depth);
        let of_depth: Vec<_> = rows.iter().filter(of).collect();
        assert_eq!(of_depth.len(), 8);
        // Of the same questions all readings have the same chance, and each is paired with the baseline.
        for row in &of_depth {
            let twin =
                |it: &&&ResultRow| it.settings.length == row.settings.length && it.extend == WINDOW_BASELINE;
            let baseline = of_depth.iter().find(twin).unwrap();
            assert_eq!(row.values.get("chance"), baseline.values.get("chance"));
            assert_eq!(row.difference.is_some(), row.extend != WINDOW_BASELINE);
        }
    }
    let read = |name: &str| project.text(&format!("{RUN}/{name}"));
    assert!(
        read("results.md").contains("| direct (depth = 0.5) |")
            && read("results.md").contains("| chance (depth = 0.5) |")
    );
    assert!(read("results.csv").contains("\"{\"\"depth\"\":0.5}\""));
    let page = read("report.html");
    assert!(page.contains("<figure class=\"heat\">") && page.contains("window_baseline (depth = 1)"));
    // The command below the table asks the same again.
    let before = read("results.jsonl");
    assert!(page.contains("--set &#39;task.depth=[0, 0.5, 1]&#39;"), "{page}");
    let again = project.run(&["eval", RUN, "--device", "cpu", "--set", "task.depth=[0, 0.5, 1]"]);
    assert_eq!((again.code, read("results.jsonl") == before), (Some(0), true), "{}", again.stderr);
    // Another depth is a measurement of its own.
    let more = project.run(&["eval", RUN, "--device", "cpu", "--set", "task.depth=0.25", "--json"]);
    assert_eq!((more.code, more.stdout.lines().count()), (Some(0), 8), "{}", more.stderr);
}

#[test]
fn wrong_values_are_named() {
    let cases = [
        (
            "kind = \"copy\", depth = 0.5",
            "",
            "`data.task.depth = 0.5` is not allowed: it has no meaning for `kind = \"copy\"`",
        ),
        (
            "kind = \"needle\", depth = 1.5",
            "",
            "`data.task.depth = 1.5` is not allowed: it must lie between 0 and 1",
        ),
        (
            "kind = \"passkey\", alphabet = 4",
            "",
            "`data.task.alphabet = 4` is not allowed: it has no meaning for",
        ),
        ("kind = \"copy\", digits = 4", "", "`data.task.digits = 4` is not allowed: it has no meaning for"),
        ("kind = \"copy\", alphabet = 27", "", "it must lie between 2 and 26"),
        ("kind = \"fixed_offset\", offset = 0", "", "`data.task.offset = 0` is not allowed"),
        ("kind = \"needle\", distractors = 26", "", "it must lie between 0 and 25"),
        ("kind = \"needle\", filler = \"grass\"", "", "it must be one of `random`, `text`, `repeated`"),
        (
            "kind = \"passkey\", score = \"every\"",
            "",
            "`data.task.score = \"every\"` is not allowed: it has no meaning for",
        ),
        ("kind = \"flip_flop\", ignore = 1.0", "", "it must be a share of at least 0 and below 1"),
        ("kind = \"mqar\", queries = 9", "", "there are 8 pairs, and each is asked for once"),
        ("kind = \"mqar\", pairs = 6, fill = 0.5", "", "`data.task.fill = 0.5` is not allowed"),
        ("kind = \"mqar\"", "task = { pairs = 27 }", "`evaluate.task.pairs = 27` is not allowed"),
        ("kind = \"mqar\", pairs = 27", "", "26 letters make 26 different keys with `key_len = 1`"),
        ("kind = \"mqar\", pairs = 16", "", "a sequence of `mqar` has at least 40 tokens"),
        (
            "kind = \"selective_copy\", items = 40",
            "",
            "a sequence of `selective_copy` has at least 81 tokens",
        ),
        (
            "kind = \"variable_tracking\", hops = 13",
            "",
            "2 chains of 14 names each need 28 names, and there are 26",
        ),
        ("kind = \"needle\"", "task = { depth = [0, 2] }", "`evaluate.task.depth = 2` is not allowed"),
        (
            "kind = \"needle\"",
            "task = { depth = [0, 0] }",
            "`evaluate[0].task.depth = [0, 0]` is not allowed: 0 is listed twice",
        ),
        (
            "kind = \"needle\"",
            "task = { hops = 2 }",
            "`evaluate.task.hops = 2` is not allowed: it has no meaning for",
        ),
        ("kind = \"needle\"", "task = { kind = \"copy\" }", "an evaluation asks the task that was trained"),
        ("kind = \"needle\"", "task = { depht = 0 }", "did you mean `depth`?"),
    ];
    for (task, evaluate, wanted) in cases {
        let project = project(task, evaluate);
        project.refuses(2, &["validate", "small.toml"], &[wanted, "\nhint: "]);
    }
    let project = Project::new();
    let outcome = project.run(&["validate", "small.toml", "--set", "evaluate.task={ depth = 0 }"]);
    let wanted = "it has no meaning for `protocol = \"fixed_target\"`";
    assert!(outcome.code == Some(2) && outcome.stderr.contains(wanted), "{}", outcome.stderr);
}
