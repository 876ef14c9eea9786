//! The second program of `examples/own-encoding`: its protocol and its metric are known to the whole command line.

use crate::common::Project;
use serde_json::Value;

/// The example, built from the same file.
const OWN: &str = env!("CARGO_BIN_EXE_longwave-own-measures");

fn project() -> Project {
    let project = Project::with_program(OWN);
    let config = project.text("small.toml");
    project.write("small.toml", &config.replace("windows_per_document = 2", "protocol = \"opening\""));
    project
}

#[test]
fn tables_and_rows_have_them() {
    let project = project();
    let table = project.train(&["--out", "run"]).stdout;
    let title = "Sure tokens in % of small (rope): opening, test split\nthe first tokens of each document; 96 to 192 tokens";
    assert!(table.starts_with(title), "{table}");
    assert!(table.contains("Perplexity of small (rope): opening, test split"), "{table}");
    for row in project.rows::<Value>("run/results.jsonl") {
        let sums = row["per_document"]["sure_tokens"].as_array().unwrap();
        let sure: u64 = sums.iter().map(|sum| sum.as_u64().unwrap()).sum();
        let share = row["sure"].as_f64().unwrap();
        assert!((share - sure as f64 / row["tokens"].as_f64().unwrap()).abs() < 1e-12, "{row}");
        assert_eq!((&row["protocol"], row["sure_se"].is_f64()), (&"opening".into(), true), "{row}");
        // One window of each of the three documents.
        assert_eq!(row["tokens"], 3 * row["length"].as_u64().unwrap());
    }
    let compared = project.run(&["compare", "run", "run", "--metric", "sure"]);
    assert!(compared.stdout.contains("sure"), "{}{}", compared.stdout, compared.stderr);
}

#[test]
fn messages_and_lists_name_them() {
    let project = project();
    let refused = |set: &str| project.refused(2, &["validate", "small.toml", "--set", set]);
    let protocol = refused("evaluate.protocol=openin");
    assert!(
        protocol.contains("it must be one of `fixed_target`") && protocol.contains("`task`, `opening`"),
        "{protocol}"
    );
    let key = refused("evaluate.windows_per_document=3");
    assert!(key.contains("it has no meaning for `protocol = \"opening\"`"), "{key}");
    project.refuses(2, &["compare", "a", "b", "--metric", "sur"], &["it must be one of `loss`", "`sure`"]);
    assert!(project.run(&["eval", "--help"]).stdout.contains("`opening`"));
    assert!(project.run(&["schema"]).stdout.contains("\"const\": \"opening\""));
}

#[test]
fn a_study_makes_claims_about_the_metric() {
    let project = project();
    project.write(
        "study.toml",
        "name = \"own\"\nbase = \"small.toml\"\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n\
         [[evaluate]]\nprotocol = \"opening\"\nlengths = [32, 64]\n[[claim]]\nsays = \"alibi > rope at 2L\"\n\
         metric = \"sure\"\nover = \"documents\"\n",
    );
    project.ok(&["study", "study.toml", "--devices", "cpu"]);
    let csv = project.text("runs/studies/own/results.csv");
    assert!(csv.lines().next().unwrap().contains(",sure,sure_se"), "{csv}");
    let study = project.text("runs/studies/own/study.md");
    assert!(study.contains("Sure tokens in %") && study.contains("alibi > rope at 2L"), "{study}");
}
