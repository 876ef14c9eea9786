//! How an experiment reports its progress, and how it is asked to stop.

use crate::machine::Machine;
use longwave_core::Error;
use longwave_data::{Dataset, Note};
use longwave_eval::Selection;
use longwave_eval::measure::Progress;
use longwave_model::Size;
use longwave_model::resolved::Resolved;
use longwave_train::metrics::Metric;
use longwave_train::{Run, RunConfig};

/// What happens in an experiment, in this order.
#[derive(Debug)]
pub enum Event<'a> {
    /// The corpus is read and tokenized; so many bytes are done.
    Data(longwave_data::Progress),
    /// All checks have passed, and the run's folder is about to be written.
    Ready(Overview<'a>),
    /// The run was trained before.
    AlreadyTrained {
        /// What was trained.
        run: &'a Run,
        /// Whether its patience ended it before its last step.
        stopped_early: bool,
        /// What its validations say, a sentence each.
        notes: &'a [String],
    },
    /// Training continues from a checkpoint.
    Resumed {
        /// Steps done.
        step: u64,
        /// Where the run has other steps than before: what becomes of its schedule, in a sentence.
        how: Option<&'a str>,
        /// Newer checkpoints that are damaged, and why.
        instead_of: &'a [Error],
    },
    /// A training step is done.
    Step(&'a RunConfig, &'a Metric),
    /// A training step was not finite: training has gone back to a checkpoint and leaves a batch out.
    RolledBack {
        /// What was not finite.
        why: &'a Error,
        /// Steps done now.
        step: u64,
    },
    /// Training has ended, or was stopped.
    Trained {
        /// Batches that were left out, because a loss or a gradient was not finite.
        skipped_batches: usize,
        /// Steps that changed no weight, because their gradients overflowed f16.
        skipped: usize,
        /// What the validations say of a training that has ended, a sentence each: that it was stopped early, and that an earlier step
        /// was better.
        notes: &'a [String],
    },
    /// Extensions are read on the validation split, to select one.
    Selecting(Progress),
    /// The validation split has decided.
    Selected(&'a Selection),
    /// An evaluation reads its text.
    Evaluating(Progress),
}

/// What is about to be trained, and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Overview<'a> {
    /// Where it is computed.
    pub machine: &'a Machine,
    /// What is trained, and where it is kept.
    pub run: &'a Run,
    /// The corpus or the task.
    pub dataset: &'a Dataset,
    /// How the text was read, and that of evaluations.
    pub notes: &'a [Note],
    /// The model's sizes.
    pub resolved: &'a Resolved,
    /// The size of the model, and the bytes that training takes in its largest stage.
    pub size: Size,
}

/// Follows an experiment.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// Whether to stop at the next safe place: after a training step, whose checkpoint is written, or between two
    /// blocks of the model in an evaluation, whose rows so far are kept.
    fn stop(&self) -> bool {
        false
    }
}

/// Follows an experiment without a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: Event<'_>) {}
}
