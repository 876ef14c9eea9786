//! The numbers of a step (loss, gradient norm), and when they are read.
//!
//! They are computed on the device. On the CPU they are there at once. A GPU works through a queue, and reading a
//! number waits until the queue is empty, after which the device waits for the next step to arrive. There a step leaves
//! its numbers on the device (with the factor of clipping), and those of many steps are read together: before a
//! validation or a checkpoint, at the end, and otherwise after [`MAX_PENDING`] steps or [`INTERVAL`]. So non-finite
//! values are detected later, but always before a checkpoint is written, and the message names the step. In f16 a step
//! is skipped where its gradient overflows: there every step is read.

use crate::optimizer::Clip;
use crate::parameters::numbers;
use burn::tensor::Tensor;
use longwave_core::Result;
use std::time::{Duration, Instant};

/// The most steps whose numbers wait to be read.
const MAX_PENDING: usize = 64;

/// The longest that the first of them waits, unless a single step takes longer.
const INTERVAL: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepStats {
    /// Mean loss of the batch before the update, nats per token.
    pub loss: f64,
    /// Euclidean norm of the gradient before clipping; 0 where the step was skipped.
    pub gradient_norm: f64,
}

/// The result of one step.
#[derive(Clone, Debug)]
pub struct StepOutput {
    /// The step size of the update.
    pub learning_rate: f64,
    /// The factor on the loss, in f16.
    pub loss_scale: Option<f64>,
    /// The step changed no weight, because its gradients overflowed f16.
    pub skipped: bool,
    pub(super) stats: StatsLocation,
}

/// Where the numbers of a step lie.
#[derive(Clone, Debug)]
pub(super) enum StatsLocation {
    Host(StepStats),
    Device(Box<DeviceStats>),
}

impl StepOutput {
    /// Its numbers; waits for the device where they have not been read.
    pub fn stats(self) -> Result<StepStats> {
        match self.stats {
            StatsLocation::Host(stats) => Ok(stats),
            StatsLocation::Device(numbers) => {
                numbers.read().map(|(loss, squares)| StepStats::new(loss, &squares))
            }
        }
    }
}

impl StepStats {
    fn new(loss: f64, squares: &[f32]) -> Self {
        Self { loss, gradient_norm: Clip::new(squares, 0.0).norm }
    }

    /// Whether training can go on.
    pub(super) fn is_finite(self) -> bool {
        self.loss.is_finite() && self.gradient_norm.is_finite()
    }
}

/// The numbers of a step on the device, in one list: the losses of its micro-batches, whose sum is the step's, and the
/// [sums of squares](longwave_kernels::sums_of_squares) of its gradients.
#[derive(Clone, Debug)]
pub(super) struct DeviceStats {
    tensor: Tensor<1>,
    micro_batches: usize,
}

impl DeviceStats {
    pub(super) fn new(losses: Vec<Tensor<1>>, squares: Tensor<1>) -> Self {
        let micro_batches = losses.len();
        let tensor = Tensor::cat(losses.into_iter().chain([squares]).collect(), 0);
        Self { tensor, micro_batches }
    }

    /// The loss and the sums of squares.
    pub(super) fn read(self) -> Result<(f64, Vec<f32>)> {
        let mut losses = numbers("the loss", self.tensor)?;
        let squares = losses.split_off(self.micro_batches);
        Ok((losses.into_iter().map(f64::from).sum(), squares))
    }
}

/// Steps whose numbers are not read yet, in order.
#[derive(Debug)]
pub(super) struct PendingStats {
    steps: Vec<StepOutput>,
    start: Instant,
}

impl PendingStats {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), start: Instant::now() }
    }

    pub(super) fn push(&mut self, step: StepOutput) {
        self.steps.push(step);
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether they are to be read now. What is on the host need not wait.
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= MAX_PENDING
            || self.start.elapsed() >= INTERVAL
            || self.steps.iter().all(|step| matches!(step.stats, StatsLocation::Host(_)))
    }

    /// Reads and removes them: the result and the numbers of each step, and the mean seconds of a step.
    pub(super) fn read(&mut self) -> Result<(Vec<(StepOutput, StepStats)>, f64)> {
        let steps = std::mem::take(&mut self.steps);
        let read: Result<Vec<_>> = steps.into_iter().map(|step| Ok((step.clone(), step.stats()?))).collect();
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

    fn on_device(loss: f32) -> StepOutput {
        let tensor = |numbers: &[f32]| Tensor::<1>::from_floats(numbers, &Device::flex());
        let numbers = DeviceStats::new(vec![tensor(&[loss]), tensor(&[0.5])], tensor(&[9.0, 16.0]));
        StepOutput {
            learning_rate: 1e-3,
            loss_scale: None,
            skipped: false,
            stats: StatsLocation::Device(Box::new(numbers)),
        }
    }

    #[test]
    fn steps_are_read_in_order() {
        let mut pending = PendingStats::new();
        for loss in 0..MAX_PENDING {
            pending.begin();
            pending.push(on_device(loss as f32));
            assert!(loss + 1 == MAX_PENDING || !pending.is_full() || pending.start.elapsed() >= INTERVAL);
        }
        assert!(pending.is_full());
        let (steps, seconds) = pending.read().unwrap();
        let stats: Vec<StepStats> = steps.into_iter().map(|(_, stats)| stats).collect();
        let expected = (0..MAX_PENDING).map(|loss| StepStats { loss: loss as f64 + 0.5, gradient_norm: 5.0 });
        assert_eq!(stats, expected.collect::<Vec<_>>());
        assert!(seconds > 0.0 && pending.len() == 0);
    }

    #[test]
    fn numbers_on_the_host_do_not_wait() {
        let mut pending = PendingStats::new();
        let stats = StepStats { loss: 1.0, gradient_norm: 2.0 };
        pending.push(StepOutput { stats: StatsLocation::Host(stats), ..on_device(0.0) });
        assert!(pending.is_full());
        assert_eq!(pending.read().unwrap().0[0].1, stats);
    }
}
