//! `HeadScale`: a stage trains a factor on the logits of each head, and nothing else.

use crate::common::{CONFIG, Project, row_of};
use longwave_eval::ResultRow;
use longwave_train::Checkpoint;
use longwave_train::run::{CheckpointId, checkpoint_path};
use std::collections::BTreeMap;

const STAGE: &str = "\n[[stage]]\nlength = \"2L\"\nsteps = 4\ntrain = \"head_scale\"\nlearning_rate = 0.05\nvalidate_every = 2\n";
const SCALE: &str = "position.head_scale.scale";

fn config(stage: &str) -> String {
    let config = CONFIG.replace("kind = \"rope\"", "kind = \"none\"").replace(", \"linear\", \"ntk\"", "");
    config.replace("\n[[evaluate]]", &format!("{stage}\n[[evaluate]]"))
}

fn project(stage: &str) -> Project {
    let project = Project::new();
    project.write("small.toml", &config(stage));
    project
}

fn weights(project: &Project, which: CheckpointId) -> BTreeMap<String, Vec<f32>> {
    let checkpoint = Checkpoint::load(&checkpoint_path(&project.path("run"), which)).unwrap();
    checkpoint.parameters().into_iter().map(|(name, values)| (name.to_owned(), values.to_vec())).collect()
}

fn train(project: &Project) -> String {
    project.ok(&["train", "--config", "small.toml", "--out", "run"]).stderr
}

fn rows(project: &Project, arguments: &[&str]) -> Vec<ResultRow> {
    project.ok(&[&["eval", "--json", "--lengths", "L,2L"], arguments].concat()).rows()
}

#[test]
fn a_stage_trains_the_factors_alone() {
    let project = project(STAGE);
    let said = train(&project);
    assert!(said.contains("a factor for each head alone"), "{said}");
    let (before, mut after) =
        (weights(&project, CheckpointId::Stage(0)), weights(&project, CheckpointId::Last));
    let factors = after.remove(SCALE).unwrap();
    assert_eq!(after, before, "every other parameter stays as it was, bit for bit");
    assert_eq!(factors.len(), 4, "two layers of two heads");
    assert!(factors.iter().all(|factor| *factor >= 1.0 && (factor - 1.6).abs() > 1e-3), "{factors:?}");
    // The factors are temperatures: the model before the stage, read with these, is the same model.
    let inverse = |factor: &f32| format!("{}", 1.0 / f64::from(*factor));
    let of_layers: Vec<String> = factors
        .chunks(2)
        .map(|row| format!("[{}]", row.iter().map(inverse).collect::<Vec<_>>().join(", ")))
        .collect();
    let divided = format!("{{ kind = \"direct\", temperature = [{}] }}", of_layers.join(", "));
    let trained = rows(&project, &["run", "--extend", "direct"]);
    let divided = rows(&project, &["run", "--checkpoint", "stage-0", "--extend", &divided]);
    let plain = rows(&project, &["run", "--checkpoint", "stage-0", "--extend", "direct"]);
    let nll = |rows: &[ResultRow], length: usize| row_of(rows, "direct", length).nll();
    for length in [32, 64] {
        assert!((nll(&trained, length) - nll(&divided, length)).abs() < 1e-6, "{length}");
        assert!((nll(&trained, length) - nll(&plain, length)).abs() > 1e-5, "{length}");
    }
    // A cached reading has them too, and so has an export, which keeps the names of this program.
    let generate = |run: &str| {
        project
            .ok(&["generate", run, "--prompt", "the wave", "--max-tokens", "12", "--temperature", "0"])
            .stdout
    };
    for arguments in [&["export", "run", "exported"][..], &["import", "exported", "--out", "imported"]] {
        let outcome = project.ok(arguments);
        if arguments[0] == "export" {
            assert!(outcome.stderr.contains("longwave"), "{}", outcome.stderr);
        }
    }
    assert_eq!(generate("run"), generate("imported"));
}

#[test]
fn factors_never_leave_their_bound() {
    // At this temperature attention is much too sharp, and the factors would like to leave the bound downwards.
    let sharp = "\"head_scale\"\nextend = { kind = \"direct\", temperature = 1e-3 }";
    let project = project(&STAGE.replace("\"head_scale\"", sharp).replace("0.05", "0.3"));
    train(&project);
    let factors = weights(&project, CheckpointId::Last).remove(SCALE).unwrap();
    assert!(factors.iter().all(|factor| *factor >= 1.0), "{factors:?}");
    assert!(factors.contains(&1.0), "some are held at it: {factors:?}");
}

#[test]
fn what_cannot_be_scaled_is_rejected_before_training() {
    let linear = project(STAGE);
    linear.write("small.toml", &config(STAGE).replace("heads = 2", "heads = 2\nattention = \"linear\""));
    linear.refuses(
        2,
        &["train", "--config", "small.toml"],
        &["`stage[0]`: a factor for each head scales scores", "hint:"],
    );
    assert!(!linear.exists("runs"), "something was written");
}
