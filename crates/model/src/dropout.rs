//! Dropout with masks from the run's own random streams.
//!
//! A mask is a pure function of (seed, step, place in the model), drawn on the host, so that a
//! resumed run draws the same and devices agree.

use burn::tensor::{Tensor, TensorData};
use longwave_core::random::Stream;
use longwave_position::encoding::TrainingDraw;

/// The dropout of one training pass, and what its other draws are made from.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Share of channels set to zero, in [0, 1).
    pub rate: f64,
    /// The run's seed.
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
        if self.rate == 0.0 {
            return x;
        }
        let shape = x.dims();
        let mut stream = Stream::new(self.seed, &format!("dropout {place}"), self.pass);
        let keep = (1.0 / (1.0 - self.rate)) as f32;
        let threshold = (self.rate * f64::from(u32::MAX)) as u32;
        let count: usize = shape.iter().product();
        let mut mask = Vec::with_capacity(count + 1);
        while mask.len() < count {
            let bits = stream.bits();
            for half in [bits as u32, (bits >> 32) as u32] {
                mask.push(if half < threshold { 0.0 } else { keep });
            }
        }
        mask.truncate(count);
        let mask = Tensor::from_data(TensorData::new(mask, shape), &x.device());
        x * mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn keeps_the_mean_and_repeats() {
        let x = Tensor::<3>::ones([2, 100, 101], &Device::flex());
        let dropout = Dropout { rate: 0.25, seed: 1, pass: 7, step: 7 };
        let y = dropout.apply(x.clone(), "block 0");
        let mean = y.clone().mean().into_scalar::<f32>();
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((y.clone() - dropout.apply(x.clone(), "block 0")).abs().max().into_scalar::<f32>() == 0.0);
        assert!((y - dropout.apply(x, "block 1")).abs().max().into_scalar::<f32>() > 0.0);
    }
}
