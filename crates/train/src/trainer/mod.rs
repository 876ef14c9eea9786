//! The training loop.
//!
//! A step is a pure function of the weights, the moments, the step's number and the batches that are left out: the batch, the
//! dropout masks and the learning rate follow from the seed and these. So a run that stops
//! anywhere, also between the parts of an accumulated batch, goes on from its last whole step and
//! ends with the same bits. Stages follow each other: each changes the reading and the schedule, and steps
//! are counted on, so that no stage draws the batches of another.

mod non_finite;
mod rollback;
mod saving;
mod step;
mod step_stats;
#[cfg(test)]
mod tests;
mod validation;

pub use rollback::MAX_ROLLBACKS;
pub use step_stats::{StepOutput, StepStats};
pub use validation::{check_validation, validation_off};

use crate::checkpoint::{Best, Checkpoint, Meta};
use crate::config::TrainConfig;
use crate::loss_scale::LossScale;
use crate::metrics::{self, Metric, Metrics};
use crate::optimizer_state::Optimizer;
use crate::parameters;
use crate::restore::{begin, restore};
use crate::run::{CheckpointId, Run, remove_leftovers};
use crate::schedule::Schedule;
use crate::segment_memory;
use crate::stage::OptimizerState;
use burn::tensor::Device;
use longwave_core::file::{existing_folder, sha256_of};
use longwave_core::{Error, Result, file, written};
use longwave_data::{Dataset, Split};
use longwave_model::{Gpt, SegmentMemory};
use longwave_position::Positions;
use non_finite::NotFinite;
use std::mem;
use std::path::PathBuf;
use std::time::Instant;
use step::Attempt;
use step_stats::PendingStats;
use validation::validation_windows;

/// What happens in the loop, for whoever shows it.
#[derive(Clone, Debug)]
pub enum Event {
    Step(Metric),
    /// A checkpoint is written, after so many steps.
    Checkpoint {
        /// Steps done.
        step: u64,
        path: PathBuf,
    },
    /// A step was not finite. Training has gone back to the last checkpoint and leaves the batch of that step out.
    RolledBack {
        /// What was not finite.
        why: Error,
        /// Steps done now.
        step: u64,
    },
}

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Done,
    /// It was asked to stop; a checkpoint is written.
    Interrupted,
}

#[derive(Debug)]
pub struct Trainer<'a> {
    run: &'a Run,
    dataset: &'a Dataset,
    device: Device,
    /// Those that validation reads.
    positions: Positions,
    /// Absent only while it is updated, so that its buffers are written in place.
    model: Option<Gpt>,
    optimizer: Optimizer,
    /// One for each part of a batch; empty where the encoding carries none.
    memories: Vec<SegmentMemory>,
    /// In f16.
    loss_scale: Option<LossScale>,
    /// Whether the numbers of a step stay on the device for a while.
    reads_later: bool,
    /// Numbers of the batches that are left out, ascending.
    skipped_batches: Vec<u64>,
    stage: usize,
    step: u64,
    best: Option<Best>,
    /// Validations since the best one.
    without_improvement: u64,
    /// The step that `last` holds, where it is whole.
    saved: Option<u64>,
    /// The checkpoint to go back to and its step; `None` where that is the beginning.
    good: Option<(PathBuf, u64)>,
    /// SHA-256 of the run's `tokenizer.json`.
    tokenizer: String,
    /// Whether the checkpoint is of the run as it was before it got other steps or a stage, or of another run.
    is_other: bool,
}

impl<'a> Trainer<'a> {
    /// A training of `fresh`, a [`fresh_model`](crate::fresh_model) on `device` with gradients, or of a checkpoint's weights in it.
    pub fn new(
        run: &'a Run,
        dataset: &'a Dataset,
        fresh: Gpt,
        device: &Device,
        from: Option<&Checkpoint>,
    ) -> Result<Self> {
        let config = &run.config;
        let precision = config.check_precision(device)?;
        let tracked = device.clone().autodiff();
        let stage = from.map_or(0, |checkpoint| checkpoint.meta.stage());
        let empty = |model: &Gpt| segment_memory::fresh(model, config.stage(stage).accumulation);
        let trained = config.trained_part(stage);
        let (model, optimizer, memories) = match from {
            None => {
                let optimizer = Optimizer::new(&config.train, &parameters::list(&fresh), device);
                let memories = empty(&fresh);
                (fresh, optimizer, memories)
            }
            Some(checkpoint) => {
                let model = restore(config, fresh, device, checkpoint)?;
                let optimizer = checkpoint.optimizer(&config.train, &model, device)?;
                let memories = checkpoint.memories(empty(&model), &tracked)?;
                (model, optimizer, memories)
            }
        };
        let meta = from
            .map_or_else(|| Meta::new(0, &run.hash, None, Vec::new()), |checkpoint| checkpoint.meta.clone());
        let loss_scale = meta.loss_scale.or_else(|| LossScale::first(precision));
        Ok(Self {
            run,
            dataset,
            device: tracked,
            positions: Positions::range(0..config.stage(stage).length),
            model: Some(model.with_precision(precision)),
            optimizer: optimizer.of(trained),
            memories,
            loss_scale,
            reads_later: *device != Device::flex() && loss_scale.is_none(),
            skipped_batches: meta.skipped_batches,
            stage,
            step: meta.step,
            best: meta.best,
            without_improvement: meta.without_improvement,
            // A damaged `last` is written again.
            saved: from.filter(|it| it.path == run.checkpoint(CheckpointId::Last)).map(|_| meta.step),
            is_other: meta.config_hash != run.hash
                || from.is_some_and(|checkpoint| !checkpoint.path.starts_with(&run.folder)),
            good: from.map(|checkpoint| (checkpoint.path.clone(), meta.step)),
            tokenizer: sha256_of(dataset.tokenizer().to_json()?.as_bytes()),
        })
    }

    /// Finds the best weights of the checkpoint that training goes on from, and makes the checkpoint one of this run, where the run had
    /// other steps or fewer stages when it was written. It comes before the config is written: whoever is killed in between finds either run whole.
    pub fn take_over(&mut self) -> Result<()> {
        self.find_best()?;
        if mem::take(&mut self.is_other) {
            let path = self.save(CheckpointId::Last)?;
            self.saved = Some(self.step);
            self.good = Some((path, self.step));
        }
        Ok(())
    }

    /// The model as it stands.
    ///
    /// # Panics
    /// Never: an update puts back what it takes.
    pub fn model(&self) -> &Gpt {
        self.model.as_ref().expect("an update puts back what it takes")
    }

    /// The trained weights, without gradients and in f32.
    pub fn into_model(self) -> Gpt {
        self.evaluated()
    }

    pub fn step(&self) -> u64 {
        self.step
    }

    /// Numbers of the batches that were left out, ascending.
    pub fn skipped_batches(&self) -> &[u64] {
        &self.skipped_batches
    }

    fn config(&self) -> &'a TrainConfig {
        self.run.config.stage(self.stage)
    }

    fn stage_step(&self) -> u64 {
        self.step - self.run.config.steps_before(self.stage)
    }

    /// Whether the validations of the stage at hand have come to its `patience`.
    fn is_out_of_patience(&self) -> bool {
        self.config().is_out_of_patience(self.without_improvement)
    }

    /// Trains until the last step, or until `patience` or `stop` ends it, which is asked after every pass.
    pub fn train(&mut self, stop: &dyn Fn() -> bool, show: &mut dyn FnMut(&Event)) -> Result<Outcome> {
        let mut metrics = Metrics::open(&self.run.folder, self.step)?;
        loop {
            match self.train_stage(&mut metrics, stop, show)? {
                Attempt::Done(()) if self.stage == self.run.config.last_stage() => return Ok(Outcome::Done),
                Attempt::Done(()) => self.begin_stage()?,
                Attempt::Stopped => return Ok(Outcome::Interrupted),
                Attempt::NotFinite(failure) => match self.recover(&failure, &mut metrics, stop, show)? {
                    Outcome::Done => {}
                    Outcome::Interrupted => return Ok(Outcome::Interrupted),
                },
            }
        }
    }

    /// Goes over to the next stage: its reading, its length, and fresh moments where it says so or where a
    /// parameter is another.
    fn begin_stage(&mut self) -> Result<()> {
        self.stage += 1;
        let before = parameters::list(self.model());
        let position = begin(&self.run.config, &self.model().position, self.stage)?;
        if let Some(model) = &mut self.model {
            model.position = position;
        }
        let after = parameters::list(self.model());
        let trained = self.run.config.trained_part(self.stage);
        let mut fresh =
            Optimizer::new(&self.run.config.train, &after, &self.device.clone().inner()).of(trained);
        if self.run.config.stages[self.stage - 1].optimizer == OptimizerState::Keep {
            for (index, now) in after.iter().enumerate() {
                // A stage may have added some.
                if let Some(old) = before.iter().position(|old| old == now) {
                    fresh.state[index].clone_from(&self.optimizer.state[old]);
                    fresh.updates[index] = self.optimizer.updates[old];
                }
            }
        }
        self.optimizer = fresh;
        self.positions = Positions::range(0..self.config().length);
        // Rows of another length begin elsewhere in the text.
        self.memories = segment_memory::fresh(self.model(), self.config().accumulation);
        // Losses at another length are no measure for this one.
        (self.best, self.without_improvement) = (None, 0);
        Ok(())
    }

    fn train_stage(
        &mut self,
        metrics: &mut Metrics,
        stop: &dyn Fn() -> bool,
        show: &mut dyn FnMut(&Event),
    ) -> Result<Attempt<()>> {
        let config = self.config();
        let schedule = Schedule::new(config);
        let windows =
            validation_windows(self.dataset.tokens(Split::Valid), config.length, config.validation_tokens);
        let kept = self.run.config.kept_steps();
        let mut pending = PendingStats::new();
        while self.stage_step() < config.steps && !self.is_out_of_patience() {
            pending.begin();
            match self.attempt(&schedule, stop) {
                Ok(Attempt::Done(output)) => pending.push(output),
                ended => return self.leave(ended, &mut pending, metrics, show),
            }
            let due = self.due(&schedule, &kept);
            let validates = config.validates_at(self.stage_step());
            if validates || due.any() || pending.is_full() {
                let windows = validates.then_some(&*windows);
                if let Some(failure) = self.record(&mut pending, windows, metrics, show)? {
                    return Ok(Attempt::NotFinite(failure));
                }
            }
            self.save_due(due, metrics, show)?;
        }
        Ok(Attempt::Done(()))
    }

    /// Ends a stage whose step was not done: records the steps before it, and writes a checkpoint where it was asked to stop.
    fn leave(
        &mut self,
        ended: Result<Attempt<StepOutput>>,
        pending: &mut PendingStats,
        metrics: &mut Metrics,
        show: &mut dyn FnMut(&Event),
    ) -> Result<Attempt<()>> {
        let earlier = self.record(pending, None, metrics, show)?;
        metrics.flush()?;
        if let Some(failure) = earlier {
            return Ok(Attempt::NotFinite(failure));
        }
        if let Attempt::NotFinite(failure) = ended? {
            return Ok(Attempt::NotFinite(failure));
        }
        self.save_last(metrics, show)?;
        Ok(Attempt::Stopped)
    }

    /// Reads the numbers of the pending steps, validates on windows if there are any, writes and shows them. Ends before the
    /// first that is not finite, and returns it.
    fn record(
        &mut self,
        pending: &mut PendingStats,
        windows: Option<&[usize]>,
        metrics: &mut Metrics,
        show: &mut dyn FnMut(&Event),
    ) -> Result<Option<NotFinite>> {
        let first = self.step + 1 - pending.len() as u64;
        let (steps, seconds) = pending.read()?;
        let last = steps.len().saturating_sub(1);
        let resident_mib = metrics::resident_mib();
        for (index, (output, stats)) in steps.into_iter().enumerate() {
            let step = first + index as u64;
            let learning_rate = output.learning_rate;
            if !stats.is_finite() {
                metrics.flush()?;
                return Ok(Some(NotFinite { step, stats, learning_rate, validation: None }));
            }
            let mut metric = Metric { seconds, resident_mib, ..self.metric(step, &output, stats) };
            if let Some(windows) = windows.filter(|_| index == last) {
                let start = Instant::now();
                metric.valid_loss = self.validate(windows)?;
                metric.seconds += start.elapsed().as_secs_f64();
                // The step's own numbers are of before it changed the weights.
                let validation = metric.valid_loss.filter(|loss| !loss.is_finite());
                if validation.is_some() {
                    metrics.flush()?;
                    return Ok(Some(NotFinite { step: step + 1, stats, learning_rate, validation }));
                }
            }
            metrics.push(&metric)?;
            let valid_loss = metric.valid_loss;
            show(&Event::Step(metric));
            if let Some(loss) = valid_loss {
                self.keep_best(loss)?;
            }
        }
        Ok(None)
    }

    /// The line of a step of the stage at hand, before validation and without its time and memory.
    fn metric(&self, step: u64, output: &StepOutput, stats: StepStats) -> Metric {
        let run = &self.run.config;
        let in_stage = step - run.steps_before(self.stage);
        Metric {
            format: metrics::FORMAT,
            stage: self.stage,
            step,
            tokens: run.tokens_before(self.stage) + in_stage * self.config().batch_tokens as u64,
            loss: stats.loss,
            learning_rate: output.learning_rate,
            gradient_norm: stats.gradient_norm,
            loss_scale: output.loss_scale,
            skipped: output.skipped,
            skipped_batches: self.skipped_before(step),
            valid_loss: None,
            seconds: 0.0,
            resident_mib: None,
        }
    }
}

/// Writes what a run's folder holds before training: the resolved config, the tokenizer, and the folder of the checkpoints.
pub fn open_folder(run: &Run, document: &toml::Table, dataset: &Dataset) -> Result<()> {
    let text = written::toml("the config", document)?;
    remove_leftovers(&run.folder);
    file::write(&run.folder.join("config.toml"), text.as_bytes())?;
    existing_folder::make_below(&run.folder, &run.folder.join("checkpoints"))?;
    if let Some(record) = dataset.record() {
        record.write(&run.folder)?;
    }
    dataset.tokenizer().save(&run.folder.join("tokenizer.json"))
}
