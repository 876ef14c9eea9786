//! Key tokens as a user meets them: chosen by one run, scored in others.

use crate::common::Project;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// A run on texts of 128 tokens, and two seeds of one on texts of 32.
fn trained() -> Project {
    static TRAINED: OnceLock<Project> = OnceLock::new();
    Project::copy_of(&TRAINED, |project| {
        let long = ["--set", "train.length=128", "--set", "train.batch_tokens=512", "--set", "evaluate=[]"];
        project.train(&[&long[..], &["--out", "long"]].concat());
        for seed in ["0", "1"] {
            let set = format!("seed={seed}");
            project.train(&["--set", &set, "--set", "evaluate=[]", "--out", &format!("small-{seed}")]);
        }
    })
}

/// The loss of every scored token, by document and place, where the run is read as trained.
fn losses(project: &Project, arguments: &[&str]) -> BTreeMap<(String, u64), f64> {
    project
        .ok(&[&["eval"], arguments, &["--extend", "direct", "--tokens", "losses.jsonl", "--json"]].concat());
    let lines: Vec<Value> = project.rows("losses.jsonl");
    // Other losses would not be written over it.
    std::fs::remove_file(project.path("losses.jsonl")).unwrap();
    let lines = lines.into_iter().filter(|line| line["extend"] == "direct");
    lines
        .map(|line| {
            let place = (line["document"].as_str().unwrap().to_owned(), line["position"].as_u64().unwrap());
            (place, line["nll"].as_f64().unwrap())
        })
        .collect()
}

/// The places of a file, by the number of the document.
fn places(project: &Project, file: &str) -> Vec<BTreeSet<u64>> {
    let file = project.json(file);
    let key = |document: &Value| {
        document["key"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect()
    };
    file["documents"].as_array().unwrap().iter().map(key).collect()
}

#[test]
fn a_longer_context_chooses_them_and_other_runs_are_scored_on_them() {
    let project = trained();
    // The short context is an eighth of what the run was trained on, and moves by a quarter of that.
    let choice = ["key-tokens", "long", "keys.json", "--alpha", "0", "--beta", "-100"];
    let told = project.ok(&choice).stdout;
    assert!(
        told.starts_with("Key tokens of corpus, test split, by small (last checkpoint, step 6)\n"),
        "{told}"
    );
    assert!(told.contains(
        "of up to 128 tokens in place of 16 to 19, lowers their loss by more than 0 nats to below 100"
    ));
    let key = places(&project, "keys.json");
    // The protocol `sliding` reads as both contexts do.
    let sliding = |length| {
        let set = ["--protocol", "sliding", "--set", "stride=4", "--lengths", length];
        losses(&project, &[&["long"], &set[..]].concat())
    };
    let (short, long) = (sliding("19"), sliding("128"));
    let names: BTreeSet<&String> = short.keys().map(|(document, _)| document).collect();
    assert_eq!(names.len(), key.len());
    let mut compared = 0;
    for (key, name) in key.iter().zip(names) {
        for ((_, place), long) in
            long.iter().filter(|((document, place), _)| document == name && *place >= 16)
        {
            let Some(short) = short.get(&(name.clone(), *place)) else { continue };
            // Other batches round in other ways.
            if (short - long).abs() > 1e-5 {
                assert_eq!(key.contains(place), short > long, "{name} {place}: {short} and {long}");
                compared += 1;
            }
        }
        assert!(key.iter().all(|place| *place >= 16));
    }
    assert!(compared > 1000, "{compared}");
    // A model's loss over them is the mean over those that the protocol scores.
    let windows = ["--protocol", "non_overlapping", "--lengths", "L,2L"];
    let all = losses(&project, &["small-0", "--protocol", "non_overlapping", "--lengths", "2L"]);
    let set = ["--set", "tokens=key", "--set", "key_tokens=keys.json"];
    let rows: Vec<Value> = project.ok(&[&["eval", "small-0", "--json"], &windows[..], &set].concat()).rows();
    let row = rows.iter().find(|row| row["extend"] == "direct" && row["length"] == 64).unwrap();
    let names: Vec<&String> =
        all.keys().map(|(document, _)| document).collect::<BTreeSet<_>>().into_iter().collect();
    let of = |(document, place): &(String, u64)| {
        key[names.iter().position(|name| *name == document).unwrap()].contains(place)
    };
    let scored: Vec<f64> = all.iter().filter(|(place, _)| of(place)).map(|(_, loss)| *loss).collect();
    let mean = scored.iter().sum::<f64>() / scored.len() as f64;
    assert_eq!(row["tokens"], scored.len());
    assert!((row["nll"].as_f64().unwrap() - mean).abs() < 1e-5, "{} and {mean}", row["nll"]);
    assert_eq!(row["key_tokens_file"], "keys.json");
    assert_eq!(row["key_tokens"].as_str().unwrap().len(), 16);
    // Tables keep them apart, and two runs are compared on the same tokens.
    let table = project.ok(&[&["eval", "small-0"], &windows[..], &set].concat()).stdout;
    assert!(table.contains("test split, key tokens"), "{table}");
    assert!(table.contains("(LongPPL)"), "{table}");
    project.ok(&[&["eval", "small-1"], &windows[..], &set].concat());
    let compared: Vec<Value> =
        project.ok(&["compare", "small-0", "small-1", "--json", "--extend", "direct"]).rows();
    assert!(!compared.is_empty());
    assert!(compared.iter().all(|one| one["difference"].is_number()), "{compared:?}");
    // Only one of the two was read on all tokens.
    assert!(compared.iter().all(|one| one["tokens"] != all.len()), "{compared:?}");
}

#[test]
fn what_they_are_not_for_is_refused() {
    let project = trained();
    let choice = ["key-tokens", "long", "keys.json", "--alpha", "-100", "--beta", "-100"];
    project.ok(&choice);
    let set = ["--set", "tokens=key", "--set", "key_tokens=keys.json"];
    let refused = |arguments: &[&str], code, part: &str| {
        let told = project.refused(code, arguments);
        assert!(told.contains(part) && told.contains("hint: "), "{part}: {told}");
    };
    refused(
        &[&["eval", "long"], &set[..]].concat(),
        2,
        "`small` chose these key tokens, and no model is scored by its own choice",
    );
    refused(
        &[&["eval", "small-0", "--split", "train"], &set[..]].concat(),
        2,
        "it is about another text, the test split of `corpus`",
    );
    let tokenizer = "data.tokenizer={ kind = \"bpe\", vocab_size = 270 }";
    project.train(&["--set", tokenizer, "--set", "evaluate=[]", "--out", "other"]);
    refused(
        &[&["eval", "other"], &set[..]].concat(),
        2,
        "its places are those of another tokenizer's tokens",
    );
    refused(
        &["eval", "small-0", "--set", "tokens=key"],
        2,
        "`eval.key_tokens` must name the file of key tokens",
    );
    refused(
        &["eval", "small-0", "--set", "key_tokens=keys.json"],
        2,
        "it has no meaning without `tokens = \"key\"`",
    );
    refused(
        &[&["eval", "small-0", "--protocol", "repeated_text"], &set[..]].concat(),
        2,
        "reads no text as it was written",
    );
    refused(&["eval", "small-0", "--set", "tokens=key", "--set", "key_tokens=none.json"], 2, "none.json");
    refused(&choice, 2, "`keys.json` exists");
    refused(&["key-tokens", "long", "more.json", "--short", "L"], 2, "`--short = 128` is not allowed");
    refused(&["key-tokens", "long", "more.json", "--alpha", "1000"], 1, "is a key token");
    assert!(!project.exists("more.json"));
    let table = project.text("keys.json");
    project.write("cut.json", &table[..table.len() / 2]);
    refused(
        &["eval", "small-0", "--set", "tokens=key", "--set", "key_tokens=cut.json"],
        1,
        "`cut.json` is no file of key tokens",
    );
}

#[test]
fn a_claim_of_a_study_may_be_about_them_alone() {
    let project = trained();
    project.ok(&["key-tokens", "long", "keys.json", "--alpha", "0", "--beta", "-100"]);
    let block = "[[evaluate]]\nlengths = [\"L\", \"2L\"]\nwindows_per_document = 2\n";
    let claim = "[[claim]]\nsays = \"rope = alibi at 2L\"\ntolerance = 9.0\n";
    project.write(
        "keys.toml",
        &format!(
            "name = \"keys\"\nbase = \"small.toml\"\nseeds = 2\nthreads = 1\n[[axis]]\nkey = \"position\"\n\
             values = [\"rope\", \"alibi\"]\n{block}{block}tokens = \"key\"\nkey_tokens = \"keys.json\"\n\
             {claim}tokens = \"key\"\n{claim}tokens = \"all\"\n"
        ),
    );
    project.ok(&["study", "keys.toml"]);
    let text = project.text("runs/studies/keys/study.md");
    assert!(text.contains("test split, key tokens"), "{text}");
    let csv = project.text("runs/studies/keys/results.csv");
    let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|it| *it == name).unwrap();
    let key = column("key_tokens_file");
    assert!(csv.lines().any(|line| line.contains(",keys.json,")) && names[key] == "key_tokens_file", "{csv}");
    // Each claim has the difference of its own rows.
    let differences: Vec<&str> = text.lines().filter(|line| line.contains("rope = alibi at 2L")).collect();
    assert!(differences.len() >= 2 && differences[0] != differences[1], "{text}");
}
