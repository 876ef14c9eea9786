//! What steps find, and when it is read.
//!
//! The loss of a step and the norm of its gradient are numbers on the device. The CPU has them when they are asked
//! for. A GPU works through a queue, and reading a number waits until the queue is empty, after which the device waits
//! for the next step to arrive. There a step leaves its numbers where they are (and the factor of clipping with them),
//! and those of many steps are read at once: before a validation or a checkpoint, at the end, and otherwise after
//! [`MOST`] steps or [`INTERVAL`]. A number that is not finite is found later so, but before a checkpoint is written,
//! and the message names its step. In f16 a step is left out where its gradient overflows: there each is read.

use crate::optimizer::Clip;
use crate::parameters::numbers;
use burn::tensor::Tensor;
use longwave_core::Result;
use std::time::{Duration, Instant};

/// Steps that wait at most.
const MOST: usize = 64;

/// How long the first of them waits, unless a single step takes longer.
const INTERVAL: Duration = Duration::from_millis(250);

/// What one step found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Mean loss of the batch before the update, nats per token.
    pub loss: f64,
    /// Euclidean norm of the gradient before clipping; 0 where the step was left out.
    pub gradient_norm: f64,
}

/// What one step did.
#[derive(Clone, Debug)]
pub struct Advanced {
    /// The step size of the update.
    pub learning_rate: f64,
    /// What the loss was multiplied by, where it was.
    pub loss_scale: Option<f64>,
    /// The step was left out, because its gradients overflowed f16.
    pub skipped: bool,
    pub(super) found: Place,
}

/// Where the numbers of a step are.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Host(Found),
    Device(Box<Numbers>),
}

impl Advanced {
    /// What it found; waits for the device where that has not been read.
    ///
    /// # Errors
    /// The device fails.
    pub fn found(self) -> Result<Found> {
        match self.found {
            Place::Host(found) => Ok(found),
            Place::Device(numbers) => numbers.read().map(|(loss, squares)| Found::new(loss, &squares)),
        }
    }
}

impl Found {
    fn new(loss: f64, squares: &[f32]) -> Self {
        Self { loss, gradient_norm: Clip::new(squares, 0.0).norm }
    }

    /// Whether training can go on from it.
    pub(super) fn is_finite(self) -> bool {
        self.loss.is_finite() && self.gradient_norm.is_finite()
    }
}

/// The numbers of a step on the device: `[parts + parameters]`, the losses of the parts of its batch, whose sum is the
/// step's, and the sums of squares of its gradients.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    tensor: Tensor<1>,
    parts: usize,
}

impl Numbers {
    pub(super) fn new(losses: Vec<Tensor<1>>, squares: Tensor<1>) -> Self {
        let parts = losses.len();
        let tensor = Tensor::cat(losses.into_iter().chain([squares]).collect(), 0);
        Self { tensor, parts }
    }

    /// The loss and the sums of squares.
    pub(super) fn read(self) -> Result<(f64, Vec<f32>)> {
        let mut losses = numbers("the loss", self.tensor)?;
        let squares = losses.split_off(self.parts);
        Ok((losses.into_iter().map(f64::from).sum(), squares))
    }
}

/// Steps whose numbers are not read yet, in order.
#[derive(Debug)]
pub(super) struct Waiting {
    steps: Vec<Advanced>,
    /// Of the first of them.
    start: Instant,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), start: Instant::now() }
    }

    pub(super) fn push(&mut self, step: Advanced) {
        self.steps.push(step);
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether they are to be read now. What is on the host need not wait.
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= MOST
            || self.start.elapsed() >= INTERVAL
            || self.steps.iter().all(|step| matches!(step.found, Place::Host(_)))
    }

    /// Takes them out: what each did and found, and the seconds that a step took.
    pub(super) fn read(&mut self) -> Result<(Vec<(Advanced, Found)>, f64)> {
        let steps = std::mem::take(&mut self.steps);
        let read: Result<Vec<_>> = steps.into_iter().map(|step| Ok((step.clone(), step.found()?))).collect();
        let read = read?;
        let seconds = self.start.elapsed().as_secs_f64() / read.len().max(1) as f64;
        Ok((read, seconds))
    }

    /// The next step begins now.
    pub(super) fn begin(&mut self) {
        if self.steps.is_empty() {
            self.start = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn waits(loss: f32) -> Advanced {
        let tensor = |numbers: &[f32]| Tensor::<1>::from_floats(numbers, &Device::flex());
        let numbers = Numbers::new(vec![tensor(&[loss]), tensor(&[0.5])], tensor(&[9.0, 16.0]));
        Advanced {
            learning_rate: 1e-3,
            loss_scale: None,
            skipped: false,
            found: Place::Device(Box::new(numbers)),
        }
    }

    #[test]
    fn steps_are_read_in_order() {
        let mut waiting = Waiting::new();
        for loss in 0..MOST {
            waiting.begin();
            waiting.push(waits(loss as f32));
            assert!(loss + 1 == MOST || !waiting.is_full() || waiting.start.elapsed() >= INTERVAL);
        }
        assert!(waiting.is_full());
        let (steps, seconds) = waiting.read().unwrap();
        let found: Vec<Found> = steps.into_iter().map(|(_, found)| found).collect();
        let expected = (0..MOST).map(|loss| Found { loss: loss as f64 + 0.5, gradient_norm: 5.0 });
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert!(seconds > 0.0 && waiting.len() == 0);
    }

    #[test]
    fn what_is_on_the_host_does_not_wait() {
        let mut waiting = Waiting::new();
        let found = Found { loss: 1.0, gradient_norm: 2.0 };
        waiting.push(Advanced { found: Place::Host(found), ..waits(0.0) });
        assert!(waiting.is_full());
        assert_eq!(waiting.read().unwrap().0[0].1, found);
    }
}
