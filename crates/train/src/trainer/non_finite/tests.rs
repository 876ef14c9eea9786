//! Where a NaN began is named: in a weight, at a place of a pass, or in a gradient.

use super::*;
use crate::RunConfig;
use crate::run::CheckpointId;
use crate::trainer::tests::{lines, text, with_trainer};
use crate::trainer::{Checkpoint, Event, MAX_ROLLBACKS, Outcome, Trainer};
use burn::tensor::TensorData;
use toml::{Table, Value};

/// The config of all tests of the trainer, with other values of some keys.
fn config(changes: &str) -> RunConfig {
    fn merge(table: &mut Table, changes: Table) {
        for (key, value) in changes {
            match (table.get_mut(&key), value) {
                (Some(Value::Table(inner)), Value::Table(changes)) => merge(inner, changes),
                (_, value) => {
                    table.insert(key, value);
                }
            }
        }
    }
    let mut table: Table = text("").parse().unwrap();
    merge(&mut table, changes.parse().unwrap());
    RunConfig::from_table(table).unwrap()
}

/// The model with the numbers of one parameter changed.
fn change(trainer: &mut Trainer<'_>, name: &str, number: impl Fn(usize, f32) -> f32) {
    let model = trainer.model.take().unwrap();
    let place = parameters::list(&model).iter().position(|parameter| parameter.name == name).unwrap();
    let changed = parameters::replace(model, |index, old| {
        if index != place {
            return old;
        }
        let device = old.device();
        let numbers = numbers(name, old).unwrap();
        let numbers: Vec<f32> = numbers.into_iter().enumerate().map(|(at, x)| number(at, x)).collect();
        Tensor::from_data(TensorData::new(numbers.clone(), [numbers.len()]), &device)
    });
    trainer.model = Some(changed);
}

/// The error that a training ends with whose weights were changed before.
fn error(changes: &str, spoil: impl FnOnce(&mut Trainer<'_>)) -> Error {
    with_trainer(config(changes), |trainer| {
        spoil(trainer);
        let outcome = trainer.train(&|| false, &mut |_| {});
        outcome.expect_err("a step is not finite")
    })
}

#[test]
fn a_weight_is_named() {
    let error = error("[[stage]]\nlength = 32\nsteps = 2", |trainer| {
        change(trainer, "blocks.0.attention.qkv", |at, x| if at == 5 { f32::NAN } else { x });
    });
    let message = error.message();
    assert!(message.starts_with("step 1: loss NaN"), "{message}");
    assert!(
        message.contains(
            "the weight `blocks.0.attention.qkv` was not finite before the step (1 of 192 numbers)"
        ),
        "{message}"
    );
    assert!(message.ends_with("there is no checkpoint yet"), "{message}");
    assert!(error.hint_text().unwrap().starts_with("lower `train.learning_rate`"));
}

#[test]
fn the_first_place_of_the_pass_is_named() {
    let of_factor = |name: &'static str, factor: f64| {
        let spoil = |trainer: &mut Trainer<'_>| change(trainer, name, |_, x| (f64::from(x) * factor) as f32);
        let error = error("model.layers = 2", spoil);
        // No batch is to blame for a weight that was so before any step.
        let leaves_out = error.hint_text().unwrap().contains("`train.on_non_finite = \"rollback\"`");
        assert_eq!(leaves_out, !error.message().contains("the weight"), "{error}");
        error.message().to_owned()
    };
    for (name, factor, found) in [
        (
            "blocks.1.attention_norm.gain",
            1e38,
            "the output of `blocks.1.attention` became non-finite first (",
        ),
        ("blocks.0.feed_forward_norm.gain", 3e38, "the output of `blocks.0.feed_forward` became non-finite"),
        ("norm.gain", 3e38, "the output of the last norm, `norm`, became non-finite first ("),
        ("head", 4e39, "the logits became non-finite first ("),
        ("head", 1e42, "the weight `head` was not finite before the step ("),
    ] {
        let message = of_factor(name, factor);
        assert!(message.contains(found), "{name}: {message}");
    }
}

/// A bias by distance whose slope has a root.
fn root(start: &str) -> String {
    format!(
        "position.kind = \"formula\"\nposition.bias = \"-n * sqrt(a + 1 - layer)\"\n\
         position.parameters.a = {start}\nmodel.layers = 2"
    )
}

#[test]
fn an_encoding_that_leaves_its_range_in_one_layer_is_named_by_the_layer() {
    // The first update moves some of the numbers below 0, where layer 1 has no root.
    let error = error(&root("0.0001"), |_| {});
    assert!(
        error.message().contains("the output of `blocks.1.attention` became non-finite first ("),
        "{error}"
    );
}

#[test]
fn a_gradient_is_named() {
    // The root has a value at 0, and no slope.
    let error = error(&root("0.0"), |_| {});
    let message = error.message();
    assert!(message.starts_with("step 1: loss 5.5"), "{message}");
    assert!(message.contains("the gradient of `position."), "{message}");
    assert!(
        message.contains("became non-finite first (2 of 4 numbers), and the loss is finite"),
        "{message}"
    );
}

#[test]
fn gradients_whose_squares_leave_f32_are_named_by_the_largest() {
    let error = error("", |trainer| change(trainer, "head", |_, x| x * 1e30));
    let message = error.message();
    assert!(message.contains("no gradient is non-finite, but the sum of their squares is"), "{message}");
    assert!(message.contains("of `embedding`") || message.contains("of `blocks."), "{message}");
}

#[test]
fn a_step_that_is_finite_the_second_time_is_told() {
    with_trainer(config(""), |trainer| {
        assert_eq!(trainer.origin().unwrap(), Origin::Nowhere);
        let stats = StepStats { loss: f64::NAN, gradient_norm: 1.0 };
        let error = trainer.not_finite(
            &NotFinite { step: 1, stats, learning_rate: 1.0, validation: None },
            &Origin::Nowhere,
        );
        assert!(error.message().contains("gave finite numbers when it was computed again"), "{error}");
        assert!(error.hint_text().unwrap().contains("longwave selfcheck"), "{error}");
    });
}

#[test]
fn a_validation_that_is_not_finite_ends_training_before_a_checkpoint() {
    // The only step has numbers from before it, and spoils the weights.
    for rollback in ["", "train.on_non_finite = \"rollback\""] {
        let one = format!("train.steps = 1\ntrain.warmup = 0\ntrain.learning_rate = 1e38\n{rollback}");
        with_trainer(config(&one), |trainer| {
            let error = trainer.train(&|| false, &mut |_| {}).unwrap_err();
            let message = error.message();
            assert!(message.starts_with("step 1: validation loss NaN, after loss "), "{message}");
            assert!(error.hint_text().unwrap().contains("lower `train.learning_rate`"), "{error}");
            assert!(!trainer.run.checkpoint(CheckpointId::Best).exists());
            let last = trainer.run.checkpoint(CheckpointId::Last);
            // Going back writes the beginning, with the batches that are left out.
            let batches = last.exists().then(|| Checkpoint::load(&last).unwrap().meta.skipped_batches);
            assert_eq!(batches, (!rollback.is_empty()).then(|| vec![0, 1, 2]));
        });
    }
}

#[test]
fn gradients_are_looked_at_from_the_head_down() {
    with_trainer(config("model.layers = 2"), |trainer| {
        let listed = parameters::list(trainer.model());
        let order: Vec<&str> = backwards(&listed).iter().map(|place| listed[*place].name.as_str()).collect();
        let place = |name: &str| order.iter().position(|found| *found == name).unwrap();
        let expected = [
            "head",
            "norm.gain",
            "blocks.1.feed_forward.output",
            "blocks.1.attention.qkv",
            "blocks.0.feed_forward.output",
            "blocks.0.attention_norm.gain",
            "embedding",
        ];
        assert!(expected.map(place).is_sorted(), "{order:?}");
        assert_eq!((order.len(), order[0]), (listed.len(), "head"));
    });
}

#[test]
fn training_goes_back_a_few_times_and_then_ends() {
    for (reads_later, changes, first) in [
        (false, root("0.0"), 1),
        (false, "train.learning_rate = 1e30\ntrain.warmup = 3".to_owned(), 2),
        (true, "train.learning_rate = 1e30\ntrain.warmup = 3".to_owned(), 2),
    ] {
        let changes = format!("{changes}\ntrain.on_non_finite = \"rollback\"");
        with_trainer(config(&changes), |trainer| {
            trainer.reads_later = reads_later;
            let mut rolled_back = Vec::new();
            let mut show = |event: &Event| {
                if let Event::RolledBack { why, step } = event {
                    rolled_back.push((why.message().split(':').next().unwrap().to_owned(), *step));
                }
            };
            let error = trainer.train(&|| false, &mut show).unwrap_err();
            assert_eq!(rolled_back, vec![(format!("step {first}"), 0); 3]);
            assert!(error.message().ends_with("3 batches after the last checkpoint are left out already"));
            let last = Checkpoint::load(&trainer.run.checkpoint(CheckpointId::Last)).unwrap();
            let left_out: Vec<u64> = (first - 1..first - 1 + MAX_ROLLBACKS).collect();
            assert_eq!((last.meta.step, &last.meta.skipped_batches), (0, &left_out));
            let steps: Vec<u64> = lines(&trainer.run.folder).iter().map(|metric| metric.step).collect();
            assert_eq!(steps, (1..first).collect::<Vec<_>>());
            // A process that comes after it knows that too.
            let fresh = trainer.fresh().unwrap();
            let device = trainer.device.clone().inner();
            let mut again = Trainer::new(trainer.run, trainer.dataset, fresh, &device, Some(&last)).unwrap();
            assert_eq!(again.train(&|| false, &mut |_| {}).unwrap_err().message(), error.message());
        });
    }
}

#[test]
fn batches_that_are_left_out_are_those_of_a_run_without_them() {
    let left_out = |numbers: &[u64]| {
        with_trainer(config(""), |trainer| {
            trainer.skipped_batches = numbers.to_vec();
            assert_eq!(trainer.train(&|| false, &mut |_| {}).unwrap(), Outcome::Done);
            lines(&trainer.run.folder)
        })
    };
    let (all, some) = (left_out(&[]), left_out(&[1, 2, 7]));
    assert_eq!(some.len(), all.len());
    assert_eq!(some[0], all[0]);
    let counts: Vec<(u64, u64)> = some
        .iter()
        .filter(|metric| metric.skipped_batches > 0)
        .map(|m| (m.step, m.skipped_batches))
        .collect();
    assert_eq!(counts, [(2, 2), (6, 1)]);
    // The same weights read another batch in step 2.
    assert_ne!(some[1].loss, all[1].loss);
    assert!(all.iter().all(|metric| metric.skipped_batches == 0));
}
