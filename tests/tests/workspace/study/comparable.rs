//! Verdicts compare only what compares: the same tokens, or bits per byte of the same text; and what is equal by construction once.

use super::study;
use crate::common::Project;
use crate::common::csv::Csv;
use serde_json::Value;
use std::collections::BTreeMap;

/// A study over tokenizers; `ranked` is its `best`.
fn tokenizers(ranked: &str, more: &str) -> String {
    format!(
        "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nthreads = 1\nbest = {ranked}\n[set]\ntrain = {{ steps = 4 }}\n\
         [[axis]]\nname = \"tokenizer\"\nkey = \"data.tokenizer\"\n\
         values = [{{ kind = \"bytes\" }}, {{ kind = \"bpe\", vocab_size = 270 }}]\n\
         [[evaluate]]\nlengths = [\"L\"]\nextend = [\"direct\"]\n{more}"
    )
}

/// The mean of a column over the rows of `direct` of each label, from `results.csv`.
fn means(project: &Project, label: &str, column: &str) -> BTreeMap<String, f64> {
    let csv = Csv::read(&project.text("runs/studies/two/results.csv"));
    let [label, column, extend] = [label, column, "extend"].map(|name| csv.place(name));
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in csv.lines.iter().filter(|row| row[extend] == "direct") {
        all.entry(row[label].clone()).or_default().push(row[column].parse().unwrap());
    }
    all.into_iter().map(|(label, values)| (label, values.iter().sum::<f64>() / values.len() as f64)).collect()
}

#[test]
fn losses_of_other_tokens_are_refused_and_bits_per_byte_are_ranked() {
    let project = Project::new();
    project.write("two.toml", &tokenizers("\"L\"", ""));
    let refused = study(&project, &["--dry-run"]).refused(2);
    insta::assert_snapshot!("a_ranking_over_tokenizers", refused);
    let claim = "[[claim]]\nsays = \"bytes < bpe vocab_size=270 at L\"\n";
    project.write("two.toml", &tokenizers("\"L\"", claim).replace("best = \"L\"\n", ""));
    let refused = study(&project, &["--dry-run"]).refused(2);
    insta::assert_snapshot!("a_claim_over_tokenizers", refused);
    let metric = "{ at = \"L\", metric = \"bits_per_byte\" }";
    project.write("two.toml", &tokenizers(metric, ""));
    let told = study(&project, &[]).done().stdout;
    let means = means(&project, "tokenizer", "bpb");
    assert_eq!(means.len(), 2, "{means:?}");
    let (best, _) = means.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    let first = told.lines().find(|line| line.starts_with("| 1 |")).unwrap_or_else(|| panic!("{told}"));
    assert!(first.contains(best.as_str()), "{first}, {means:?}");
    assert!(told.contains("seeds"), "{told}");
}

#[test]
fn other_corpora_are_never_ranked() {
    let project = Project::new();
    let words = "other words altogether, and more of them than before. ".repeat(60);
    for split in ["train", "valid", "test"] {
        for index in 0..3 {
            project.write(&format!("other/{split}/{index}.txt"), &words[index..]);
        }
    }
    for best in ["\"L\"", "{ at = \"L\", metric = \"bits_per_byte\" }"] {
        project.write(
            "two.toml",
            &format!(
                "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nbest = {best}\n[[axis]]\nkey = \"data.corpus\"\n\
                 values = [\"corpus\", \"other\"]\n[[evaluate]]\nlengths = [\"L\"]\nextend = [\"direct\"]\n"
            ),
        );
        study(&project, &["--dry-run"]).refuses(2, &["different text, `corpus` and `other`"]);
    }
}

/// `direct`, `linear` and `ntk` read texts of L tokens alike.
#[test]
fn readings_that_are_equal_by_construction_are_one() {
    let project = Project::new();
    project.write(
        "two.toml",
        "name = \"two\"\nbase = \"small.toml\"\nseeds = 3\nthreads = 1\nbest = \"L\"\n[set]\ntrain = { steps = 4 }\n\
         [[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n\
         [[evaluate]]\nlengths = [\"L\"]\nextend = [\"direct\", \"linear\", \"ntk\"]\nonly = { position = \"rope\" }\n\
         [[evaluate]]\nlengths = [\"L\"]\nextend = [\"direct\"]\nonly = { position = \"alibi\" }\n",
    );
    let told = study(&project, &[]).done().stdout;
    let ranking = told.split("## Best at L").nth(1).unwrap_or_else(|| panic!("{told}"));
    let rows =
        ranking.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).count();
    assert_eq!(rows, 2, "{told}");
    // One pair: nothing to correct.
    assert!(!ranking.contains("Holm's correction"), "{ranking}");
    let means = means(&project, "position", "nll");
    let (best, _) = means.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    assert!(ranking.contains(&format!("| 1 | {best}")), "{ranking} {means:?}");
}

#[test]
fn two_runs_of_other_tokenizers_are_compared_by_bits_per_byte() {
    let project = Project::new();
    project.train(&["--out", "a"]);
    project.train(&["--out", "b", "--set", "data.tokenizer={ kind = 'bpe', vocab_size = 270 }"]);
    project.run(&["compare", "a", "b"]).refuses(1, &["bits_per_byte"]);
    let rows = |run: &str| -> f64 {
        let rows: Vec<Value> = project.rows(&format!("{run}/results.jsonl"));
        let row = rows.iter().find(|row| row["extend"] == "direct" && row["length"] == 32);
        row.unwrap()["bpb"].as_f64().unwrap()
    };
    for metric in ["bits_per_byte", "bpb"] {
        let read = ["compare", "a", "b", "--lengths", "32", "--extend", "direct", "--json"];
        let line = &project.ok(&[&read[..], &["--metric", metric]].concat()).rows::<Value>()[0];
        let expected = rows("a") - rows("b");
        let found = line["difference"].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-9, "{line}: not {expected}");
        let [low, high] =
            [0, 1].map(|end| line["interval"][end].as_f64().unwrap_or_else(|| panic!("{line}")));
        assert!(low < expected && expected < high, "{line}");
        let bytes = |end: usize| line["bytes"][end].as_u64().unwrap();
        assert_eq!(line["same_tokens"], false, "{line}");
        assert!(bytes(0) > 0 && bytes(1) > 0, "{line}");
    }
}
