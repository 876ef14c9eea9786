//! How an experiment reports its progress, and how it is asked to stop.

use crate::experiment::Experiment;
use longwave_eval::Selection;
use longwave_eval::measure::Progress;
use longwave_train::metrics::Metric;
use longwave_train::{Run, RunConfig};

/// What happens in an experiment, in this order.
#[derive(Debug)]
pub enum Event<'a> {
    /// The corpus is read and tokenized; so many bytes are done.
    Data(longwave_data::Progress),
    /// All checks have passed, and the run's folder is about to be written.
    Ready(&'a Experiment<'a>),
    /// The run was trained before.
    AlreadyTrained(&'a Run),
    /// Training continues from a checkpoint.
    Resumed {
        /// Steps done.
        step: u64,
    },
    /// A training step is done.
    Step(&'a RunConfig, &'a Metric),
    /// Training has ended, or was stopped.
    Trained {
        /// Steps that changed no weight, because their gradients overflowed f16.
        skipped: usize,
    },
    /// Extensions are read on the validation split, to select one.
    Selecting(Progress),
    /// The validation split has decided.
    Selected(&'a Selection),
    /// An evaluation reads its text.
    Evaluating(Progress),
}

/// Follows an experiment.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// Whether to stop at the next safe place: after a training step, whose checkpoint is written, or between two
    /// passes of an evaluation, whose rows so far are kept.
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
