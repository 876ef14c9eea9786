//! Checkpoints along the training: `train.keep_checkpoints`, and evaluations that read them.

use crate::common::trainer::train_until;
use crate::common::{Project, same, set};
use longwave_train::Outcome;
use serde_json::Value;

const KEEP: [&str; 4] = ["--set", "train.keep_checkpoints=2", "--set", "evaluate.0.checkpoints=all"];
/// Where a test is not about what extensions read.
const DIRECT: &str = "evaluate.0.extend=direct";

fn rows(project: &Project, run: &str, more: &[&str]) -> Vec<Value> {
    project.ok(&[&["eval", run, "--json", "--device", "cpu"], more].concat()).rows()
}

/// The checkpoints and steps of rows, each once.
fn checkpoints(rows: &[Value]) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for row in rows {
        let one = (row["checkpoint"].as_str().unwrap().to_owned(), row["step"].as_u64().unwrap());
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[test]
fn a_kept_step_that_was_the_last_stays_when_the_run_is_made_longer() {
    let keep = set(&["train.keep_checkpoints=[3, 6]", "evaluate.0.checkpoints=all", DIRECT]);
    let [more, stage] = ["--set train.steps=12", "--set stage=[{length=64,steps=4}]"];
    for (folder, change) in [("longer", more), ("staged", stage)] {
        let project = Project::new();
        project.train(&[&keep[..], &["--out", folder]].concat());
        let last = format!("{folder}/checkpoints/last.safetensors");
        let before = project.read(&last);
        let change: Vec<&str> = change.splitn(2, ' ').collect();
        project.train(&[&keep[..], &change, &["--out", folder, "--resume"]].concat());
        assert_eq!(project.read(&format!("{folder}/checkpoints/step-6.safetensors")), before);
        assert_ne!(project.read(&last), before);
        let read: Vec<u64> =
            checkpoints(&rows(&project, folder, &[])).into_iter().map(|(_, step)| step).collect();
        assert_eq!(read[..2], [3, 6], "{folder}");
    }
}

#[test]
fn a_run_is_read_along_its_training() {
    let project = Project::new();
    let outcome = project.train(&KEEP);
    assert!(outcome.stdout.contains("by training step, direct"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("by training step, window_baseline"), "{}", outcome.stdout);
    // The tables by length are those of the end, as without kept checkpoints.
    assert_eq!(outcome.stdout.matches("Δ at").count(), 1, "{}", outcome.stdout);
    let run = "runs/small-0";
    let all = rows(&project, run, &[]);
    let expected: Vec<(String, u64)> =
        [("step-2", 2), ("step-4", 4), ("last", 6)].map(|(name, step)| (name.to_owned(), step)).to_vec();
    assert_eq!(checkpoints(&all), expected);
    // Each has readings and lengths of its own, and its weights are not the last ones.
    assert_eq!(all.len(), 3 * 4 * 2);
    let nll = |rows: &[Value], checkpoint: &str| {
        let mut of = rows.iter().filter(|row| row["checkpoint"] == checkpoint && row["extend"] == "linear");
        of.find(|row| row["length"] == 64).unwrap()["nll"].as_f64().unwrap()
    };
    assert!(nll(&all, "step-2") > nll(&all, "step-4") && nll(&all, "step-4") > nll(&all, "last"));
    let alone = rows(&project, run, &["--checkpoint", "step-4"]);
    assert_eq!(checkpoints(&alone), expected[1..2]);
    assert_eq!(nll(&alone, "step-4").to_bits(), nll(&all, "step-4").to_bits());
    let some = rows(&project, run, &["--checkpoints", "4"]);
    assert_eq!(checkpoints(&some), expected[1..]);

    let page = project.text("runs/small-0/report.html");
    let markdown = project.text("runs/small-0/results.md");
    for text in [page, markdown] {
        assert!(text.contains("Perplexity of small (rope) by training step, ntk"), "{text}");
    }
    for name in ["by_step-direct.svg", "by_step-ntk.png", "perplexity.svg"] {
        assert!(project.exists(&format!("{run}/{name}")), "{name}");
    }
    let shown = project.run(&["eval", run, "--checkpoint", "step-2", "--device", "cpu"]);
    assert!(shown.stdout.contains("step-2 checkpoint"), "{}", shown.stdout);
    // Text goes on from it too.
    project.ok(&["generate", run, "--checkpoint", "step-2", "--max-tokens", "3", "--device", "cpu"]);
}

#[test]
fn kept_checkpoints_survive_an_interruption() {
    let project = Project::new();
    let train =
        |folder: &str, asked| train_until(&project, folder, asked, &["train.keep_checkpoints=[1, 3, 4]"]);
    assert_eq!(train("whole", usize::MAX), Outcome::Done);
    assert_eq!(train("stopped", 7), Outcome::Interrupted);
    assert_eq!(train("stopped", usize::MAX), Outcome::Done);
    for step in [1, 3, 4] {
        let name = format!("checkpoints/step-{step}.safetensors");
        assert!(same(&project.path("whole").join(&name), &project.path("stopped").join(&name)), "{name}");
    }
    assert!(!project.exists("whole/checkpoints/step-6.safetensors"), "the last step is `last`");
}

#[test]
fn a_run_that_goes_on_keeps_its_earlier_steps() {
    let project = Project::new();
    let wsd = set(&["train.schedule=wsd", "train.warmup=1", "train.decay=2", DIRECT]);
    let train = |more: &[&str]| project.train(&[&KEEP[..], &wsd, more].concat());
    train(&["--set", "train.steps=6"]);
    train(&["--set", "train.steps=10", "--resume"]);
    let steps = |rows: &[Value]| checkpoints(rows).into_iter().map(|(_, step)| step).collect::<Vec<_>>();
    assert_eq!(steps(&rows(&project, "runs/small-0", &[])), [2, 4, 6, 8, 10]);
    assert_eq!(steps(&rows(&project, "runs/small-0", &["--checkpoint", "step-2"])), [2]);
    // A config that somebody changed is still told by the last checkpoint.
    let path = "runs/small-0/config.toml";
    let config = project.text(path);
    project.write(path, &config.replace("clip = 1.0", "clip = 0.5"));
    project.refuses(
        1,
        &["eval", "runs/small-0", "--checkpoint", "step-2", "--device", "cpu"],
        &["last.safetensors` was trained as"],
    );
}

#[test]
fn an_extension_must_apply_to_every_checkpoint() {
    let project = Project::new();
    let stage = "\n[[stage]]\nlength = \"L\"\nsteps = 4\nextend = \"drop\"\nkeep_checkpoints = 2\n";
    let config = project.text("small.toml");
    let config = config.replace("[\"direct\", \"linear\", \"ntk\"]", "[\"direct\"]\ncheckpoints = \"all\"");
    project.write("small.toml", &(config.replace("\n[[evaluate]]", &format!("{stage}\n[[evaluate]]"))));
    project.train(&["--set", "train.keep_checkpoints=3"]);
    let found = checkpoints(&rows(&project, "runs/small-0", &[]));
    let steps: Vec<u64> = found.iter().map(|(_, step)| *step).collect();
    // Counted through both stages; the end of `[train]` is a step like the others.
    assert_eq!(steps, [3, 6, 8, 10]);
    // `drop` takes a rotation away, which is there up to step 6 only.
    project.refuses(
        2,
        &["eval", "runs/small-0", "--checkpoints", "3", "--extend", "ntk", "--device", "cpu"],
        &["`ntk` does not apply to `rope without its rotation`"],
    );
}

#[test]
fn what_is_not_kept_cannot_be_read() {
    let project = Project::new();
    let keep = "train.keep_checkpoints=[2, 4]";
    for (name, changes) in [
        ("kept_none", &["evaluate.0.checkpoints=all"][..]),
        ("kept_others", &[keep, "evaluate.0.checkpoints=[2, 3]"]),
        ("kept_unknown_word", &[keep, "evaluate.0.checkpoints=every"]),
        ("kept_too_far", &["train.keep_checkpoints=[2, 40]"]),
    ] {
        let train = ["train", "--config", "small.toml", "--device", "cpu"];
        insta::assert_snapshot!(name, project.refused(2, &[&train, &set(changes)[..]].concat()));
        assert!(!project.exists("runs"), "something was written");
    }
    project.train(&set(&[keep, DIRECT]));
    let message = project.refused(1, &["eval", "runs/small-0", "--checkpoint", "step-3", "--device", "cpu"]);
    insta::assert_snapshot!("kept_missing", message);
}
