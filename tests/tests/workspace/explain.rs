//! `longwave explain`: what a trained model does with longer texts, and the protocol `diagnostics`.

use crate::common::{Project, set};
use serde_json::{Value, json};
use std::sync::OnceLock;

const EXPLAIN: [&str; 3] = ["explain", "--device", "cpu"];

const EVALUATE: &str = "evaluate=[{ lengths = [\"L\", \"4L\"] }]";

/// A small run of an encoding and a seed.
fn train(project: &Project, position: &str, seed: u64) {
    let (position, seed) = (format!("position={position}"), format!("seed={seed}"));
    project.train(&set(&[&position, &seed, EVALUATE]));
}

/// The run of `rope` that most tests look at, in a folder of its own.
fn rope() -> Project {
    static TRAINED: OnceLock<Project> = OnceLock::new();
    Project::copy_of(&TRAINED, |project| train(project, "{ kind = \"rope\" }", 0))
}

fn explained(project: &Project, arguments: &[&str]) -> Value {
    project.ok(&[&EXPLAIN, arguments, &["--json"]].concat()).json()
}

/// A number of the whole model.
fn value(explained: &Value, diagnostic: &str, length: u64) -> f64 {
    let is_here = |it: &&Value| {
        it["diagnostic"] == diagnostic
            && it["length"] == length
            && it["layer"].is_null()
            && it["bin"].is_null()
    };
    let found = explained["findings"].as_array().unwrap().iter().find(is_here);
    found.unwrap_or_else(|| panic!("{diagnostic} at {length}"))["value"].as_f64().unwrap()
}

/// The band at the base of 10,000 whose cosine varies most over distances below `count`.
fn predicted(explained: &Value, count: f64) -> f64 {
    let here = |it: &&Value| it["diagnostic"] == "key_norm" && it["layer"].is_null() && it["length"] == 32;
    let bands = explained["findings"].as_array().unwrap().iter().filter(here).count();
    bands as f64 * (count / 3.657_21).ln() / 10_000_f64.ln()
}

/// What the program says at last, without the device and the progress before.
fn refused(project: &Project, arguments: &[&str]) -> String {
    let text = project.refused(2, &[&EXPLAIN[..], arguments].concat());
    text[text.find("error: ").unwrap()..].to_owned()
}

#[test]
fn a_run_is_explained_in_sentences_tables_and_files() {
    let project = rope();
    let outcome = project.ok(&[&EXPLAIN[..], &["runs/small-0"]].concat());
    let sentences: Vec<&str> = outcome.stdout.lines().take_while(|line| line.starts_with("- ")).collect();
    assert_eq!(sentences.len(), 5, "{}", outcome.stdout);
    assert!(
        sentences[1].contains("of attention falls on angles that training never showed (0.0% at L)"),
        "{sentences:?}"
    );
    for title in [
        "What the model does at each length",
        "Layers and heads at 256 (8L)",
        "Bands, the fastest first",
        "Position read by a linear probe",
        "Far context changed, at 256 (8L)",
    ] {
        assert!(outcome.stdout.contains(title), "{title}: {}", outcome.stdout);
    }
    let csv = project.text("runs/small-0/explained.csv");
    assert_eq!(csv.lines().next(), Some("diagnostic,extend,length,layer,head,bin,value,se,count,over"));
    let page = project.text("runs/small-0/report.html");
    assert!(
        page.contains("<h2>Why</h2>") && page.contains("What the model does at each length"),
        "the page has a section"
    );
    assert!(
        project.exists("runs/small-0/explained-length.svg")
            && project.exists("runs/small-0/explained-bands.png")
    );
    // For a paper there is a PDF beside every chart.
    project.ok(&["report", "runs/small-0", "--pdf"]);
    assert!(project.exists("runs/small-0/explained-bands.pdf"));
    for entry in std::fs::read_dir(project.path("runs/small-0")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "svg") {
            assert!(path.with_extension("pdf").is_file(), "{}", path.display());
        }
    }
    // What is kept is what is printed.
    let kept = project.json("runs/small-0/explained.json");
    let printed = explained(&project, &["runs/small-0"]);
    assert_eq!(kept, printed);
    assert_eq!((value(&kept, "unseen_angles", 32), value(&kept, "baseline_change", 32)), (0.0, 0.0));
    assert!(value(&kept, "unseen_angles", 256) > 0.05 && value(&kept, "beyond_length", 256) > 0.1);
    assert!((value(&kept, "predicted_band", 32) - predicted(&kept, 32.0)).abs() < 1e-9);
    // A training that goes on is no longer the one that was explained.
    let more = set(&["train.steps=8", "position={ kind = \"rope\" }", EVALUATE]);
    project.train(&[&["--resume"], &more[..]].concat());
    let page = project.text("runs/small-0/report.html");
    assert!(!page.contains("<h2>Why</h2>"), "what was found is of another step");
}

#[test]
fn readings_of_one_kind_are_told_apart() {
    let project = rope();
    let bands = |keep: f64| format!("{{ kind = \"bands\", keep = {keep} }}");
    let explain = |extend: &[String]| {
        let mut arguments = vec!["runs/small-0", "--lengths", "L,4L"];
        arguments.extend(extend.iter().flat_map(|one| ["--extend", one.as_str()]));
        explained(&project, &arguments)
    };
    let both = explain(&[bands(0.25), bands(0.5)]);
    assert_eq!(both["extend"], json!(["bands (keep = 0.25)", "bands (keep = 0.5)"]));
    let of = |explained: &Value, extend: &str| -> Vec<f64> {
        let findings = explained["findings"].as_array().unwrap().iter();
        findings.filter(|it| it["extend"] == extend).map(|it| it["value"].as_f64().unwrap()).collect()
    };
    for keep in [0.25, 0.5] {
        let alone = explain(&[bands(keep)]);
        assert_eq!(of(&both, &format!("bands (keep = {keep})")), of(&alone, "bands"));
    }
    for keep in [0.25, 0.5] {
        assert!(project.exists(&format!("runs/small-0/explained-length-bands-keep-{keep}.svg")));
    }
}

#[test]
fn seeds_are_averaged_and_other_runs_are_refused() {
    let project = Project::new();
    train(&project, "{ kind = \"alibi\" }", 0);
    train(&project, "{ kind = \"alibi\" }", 1);
    project.train(&["--set", "position={ kind = \"none\" }", "--set", "name=other", "--set", "evaluate=[]"]);
    let lengths = ["--lengths", "L,2L"];
    project.ok(&[&EXPLAIN[..], &["runs/small-0", "runs/small-1", "--out", "why"], &lengths].concat());
    let page = project.text("why/report.html");
    assert!(
        page.contains("<h1>small-0, small-1</h1>")
            && page.contains("longwave explain runs/small-0 runs/small-1 --lengths"),
        "{page}"
    );
    assert!(!project.exists("runs/small-0/explained.json"), "the runs are left as they are");
    // The command of the page gives its numbers, whatever quotes were typed.
    let yarn =
        ["--extend", "{ kind = 'direct', temperature = 2.0 }", "--checkpoint", "best", "--lengths", "2L"];
    project.ok(&[&EXPLAIN[..], &["runs/small-0", "--out", "best"], &yarn].concat());
    let page = project.text("best/report.html");
    let command = page.split("longwave explain runs/small-0 ").nth(1).unwrap().split('<').next().unwrap();
    let command = command.replace("&#39;", "'");
    assert!(command.starts_with("--checkpoint best --lengths 2L"), "{command}");
    assert!(command.contains("'{ kind = '\\''direct'\\'', temperature = 2.0 }'"), "{command}");
    let of = |runs: &[&str]| explained(&project, &[runs, &lengths].concat());
    let [first, second] = ["runs/small-0", "runs/small-1"].map(|run| of(&[run]));
    let both = of(&["runs/small-0", "runs/small-1"]);
    for diagnostic in ["loss", "entropy", "receptive_field"] {
        let [a, b, mean] = [&first, &second, &both].map(|of| value(of, diagnostic, 64));
        assert!((mean - f64::midpoint(a, b)).abs() < 1e-9, "{diagnostic}: {a} {b} {mean}");
    }
    let counts = both["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["diagnostic"] == "loss")
        .map(|it| it["count"].clone());
    assert!(counts.into_iter().all(|count| count == 2));
    let text = project.run(&[&EXPLAIN[..], &["runs/small-0", "runs/small-1"], &lengths].concat()).stdout;
    assert!(text.contains("standard errors over 2 runs") && text.contains("not rotated"), "{text}");
    insta::assert_snapshot!(refused(&project, &[&["runs/small-0", "runs/other-0"], &lengths[..]].concat()));
}

#[test]
fn a_run_and_its_twin_are_no_two_seeds() {
    let project = rope();
    let rope = "position={ kind = \"rope\", base = 100.0 }";
    project.train(&set(&[rope, "model.layers=1", "name=other", "seed=1", "evaluate=[]"]));
    insta::assert_snapshot!(refused(&project, &["runs/small-0", "runs/small-0"]));
    insta::assert_snapshot!(refused(&project, &["runs/small-0", "runs/other-1"]));
}

/// Of drawn positions; eval's `shown` and position's `sampling::shown` hold what each kind of them shows.
#[test]
fn distances_that_training_drew_are_no_unseen_ones() {
    let project = Project::new();
    let evaluate =
        "evaluate=[{ protocol = \"diagnostics\", lengths = [\"L\", \"8L\"], windows_per_document = 1 }]";
    let positions = "train.positions={ kind = \"randpos\", max_position = \"8L\" }";
    project.train(&set(&[positions, "position={ kind = \"rope\" }", evaluate]));
    let found = explained(&project, &["runs/small-0", "--lengths", "L,8L"]);
    for length in [32, 256] {
        for diagnostic in ["unseen_angles", "unseen_pairs"] {
            let share = value(&found, diagnostic, length);
            assert!(share.abs() < 1e-12, "{diagnostic} at {length} is {share}");
        }
    }
    // There are 256 positions to draw from.
    assert!((value(&found, "predicted_band", 256) - predicted(&found, 256.0)).abs() < 1e-9);
    let rows: Vec<Value> = project.rows("runs/small-0/results.jsonl");
    let unseen: Vec<f64> = rows.iter().filter_map(|row| row["unseen_angles"].as_f64()).collect();
    assert!(unseen.len() >= 2 && unseen.iter().all(|share| *share == 0.0), "{unseen:?}");
}

#[test]
fn a_longer_stage_shows_longer_distances() {
    let project = Project::new();
    let stage = "stage=[{ length = \"4L\", steps = 2, batch_tokens = 256 }]";
    project.train(&["--set", "position={ kind = \"rope\" }", "--set", stage, "--set", "evaluate=[]"]);
    let mut steps = Vec::new();
    for (checkpoint, trained) in [("last", 128.0), ("stage-0", 32.0)] {
        let lengths = ["--lengths", "L,4L,8L", "--checkpoint", checkpoint];
        let found = explained(&project, &[&["runs/small-0"], &lengths[..]].concat());
        assert_eq!(value(&found, "unseen_pairs", 128) == 0.0, trained >= 128.0, "{checkpoint}");
        assert!(value(&found, "unseen_pairs", 256) > 0.1, "{checkpoint}");
        let off = value(&found, "predicted_band", 32) - predicted(&found, trained);
        assert!(off.abs() < 1e-9, "{checkpoint}: {off}");
        steps.push(found["step"].clone());
    }
    let kept: Value = serde_json::from_str(&project.text("runs/small-0/explained.json")).unwrap();
    assert!(
        kept["step"] == steps[0] && steps[0] != steps[1],
        "the folder keeps what is of `last`: {steps:?}"
    );
}

#[test]
fn what_cannot_be_explained_is_said() {
    let project = rope();
    insta::assert_snapshot!(refused(&project, &["runs/nothing"]));
    insta::assert_snapshot!(refused(
        &project,
        &["runs/small-0", "--extend", "{ kind = \"rerope\", window = [4, 8] }"]
    ));
    insta::assert_snapshot!(refused(&project, &["runs/small-0", "--extend", "yarm"]));
    project.train(&set(&["model.attention=\"linear\"", "name=linear", "position={ kind = \"rope\" }"]));
    let found = explained(&project, &["runs/linear-0", "--lengths", "L,2L"]);
    assert!(found["notes"][0].as_str().unwrap().starts_with("attention is not looked at: "), "{found}");
    assert!(value(&found, "receptive_field", 64) > 1.0);
}

/// What is printed, without the progress.
fn printed(project: &Project, arguments: &[&str]) -> String {
    project.ok(&[&EXPLAIN[..], arguments].concat()).stdout
}

#[test]
fn a_memory_has_no_receptive_field_and_a_mixed_stack_says_whose_attention_it_counts() {
    let project = Project::new();
    let memory = "position={ kind = \"transformer_xl\", memory = \"L\" }";
    project.train(&["--set", memory, "--set", "train.sampling=\"sequential\"", "--set", "evaluate=[]"]);
    let text = printed(&project, &["runs/small-0", "--lengths", "L,4L"]);
    assert!(text.contains("no gradient flows into the memory of earlier segments"), "{text}");
    assert!(!text.contains("receptive field: the tokens") && !text.contains("99% of the last"), "{text}");
    assert!(!text.contains("not rotated"), "{text}");
    train(&project, "{ kind = \"mixed\", layers = [\"rope\", \"none\"] }", 1);
    let text = printed(&project, &["runs/small-1", "--lengths", "L,4L"]);
    assert!(text.contains("% of the attention of the layers that rotate falls on angles"), "{text}");
    train(&project, "{ kind = \"selective_rope\" }", 2);
    let text = printed(&project, &["runs/small-2", "--lengths", "L,4L"]);
    assert!(!text.contains("not rotated"), "{text}");
    assert!(
        text.contains("`selective_rope` does with queries and keys is no rotation by fixed angles"),
        "{text}"
    );
}

#[test]
fn other_text_shorter_lengths_and_a_reading_that_is_listed_twice_are_read() {
    let project = rope();
    let twice = explained(&project, &["runs/small-0", "--lengths", "L/2,L", "--extend", "yarn,yarn"]);
    assert_eq!(twice["extend"], json!(["yarn"]));
    let once = explained(&project, &["runs/small-0", "--lengths", "L/2,L", "--extend", "yarn"]);
    assert_eq!(twice, once);
    assert!(value(&twice, "loss", 16) > 0.0);
    let words = "the quick brown fox jumps over the lazy dog and runs away ".repeat(40);
    project.write("other/one.txt", &words);
    let both = ["runs/small-0", "--lengths", "L,2L", "--corpus", "other/one.txt"];
    let other = explained(&project, &both);
    assert!(other["measured_on"].as_str().unwrap().contains("other/one.txt"), "{other}");
    assert_eq!(other["findings"][0]["over"], "windows", "{}", other["findings"][0]);
    let heading = printed(&project, &both);
    assert!(heading.contains("4 windows of 1 document of the split"), "{heading}");
    assert!(heading.contains("errors are standard errors over windows"), "{heading}");
}

#[test]
fn rows_of_the_protocol_hold_what_explain_says() {
    let project = Project::new();
    let evaluate =
        "evaluate=[{ protocol = \"diagnostics\", lengths = [\"L\", \"4L\"], windows_per_document = 4 }]";
    project.train(&["--set", evaluate, "--set", "position={ kind = \"rope\" }"]);
    let rows: Vec<Value> = project.rows("runs/small-0/results.jsonl");
    let found = explained(&project, &["runs/small-0", "--lengths", "L,4L"]);
    for name in ["unseen_angles", "first_token", "effective_keys", "entropy", "beyond_length", "stable_rank"]
    {
        for length in [32, 128] {
            let is_here = |row: &&Value| row["extend"] == "direct" && row["length"] == length;
            let row = rows.iter().find(is_here).unwrap();
            let (here, there) = (row[name].as_f64().unwrap(), value(&found, name, length));
            assert!(
                (here - there).abs() <= 1e-6 * there.abs().max(1.0),
                "{name} at {length}: {here} and {there}"
            );
            assert!(row[format!("{name}_se")].is_number(), "{row}");
        }
    }
    project.ok(&["compare", "runs/small-0", "runs/small-0", "--metric", "first_token"]);
}
