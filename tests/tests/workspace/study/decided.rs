//! Studies whose claims decide how many seeds there are, and studies within a time.

use super::{STUDY, project, study};
use crate::common::Project;
use crate::common::csv::Csv;

/// Looks after 3 and 6 seeds; the second claim compares what is equal at L, which nothing decides.
fn until_decided() -> String {
    let text = STUDY.replace("seeds = 2", "seeds = \"until decided\"\nmax_seeds = 6");
    format!("{text}\n[[claim]]\nsays = \"rope, linear < rope at 32\"\n")
}

fn study_md(project: &Project) -> String {
    project.text("runs/studies/two/study.md")
}

/// The seeds of the rows of an encoding in `results.csv`.
fn seeds(project: &Project, encoding: &str) -> Vec<String> {
    let csv = Csv::read(&project.text("runs/studies/two/results.csv"));
    let [seed, position] = ["seed", "position"].map(|name| csv.place(name));
    let of = csv.lines.iter().filter(|row| row[position] == encoding);
    let mut seeds: Vec<String> = of.map(|row| row[seed].clone()).collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

#[test]
fn only_claims_that_are_open_get_more_seeds() {
    let project = project(&until_decided());
    let plan = study(&project, &["--dry-run"]).done().stdout;
    assert!(plan.contains("at most 12 runs, 12 different, 6 to be done for the next look"), "{plan}");
    let outcome = study(&project, &[]).done();
    assert!(
        outcome.stderr.contains("0 of 2 claims decided; 6 runs before the next look"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("1 of 2 claims decided; 3 runs before the next look"),
        "{}",
        outcome.stderr
    );
    let text = study_md(&project);
    assert!(text.contains("9 runs finished of at most 12.\n"), "{text}");
    assert!(
        text.contains(
            "Claims are judged after 3 and 6 seeds until they are decided, each time with 1/2 of the 5%"
        ),
        "{text}"
    );
    assert_eq!(seeds(&project, "alibi"), ["0", "1", "2"]);
    assert_eq!(seeds(&project, "rope"), ["0", "1", "2", "3", "4", "5"]);
    let row = |says: &str| text.lines().find(|line| line.contains(says)).unwrap().to_owned();
    let decided = row("rope = alibi at 64");
    assert!(decided.contains("**holds**") && decided.contains(" 3, "), "{decided}");
    let open = row("rope, linear < rope at 32");
    assert!(open.contains("**undecided**") && open.contains(" 6, "), "{open}");
    // Once more there is nothing to do.
    let again = study(&project, &[]).done();
    assert!(!again.stderr.contains("look      "), "{}", again.stderr);
    assert_eq!(study_md(&project), text);
    let needs = study(&project, &["--dry-run"]).done().stdout;
    assert!(needs.contains("What the claims need") && needs.contains("decided"), "{needs}");
    assert!(needs.contains("more than 10000"), "{needs}");
}

#[test]
fn what_is_shown_does_not_hang_on_seeds_of_other_studies() {
    // One claim that three seeds decide, and a ranking.
    let text = STUDY.replace("seeds = 2", "seeds = \"until decided\"\nmax_seeds = 6\nbest = \"2L\"");
    let alone = project(&text);
    study(&alone, &[]).done();
    let shared = project(&STUDY.replace("seeds = 2", "seeds = 6").replace("\"two\"", "\"other\""));
    study(&shared, &[]).done();
    shared.write("two.toml", &text);
    study(&shared, &[]).done();
    assert_eq!(study_md(&shared), study_md(&alone));
    assert_eq!(seeds(&shared, "rope"), ["0", "1", "2"]);
    assert!(study_md(&alone).contains("(at 5% over 2 looks of the claims, "), "{}", study_md(&alone));
    assert!(!study_md(&alone).contains("of 6 seeds"), "no seed was lost");
}

#[test]
fn before_the_first_look_an_interval_has_the_level_that_it_names() {
    let text = STUDY.replace("seeds = 2", "seeds = \"until decided\"\nmax_seeds = 12");
    let project = project(&text);
    // Two of three seeds, by a study with as many.
    project.write("two.toml", &STUDY.replace("\"two\"", "\"pilot\""));
    study(&project, &[]).done();
    project.write("two.toml", &text);
    let told = study(&project, &["--collect"]).done().stdout;
    let row = told.lines().find(|line| line.starts_with("| rope = alibi at 64")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let (ends, level) = cells[5].split_once(" (").unwrap();
    assert!(cells[2] == "**undecided**" && level.starts_with("98.75%"), "{row}");
    let ends: Vec<f64> = ends.split(" to ").map(|end| end.parse().unwrap()).collect();
    // Of two numbers the error is half of what they differ by, and t with one degree of freedom is Cauchy's: its quantile at 99.375% is
    // the tangent of 0.49375 pi, 50.92. At 95% it is 12.71.
    let losses: Vec<f64> = ["rope", "alibi"].map(|name| of_two_seeds(&project, name)).concat();
    let (first, second) = (losses[0] - losses[2], losses[1] - losses[3]);
    let reach = (first - second).abs() / 2.0 * (0.49375 * std::f64::consts::PI).tan();
    assert!((ends[1] - ends[0] - 2.0 * reach).abs() < 3e-4, "{row}: {reach}");
}

/// The loss at 64 as trained, of the first two seeds of the pilot.
fn of_two_seeds(project: &Project, encoding: &str) -> Vec<f64> {
    let csv = Csv::read(&project.text("runs/studies/pilot/results.csv"));
    let length = csv.place("length");
    let rows = csv.lines.iter().filter(|row| row[..2] == [encoding, "direct"] && row[length] == "64");
    rows.map(|row| row[csv.place("nll")].parse().unwrap()).collect()
}

#[test]
fn a_pilot_says_how_many_seeds_a_claim_needs() {
    let pilot = format!("{STUDY}\n[[claim]]\nsays = \"rope < alibi at 64\"\ntolerance = 0.001\n");
    let project = project(&pilot.replace("tolerance = 100.0", "tolerance = 1e-9"));
    let before = study(&project, &["--dry-run"]).done().stdout;
    assert!(!before.contains("What the claims need"), "{before}");
    study(&project, &["--set", "seeds=1"]).done();
    let one = study(&project, &["--dry-run"]).done().stdout;
    assert!(one.contains("unknown") && one.contains("fewer than two seeds are finished"), "{one}");
    study(&project, &[]).done();
    let two = study(&project, &["--dry-run"]).done().stdout;
    assert!(two.contains("with probability 80%") && two.contains("rope < alibi at 64"), "{two}");
    assert!(two.contains("about ") || two.contains("decided"), "{two}");
    // Two seeds leave a claim open, and the report says the same of it.
    let row = two.lines().find(|line| line.trim_start().starts_with("rope < alibi at 64")).unwrap();
    let is_number = |cell: &&str| cell.starts_with("about") || cell.starts_with("more");
    let needed = row.split("  ").map(str::trim).find(is_number).unwrap();
    let (report, said) = (study_md(&project), format!("`rope < alibi at 64`: {needed}"));
    assert!(
        report.contains("Seeds that decide an undecided claim") && report.contains(&said),
        "{row}\n{report}"
    );
}

#[test]
fn a_budget_holds_whole_seeds_or_is_refused() {
    let project = project(STUDY);
    study(&project, &["--budget", "0.01s"]).refuses(2, &["the first 2 runs take about"]);
    let plan = study(&project, &["--dry-run", "--budget", "1h"]).done().stdout;
    assert!(plan.contains("a budget of 1.0 hours holds it"), "{plan}");
    let plan = study(&project, &["--dry-run", "--budget", "0.01s"]).done().stdout;
    assert!(plan.contains("holds 0 of 2 seeds: 0 runs"), "{plan}");
    let outcome = study(&project, &["--budget", "1h"]).done();
    assert!(outcome.stderr.contains("budget    a budget of 1.0 hours holds it"), "{}", outcome.stderr);
    assert!(study_md(&project).contains("4 of 4 runs finished."));
    // One run is as long with any number at a time.
    project.write("one.toml", "name = \"one\"\nbase = \"small.toml\"");
    let plan = project.ok(&["study", "one.toml", "--dry-run"]).stdout;
    assert!(plan.contains(" for one run\n") && !plan.contains("at a time"), "{plan}");
    study(&project, &["--budget", "3"]).refuses(2, &["it is a time such as `45m`"]);
    study(&project, &["--budget", "3h", "--launcher", "slurm"]).refuses(2, &["plans for this machine"]);
}

#[test]
fn threads_are_those_that_this_machine_is_fastest_with() {
    let project =
        project(&STUDY.replace("threads = 1", "threads = \"auto\"").replace("seeds = 2", "seeds = 1"));
    let outcome = study(&project, &[]).done();
    let probes: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(" tokens/s in all")).collect();
    assert!(!probes.is_empty() && probes[0].contains("with 1 threads"), "{}", outcome.stderr);
    assert!(study_md(&project).contains("2 of 2 runs finished."));
    study(&project, &["--launcher", "slurm"]).refuses(2, &["the launcher has other machines"]);
}
