//! Which reading is the best at one length: one file and one command answer it with one table and one sentence.

use super::{STUDY, project, store, study};
use crate::common::Project;
use std::path::Path;

/// The shipped example, with the small model of the tests in place of its base.
fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/best-at-8L.toml");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.lines().count() <= 12, "the question takes twelve lines at most");
    text.replace("rope.toml", "small.toml")
}

/// Cells of the rows of the ranking, and the sentence below it.
fn answer(printed: &str) -> (Vec<Vec<String>>, String) {
    let section = printed.split("## Best at 8L").nth(1).unwrap_or_else(|| panic!("{printed}"));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| place") && !line.starts_with("| ---"));
    (rows.map(cells).collect(), section.trim().lines().last().unwrap().to_owned())
}

#[test]
fn a_question_of_twelve_lines_has_one_table_and_one_sentence() {
    let project = Project::new();
    project.write("two.toml", &example());
    let outcome = study(&project, &[]).done();
    let (rows, sentence) = answer(&outcome.stdout);
    let tables = outcome.stdout.lines().filter(|line| line.starts_with("| ---"));
    assert_eq!(tables.count(), 1, "one table: {}", outcome.stdout);
    let whole = project.text("runs/studies/best-at-8L/study.md");
    assert!(whole.contains("## Perplexity, fixed_target"), "{whole}");
    let mut names: Vec<&str> = rows.iter().map(|row| row[2].as_str()).collect();
    let best = names[0].to_owned();
    names.sort_unstable();
    assert_eq!(names, ["alibi", "fox", "rope, yarn"], "{}", outcome.stdout);
    let number = |cell: &String| -> f64 { cell.split(' ').next().unwrap().parse().unwrap() };
    let values: Vec<f64> = rows.iter().map(|row| number(&row[3])).collect();
    assert!(values.is_sorted(), "best first: {values:?}");
    // Each with its spread over seeds, and with what a longer context must beat.
    assert!(rows.iter().all(|row| row[3].contains(" ±") && number(&row[4]) > 1.0), "{rows:?}");
    assert_eq!((rows[0][5].as_str(), rows[0][7].as_str()), ("-", "-"));
    let p: Vec<f64> = rows[1..].iter().map(|row| row[7].parse().unwrap()).collect();
    assert!(rows[1..].iter().all(|row| row[6].contains(" to ")), "{rows:?}");
    // The best is called so only where every difference is significant.
    let is_best = p.iter().all(|p| *p < 0.05);
    let begins = if is_best { "is the best at 8L: " } else { "has the lowest perplexity at 8L: " };
    assert!(sentence.starts_with(&format!("`{best}` {begins}it is ")), "{sentence}");
    assert!(sentence.ends_with("(at 5%, Holm's correction for all 3 pairs, 3 seeds)."), "{sentence}");
    for (row, p) in rows[1..].iter().zip(p) {
        let (name, is_worse) = (format!("`{}`", row[2]), p < 0.05);
        let better = sentence.split("not significantly better").next().unwrap();
        assert_eq!(better[begins.len()..].contains(&name), is_worse, "{sentence}");
    }
    // With one seed the pairs are documents.
    let one = study(&project, &["--set", "seeds=1", "--out", "one"]).done();
    let sentence = answer(&one.stdout).1;
    assert!(sentence.contains("3 pairs, 1 seed, paired by document)."), "{sentence}");
    assert!(sentence.ends_with("It cannot show that other trainings would."), "{sentence}");
    // What is measured beside the ranking is printed too.
    let lengths = example().replacen("lengths = [\"8L\"]", "lengths = [\"4L\", \"8L\"]", 1);
    project.write("two.toml", &lengths);
    let more = study(&project, &["--set", "seeds=1", "--out", "more"]).done().stdout;
    assert!(more.contains("## Perplexity, fixed_target") && more.contains("## Best at 8L"), "{more}");
}

#[test]
fn a_length_at_which_nothing_is_compared_is_refused() {
    let project = Project::new();
    project.write("two.toml", &example());
    for (set, told) in [
        ("best=16L", "`best = \"16L\"` is not allowed: no evaluation reads at this length"),
        ("best=far", "`best = \"far\"` is not allowed"),
    ] {
        study(&project, &["--dry-run", "--set", set]).refuses(2, &[told]);
    }
    let outcome = study(&project, &["--dry-run", "--set", "best=16L"]);
    assert!(outcome.stderr.contains("hint: evaluations read at 256 tokens"), "{}", outcome.stderr);
}

#[test]
fn set_changes_the_study_and_its_runs() {
    let project = project(STUDY);
    study(&project, &["--set", "train.steps=3", "--set", "seeds=1"]).done();
    let keys = store(&project).keys().unwrap();
    assert_eq!(keys.len(), 2);
    for key in &keys {
        let config = std::fs::read_to_string(store(&project).run(key).join("config.toml")).unwrap();
        // The rest of `[set]` stays.
        assert!(config.contains("steps = 3\n") && config.contains("checkpoint_every = 2\n"), "{config}");
    }
    for (set, told) in [
        ("position=fox", "`set.position = \"fox\"` is not allowed: the axis `position` sets it in every run"),
        ("seed=3", "`set.seed = 3` is not allowed: it would have no effect"),
        ("train.stepps=3", "unknown key `train.stepps`"),
        ("train", "has no `=`"),
    ] {
        study(&project, &["--dry-run", "--set", set]).refuses(2, &[told]);
    }
    // A claim has no room below 0 for an error.
    project.write("two.toml", &STUDY.replace("tolerance = 100.0", "tolerance = -1.0"));
    study(&project, &["--dry-run"]).refuses(2, &["`claim[0].tolerance = -1` is not allowed"]);
}

#[test]
fn a_dry_run_tells_training_from_evaluation() {
    let project = project(STUDY);
    let before = study(&project, &["--dry-run"]).done().stdout;
    assert!(before.contains("4 to be done (4 trainings to do)"), "{before}");
    study(&project, &[]).done();
    let windows = STUDY.replacen("windows_per_document = 2", "windows_per_document = 1", 1);
    project.write("two.toml", &windows);
    let after = study(&project, &["--dry-run"]).done().stdout;
    assert!(after.contains("4 to be done (trained; 4 evaluations to do): 0.0k training tokens"), "{after}");
    assert_eq!(after.lines().filter(|line| line.contains("  trained ")).count(), 4, "{after}");
}

#[test]
fn studies_of_too_many_runs_are_refused_at_once() {
    let axis = |key: &str| {
        let values: Vec<String> = (1..=1000).map(|value| value.to_string()).collect();
        format!("[[axis]]\nkey = \"{key}\"\nvalues = [{}]\n", values.join(", "))
    };
    let axes = ["train.steps", "train.warmup", "train.batch_tokens", "model.width"].map(axis).concat();
    for text in [
        format!("name = \"two\"\nbase = \"small.toml\"\n{axes}"),
        "name = \"two\"\nbase = \"small.toml\"\nseeds = 1000000000000".to_owned(),
    ] {
        study(&project(&text), &["--dry-run"]).refuses(2, &["at most 100000 are allowed"]);
    }
}
