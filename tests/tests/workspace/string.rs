//! STRING: rarely trained distances are read closer, and the ones that no training showed are rejected.

use crate::common::{CONFIG, Project};
use serde_json::Value;

#[test]
fn texts_of_the_training_length_are_read_and_longer_ones_only_when_asked() {
    let project = Project::new();
    project.write(
        "small.toml",
        &CONFIG.replace("extend = [\"direct\", \"linear\", \"ntk\"]", "extend = [\"direct\"]"),
    );
    assert_eq!(project.run(&["train", "--config", "small.toml", "--out", "run"]).code, Some(0));
    let rows = |arguments: &[&str]| -> Vec<Value> {
        let outcome = project.run(&[&["eval", "run", "--json"], arguments].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of = |rows: &[Value], kind: &str| rows.iter().find(|row| row["extend"] == kind).unwrap().clone();
    let at_train = rows(&["--lengths", "L", "--extend", "direct,string"]);
    let (plain, string) = (of(&at_train, "direct"), of(&at_train, "string"));
    assert_ne!(plain["nll"], string["nll"]);
    let keys = &string["extend_config"];
    assert_eq!((&keys["shift"], &keys["local"]), (&"L/3".into(), &"L/16".into()));
    // A local value just below the shift, and no factor: all but one distance in two is as trained.
    let whole = "{ kind = 'string', shift = 'L', local = 0, attention_factor = 1.0 }";
    let same = rows(&["--lengths", "L", "--extend", "direct", "--extend", whole]);
    assert_eq!(of(&same, "direct")["nll"], of(&same, "string")["nll"]);
    let outcome = project.run(&["eval", "run", "--lengths", "2L", "--extend", "string"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let message =
        "`shift = 10` is not allowed: `string` then reads distances up to 55 in a text of 64 tokens";
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("at most L + shift - local = 40 tokens"), "{}", outcome.stderr);
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
        let outcome = project.run(&["train", "--config", "small.toml", "--set", &extend]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    }
}
