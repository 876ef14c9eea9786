//! What a study may say, and how it is told what it may not.

use super::*;

const BASE: &str = "name = \"b\"\nseed = 4\n[data]\ncorpus = \"c\"\n[position]\nkind = \"rope\"\n\
                    base = 100.0\n[train]\nsteps = 6\n[[evaluate]]\nlengths = [128]";

fn study(text: &str) -> Result<Study> {
    let text = format!("name = \"s\"\nbase = \"b.toml\"\n{text}");
    Study::from_table(text.parse().unwrap(), &|_| Ok(BASE.parse().unwrap()))
}

fn message(text: &str) -> String {
    study(text).unwrap_err().to_string()
}

#[test]
fn set_changes_key_by_key_and_a_kind_replaces() {
    let found = study("[set]\ntrain.length = 64\nposition = { kind = \"alibi\" }").unwrap();
    assert_eq!(found.base["train"].to_string(), "{ steps = 6, length = 64 }");
    assert_eq!(found.base["position"].to_string(), "{ kind = \"alibi\" }");
    assert_eq!(found.evaluations.len(), 1);
    assert!(!found.base.contains_key("seed") && !found.base.contains_key("evaluate"));
    assert_eq!(found.seeds, [0]);
}

/// Dotted and nested keys are the same, in whatever order, and `--set` changes what either says.
#[test]
fn a_key_of_set_has_one_value_however_it_is_written() {
    let both = "set = { train = { length = 64 }, \"train.steps\" = 9, \"position.base\" = 5.0, position = { kind = \"rope\" } }";
    let found = study(both).unwrap();
    assert_eq!(found.base["train"].to_string(), "{ steps = 9, length = 64 }");
    assert_eq!(found.base["position"].to_string(), "{ base = 5.0, kind = \"rope\" }");

    let read = |_: &str| -> Result<Table> { Ok(BASE.parse().unwrap()) };
    let mut document: Table = format!("name = \"s\"\nbase = \"b.toml\"\n{both}").parse().unwrap();
    let set = ["train.steps=700", "position.base=7.0"].map(str::to_owned);
    assign(&mut document, &set, &read).unwrap();
    let changed = Study::from_table(document, &read).unwrap().base;
    assert_eq!(changed["train"].to_string(), "{ steps = 700, length = 64 }");
    assert_eq!(changed["position"].to_string(), "{ base = 7.0, kind = \"rope\" }");

    for (twice, start) in [
        (
            "train = { steps = 5 }, \"train.steps\" = 9",
            "`set.train.steps = 9` is not allowed: `[set]` says `5` there already",
        ),
        ("position = \"rope\", \"position.base\" = 5.0", "`set.position.base = 5.0` is not allowed"),
        ("\"position.base\" = 5.0, position = \"rope\"", "`set.position = \"rope\"` is not allowed"),
    ] {
        let found = message(&format!("set = {{ {twice} }}"));
        assert!(found.starts_with(start) && found.contains("hint: "), "{found}");
    }
}

/// The evaluations of a study after `--set`, and the warnings. The base reads in two ways, and so does another one.
fn assigned(text: &str, set: &[&str]) -> (Vec<String>, Vec<String>) {
    let read = |name: &str| -> Result<Table> {
        let extend = if name == "b.toml" { "[\"ntk\", \"yarn\"]" } else { "[\"linear\", \"rerope\"]" };
        Ok(format!("{BASE}\nextend = {extend}").parse().unwrap())
    };
    let mut document: Table = format!("name = \"s\"\nbase = \"b.toml\"\n{text}").parse().unwrap();
    let set: Vec<String> = set.iter().copied().map(str::to_owned).collect();
    let warnings = assign(&mut document, &set, &read).unwrap();
    let study = Study::from_table(document, &read).unwrap();
    let block = |evaluation: EvaluateBlock| Value::Table(evaluation.block).to_string();
    (study.evaluations.into_iter().map(block).collect(), warnings)
}

#[test]
fn a_changed_key_leaves_the_rest_of_the_base_s_evaluations() {
    let lengths = "evaluate.lengths=[64]";
    let of = |text: &str, set: &[&str]| assigned(text, set).0;
    let both = |lengths: &str, extend: &str| [format!("{{ lengths = [{lengths}], extend = {extend} }}")];
    assert_eq!(of("", &[lengths]), both("64", "[\"ntk\", \"yarn\"]"));
    assert_eq!(of("", &["evaluate.0.extend.1=linear"]), both("128", "[\"ntk\", \"linear\"]"));
    // The base that is named too, in either order.
    for set in [[lengths, "base=c.toml"], ["base=c.toml", lengths]] {
        assert_eq!(of("", &set), both("64", "[\"linear\", \"rerope\"]"));
    }
    // Where the study says itself what is read, that is changed.
    let block = "lengths = [32]\nextend = [\"linear\"]";
    assert_eq!(of(&format!("[[evaluate]]\n{block}"), &[lengths]), both("64", "[\"linear\"]"));
    assert_eq!(of(&format!("[[set.evaluate]]\n{block}"), &[lengths]), both("64", "[\"linear\"]"));
    // The whole list takes the place of the whole list.
    assert_eq!(of("", &["evaluate=[{ lengths = [64] }]"]), ["{ lengths = [64] }"]);
    let (_, warnings) = assigned("[[evaluate]]\nlengths = [32]\n[[evaluate]]\nlengths = [64]", &[lengths]);
    assert!(warnings[0].contains("the first of 2 `[[evaluate]]` blocks"), "{warnings:?}");
}

#[test]
fn nothing_that_is_set_is_undone_in_silence() {
    let axis =
        "[[axis]]\nkey = \"position\"\nvalues = [\"rope\", { kind = \"alibi\", slopes = \"linear\" }]\n";
    let stages = "set.stage = [{ length = 64, steps = 7 }]\n[[stage]]\nlength = 64\nsteps = 3\n";
    assert!(message(stages).starts_with("`set.stage = "), "{}", message(stages));
    let within = message(&format!("[set]\nposition.base = 500\n{axis}"));
    assert!(
        within.starts_with("`set.position.base = 500` is not allowed: the axis `position` sets it"),
        "{within}"
    );
    // A point without an encoding of its own has that of `[set]`.
    let points = "[[axis]]\nname = \"what\"\npoints = [{ label = \"a\", position = \"rope\" }, { label = \"b\", train.clip = 2.0 }]\n";
    assert!(study(&format!("[set]\nposition.base = 500\n{points}")).is_ok());
    let base = "[[axis]]\nkey = \"position.base\"\nvalues = [100, 500]\n";
    let undone = message(&format!("{base}{axis}"));
    assert!(
        undone.starts_with(
            "the axis `position` sets `position.base`, which the axis `position.base` has set already"
        ),
        "{undone}"
    );
    assert!(study(&format!("{axis}{base}")).is_ok(), "a single key changes what stands there");
    let steps = "[[axis]]\nname = \"again\"\nkey = \"train.steps\"\nvalues = [5, 6]\n";
    let twice = message(&format!("[[axis]]\nkey = \"train.steps\"\nvalues = [1, 2]\n{steps}"));
    assert!(twice.starts_with("the axis `again` sets `train.steps`, which"), "{twice}");
}

#[test]
fn evaluations_name_runs_by_axis_and_label() {
    let axis =
        "[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n[[evaluate]]\nlengths = [128]\n";
    let found = study(&format!("{axis}only = {{ position = \"rope\" }}")).unwrap();
    assert_eq!(found.evaluations[0].only["position"], ["rope"]);
    assert!(!found.evaluations[0].block.contains_key("only"));
    let wrong = message(&format!("{axis}only = {{ position = \"ropee\" }}"));
    assert!(
        wrong.contains("evaluate[0].only.position") && wrong.ends_with("did you mean `rope`?"),
        "{wrong}"
    );
    assert!(message(&format!("{axis}only = {{ positon = \"rope\" }}")).contains("did you mean `position`?"));
}

#[test]
fn refusals_name_the_key() {
    assert!(message("seedss = 3").contains("did you mean `seeds`?"));
    assert!(message("threads = 0").starts_with("`threads = 0`"));
    assert!(message("threads = \"all\"").contains("it is a number, or `auto`"));
    assert!(message("seeds = [1, 1]").contains("1 is listed twice"));
    assert!(message("seeds = 0").contains("there must be a seed"));
    assert!(message("seeds = \"all\"").contains("`seeds = \"until decided\"`"));
    assert!(message("seeds = \"until decided\"").contains("nothing to decide"));
    assert!(message("seeds = 3\nmax_seeds = 5").contains("the number of seeds is fixed"));
    let claim = "[[claim]]\nsays = \"yarn < ntk at 8L\"";
    assert!(message(&format!("seeds = \"until decided\"\nmax_seeds = 1\n{claim}")).contains("at least 2"));
    let until = study(&format!("seeds = \"until decided\"\nmax_seeds = 8\n{claim}")).unwrap();
    assert_eq!((until.seeds.len(), until.looks.seeds()), (8, &[3, 5, 8][..]));
    assert!(message("devices = []").contains("devices"));
    let best = "[[evaluate]]\nlengths = [128]\ncheckpoints = \"best\"\n";
    assert!(study(&format!("{best}{best}")).is_ok());
    let mixed = message(&format!("[[evaluate]]\nlengths = [128]\n{best}"));
    assert!(mixed.starts_with("`evaluate[1].checkpoints = \"best\"` is not allowed"), "{mixed}");
    let twice = "[[axis]]\nkey = \"train.steps\"\nvalues = [1]\n";
    assert!(message(&format!("{twice}{twice}")).contains("axis[1].name"));
}
