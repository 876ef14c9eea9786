//! One step: the loss and the gradient of a batch, and the update.

use super::Trainer;
use super::non_finite::NotFinite;
use super::step_stats::{DeviceStats, StatsLocation, StepOutput, StepStats};
use crate::batch::{MicroBatch, TrainBatch};
use crate::loss_scale::LossScale;
use crate::optimizer::{Clip, GradientScale, clipping, in_units};
use crate::optimizer_state::of_trained;
use crate::parameters;
use crate::schedule::Schedule;
use crate::segment_memory;
use burn::tensor::{Int, Tensor};
use longwave_core::Result;
use longwave_kernels::{accumulate, sums_of_squares};
use longwave_model::{Dropout, Pass, SegmentMemory};

/// The results of the passes over a batch.
pub(super) struct Passes {
    /// Those of the micro-batches; their sum is the step's.
    losses: Vec<Tensor<1>>,
    /// As many times larger as the loss scale says.
    pub(super) gradients: Vec<Tensor<1>>,
    /// After the batch.
    memories: Vec<SegmentMemory>,
}

/// What came of a step, or of a stage.
#[derive(Clone, Debug)]
pub(super) enum Attempt<T> {
    Done(T),
    /// It was asked to stop; nothing has changed.
    Stopped,
    /// Its numbers are not finite; nothing has changed.
    NotFinite(NotFinite),
}

impl Trainer<'_> {
    /// One step of the stage at hand, whose schedule it is given: loss, gradients and update, without
    /// validation, metrics or checkpoints; `None` where `stop` came first. In f16, a step whose gradients overflow
    /// changes no weight. The numbers of the step may still be on the device ([`StepOutput::stats`] waits for it).
    pub fn advance(&mut self, schedule: &Schedule, stop: &dyn Fn() -> bool) -> Result<Option<StepOutput>> {
        match self.attempt(schedule, stop)? {
            Attempt::Done(output) => Ok(Some(output)),
            Attempt::Stopped => Ok(None),
            Attempt::NotFinite(failure) => Err(self.not_finite(&failure, &self.origin()?)),
        }
    }

    /// The same, which leaves numbers that are not finite to the caller.
    pub(super) fn attempt(
        &mut self,
        schedule: &Schedule,
        stop: &dyn Fn() -> bool,
    ) -> Result<Attempt<StepOutput>> {
        let config = self.config();
        let learning_rate = schedule.learning_rate(self.stage_step());
        let Some(Passes { losses, gradients, memories }) = self.gradients(stop)? else {
            return Ok(Attempt::Stopped);
        };
        let gradients = in_units(self.model(), gradients);
        let squares = sums_of_squares(&gradients);
        let numbers = DeviceStats::new(losses, squares.clone());
        let attempt = if self.reads_later {
            self.update(gradients, learning_rate, clipping(squares, config.clip));
            Attempt::Done(StepOutput {
                learning_rate,
                loss_scale: None,
                skipped: false,
                stats: StatsLocation::Device(Box::new(numbers)),
            })
        } else {
            self.update_known(gradients, numbers, learning_rate)?
        };
        if matches!(attempt, Attempt::Done(_)) {
            self.memories = memories;
            self.step += 1;
        }
        Ok(attempt)
    }

    fn update_known(
        &mut self,
        gradients: Vec<Tensor<1>>,
        numbers: DeviceStats,
        learning_rate: f64,
    ) -> Result<Attempt<StepOutput>> {
        let (loss, squares) = numbers.read()?;
        let loss_scale = self.loss_scale.map(|scale| scale.factor);
        let factor = loss_scale.unwrap_or(1.0);
        let clip = Clip::new(&squares, self.config().clip * factor).unscaled(factor);
        let finite = clip.norm.is_finite();
        let next = self.loss_scale.and_then(|scale| scale.after(finite));
        if !loss.is_finite() || !(finite || next.is_some()) {
            let stats = StepStats { loss, gradient_norm: clip.norm };
            let step = self.step + 1;
            return Ok(Attempt::NotFinite(NotFinite { step, stats, learning_rate, validation: None }));
        }
        if finite {
            self.update(gradients, learning_rate, GradientScale::Known(clip.factor));
        }
        self.loss_scale = next;
        let stats = StepStats { loss, gradient_norm: if finite { clip.norm } else { 0.0 } };
        let stats = StatsLocation::Host(stats);
        Ok(Attempt::Done(StepOutput { learning_rate, loss_scale, skipped: !finite, stats }))
    }

    fn update(&mut self, gradients: Vec<Tensor<1>>, learning_rate: f64, scale: GradientScale) {
        let config = self.config();
        let optimizer = &mut self.optimizer;
        let updated = |model| optimizer.update(model, gradients, config, learning_rate, scale);
        self.model = self.model.take().map(updated);
    }

    /// The batch of the next step, and the memories that its passes read.
    pub(super) fn next_batch(&self) -> Result<(TrainBatch, Vec<SegmentMemory>)> {
        let number = self.batch_after(self.step);
        let batch = TrainBatch::of_step(&self.run.config, self.stage, self.dataset, number)?;
        // After a batch that is left out, rows do not go on where those of the step before ended; at the beginning of a stage
        // nothing is remembered.
        let has_memory = self.memories.iter().all(|memory| memory.tokens() > 0);
        if batch.continues() && has_memory && self.skipped_before(self.step + 1) == 0 {
            return Ok((batch, self.memories.clone()));
        }
        let memories = segment_memory::fresh(self.model(), self.config().accumulation);
        Ok((batch.alone(self.dataset), memories))
    }

    /// The draws of a part of the next step's batch.
    pub(super) fn dropout(&self, part: usize) -> Dropout {
        let config = &self.run.config;
        let number = self.batch_after(self.step);
        Dropout {
            rate: config.model.dropout,
            seed: config.seed,
            pass: number * self.config().accumulation as u64 + part as u64,
            step: number,
        }
    }

    /// The share of a part of a batch in the step's loss, `[1]`, of the part's hidden states.
    pub(super) fn part_loss(
        &self,
        hidden: Tensor<3>,
        targets: Tensor<2, Int>,
        weights: Option<Tensor<2>>,
    ) -> Tensor<1> {
        // Weights are shares of the whole batch, the mean is one of the part.
        let is_mean = weights.is_none();
        let loss = self.model().loss_of(hidden, targets, weights);
        if is_mean { loss.div_scalar(self.config().accumulation as f64) } else { loss }
    }

    /// The losses and the gradients of the next step's batch, those of what is trained, and the memories after it; `None`
    /// where `stop` came first.
    pub(super) fn gradients(&self, stop: &dyn Fn() -> bool) -> Result<Option<Passes>> {
        let config = self.config();
        let (batch, mut memories) = self.next_batch()?;
        let mut sum: Option<Vec<Tensor<1>>> = None;
        let mut losses = Vec::new();
        for part in 0..config.accumulation {
            let dropout = self.dropout(part);
            let MicroBatch { inputs, targets, weights, positions } =
                batch.micro_batch(config, part, &self.device);
            let pass = Pass {
                tokens: inputs,
                positions: &positions,
                reading: &self.model().position,
                dropout: Some(&dropout),
            };
            let hidden = segment_memory::hidden(self.model(), &pass, memories.get_mut(part));
            let loss = self.part_loss(hidden, targets, weights);
            losses.push(loss.clone().inner());
            let scaled = match self.loss_scale {
                Some(LossScale { factor, .. }) => loss.mul_scalar(factor),
                None => loss,
            };
            let gradients = parameters::gradients(self.model(), &mut scaled.backward());
            sum = Some(match sum {
                None => gradients,
                Some(sum) => sum.into_iter().zip(gradients).map(|(a, b)| accumulate(a, b)).collect(),
            });
            if stop() {
                return Ok(None);
            }
        }
        let gradients = of_trained(self.model(), &self.optimizer.trained, sum.unwrap_or_default());
        Ok(Some(Passes { losses, gradients, memories }))
    }
}
