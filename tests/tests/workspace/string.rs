//! STRING: rarely trained distances are read closer, and the ones that no training showed are rejected.

use crate::common::{CONFIG, Project, row_of};
use longwave_eval::ResultRow;

#[test]
fn texts_of_the_training_length_are_read_and_longer_ones_only_when_asked() {
    let project = Project::new();
    project.write(
        "small.toml",
        &CONFIG.replace("extend = [\"direct\", \"linear\", \"ntk\"]", "extend = [\"direct\"]"),
    );
    project.ok(&["train", "--config", "small.toml", "--out", "run"]);
    let rows = |arguments: &[&str]| -> Vec<ResultRow> {
        project.ok(&[&["eval", "run", "--json"], arguments].concat()).rows()
    };
    let at_train = rows(&["--lengths", "L", "--extend", "direct,string"]);
    let nll = |rows: &[ResultRow], kind: &str| row_of(rows, kind, 32).nll().to_bits();
    assert_ne!(nll(&at_train, "direct"), nll(&at_train, "string"));
    let keys = &row_of(&at_train, "string", 32).extend_config;
    assert_eq!((&keys["shift"], &keys["local"]), (&"L/3".into(), &"L/16".into()));
    // A local value just below the shift, and no factor: all but one distance in two is as trained.
    let whole = "{ kind = 'string', shift = 'L', local = 0, attention_factor = 1.0 }";
    let same = rows(&["--lengths", "L", "--extend", "direct", "--extend", whole]);
    assert_eq!(nll(&same, "direct"), nll(&same, "string"));
    let outcome = project.refused(2, &["eval", "run", "--lengths", "2L", "--extend", "string"]);
    let message =
        "`shift = 10` is not allowed: `string` then reads distances up to 55 in a text of 64 tokens";
    assert!(outcome.contains(message), "{outcome}");
    assert!(outcome.contains("at most L + shift - local = 40 tokens"), "{outcome}");
    rows(&["--lengths", "2L", "--extend", "{ kind = 'string', allow_untrained = true }"]);
}

#[test]
fn a_local_value_is_below_the_shift() {
    let project = Project::new();
    for (keys, message) in [
        ("shift = 8, local = 8", "`local = 8` is not allowed: it must be below `shift`, 8 tokens"),
        ("local = -1", "`evaluate[0].extend[0].local = -1` is not allowed"),
        ("attention_factor = 0", "`evaluate[0].extend[0].attention_factor = 0` is not allowed"),
    ] {
        let extend = format!("evaluate.extend=[{{ kind = \"string\", {keys} }}]");
        project.refuses(2, &["train", "--config", "small.toml", "--set", &extend], &[message, "hint: "]);
    }
}
