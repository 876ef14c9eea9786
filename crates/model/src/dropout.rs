//! Dropout with masks from the run's own random streams.
//!
//! A mask is a pure function of (seed, step, place in the model), so a resumed run draws the same, and so do all devices.

use burn::tensor::Tensor;
use longwave_core::random::StreamKey;
use longwave_kernels::dropout;
use longwave_position::encoding::TrainingDraw;

/// The dropout of one training pass, and what its other draws are made from.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Share of channels set to zero, in [0, 1).
    pub rate: f64,
    pub seed: u64,
    /// Counts passes: the optimizer step times the micro-batches a step, plus the micro-batch.
    pub pass: u64,
    /// The optimizer step: what an encoding draws at random is the same in all passes of a step.
    pub step: u64,
}

impl Dropout {
    /// What the encodings draw from.
    pub(crate) fn draw(&self) -> TrainingDraw {
        TrainingDraw { seed: self.seed, step: self.step }
    }

    /// Drops channels of `[batch, length, width]` and scales the rest by `1 / (1 - rate)`; `place`
    /// names the spot in the model.
    pub fn apply(&self, x: Tensor<3>, place: &str) -> Tensor<3> {
        dropout(x, self.rate, StreamKey::new(self.seed, &format!("dropout {place}"), self.pass))
    }
}
