//! Arguments in the forms that a user tries first, and paths that lead nowhere.

use crate::common::{self, CONFIG, Project, RUN};
use std::fs;

fn refused(project: &Project, arguments: &[&str], part: &str) {
    project.refuses(2, arguments, &[part]);
}

#[test]
fn a_config_is_named_with_or_without_the_option() {
    let project = Project::new();
    project.ok(&["train", "small.toml", "--set", "train.steps=1", "--set", "evaluate=[]", "--device", "cpu"]);
    assert!(project.exists(&format!("{RUN}/checkpoints/last.safetensors")));
    let plain = project.ok(&["validate", "small.toml"]).stdout;
    assert_eq!(project.ok(&["validate", "--config", "small.toml"]).stdout, plain);
    let shown = project.ok(&["inspect", "small.toml"]).stdout;
    assert_eq!(project.ok(&["inspect", "--config", "small.toml"]).stdout, shown);
    refused(&project, &["train", "small.toml", "--config", "small.toml"], "cannot be used with");
    for command in ["train", "validate", "inspect"] {
        refused(&project, &[command], "no config is named");
    }
    refused(&project, &["bench", "train", "nowhere.toml"], "there is no config `nowhere.toml`");
}

#[test]
fn a_bare_name_is_a_file_of_the_current_folder_before_one_of_the_program() {
    let project = Project::new();
    let base = |name: &str| project.ok(&["inspect", name, "--json"]).stdout.contains("777.0");
    assert!(!base("rope") && !base("rope.toml"));
    let own = project.text("small.toml").replace("kind = \"rope\"", "kind = \"rope\"\nbase = 777.0");
    project.write("rope.toml", &own);
    assert!(base("rope") && base("rope.toml"));
}

#[test]
fn a_key_may_name_one_block_and_a_warning_tells_of_several() {
    let project = Project::new();
    project.write(
        "small.toml",
        &format!("{CONFIG}\n[[evaluate]]\nlengths = [32]\nprotocol = \"non_overlapping\"\n"),
    );
    let resolved = |set: &str| {
        let outcome = project.ok(&["validate", "small.toml", "--set", set]);
        let table: toml::Table = outcome.stdout.parse().unwrap();
        let lengths = |block: usize| table["evaluate"][block]["lengths"].to_string();
        // How the corpus was read is said too.
        let told: String = outcome.stderr.lines().filter(|line| line.contains("evaluate")).collect();
        ([lengths(0), lengths(1)], told)
    };
    assert_eq!(resolved("evaluate.1.lengths=[48]"), (["[32, 64]", "[48]"].map(str::to_owned), String::new()));
    assert_eq!(resolved("evaluate.0.lengths=[48]"), (["[48]", "[32]"].map(str::to_owned), String::new()));
    let (lengths, told) = resolved("evaluate.lengths=[48]");
    assert_eq!(lengths, ["[48]", "[32]"].map(str::to_owned));
    assert!(
        told.contains("the first of 2 `[[evaluate]]` blocks") && told.contains("`evaluate.1.lengths`"),
        "{told}"
    );
    refused(
        &project,
        &["validate", "small.toml", "--set", "evaluate.2.lengths=[48]"],
        "`evaluate` has 2 entries, `0` to `1`",
    );
}

#[test]
fn one_value_stands_for_a_list_of_it() {
    let project = Project::new();
    let blocks = "[[evaluate]]\nlengths = \"2L\"\nextend = \"ntk\"\nwindows_per_document = 1\n";
    project.write("small.toml", &CONFIG.replace(&CONFIG[CONFIG.find("[[evaluate]]").unwrap()..], blocks));
    project.train(&[]);
    let rows = project.results(RUN);
    let read: Vec<(&str, usize)> =
        rows.iter().map(|row| (row.extend.as_str(), row.settings.length)).collect();
    assert_eq!(read, [("ntk", 64), ("window_baseline", 64)]);
    let set = ["--set", "extend={ kind = \"linear\", scale = 2.0 }", "--set", "lengths=L"];
    let outcome = project.ok(&[&["eval", RUN, "--json"], &set[..]].concat());
    assert!(
        outcome.stdout.contains("\"scale\":2.0") && outcome.stdout.contains("\"length\":32"),
        "{}",
        outcome.stdout
    );
    refused(
        &project,
        &["validate", "small.toml", "--set", "evaluate.lengths=2x"],
        "`evaluate[0].lengths = \"2x\"`",
    );
    refused(
        &project,
        &["validate", "small.toml", "--set", "evaluate.lengths=[32, true]"],
        "`evaluate[0].lengths[1] = true`",
    );
    refused(&project, &["validate", "small.toml", "--set", "evaluate.extend=yarm"], "did you mean `yarn`?");
}

#[test]
fn the_validation_split_has_its_usual_names() {
    let project = Project::new();
    fs::rename(project.path("corpus/valid"), project.path("corpus/val")).unwrap();
    let trained = project.train(&[]);
    assert!(trained.stderr.contains("6 / 2 / 3 documents"), "{}", trained.stderr);
    let rows = |arguments: &[&str]| {
        project.ok(&[&["eval", RUN, "--json", "--extend", "direct"], arguments].concat()).stdout
    };
    let valid = rows(&["--split", "valid"]);
    assert!(valid.contains("\"split\":\"valid\""), "{valid}");
    for arguments in [
        &["--split", "validation"][..],
        &["--split", "val"],
        &["--split", "dev"],
        &["--set", "split=validation"],
        &["--set", "split=valid"],
    ] {
        assert_eq!(rows(arguments), valid);
    }
    for name in ["dev", "validation", "valid"] {
        // The text is the same, whatever its folder is called.
        let before = project.read(&format!("{RUN}/results.jsonl"));
        fs::rename(project.path("corpus/val"), project.path(&format!("corpus/{name}"))).unwrap();
        assert_eq!(rows(&["--split", "valid"]), valid, "{name}");
        assert_eq!(project.read(&format!("{RUN}/results.jsonl")), before);
        fs::rename(project.path(&format!("corpus/{name}")), project.path("corpus/val")).unwrap();
    }
    project.write("corpus/dev/0.txt", "two of them");
    refused(
        &project,
        &["train", "small.toml", "--out", "x"],
        "two names for the valid split: `dev` and `val`",
    );
    fs::remove_dir_all(project.path("corpus/dev")).unwrap();
    fs::rename(project.path("corpus/val"), project.path("corpus/eval")).unwrap();
    let told = project.ok(&["train", "small.toml", "--out", "y", "--device", "cpu"]).stderr;
    assert!(told.contains("6 / 2 / 3 documents"), "{told}");
    refused(&project, &["eval", RUN, "--split", "test", "--corpus", "corpus/none"], "no such file or folder");
    refused(&project, &["eval", RUN, "--split", "eval"], "must be one of `train`, `validation`, `test`");
    fs::rename(project.path("corpus/eval"), project.path("corpus/valid")).unwrap();
    // A corpus of folders without one for the test.
    fs::rename(project.path("corpus/test"), project.path("corpus/tests")).unwrap();
    project.refuses(
        2,
        &["train", "small.toml", "--out", "w", "--device", "cpu"],
        &["the test split holds no text to score", "a folder `test`"],
    );
    project.write("flat/a.txt", &common::text(4_000, 8));
    let split = ["--set", "data.corpus=flat", "--set", "data.split={ validation = 0.2, test = 0.2 }"];
    project.ok(&[&["train", "small.toml", "--out", "z", "--device", "cpu"], &split[..]].concat());
}

#[test]
fn a_path_that_leads_nowhere_ends_with_2_and_makes_nothing() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    project.write("file", "");
    fs::create_dir(project.path("folder")).unwrap();
    let before = fs::read_dir(project.path("")).unwrap().count();
    let tokenizer = |path: &str| format!("data.tokenizer={{ kind = \"file\", path = \"{path}\" }}");
    let (gone, folder) = (tokenizer("nowhere.json"), tokenizer("folder"));
    for (arguments, part) in [
        (&["train", "folder"][..], "`folder` is a folder"),
        (&["train", "nowhere/x.toml"], "there is no config"),
        (&["train", "small.toml", "--out", "file/x"], "file"),
        (&["train", "small.toml", "--out", "x", "--set", &gone], "nowhere.json"),
        (&["train", "small.toml", "--out", "x", "--set", &folder], "it is a folder"),
        (&["train", "small.toml", "--out", "x", "--set", "data.corpus=nowhere"], "nowhere"),
        (&["study", "folder"], "is a folder"),
        (&["study", "nowhere.toml"], "there is no study"),
        (&["task", "nowhere"], "nowhere"),
        (&["task", "folder"], "it is a folder"),
        (&["eval", "nowhere"], "holds no run"),
        (&["eval", RUN, "--corpus", "nowhere"], "nowhere"),
        (&["eval", RUN, "--lengths", "32", "--tokens", "gone/x.csv"], "there is no folder `gone`"),
        (&["eval", RUN, "--lengths", "32", "--tokens", "file/x.csv"], "there is no folder `file`"),
        (&["eval", RUN, "--lengths", "32", "--tokens", "file"], "holds something else than losses"),
        (
            &["eval", RUN, "--tokens", "runs/small-0/config.toml"],
            "`config.toml` in `runs/small-0` is a file of the run",
        ),
        (&["eval", RUN, "--tokens", "runs/small-0/results.jsonl"], "is a file of the run"),
        (&["eval", RUN, "--lengths", "32", "--set", "lengths=64"], "both say what `lengths` is"),
        (
            &["eval", RUN, "--checkpoint", "last", "--set", "checkpoints=best"],
            "`--checkpoint` and `--set checkpoints=best` both say what `checkpoints` is",
        ),
        (
            &["train", "small.toml", "--set", "train.steps=5\ntrain.length=32"],
            "holds more than one assignment",
        ),
        (
            &["train", "small.toml", "--set", "train.validate_every=0"],
            "`train.validate_every = 0` is not allowed",
        ),
        (
            &["train", "small.toml", "--seeds", "18446744073709551615"],
            "it must be a whole number from 1 to 100000",
        ),
        (&["train", "small.toml", "--set", "train.decay=0.1"], "it belongs to `train.schedule"),
        (&["train", "small.toml", "--set", "model.qk_norm_eps=0.1"], "it belongs to `model.qk_norm"),
        (&["compare", "nowhere", RUN], "nowhere"),
        (&["generate", "nowhere"], "holds no run"),
        (&["export", "nowhere", "x"], "holds no run"),
        (&["export", RUN, "file/x"], "file"),
        (&["import", "nowhere"], "holds no model"),
        (&["report", "nowhere"], "is no folder"),
        (&["report", "file"], "is no folder"),
        (&["runs", "--store", "nowhere"], "is no folder"),
        (&["init", "rope.toml", "--out", "file/x.toml"], "file"),
    ] {
        refused(&project, arguments, part);
        assert_eq!(fs::read_dir(project.path("")).unwrap().count(), before, "{arguments:?} made something");
    }
}

#[test]
fn what_was_meant_is_named() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    project.write("grid.toml", "name = \"grid\"\nbase = \"small.toml\"\n");
    project.ok(&["export", RUN, "exported"]);
    let eval = |set: &'static str| ["eval", RUN, "--set", set];
    for (arguments, part) in [
        (&eval("data.corpus=corpus")[..], "name the text with `--corpus PATH`"),
        (&eval("evaluate.windows_per_document=1"), "leave `evaluate` out"),
        (&eval("train.steps=9"), "the run stays as it was trained"),
        (&eval("windows_per_documents=1"), "did you mean `windows_per_document`?"),
        (&["eval", RUN, "--protocol", "slidng"], "did you mean `sliding`?"),
        (
            &["train", "grid.toml"],
            "`grid.toml` is a study, and no config\n\nhint: `longwave study grid.toml` runs it",
        ),
        (&["validate", "grid.toml"], "`grid.toml` is a study, and no config"),
        (
            &["study", "small.toml"],
            "`small.toml` is a config, and no study\n\nhint: `longwave train small.toml` trains it",
        ),
        (
            &["train", "best-at-8L.toml"],
            "`best-at-8L.toml` is a study: `longwave study best-at-8L.toml` runs it",
        ),
        (&["study", "alibi"], "`alibi.toml` is a config: `longwave train alibi.toml` trains it"),
        (
            &["train", "runs/small-0", "--resume"],
            "`runs/small-0` is a folder, and no config\n\nhint: the config of that run is `runs/small-0/config.toml`; \
             `longwave train runs/small-0/config.toml --out runs/small-0 --resume` goes on with the run",
        ),
        (
            &["eval", "runs/small-0/config.toml"],
            "`runs/small-0/config.toml` is a file, and not the folder of a run\n\nhint: did you mean `runs/small-0`?",
        ),
        (&["generate", "runs/small-0/checkpoints"], "hint: did you mean `runs/small-0`?"),
        (
            &["import", "exported/config.json", "--check"],
            "`exported/config.json` is a file, and not the folder of a model\n\nhint: did you mean `exported`?",
        ),
    ] {
        refused(&project, arguments, part);
    }
    // What the first of them says works.
    let config = "runs/small-0/config.toml";
    let resumed = project.ok(&["train", config, "--out", RUN, "--resume", "--device", "cpu"]).stderr;
    assert!(resumed.contains("training is finished at step 6"), "{resumed}");
    // A run of `longwave train` is none of a store.
    let pruned = project.ok(&["runs", "prune", "--store", "runs"]).stderr;
    assert!(
        pruned.contains("`runs` holds no runs of a study; `longwave train` has a folder for each"),
        "{pruned}"
    );
}
