//! Training whose numbers are read later is training whose numbers are read at once. On the CPU they are read at once,
//! so the test sets `reads_later` itself.

use super::*;
use crate::RunConfig;
use longwave_core::file;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const STEPS: u64 = 20;

/// What a training leaves: its lines but for seconds and memory, the error it ends with, and the step of its checkpoint.
#[derive(Debug, PartialEq)]
struct Left {
    metrics: Vec<Metric>,
    shown: Vec<u64>,
    error: Option<String>,
    saved: Option<u64>,
}

fn config(changes: &str) -> RunConfig {
    RunConfig::from_table(text(changes).parse().unwrap()).unwrap()
}

/// A config with further lines of `[train]`.
pub(super) fn text(changes: &str) -> String {
    format!(
        "name = \"x\"\n\
         [data]\ntask = {{ kind = \"copy\" }}\n\
         [model]\nlayers = 1\nwidth = 8\nheads = 2\n\
         [position]\nkind = \"rope\"\n\
         [train]\nlength = 16\nbatch_tokens = 64\naccumulation = 2\nsteps = {STEPS}\nvalidate_every = 8\n\
         checkpoint_every = 6\nvalidation_tokens = 64\nclip = 0.5\n{changes}"
    )
}

pub(super) fn lines(folder: &Path) -> Vec<Metric> {
    let text = file::read_text(&folder.join("metrics.jsonl")).unwrap();
    let line = |line| Metric { seconds: 0.0, resident_mib: None, ..serde_json::from_str(line).unwrap() };
    text.lines().map(line).collect()
}

/// Does something with a trainer of a config, in a folder of its own, on the CPU.
pub(super) fn with_trainer<T>(config: RunConfig, act: impl FnOnce(&mut Trainer<'_>) -> T) -> T {
    let dataset = Dataset::open(&config.data, &mut |_| {}).unwrap();
    let resolved = config.model.resolve(dataset.tokenizer().vocab_size(), config.train.length).unwrap();
    let folder: TempDir = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("checkpoints")).unwrap();
    let run = Run { folder: folder.path().to_owned(), config, hash: String::new() };
    let fresh = crate::fresh_model(&run.config, &resolved, &Device::flex().autodiff()).unwrap();
    let mut trainer = Trainer::new(&run, &dataset, fresh, &Device::flex(), None).unwrap();
    assert!(!trainer.reads_later, "the CPU has its numbers at once");
    act(&mut trainer)
}

/// Trains until `stop` has been asked so many times.
fn train(changes: &str, reads_later: bool, asked: usize) -> Left {
    with_trainer(config(changes), |trainer| {
        trainer.reads_later = reads_later;
        let (count, mut shown) = (std::cell::Cell::new(0), Vec::new());
        let stop = || {
            count.set(count.get() + 1);
            count.get() > asked
        };
        let outcome = trainer.train(&stop, &mut |event| {
            if let Event::Step(metric) = event {
                shown.push(metric.step);
            }
        });
        let last = Checkpoint::load(&trainer.run.checkpoint(CheckpointId::Last)).ok();
        Left {
            metrics: lines(&trainer.run.folder),
            shown,
            error: outcome.err().map(|error| error.to_string()),
            saved: last.map(|checkpoint| checkpoint.meta.step),
        }
    })
}

#[test]
fn numbers_are_the_same_whenever_they_are_read() {
    let (at_once, later) = (train("", false, usize::MAX), train("", true, usize::MAX));
    assert_eq!((&at_once.error, at_once.saved), (&None, Some(STEPS)));
    assert_eq!(at_once.shown, (1..=STEPS).collect::<Vec<_>>());
    assert_eq!((&later.shown, &later.error, later.saved), (&at_once.shown, &None, at_once.saved));
    for (later, at_once) in later.metrics.iter().zip(&at_once.metrics) {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-5;
        assert!(near(later.loss, at_once.loss) && near(later.gradient_norm, at_once.gradient_norm));
        assert_eq!(later.valid_loss.is_some(), [8, 16, STEPS].contains(&later.step));
        assert!(near(later.valid_loss.unwrap_or_default(), at_once.valid_loss.unwrap_or_default()));
        assert_eq!((later.step, later.tokens), (at_once.step, at_once.tokens));
    }
    // Clipping was at work, on some steps.
    assert!(at_once.metrics.iter().any(|metric| metric.gradient_norm > 0.5));
}

/// `AdamW`'s first step is the learning rate, whatever the gradient. With the count of the updates before it would be 0.45 of that.
#[test]
fn what_a_stage_adds_is_updated_as_at_the_beginning() {
    let stage = "[[stage]]\nlength = 16\nsteps = 1\ntrain = { kind = \"head_scale\", start = 2.0 }\noptimizer = \"keep\"\n\
                 learning_rate = 0.05\nwarmup = 0\nfinal_ratio = 1.0\neps = 1e-15\n";
    let then = "[[stage]]\nlength = 16\nsteps = 3\noptimizer = \"keep\"\n";
    with_trainer(config(stage), |trainer| {
        assert!(matches!(trainer.train(&|| false, &mut |_| {}).unwrap(), Outcome::Done));
        let mut named =
            parameters::list(trainer.model()).into_iter().zip(parameters::values(trainer.model()));
        let (_, scales) = named.find(|(it, _)| it.name == "position.head_scale.scale").unwrap();
        for scale in scales.into_data().try_to_vec::<f32>().unwrap() {
            assert!(((scale - 2.0).abs() - 0.05).abs() < 1e-4, "{scale}");
        }
    });
    with_trainer(config(&format!("{stage}{then}")), |trainer| {
        trainer.train(&|| false, &mut |_| {}).unwrap();
        let listed = parameters::list(trainer.model());
        for (parameter, updates) in listed.iter().zip(&trainer.optimizer.updates) {
            let expected = if parameter.name == "position.head_scale.scale" { 4 } else { STEPS + 3 };
            assert_eq!(*updates, expected, "{}", parameter.name);
        }
    });
}

#[test]
fn a_stop_loses_no_line() {
    for reads_later in [false, true] {
        // In the middle of step 11.
        let left = train("", reads_later, 21);
        assert_eq!((left.shown.len(), left.metrics.len()), (10, 10));
        assert_eq!((left.error, left.saved), (None, Some(10)));
    }
}

#[test]
fn a_non_finite_loss_names_its_step_and_is_never_saved() {
    let changes = "learning_rate = 1e30\nwarmup = 3";
    let (at_once, later) = (train(changes, false, usize::MAX), train(changes, true, usize::MAX));
    let error = at_once.error.as_ref().unwrap();
    assert!(error.starts_with("step 2: loss "), "{error}");
    let ending = |left: &Left| {
        let step = left.error.as_ref().unwrap().split(':').next().unwrap().to_owned();
        (step, left.shown.clone(), left.metrics.len(), left.saved)
    };
    assert_eq!(ending(&later), ending(&at_once));
    assert_eq!(at_once.saved, None);
    // Weights of 1e30 give products beyond f32. Where numbers are read later, the steps before are made again to see it.
    assert!(error.contains("became non-finite first"), "{error}");
    assert_eq!(later.error, at_once.error);
}
