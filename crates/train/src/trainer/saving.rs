//! The checkpoints of a training in progress.

use super::{Event, Trainer};
use crate::checkpoint::{self, Best, Checkpoint, Meta};
use crate::metrics::Metrics;
use crate::restore::recorded;
use crate::run::CheckpointId;
use longwave_core::{Result, file};
use std::path::PathBuf;

impl Trainer<'_> {
    pub(super) fn keep_best(&mut self, loss: f64) -> Result<()> {
        if self.best.is_none_or(|best| loss < best.loss) {
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
    pub(super) fn save_stable(&self) -> Result<()> {
        self.save(CheckpointId::Stable)?;
        let (best, kept) = (self.run.checkpoint(CheckpointId::Best), self.best_of_stable());
        if self.best.is_some() && best.exists() { file::link(&best, &kept) } else { Ok(()) }
    }

    /// Puts the best weights of until `stable` back, where training goes on from there.
    pub(super) fn bring_best_back(&self) -> Result<()> {
        let kept = self.best_of_stable();
        let is_ours = |best: Best| Checkpoint::load(&kept).is_ok_and(|kept| kept.meta.best == Some(best));
        if self.best.is_some_and(is_ours) {
            file::link(&kept, &self.run.checkpoint(CheckpointId::Best))?;
        }
        Ok(())
    }

    fn best_of_stable(&self) -> PathBuf {
        self.run.checkpoint(CheckpointId::Stable).with_file_name("stable-best.safetensors")
    }

    /// Writes the weights of this step, which nothing replaces.
    pub(super) fn keep_step(&self) -> Result<()> {
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
        let tokenizer = Some(self.tokenizer.clone());
        let skipped_batches = self.skipped_batches.clone();
        Ok(Meta { loss_scale: self.loss_scale, skipped: self.skipped, skipped_batches, tokenizer, ..meta })
    }
}
