//! Verdicts compare only what compares: the same tokens, or bits per byte of the same text.

use super::study;
use crate::common::Project;
use crate::common::csv::Csv;
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

#[test]
fn two_evaluations_of_one_protocol_are_two_measurements() {
    let project = Project::new();
    let read = |windows: u32| {
        format!("[[evaluate]]\nlengths = [32]\nextend = [\"direct\"]\nwindows_per_document = {windows}\n")
    };
    project.write(
        "two.toml",
        &format!(
            "name = \"two\"\nbase = \"small.toml\"\nseeds = 2\nthreads = 1\n[set]\ntrain = {{ steps = 4 }}\n\
             [[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n{}{}\
             [[claim]]\nsays = \"rope < alibi at 32\"\ntolerance = 9\n",
            read(2),
            read(1)
        ),
    );
    let told = study(&project, &[]).done().stdout;
    // Both encodings with two seeds, each read twice.
    let csv = Csv::read(&project.text("runs/studies/two/results.csv"));
    let [position, extend, windows, nll] =
        ["position", "extend", "windows_per_document", "nll"].map(|name| csv.place(name));
    let of = |encoding: &str, number: &str| -> Vec<f64> {
        let is_of = |row: &&Vec<String>| {
            row[position] == encoding && row[extend] == "direct" && row[windows] == number
        };
        let rows = csv.lines.iter().filter(is_of);
        rows.map(|row| row[nll].parse().unwrap()).collect()
    };
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    for (number, encoding) in [("2", "rope"), ("1", "rope"), ("2", "alibi"), ("1", "alibi")] {
        let losses = of(encoding, number);
        assert_eq!(losses.len(), 2);
        let cell = format!("| {encoding} | direct | {:.1} ", mean(&losses).exp());
        assert!(told.contains(&cell), "{cell}\n{told}");
    }
    // The claim is about the first, and a seed is one pair.
    let difference = mean(&of("rope", "2")) - mean(&of("alibi", "2"));
    let line = told
        .lines()
        .find(|line| line.starts_with("| rope < alibi at 32 |"))
        .unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(&format!("| {difference:+.4} |")), "{difference}\n{line}");
    assert!(line.contains("| 2, "), "{line}");
}
