//! Going back to the last good checkpoint, and leaving a batch out (`train.on_non_finite = "rollback"`).
//!
//! Batches are numbered from 0, and a step reads the first one that no step before it read and that is not left out. A step
//! that is not finite puts its batch on the list of those (or that of the step before, where that spoiled a weight), and training
//! goes back to the checkpoint (Chowdhery et al. 2022, arXiv:2204.02311, section 5.1). The steps before that batch are made
//! again, to the same bits, and those after it read the next batches. `last` is written again with the list before the next
//! step, so a process that is killed after it goes on in the same way; one that is killed before it comes to the same step again.

use super::non_finite::{NotFinite, Origin};
use super::step::Attempt;
use super::{Event, Outcome, Trainer};
use crate::checkpoint::Checkpoint;
use crate::config::OnNonFinite;
use crate::metrics::Metrics;
use crate::restore::fresh_model;
use crate::run::CheckpointId;
use crate::schedule::Schedule;
use longwave_core::{Error, Result};
use longwave_model::Gpt;
use std::mem;

/// How often training goes back to one checkpoint. A batch beyond that is not what is wrong.
pub const MAX_ROLLBACKS: u64 = 3;

/// The number of the batch of the step after `steps` steps; `left_out` is ascending.
fn batch_after(left_out: &[u64], steps: u64) -> u64 {
    left_out.iter().fold(steps, |number, left_out| number + u64::from(*left_out <= number))
}

/// The least number that no batch of the first `steps` steps has.
fn first_unread(left_out: &[u64], steps: u64) -> u64 {
    steps.checked_sub(1).map_or(0, |before| batch_after(left_out, before) + 1)
}

impl Trainer<'_> {
    pub(super) fn batch_after(&self, steps: u64) -> u64 {
        batch_after(&self.skipped_batches, steps)
    }

    /// Batches that are left out between that of the step before and that of `step`, which counts from 1.
    pub(super) fn skipped_before(&self, step: u64) -> u64 {
        self.batch_after(step - 1) - first_unread(&self.skipped_batches, step - 1)
    }

    /// The step that training would go back to.
    fn good_step(&self) -> u64 {
        self.good.as_ref().map_or(0, |(_, step)| *step)
    }

    /// How often training has gone back to the checkpoint at hand.
    fn rollbacks(&self) -> u64 {
        let first = first_unread(&self.skipped_batches, self.good_step());
        self.skipped_batches.iter().filter(|number| **number >= first).count() as u64
    }

    /// What follows a step that is not finite, by the config: an error that says where that began, or training from the last
    /// checkpoint on without its batch. Interrupted where `stop` came before that was known.
    pub(super) fn recover(
        &mut self,
        failure: &NotFinite,
        metrics: &mut Metrics,
        stop: &dyn Fn() -> bool,
        show: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        // Where numbers are read later, the step has changed the weights by now.
        if self.step >= failure.step && !self.repeat_until(failure.step, stop)? {
            self.go_back()?;
            self.save_last(metrics, show)?;
            return Ok(Outcome::Interrupted);
        }
        let origin = self.origin()?;
        let error = self.not_finite(failure, &origin);
        if self.run.config.train.on_non_finite == OnNonFinite::Stop {
            return Err(error);
        }
        if self.rollbacks() >= MAX_ROLLBACKS {
            let hint = error.hint_text().unwrap_or_default().to_owned();
            let tried = format!("{MAX_ROLLBACKS} batches after the last checkpoint are left out already");
            return Err(Error::failed(format!("{}; {tried}", error.message())).hint(hint));
        }
        // A weight was made so by the step before, unless the checkpoint has it; and so was what a validation reads.
        let is_of_before = matches!(origin, Origin::Weight(..)) || failure.validation.is_some();
        let made_before = is_of_before && failure.step - 1 > self.good_step();
        let number = self.batch_after(failure.step - 1 - u64::from(made_before));
        self.go_back().map_err(|why| why.context(error.message()))?;
        let place = self.skipped_batches.partition_point(|left_out| *left_out < number);
        self.skipped_batches.insert(place, number);
        let path = self.save(CheckpointId::Last)?;
        self.saved = Some(self.step);
        self.good = Some((path, self.step));
        *metrics = Metrics::open(&self.run.folder, self.step)?;
        show(&Event::RolledBack { why: error, step: self.step });
        Ok(Outcome::Done)
    }

    /// Puts the state of the last good checkpoint in the place of the one at hand; without one, that of the beginning.
    fn go_back(&mut self) -> Result<()> {
        let from = match &self.good {
            Some((path, _)) => Some(Checkpoint::load(path)?),
            None => None,
        };
        let fresh = self.fresh()?;
        // Two of them need not fit.
        self.optimizer.state.clear();
        let plain = self.device.clone().inner();
        let back = Trainer::new(self.run, self.dataset, fresh, &plain, from.as_ref())?;
        *self = Trainer {
            skipped_batches: mem::take(&mut self.skipped_batches),
            reads_later: self.reads_later,
            saved: self.saved,
            good: self.good.take(),
            ..back
        };
        self.find_best()
    }

    /// The model that training began with.
    pub(super) fn fresh(&self) -> Result<Gpt> {
        let config = &self.run.config;
        let resolved = config.model.resolve(self.model().embedding.dims()[0], config.train.length)?;
        let mut fresh = fresh_model(config, &resolved, &self.device)?;
        fresh.position.set_digits(|| self.dataset.tokenizer().digits())?;
        Ok(fresh)
    }

    /// Goes back and makes the steps before `step` again; `false` where `stop` came first.
    fn repeat_until(&mut self, step: u64, stop: &dyn Fn() -> bool) -> Result<bool> {
        self.go_back()?;
        loop {
            if self.stage_step() == self.config().steps {
                self.begin_stage()?;
            }
            if self.step + 1 == step {
                return Ok(true);
            }
            let schedule = Schedule::new(self.config());
            if let Attempt::Stopped = self.attempt(&schedule, stop)? {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_read_once_or_left_out() {
        for left_out in [&[][..], &[0], &[2], &[0, 1, 5], &[3, 4, 6], &[1, 3]] {
            let read: Vec<u64> = (0..6).map(|steps| batch_after(left_out, steps)).collect();
            let expected: Vec<u64> = (0..20).filter(|number| !left_out.contains(number)).take(6).collect();
            assert_eq!(read, expected, "{left_out:?}");
            let unread: Vec<u64> = (0..6).map(|steps| first_unread(left_out, steps)).collect();
            let after: Vec<u64> =
                [0].into_iter().chain(read.iter().map(|number| number + 1)).take(6).collect();
            assert_eq!(unread, after);
        }
    }
}
