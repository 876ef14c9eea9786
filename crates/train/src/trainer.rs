//! The training loop.
//!
//! A step is a pure function of the weights, the moments and the step's number: the batch, the
//! dropout masks and the learning rate follow from the seed and the step. So a run that stops
//! anywhere, also between the parts of an accumulated batch, goes on from its last whole step and
//! ends with the same bits.

use crate::checkpoint::{self, Best, Checkpoint, Meta};
use crate::feed::{Feed, Part};
use crate::metrics::{self, Metric, Metrics};
use crate::optimizer::{Optimizer, clip};
use crate::parameters;
use crate::recurrence;
use crate::run::{Run, Which};
use crate::schedule::Schedule;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::{Error, Result, file};
use longwave_data::{Dataset, Split, TaskConfig, TokenFile};
use longwave_model::config::Resolved;
use longwave_model::{Dropout, Gpt, Memory, Pass};
use longwave_position::{Init, Positions};
use std::path::PathBuf;
use std::time::Instant;

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
    /// Euclidean norm of the gradient before clipping.
    pub gradient_norm: f64,
}

/// A training in progress.
#[derive(Debug)]
pub struct Trainer<'a> {
    run: &'a Run,
    dataset: &'a Dataset,
    device: Device,
    /// Absent only while it is updated, so that its buffers are written in place.
    model: Option<Gpt>,
    optimizer: Optimizer,
    /// One for each part of a batch; empty where the encoding carries none.
    memories: Vec<Memory>,
    step: u64,
    best: Option<Best>,
    saved: Option<u64>,
}

impl<'a> Trainer<'a> {
    /// Fresh weights, or those of a checkpoint. `device` is the plain device; gradients are added here.
    ///
    /// # Errors
    /// The encoding does not fit the model, or the checkpoint does not fit the config.
    pub fn new(
        run: &'a Run,
        dataset: &'a Dataset,
        resolved: &Resolved,
        device: &Device,
        from: Option<&Checkpoint>,
    ) -> Result<Self> {
        let config = &run.config;
        let tracked = device.clone().autodiff();
        let model = Gpt::new(resolved, &config.position, &Init::new(config.seed, &tracked))?;
        let fresh = recurrence::fresh(&model, config.train.accumulation);
        let (model, optimizer, memories) = match from {
            None => {
                let optimizer = Optimizer::new(&parameters::list(&model), device);
                (model, optimizer, fresh)
            }
            Some(checkpoint) => {
                let model = checkpoint.weights(model, device)?;
                let optimizer = checkpoint.optimizer(&model, device)?;
                (model, optimizer, checkpoint.memories(fresh, &tracked)?)
            }
        };
        Ok(Self {
            run,
            dataset,
            device: tracked,
            model: Some(model),
            optimizer,
            memories,
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

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Trains until the last step or until `stop` says so, which is asked after every pass.
    ///
    /// # Errors
    /// A loss or gradient that is not finite, a training text shorter than a sequence, or a file
    /// that cannot be written.
    pub fn train(&mut self, stop: &dyn Fn() -> bool, show: &mut dyn FnMut(&Event)) -> Result<Outcome> {
        let config = &self.run.config.train;
        let schedule = Schedule::new(config);
        let mut metrics = Metrics::open(&self.run.folder, self.step)?;
        let windows =
            validation_windows(self.dataset.tokens(Split::Valid), config.length, config.validation_tokens);
        while self.step < config.steps {
            let start = Instant::now();
            let advanced = match self.advance(&schedule, stop) {
                Ok(advanced) => advanced,
                Err(error) => {
                    metrics.flush()?;
                    return Err(error);
                }
            };
            let Some(Advanced { loss, learning_rate, gradient_norm }) = advanced else {
                self.save_last(&mut metrics, show)?;
                return Ok(Outcome::Interrupted);
            };
            let step = self.step;
            let due = |every: u64| step.is_multiple_of(every) || step == config.steps;
            let valid_loss = if due(config.validate_every()) { self.validate(&windows)? } else { None };
            let metric = Metric {
                format: metrics::FORMAT,
                step: self.step,
                tokens: self.step * config.batch_tokens as u64,
                loss,
                learning_rate,
                gradient_norm,
                valid_loss,
                seconds: start.elapsed().as_secs_f64(),
            };
            metrics.push(&metric)?;
            show(&Event::Step(metric));
            if let Some(loss) = valid_loss {
                self.keep_best(loss)?;
            }
            if self.step == schedule.stable_end() {
                self.save(Which::Stable)?;
            }
            if due(config.checkpoint_every()) {
                self.save_last(&mut metrics, show)?;
            }
        }
        Ok(Outcome::Done)
    }

    /// One step: loss, gradients and update, without validation, metrics or checkpoints; `None` where
    /// `stop` came first.
    ///
    /// # Errors
    /// A loss or gradient that is not finite, or a training text shorter than a sequence.
    pub fn advance(&mut self, schedule: &Schedule, stop: &dyn Fn() -> bool) -> Result<Option<Advanced>> {
        let config = &self.run.config.train;
        let learning_rate = schedule.learning_rate(self.step);
        let Some((loss, gradients, memories)) = self.gradients(stop)? else { return Ok(None) };
        let clip = clip(&gradients, config.clip);
        if !loss.is_finite() || !clip.norm.is_finite() {
            return Err(self.not_finite(loss, clip.norm, learning_rate));
        }
        let optimizer = &mut self.optimizer;
        let updated = |model| optimizer.update(model, gradients, config, learning_rate, self.step, clip);
        self.model = self.model.take().map(updated);
        self.memories = memories;
        self.step += 1;
        Ok(Some(Advanced { loss, learning_rate, gradient_norm: clip.norm }))
    }

    /// The loss and gradient of a step's batch, and the memories after it; `None` where `stop` came first.
    fn gradients(&self, stop: &dyn Fn() -> bool) -> Result<Option<Gradients>> {
        let config = &self.run.config.train;
        let seed = self.run.config.seed;
        let feed = Feed::of_step(config, self.dataset, seed, self.step)?;
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
                None => nll.mean().div_scalar(config.accumulation as f64),
                Some(weights) => (nll * weights).sum(),
            };
            loss += f64::from(mean.clone().into_scalar::<f32>());
            let gradients = parameters::gradients(self.model(), &mut mean.backward());
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

    /// Mean loss of the answers to a task's validation sequences.
    fn validate_task(&self, task: &TaskConfig) -> Result<f64> {
        let config = &self.run.config.train;
        let rows = config.micro_batch();
        let model = self.model().valid();
        let device = self.device.clone().inner();
        let positions = Positions::range(0..config.length);
        let (mut sum, mut count) = (0.0, 0usize);
        for index in 0..config.validation_tokens.div_ceil(rows * config.length) {
            let batch = task.validation(index as u64, rows, config.length)?;
            let shape = [rows, config.length];
            let pass = Pass {
                tokens: upload(&batch.inputs, shape, &device),
                positions: &positions,
                reading: &model.position,
                dropout: None,
            };
            let nll = numbers(model.nll(&pass, upload(&batch.targets, shape, &device), 0..config.length))?;
            let scored = batch.scored.unwrap_or_default();
            let scored = nll.iter().zip(scored).filter(|(_, scored)| *scored).map(|(nll, _)| f64::from(*nll));
            scored.for_each(|nll| (sum, count) = (sum + nll, count + 1));
        }
        Ok(sum / count as f64)
    }

    /// Mean loss over the validation windows; `None` where there is none.
    fn validate(&self, windows: &[usize]) -> Result<Option<f64>> {
        if let Some(task) = self.dataset.task() {
            return self.validate_task(task).map(Some);
        }
        if windows.is_empty() {
            return Ok(None);
        }
        let config = &self.run.config.train;
        let tokens = self.dataset.tokens(Split::Valid);
        let model = self.model().valid();
        let device = self.device.clone().inner();
        let positions = Positions::range(0..config.length);
        let (mut sum, mut count) = (0.0, 0usize);
        for starts in windows.chunks(config.micro_batch()) {
            let read = |shift: usize| {
                let tokens: Vec<u32> =
                    starts.iter().flat_map(|s| tokens.read(s + shift..s + shift + config.length)).collect();
                upload(&tokens, [starts.len(), config.length], &device)
            };
            let pass =
                Pass { tokens: read(0), positions: &positions, reading: &model.position, dropout: None };
            let nll = numbers(model.nll(&pass, read(1), 0..config.length))?;
            sum += nll.iter().copied().map(f64::from).sum::<f64>();
            count += nll.len();
        }
        Ok(Some(sum / count as f64))
    }

    fn keep_best(&mut self, loss: f64) -> Result<()> {
        if self.best.is_none_or(|best| loss < best.loss) {
            self.best = Some(Best { step: self.step, loss });
            let meta = self.meta();
            checkpoint::save(&self.run.checkpoint(Which::Best), self.model(), None, &[], &meta)?;
        }
        Ok(())
    }

    /// Writes `last`, unless it holds this step already.
    fn save_last(&mut self, metrics: &mut Metrics, show: &mut dyn FnMut(&Event)) -> Result<()> {
        metrics.flush()?;
        if self.saved == Some(self.step) {
            return Ok(());
        }
        let path = self.save(Which::Last)?;
        self.saved = Some(self.step);
        show(&Event::Checkpoint { step: self.step, path });
        Ok(())
    }

    fn save(&self, which: Which) -> Result<PathBuf> {
        let path = self.run.checkpoint(which);
        checkpoint::save(&path, self.model(), Some(&self.optimizer), &self.memories, &self.meta())?;
        Ok(path)
    }

    fn meta(&self) -> Meta {
        Meta::new(self.step, &self.run.hash, self.best)
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
        Error::failed(format!(
            "step {}: loss {loss}, gradient norm {norm} at learning rate {learning_rate:.3e}; {last}",
            self.step + 1
        ))
        .hint("lower `train.learning_rate`, lengthen `train.warmup`, or lower `train.clip`")
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

/// Losses on the host.
fn numbers(losses: Tensor<2>) -> Result<Vec<f32>> {
    let read = losses.into_data_as::<f32>().try_to_vec::<f32>();
    read.map_err(|error| Error::failed(format!("cannot read the losses back: {error:?}")))
}

/// Token ids `[batch, length]` on a device.
pub fn upload(tokens: &[u32], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
    Tensor::from_data(TensorData::new(tokens, shape), device)
}

/// Starts of windows of `length` tokens and their targets, spread evenly over the split, none of them
/// across a document's end.
fn validation_windows(tokens: &TokenFile, length: usize, wanted_tokens: usize) -> Vec<usize> {
    let all: Vec<usize> = (0..tokens.documents())
        .map(|index| tokens.document(index))
        .flat_map(|document| {
            let count = document.len().saturating_sub(1) / length;
            (0..count).map(move |window| document.start + window * length)
        })
        .collect();
    let wanted = wanted_tokens.div_ceil(length).min(all.len());
    (0..wanted).map(|index| all[index * all.len() / wanted]).collect()
}
