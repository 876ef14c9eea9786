//! The training loop.
//!
//! A step is a pure function of the weights, the moments and the step's number: the batch, the
//! dropout masks and the learning rate follow from the seed and the step. So a run that stops
//! anywhere, also between the parts of an accumulated batch, goes on from its last whole step and
//! ends with the same bits. Stages follow each other: each changes the reading and the schedule, and steps
//! are counted on, so that no stage draws the batches of another.

mod saving;
mod validation;

use crate::checkpoint::{Best, Checkpoint};
use crate::config::TrainConfig;
use crate::feed::{Feed, Part};
use crate::loss_scale::LossScale;
use crate::metrics::{self, Metric, Metrics};
use crate::optimizer::{Optimizer, clip};
use crate::parameters;
use crate::recurrence;
use crate::restore::{begin, restore};
use crate::run::{Run, Which};
use crate::run_config::RunConfig;
use crate::schedule::Schedule;
use crate::stage::Moments;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::{Error, Result, file};
use longwave_data::{Dataset, Split};
use longwave_kernels::{Precision, mean, total};
use longwave_model::config::Resolved;
use longwave_model::{Dropout, Gpt, Memory, Pass};
use longwave_position::{Init, Positions};
use std::path::PathBuf;
use std::time::Instant;
use validation::validation_windows;

/// What happens in the loop, for whoever shows it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A step is done.
    Step(Metric),
    /// A checkpoint is written, after so many steps.
    Checkpoint {
        /// Steps done.
        step: u64,
        /// Where it is.
        path: PathBuf,
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

/// What one step showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advanced {
    /// Mean loss of the batch before the update, nats per token.
    pub loss: f64,
    /// The step size of the update.
    pub learning_rate: f64,
    /// Euclidean norm of the gradient before clipping; 0 where the step was left out.
    pub gradient_norm: f64,
    /// What the loss was multiplied by, where it was.
    pub loss_scale: Option<f64>,
    /// The step was left out, because its gradients overflowed f16.
    pub skipped: bool,
}

/// A training in progress.
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
    memories: Vec<Memory>,
    /// In f16.
    loss_scale: Option<LossScale>,
    /// Steps left out since the moments began.
    skipped: u64,
    stage: usize,
    step: u64,
    best: Option<Best>,
    saved: Option<u64>,
}

impl<'a> Trainer<'a> {
    /// Fresh weights, or those of a checkpoint. `device` is the plain device; gradients are added here.
    ///
    /// # Errors
    /// The encoding does not fit the model, the checkpoint does not fit the config, or the device does not compute
    /// in the precision.
    pub fn new(
        run: &'a Run,
        dataset: &'a Dataset,
        resolved: &Resolved,
        device: &Device,
        from: Option<&Checkpoint>,
    ) -> Result<Self> {
        let config = &run.config;
        let precision = config.check_precision(device)?;
        let tracked = device.clone().autodiff();
        let init = Init::new(config.seed, &tracked);
        let stage = from.map_or(0, |checkpoint| checkpoint.meta.stage());
        let fresh = |model: &Gpt| recurrence::fresh(model, config.stage(stage).accumulation);
        let (model, optimizer, memories) = match from {
            None => {
                let model = Gpt::new(resolved, &config.position, &init)?;
                let optimizer = Optimizer::new(&parameters::list(&model), device);
                let memories = fresh(&model);
                (model, optimizer, memories)
            }
            Some(checkpoint) => {
                let model = restore(config, resolved, &init, device, checkpoint)?;
                let optimizer = checkpoint.optimizer(&model, device)?;
                let memories = checkpoint.memories(fresh(&model), &tracked)?;
                (model, optimizer, memories)
            }
        };
        Ok(Self {
            run,
            dataset,
            device: tracked,
            positions: Positions::range(0..config.stage(stage).length),
            model: Some(model.with_precision(precision)),
            optimizer,
            memories,
            loss_scale: from
                .and_then(|checkpoint| checkpoint.meta.loss_scale)
                .or_else(|| LossScale::first(precision)),
            skipped: from.map_or(0, |checkpoint| checkpoint.meta.skipped),
            stage,
            step: from.map_or(0, |checkpoint| checkpoint.meta.step),
            best: from.and_then(|checkpoint| checkpoint.meta.best),
            saved: from.map(|checkpoint| checkpoint.meta.step),
        })
    }

    /// The model as it stands.
    ///
    /// # Panics
    /// Never: an update puts back what it takes.
    pub fn model(&self) -> &Gpt {
        self.model.as_ref().expect("an update puts back what it takes")
    }

    /// Steps done, in all stages.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The configuration of the stage at hand.
    fn config(&self) -> &'a TrainConfig {
        self.run.config.stage(self.stage)
    }

    /// Steps done in the stage at hand.
    fn stage_step(&self) -> u64 {
        self.step - self.run.config.steps_before(self.stage)
    }

    /// Trains until the last step or until `stop` says so, which is asked after every pass.
    ///
    /// # Errors
    /// A loss or gradient that is not finite, a training text shorter than a sequence, or a file
    /// that cannot be written.
    pub fn train(&mut self, stop: &dyn Fn() -> bool, show: &mut dyn FnMut(&Event)) -> Result<Outcome> {
        let mut metrics = Metrics::open(&self.run.folder, self.step)?;
        loop {
            if self.train_stage(&mut metrics, stop, show)? == Outcome::Interrupted {
                return Ok(Outcome::Interrupted);
            }
            if self.stage == self.run.config.last_stage() {
                return Ok(Outcome::Done);
            }
            self.begin_stage()?;
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
        let mut fresh = Optimizer::new(&after, &self.device.clone().inner());
        if self.run.config.stages[self.stage - 1].optimizer == Moments::Keep {
            for (index, _) in after.iter().enumerate().filter(|(index, now)| before[*index] == **now) {
                fresh.first[index] = self.optimizer.first[index].clone();
                fresh.second[index] = self.optimizer.second[index].clone();
            }
        } else {
            self.skipped = 0;
        }
        self.optimizer = fresh;
        self.positions = Positions::range(0..self.config().length);
        // Rows of another length begin elsewhere in the text.
        self.memories = recurrence::fresh(self.model(), self.config().accumulation);
        // Losses at another length are no measure for this one.
        self.best = None;
        Ok(())
    }

    /// Trains to the end of the stage at hand.
    fn train_stage(
        &mut self,
        metrics: &mut Metrics,
        stop: &dyn Fn() -> bool,
        show: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        let config = self.config();
        let run = &self.run.config;
        let schedule = Schedule::new(config);
        let windows =
            validation_windows(self.dataset.tokens(Split::Valid), config.length, config.validation_tokens);
        while self.stage_step() < config.steps {
            let start = Instant::now();
            let advanced = match self.advance(&schedule, stop) {
                Ok(advanced) => advanced,
                Err(error) => {
                    metrics.flush()?;
                    return Err(error);
                }
            };
            let Some(Advanced { loss, learning_rate, gradient_norm, loss_scale, skipped }) = advanced else {
                self.save_last(metrics, show)?;
                return Ok(Outcome::Interrupted);
            };
            let step = self.stage_step();
            let due = |every: u64| step.is_multiple_of(every) || step == config.steps;
            let valid_loss = if due(config.validate_every()) { self.validate(&windows)? } else { None };
            let metric = Metric {
                format: metrics::FORMAT,
                stage: self.stage,
                step: self.step,
                tokens: run.tokens_before(self.stage) + step * config.batch_tokens as u64,
                loss,
                learning_rate,
                gradient_norm,
                loss_scale,
                skipped,
                valid_loss,
                seconds: start.elapsed().as_secs_f64(),
            };
            metrics.push(&metric)?;
            show(&Event::Step(metric));
            if let Some(loss) = valid_loss {
                self.keep_best(loss)?;
            }
            if self.stage == 0 && step == schedule.stable_end() {
                self.save(Which::Stable)?;
            }
            if step == config.steps && run.last_stage() > 0 {
                self.save(Which::Stage(self.stage))?;
            }
            if due(config.checkpoint_every()) {
                self.save_last(metrics, show)?;
            }
        }
        Ok(Outcome::Done)
    }

    /// One step of the stage at hand, whose schedule it is given: loss, gradients and update, without
    /// validation, metrics or checkpoints; `None` where `stop` came first. In f16, a step whose gradients overflow
    /// changes no weight.
    ///
    /// # Errors
    /// A loss or gradient that is not finite, or a training text shorter than a sequence.
    pub fn advance(&mut self, schedule: &Schedule, stop: &dyn Fn() -> bool) -> Result<Option<Advanced>> {
        let config = self.config();
        let learning_rate = schedule.learning_rate(self.stage_step());
        let Some((loss, gradients, memories)) = self.gradients(stop)? else { return Ok(None) };
        let factor = self.loss_scale.map(|scale| scale.factor);
        let clip = clip(&gradients, config.clip * factor.unwrap_or(1.0)).unscaled(factor.unwrap_or(1.0));
        let finite = clip.norm.is_finite();
        let next = self.loss_scale.and_then(|scale| scale.after(finite));
        if !loss.is_finite() || !(finite || next.is_some()) {
            return Err(self.not_finite(loss, clip.norm, learning_rate));
        }
        if finite {
            let updates = self.step - self.run.config.moments_since(self.stage) - self.skipped;
            let optimizer = &mut self.optimizer;
            let updated = |model| optimizer.update(model, gradients, config, learning_rate, updates, clip);
            self.model = self.model.take().map(updated);
        } else {
            self.skipped += 1;
        }
        self.loss_scale = next;
        self.memories = memories;
        self.step += 1;
        let gradient_norm = if finite { clip.norm } else { 0.0 };
        Ok(Some(Advanced { loss, learning_rate, gradient_norm, loss_scale: factor, skipped: !finite }))
    }

    /// The loss of a step's batch, its gradient, which is as many times larger as the loss scale says, and the memories
    /// after it; `None` where `stop` came first.
    fn gradients(&self, stop: &dyn Fn() -> bool) -> Result<Option<Gradients>> {
        let config = self.config();
        let seed = self.run.config.seed;
        let feed = Feed::of_step(&self.run.config, self.stage, self.dataset, self.step)?;
        let mut memories = if feed.continues() {
            self.memories.clone()
        } else {
            recurrence::fresh(self.model(), config.accumulation)
        };
        let mut sum: Option<Vec<Tensor<1>>> = None;
        let mut loss = 0.0;
        for part in 0..config.accumulation {
            let dropout = Dropout {
                rate: self.run.config.model.dropout,
                seed,
                pass: self.step * config.accumulation as u64 + part as u64,
            };
            let Part { inputs, targets, weights, positions } = feed.part(config, part, &self.device);
            let pass = Pass {
                tokens: inputs,
                positions: &positions,
                reading: &self.model().position,
                dropout: Some(&dropout),
            };
            let hidden = recurrence::hidden(self.model(), &pass, memories.get_mut(part));
            let nll = self.model().nll_of(hidden, targets, 0..config.length); // [micro batch, length]
            let mean = match weights {
                None => mean(nll).div_scalar(config.accumulation as f64),
                Some(weights) => total(nll * weights),
            };
            loss += f64::from(mean.clone().into_scalar::<f32>());
            let scaled = match self.loss_scale {
                Some(LossScale { factor, .. }) => mean.mul_scalar(factor),
                None => mean,
            };
            let gradients = parameters::gradients(self.model(), &mut scaled.backward());
            sum = Some(match sum {
                None => gradients,
                Some(sum) => sum.into_iter().zip(gradients).map(|(a, b)| a + b).collect(),
            });
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some((loss, sum.unwrap_or_default(), memories)))
    }

    fn not_finite(&self, loss: f64, norm: f64, learning_rate: f64) -> Error {
        let last = match self.saved {
            Some(step) => {
                format!(
                    "the last good checkpoint is `{}` (step {step})",
                    self.run.checkpoint(Which::Last).display()
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
            "step {}: loss {loss}, gradient norm {norm} at learning rate {learning_rate:.3e}; {last}",
            self.step + 1
        ))
        .hint(format!(
            "{wider}lower `{section}.learning_rate`, lengthen `{section}.warmup`, or lower `{section}.clip`"
        ))
    }
}

/// The loss and the gradients of a step, and the memories after it.
type Gradients = (f64, Vec<Tensor<1>>, Vec<Memory>);

/// Writes what a run's folder holds before training: the resolved config and the tokenizer.
///
/// # Errors
/// A file cannot be written.
pub fn open_folder(run: &Run, document: &toml::Table, dataset: &Dataset) -> Result<()> {
    let text = toml::to_string(document)
        .map_err(|error| Error::failed(format!("the config cannot be written as TOML: {error}")))?;
    file::write(&run.folder.join("config.toml"), text.as_bytes())?;
    dataset.tokenizer().save(&run.folder.join("tokenizer.json"))
}

/// Token ids `[batch, length]` on a device.
pub fn upload(tokens: &[u32], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
    Tensor::from_data(TensorData::new(tokens, shape), device)
}
