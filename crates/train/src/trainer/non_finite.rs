//! What became non-finite first in a step whose loss or gradient is not finite.
//!
//! A step gives two numbers, and they say nothing of where a NaN began. So the step is looked through once more after the
//! fact: its weights; then the states of the same passes over the same batch, in order; then the gradients, in the order in
//! which the backward pass makes them. While all is finite nothing of this runs.

use super::Trainer;
use super::step_stats::StepStats;
use crate::batch::MicroBatch;
use crate::config::OnNonFinite;
use crate::optimizer::in_units;
use crate::parameters::{self, Parameter, numbers};
use crate::run_config::RunConfig;
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use longwave_kernels::Precision;
use longwave_model::{Pass, Place};

#[derive(Clone, Copy, Debug)]
pub(super) struct NotFinite {
    /// Steps done, this one included.
    pub(super) step: u64,
    pub(super) stats: StepStats,
    pub(super) learning_rate: f64,
    /// The validation loss after the step before, where it is that which is not finite; the numbers are of that step then.
    pub(super) validation: Option<f64>,
}

/// How many numbers of a tensor are not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    not_finite: usize,
    all: usize,
}

/// What became non-finite first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    /// A parameter, before the step.
    Weight(String, Count),
    /// The state at a place of a pass.
    State(Place, Count),
    Logits(Count),
    /// The loss itself, of finite logits.
    Loss,
    /// The gradient of a parameter.
    Gradient(String, Count),
    /// No gradient, but the sum of their squares: the parameter with the largest gradient, and how large that is.
    Squares(String, f32),
    /// Nothing, the second time.
    Nowhere,
}

/// Why a pass ended early.
enum Ended {
    Found(Place, Count),
    Failed(Error),
}

impl Trainer<'_> {
    /// What becomes non-finite first in the next step.
    pub(super) fn origin(&self) -> Result<Origin> {
        let listed = parameters::list(self.model());
        for (parameter, value) in listed.iter().zip(parameters::values(self.model())) {
            if let Some(count) = count(&parameter.name, value)? {
                return Ok(Origin::Weight(parameter.name.clone(), count));
            }
        }
        match self.origin_forward()? {
            Some(origin) => Ok(origin),
            None => self.origin_backward(&listed),
        }
    }

    /// The first state of the passes over the batch that is not finite.
    fn origin_forward(&self) -> Result<Option<Origin>> {
        let (config, model) = (self.config(), self.model());
        let (batch, memories) = self.next_batch()?;
        for part in 0..config.accumulation {
            let dropout = self.dropout(part);
            let MicroBatch { inputs, targets, weights, positions } =
                batch.micro_batch(config, part, &self.device);
            let pass = Pass {
                tokens: inputs,
                positions: &positions,
                reading: &model.position,
                dropout: Some(&dropout),
            };
            let mut watch = |place: Place, state: &Tensor<3>| match count("a state", state.clone().inner()) {
                Ok(None) => Ok(()),
                Ok(Some(count)) => Err(Ended::Found(place, count)),
                Err(error) => Err(Ended::Failed(error)),
            };
            let hidden = match memories.get(part) {
                None => model.hidden_watched(&pass, &mut watch),
                Some(memory) => model.hidden_after_watched(&pass, memory, &mut watch).map(|both| both.0),
            };
            let hidden = match hidden {
                Ok(hidden) => hidden,
                Err(Ended::Found(place, count)) => return Ok(Some(Origin::State(place, count))),
                Err(Ended::Failed(error)) => return Err(error),
            };
            if let Some(count) = count("the logits", model.logits(hidden.clone()).inner())? {
                return Ok(Some(Origin::Logits(count)));
            }
            if count("the loss", self.part_loss(hidden, targets, weights).inner())?.is_some() {
                return Ok(Some(Origin::Loss));
            }
        }
        Ok(None)
    }

    /// The first gradient that is not finite.
    fn origin_backward(&self, listed: &[Parameter]) -> Result<Origin> {
        let Some(passes) = self.gradients(&|| false)? else { return Ok(Origin::Nowhere) };
        let gradients = in_units(self.model(), passes.gradients);
        let mut largest = (String::new(), 0.0f32);
        let mut squares = 0.0f32;
        for index in backwards(listed) {
            let (name, gradient) = (&listed[index].name, gradients[index].clone());
            let gradient = numbers(&format!("the gradient of `{name}`"), gradient)?;
            if let Some(count) = Count::of(&gradient) {
                return Ok(Origin::Gradient(name.clone(), count));
            }
            squares += gradient.iter().map(|number| number * number).sum::<f32>();
            let most = gradient.iter().fold(0.0f32, |most, number| most.max(number.abs()));
            if most > largest.1 {
                largest = (name.clone(), most);
            }
        }
        Ok(if squares.is_finite() { Origin::Nowhere } else { Origin::Squares(largest.0, largest.1) })
    }

    pub(super) fn not_finite(&self, failure: &NotFinite, origin: &Origin) -> Error {
        let NotFinite { step, stats: StepStats { loss, gradient_norm }, learning_rate, validation } = failure;
        let last = match &self.good {
            Some((path, step)) => format!("the last good checkpoint is `{}` (step {step})", path.display()),
            None => "there is no checkpoint yet".to_owned(),
        };
        let encoding = self.run.config.position.name();
        let numbers =
            format!("loss {loss}, gradient norm {gradient_norm} at learning rate {learning_rate:.3e}");
        let (step, found) = match validation {
            None => (*step, format!("{numbers}: {}", origin.described(&encoding))),
            Some(validation) => (
                step - 1,
                format!("validation loss {validation}, after {numbers}: {}", origin.left_behind(&encoding)),
            ),
        };
        Error::failed(format!("step {step}: {found}; {last}")).hint(self.remedy(failure, origin))
    }

    fn remedy(&self, failure: &NotFinite, origin: &Origin) -> String {
        let section = RunConfig::section(self.stage);
        let smaller = format!(
            "lower `{section}.learning_rate`, lengthen `{section}.warmup`, or lower `{section}.clip`"
        );
        match origin {
            Origin::Nowhere if failure.validation.is_none() => {
                return "check the machine with `longwave selfcheck`; the same command with `--resume` goes on from the \
                        checkpoint"
                    .to_owned();
            }
            Origin::Nowhere | Origin::Weight(..) => return smaller,
            _ => {}
        }
        let wider = match self.config().precision {
            Precision::F16 => "use `train.precision = \"bf16\"` or \"f32\": f16 ends at 65,504; or ",
            Precision::F32 | Precision::Bf16 => "",
        };
        let skipping = match self.run.config.train.on_non_finite {
            OnNonFinite::Stop => "; `train.on_non_finite = \"rollback\"` leaves such a batch out",
            OnNonFinite::Rollback => "",
        };
        format!("{wider}{smaller}{skipping}")
    }
}

impl Count {
    fn of(numbers: &[f32]) -> Option<Self> {
        let not_finite = numbers.iter().filter(|number| !number.is_finite()).count();
        (not_finite > 0).then_some(Self { not_finite, all: numbers.len() })
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} numbers", self.not_finite, self.all)
    }
}

fn count<const D: usize>(what: &str, tensor: Tensor<D>) -> Result<Option<Count>> {
    Ok(Count::of(&numbers(what, tensor)?))
}

impl Origin {
    /// It in words; `encoding` is the name of the model's.
    fn described(&self, encoding: &str) -> String {
        match self {
            Self::Weight(name, count) => {
                format!("the weight `{name}` was not finite before the step ({count})")
            }
            Self::State(place, count) => {
                let what = match place {
                    Place::Input(0) => {
                        format!("the embedding, with what the encoding `{encoding}` adds to it,")
                    }
                    Place::Input(layer) => {
                        format!("what the encoding `{encoding}` makes of the input of `blocks.{layer}`")
                    }
                    Place::Attention(layer) => format!("the output of `blocks.{layer}.attention`"),
                    Place::FeedForward(layer) => format!("the output of `blocks.{layer}.feed_forward`"),
                    Place::Norm => "the output of the last norm, `norm`,".to_owned(),
                };
                format!("{what} became non-finite first ({count})")
            }
            Self::Logits(count) => format!("the logits became non-finite first ({count})"),
            Self::Loss => "the loss became non-finite first, of finite logits".to_owned(),
            Self::Gradient(name, count) => {
                format!("the gradient of `{name}` became non-finite first ({count}), and the loss is finite")
            }
            Self::Squares(name, largest) => format!(
                "no gradient is non-finite, but the sum of their squares is: the largest is {largest:.1e}, of `{name}`"
            ),
            Self::Nowhere => {
                "the same step gave finite numbers when it was computed again, so the device did not compute it right \
                 once"
                    .to_owned()
            }
        }
    }

    /// What a step left behind whose validation is not finite, in words: what the next step would begin with.
    fn left_behind(&self, encoding: &str) -> String {
        match self {
            Self::Weight(name, count) => format!("the step made the weight `{name}` so ({count})"),
            Self::Nowhere => "the weights are finite, and so is the next batch of training".to_owned(),
            other => format!("in the next batch of training, {}", other.described(encoding)),
        }
    }
}

/// The places of the parameters in the order in which the backward pass comes to them: the head, the last norm, the blocks
/// from the last to the first, the encoding, which all blocks read, and the embedding.
fn backwards(listed: &[Parameter]) -> Vec<usize> {
    let rank = |name: &str| match name.split('.').collect::<Vec<_>>().as_slice() {
        ["head", ..] => (0, 0),
        ["norm", ..] => (1, 0),
        ["blocks", layer, ..] => (2, -layer.parse::<i64>().unwrap_or_default()),
        ["embedding", ..] => (4, 0),
        _ => (3, 0),
    };
    let mut places: Vec<usize> = (0..listed.len()).rev().collect();
    places.sort_by_key(|place| rank(&listed[*place].name));
    places
}

#[cfg(test)]
mod tests;
