//! The checkpoints of a training in progress.

use super::{Event, Trainer};
use crate::checkpoint::{self, Best, Meta};
use crate::metrics::Metrics;
use crate::restore::recorded;
use crate::run::{CheckpointId, best_of_stable, best_weights};
use crate::schedule::Schedule;
use longwave_core::{Result, file};
use std::path::PathBuf;

/// What is to be written after a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// The checkpoint that training goes on from.
    last: bool,
    /// The state before the final decay.
    stable: bool,
    /// The weights of this step.
    kept: bool,
}

impl Due {
    pub(super) fn any(self) -> bool {
        self.last || self.stable || self.kept
    }
}

impl Trainer<'_> {
    /// What is to be written now that a step is done; `kept` are the steps whose weights are kept, ascending.
    pub(super) fn due(&self, schedule: &Schedule, kept: &[u64]) -> Due {
        let (step, config) = (self.stage_step(), self.config());
        Due {
            last: step.is_multiple_of(config.checkpoint_every()) || step == config.steps,
            stable: self.stage == 0 && step == schedule.stable_end(),
            kept: kept.binary_search(&self.step).is_ok(),
        }
    }

    /// Writes the checkpoints of this step, whose metrics are recorded.
    pub(super) fn save_due(
        &mut self,
        due: Due,
        metrics: &mut Metrics,
        show: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let ends = self.stage_step() == self.config().steps || self.is_out_of_patience();
        let last_stage = self.run.config.last_stage();
        // A checkpoint never knows of steps that the metrics lack.
        if due.stable || due.kept || ends {
            metrics.flush()?;
        }
        if due.kept {
            self.keep_step()?;
        }
        if due.stable {
            self.save_stable()?;
        }
        if ends && last_stage > 0 {
            self.save(CheckpointId::Stage(self.stage))?;
        }
        if ends && self.stage == last_stage {
            metrics.finish()?;
        }
        // Training never goes back to before its best weights, which replace those that were best before.
        if due.last || ends || self.best.is_some_and(|best| best.step == self.step) {
            self.save_last(metrics, show)?;
        }
        Ok(())
    }

    pub(super) fn keep_best(&mut self, loss: f64) -> Result<()> {
        self.without_improvement += 1;
        if self.best.is_none_or(|best| loss < best.loss) {
            self.without_improvement = 0;
            self.best = Some(Best { step: self.step, loss });
            let meta = self.meta()?;
            checkpoint::save(&self.run.checkpoint(CheckpointId::Best), self.model(), None, &[], &meta)?;
        }
        Ok(())
    }

    /// Writes `last`, unless it holds this step already.
    pub(super) fn save_last(&mut self, metrics: &mut Metrics, show: &mut dyn FnMut(&Event)) -> Result<()> {
        metrics.flush()?;
        if self.saved == Some(self.step) {
            return Ok(());
        }
        if self.saved.is_some() {
            file::link(
                &self.run.checkpoint(CheckpointId::Last),
                &self.run.checkpoint(CheckpointId::Previous),
            )?;
        }
        let path = self.save(CheckpointId::Last)?;
        self.saved = Some(self.step);
        self.good = Some((path.clone(), self.step));
        show(&Event::Checkpoint { step: self.step, path });
        Ok(())
    }

    /// Writes the state before the final decay of `wsd`, and keeps the best weights of until then: the decay may find better
    /// ones, which a run that goes on from here has never had.
    fn save_stable(&self) -> Result<()> {
        self.save(CheckpointId::Stable)?;
        let (best, kept) = (self.run.checkpoint(CheckpointId::Best), best_of_stable(&self.run.folder));
        if self.best.is_some() && best.exists() { file::link(&best, &kept) } else { Ok(()) }
    }

    /// Makes `best` the best weights of the checkpoint that training goes on from: a run that was killed, that goes back, or that goes on
    /// from before its decay may have found others since. Where they are gone, the next validation is the first.
    pub(super) fn find_best(&mut self) -> Result<()> {
        let Some(best) = self.best else { return Ok(()) };
        let there = self.run.checkpoint(CheckpointId::Best);
        match best_weights(&self.run.folder, best) {
            Some(found) if found == there => Ok(()),
            Some(kept) => file::link(&kept, &there),
            None => {
                (self.best, self.without_improvement) = (None, 0);
                Ok(())
            }
        }
    }

    /// Writes the weights of this step, which nothing replaces.
    fn keep_step(&self) -> Result<()> {
        let path = self.run.checkpoint(CheckpointId::Step(self.step));
        checkpoint::save(&path, self.model(), None, &[], &self.meta()?)
    }

    pub(super) fn save(&self, which: CheckpointId) -> Result<PathBuf> {
        let path = self.run.checkpoint(which);
        checkpoint::save(&path, self.model(), Some(&self.optimizer), &self.memories, &self.meta()?)?;
        Ok(path)
    }

    fn meta(&self) -> Result<Meta> {
        let stages = recorded(&self.run.config, self.stage)?;
        let meta = Meta::new(self.step, &self.run.hash, self.best, stages);
        let without_improvement = self.without_improvement;
        let tokenizer = Some(self.tokenizer.clone());
        let skipped_batches = self.skipped_batches.clone();
        let (loss_scale, updates) = (self.loss_scale, self.optimizer.updates.clone());
        Ok(Meta { without_improvement, loss_scale, updates, skipped_batches, tokenizer, ..meta })
    }
}
