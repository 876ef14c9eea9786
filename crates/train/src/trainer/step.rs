//! One step: the loss and the gradient of a batch, and the update.

use super::Trainer;
use super::step_stats::{DeviceStats, StatsLocation, StepOutput, StepStats};
use crate::batch::{MicroBatch, TrainBatch};
use crate::loss_scale::LossScale;
use crate::optimizer::{Clip, clipped, in_units, of_trained, squares};
use crate::parameters;
use crate::run::CheckpointId;
use crate::run_config::RunConfig;
use crate::schedule::Schedule;
use crate::segment_memory;
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use longwave_kernels::{Precision, accumulate, mean};
use longwave_model::{Dropout, Pass, SegmentMemory};

/// The results of the passes over a batch.
struct Passes {
    /// Those of the micro-batches; their sum is the step's.
    losses: Vec<Tensor<1>>,
    /// As many times larger as the loss scale says.
    gradients: Vec<Tensor<1>>,
    /// After the batch.
    memories: Vec<SegmentMemory>,
}

impl Trainer<'_> {
    /// One step of the stage at hand, whose schedule it is given: loss, gradients and update, without
    /// validation, metrics or checkpoints; `None` where `stop` came first. In f16, a step whose gradients overflow
    /// changes no weight. The numbers of the step may still be on the device ([`StepOutput::stats`] waits for it).
    ///
    /// # Errors
    /// A loss or gradient that is read here and is not finite, or a training text shorter than a sequence.
    pub fn advance(&mut self, schedule: &Schedule, stop: &dyn Fn() -> bool) -> Result<Option<StepOutput>> {
        let config = self.config();
        let learning_rate = schedule.learning_rate(self.stage_step());
        let Some(Passes { losses, gradients, memories }) = self.gradients(stop)? else { return Ok(None) };
        let gradients = of_trained(self.model(), &self.optimizer.trained, gradients);
        let gradients = in_units(self.model(), gradients);
        let squares = squares(&gradients);
        let numbers = DeviceStats::new(losses, squares.clone());
        let output = if self.reads_later {
            self.update(clipped(gradients, squares, config.clip), learning_rate, 1.0);
            StepOutput {
                learning_rate,
                loss_scale: None,
                skipped: false,
                stats: StatsLocation::Device(Box::new(numbers)),
            }
        } else {
            self.update_known(gradients, numbers, learning_rate)?
        };
        self.memories = memories;
        self.step += 1;
        Ok(Some(output))
    }

    /// The update where the numbers of the step are read first.
    fn update_known(
        &mut self,
        gradients: Vec<Tensor<1>>,
        numbers: DeviceStats,
        learning_rate: f64,
    ) -> Result<StepOutput> {
        let (loss, squares) = numbers.read()?;
        let loss_scale = self.loss_scale.map(|scale| scale.factor);
        let factor = loss_scale.unwrap_or(1.0);
        let clip = Clip::new(&squares, self.config().clip * factor).unscaled(factor);
        let finite = clip.norm.is_finite();
        let next = self.loss_scale.and_then(|scale| scale.after(finite));
        if !loss.is_finite() || !(finite || next.is_some()) {
            let stats = StepStats { loss, gradient_norm: clip.norm };
            return Err(self.not_finite(self.step + 1, stats, learning_rate));
        }
        if finite {
            self.update(gradients, learning_rate, clip.factor);
        } else {
            self.skipped += 1;
        }
        self.loss_scale = next;
        let stats = StepStats { loss, gradient_norm: if finite { clip.norm } else { 0.0 } };
        Ok(StepOutput { learning_rate, loss_scale, skipped: !finite, stats: StatsLocation::Host(stats) })
    }

    fn update(&mut self, gradients: Vec<Tensor<1>>, learning_rate: f64, gradient_scale: f64) {
        let config = self.config();
        let updates = self.step - self.run.config.moments_since(self.stage) - self.skipped;
        let optimizer = &mut self.optimizer;
        let updated =
            |model| optimizer.update(model, gradients, config, learning_rate, updates, gradient_scale);
        self.model = self.model.take().map(updated);
    }

    /// The losses and the gradients of a step's batch, and the memories after it; `None` where `stop` came first.
    fn gradients(&self, stop: &dyn Fn() -> bool) -> Result<Option<Passes>> {
        let config = self.config();
        let seed = self.run.config.seed;
        let batch = TrainBatch::of_step(&self.run.config, self.stage, self.dataset, self.step)?;
        let mut memories = if batch.continues() {
            self.memories.clone()
        } else {
            segment_memory::fresh(self.model(), config.accumulation)
        };
        let mut sum: Option<Vec<Tensor<1>>> = None;
        let mut losses = Vec::new();
        for part in 0..config.accumulation {
            let dropout = Dropout {
                rate: self.run.config.model.dropout,
                seed,
                pass: self.step * config.accumulation as u64 + part as u64,
                step: self.step,
            };
            let MicroBatch { inputs, targets, weights, positions } =
                batch.micro_batch(config, part, &self.device);
            let pass = Pass {
                tokens: inputs,
                positions: &positions,
                reading: &self.model().position,
                dropout: Some(&dropout),
            };
            let hidden = segment_memory::hidden(self.model(), &pass, memories.get_mut(part));
            let nll = self.model().nll_of(hidden, targets, 0..config.length); // [micro batch, length]
            let mean = match weights {
                None => mean(nll).div_scalar(config.accumulation as f64),
                Some(weights) => longwave_kernels::sum(nll * weights),
            };
            losses.push(mean.clone().inner());
            let scaled = match self.loss_scale {
                Some(LossScale { factor, .. }) => mean.mul_scalar(factor),
                None => mean,
            };
            let gradients = parameters::gradients(self.model(), &mut scaled.backward());
            sum = Some(match sum {
                None => gradients,
                Some(sum) => {
                    sum.into_iter().zip(gradients).map(|(sum, part)| accumulate(sum, part)).collect()
                }
            });
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some(Passes { losses, gradients: sum.unwrap_or_default(), memories }))
    }

    pub(super) fn not_finite(&self, step: u64, stats: StepStats, learning_rate: f64) -> Error {
        let StepStats { loss, gradient_norm } = stats;
        let last = match self.saved {
            Some(step) => {
                format!(
                    "the last good checkpoint is `{}` (step {step})",
                    self.run.checkpoint(CheckpointId::Last).display()
                )
            }
            None => "there is no checkpoint yet".to_owned(),
        };
        let section = RunConfig::section(self.stage);
        let wider = match self.config().precision {
            Precision::F16 => "use `train.precision = \"bf16\"` or \"f32\": f16 ends at 65,504; or ",
            Precision::F32 | Precision::Bf16 => "",
        };
        Error::failed(format!(
            "step {step}: loss {loss}, gradient norm {gradient_norm} at learning rate {learning_rate:.3e}; {last}"
        ))
        .hint(format!(
            "{wider}lower `{section}.learning_rate`, lengthen `{section}.warmup`, or lower `{section}.clip`"
        ))
    }
}
