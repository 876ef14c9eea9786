//! `[[correlation]]`, and claims about diagnostics: the numbers again from the rows, by a program of their own.

use super::{project, study};
use crate::common::csv::Csv;
use std::cmp::Ordering;
use std::collections::BTreeMap;

const STUDY: &str = r#"
name = "two"
base = "small.toml"
seeds = 3
threads = 1

[[axis]]
name = "model"
points = [
    { label = "slow", position = { kind = "rope" } },
    { label = "fast", position = { kind = "rope", base = 32.0 } },
]

[[evaluate]]
protocol = "diagnostics"
lengths = ["L", "2L", "4L"]
extend = ["direct", "linear"]
windows_per_document = 2

[[claim]]
says = "slow > fast at 4L"
metric = "unseen_angles"

[[correlation]]
of = ["unseen_angles", "first_token"]
"#;

/// Ranks from 1, those alike with their mean, by counting.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let rank = |x: &f64| {
        let below = numbers.iter().filter(|other| *other < x).count() as f64;
        let alike =
            numbers.iter().filter(|other| other.partial_cmp(&x) == Some(Ordering::Equal)).count() as f64;
        below + f64::midpoint(1.0, alike)
    };
    numbers.iter().map(rank).collect()
}

fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = f64::midpoint(1.0, a.len() as f64);
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt()
}

#[test]
fn rank_correlations_are_those_of_the_rows() {
    let project = project(STUDY);
    let outcome = study(&project, &[]).done();
    let csv = Csv::read(&project.text("runs/studies/two/results.csv"));
    let mut readings: BTreeMap<[String; 3], BTreeMap<u32, [f64; 3]>> = BTreeMap::new();
    for line in &csv.lines {
        let at = |name: &str| line[csv.place(name)].clone();
        if at("extend") != "window_baseline" {
            let values = ["unseen_angles", "first_token", "nll"].map(|name| at(name).parse().unwrap());
            let key = [at("model"), at("seed"), at("extend")];
            readings.entry(key).or_default().insert(at("length").parse().unwrap(), values);
        }
    }
    assert_eq!(readings.len(), 12);
    let mut points = [const { Vec::new() }; 3];
    for lengths in readings.values() {
        for length in [64, 128] {
            for (metric, points) in points.iter_mut().enumerate() {
                points.push(lengths[&length][metric] - lengths[&32][metric]);
            }
        }
    }
    let table = outcome
        .stdout
        .split("## What predicts `loss` past L")
        .nth(1)
        .unwrap_or_else(|| panic!("{}", outcome.stdout));
    assert!(table.contains("over 24 readings of 6 runs above L"), "{table}");
    for (metric, name) in ["`unseen_angles`", "`first_token`"].into_iter().enumerate() {
        let line = table.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let expected = spearman(&points[metric], &points[2]);
        let found: f64 = cells[2].parse().unwrap();
        assert!((found - expected).abs() < 0.0051, "{name}: {found} for {expected}");
        let (ends, level) = cells[3].split_once(" (").unwrap();
        let ends: Vec<f64> = ends.split(" to ").map(|end| end.parse().unwrap()).collect();
        assert!(ends[0] <= found && found <= ends[1] && level.ends_with("%)"), "{line}");
    }
    assert!(table.contains("| \\|`unseen_angles`\\| less \\|`first_token`\\| |"), "{table}");
    // Of 8 bands at the base of 32 the slowest turns less than once within L as well, but fewer do.
    let claim = outcome.stdout.lines().find(|line| line.contains("slow > fast at 4L")).unwrap();
    assert!(claim.contains("holds"), "{claim}");
    let page = project.text("runs/studies/two/report/report.html");
    assert!(page.contains("What predicts"), "the page shows it");
}

#[test]
fn a_claim_about_what_an_encoding_lacks_leaves_the_others_judged() {
    let with_none =
        STUDY.replace("position = { kind = \"rope\", base = 32.0 }", "position = { kind = \"none\" }");
    let with_none = with_none.replace("extend = [\"direct\", \"linear\"]", "extend = [\"direct\"]");
    let other = "[[claim]]\nsays = \"slow = fast at L\"\ntolerance = 100.0\n";
    let project = project(&(with_none.split("[[correlation]]").next().unwrap().to_owned() + other));
    let told = study(&project, &[]).done().stdout;
    let row = |says: &str| told.lines().find(|line| line.contains(says)).unwrap().to_owned();
    assert!(row("| slow > fast at 4L").contains("**undecided**"), "{told}");
    assert!(row("| slow = fast at L").contains("**holds**"), "{told}");
    let why = "`slow > fast at 4L (unseen_angles)` was not judged: no row of `fast` that it is about holds `unseen_angles`.";
    assert!(told.contains(why), "{told}");
    assert!(project.exists("runs/studies/two/results.csv"));
}

#[test]
fn a_metric_that_no_row_holds_is_refused() {
    let told = |study: &str| {
        let project = project(study);
        super::study(&project, &["--dry-run"]).refused(2)
    };
    insta::assert_snapshot!(told(
        &STUDY.replace("protocol = \"diagnostics\"", "protocol = \"fixed_target\"")
    ));
    insta::assert_snapshot!(told(&STUDY.replace(
        "of = [\"unseen_angles\", \"first_token\"]",
        "of = [\"first_token\"]\nprotocol = \"sliding\""
    )));
    insta::assert_snapshot!(told(&STUDY.replace("of = [\"unseen_angles\"", "of = [\"unseen_angels\"")));
}
