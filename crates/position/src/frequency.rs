//! Frequency tables in f64, and the rotation tables made from them.
//!
//! A position times a frequency is computed on the host in f64 and only cos and sin go to the
//! device, as f32: f32 angles are wrong by 6e-4 rad at position 65,535, and sin on a GPU is only
//! specified near zero.

use crate::positions::Positions;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_kernels::{Layout, RotationTable};

/// Angular frequencies of the rotated (or sinusoidal) bands, fastest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// Radians per position of band i = 0..dim/2-1; `base^(-2i/dim)` unless an extension changed them.
    pub inv_freq: Vec<f64>,
    /// The base they were made with.
    pub base: f64,
    /// Multiplier on cos and sin of both q and k (so logits are multiplied by its square).
    pub attention_factor: f64,
    /// Other frequencies for the first positions, where an extension leaves those as trained.
    pub start: Option<Start>,
}

/// The frequencies of the first positions of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Positions below this are read with them.
    pub below: f64,
    /// As [`Frequencies::inv_freq`].
    pub inv_freq: Vec<f64>,
}

impl Frequencies {
    /// `inv_freq_i = base^(-2i/dim)`, i = 0..dim/2-1 (Su et al. 2021, arXiv:2104.09864, section 3.2.2;
    /// Vaswani et al. 2017, arXiv:1706.03762, section 3.5).
    pub fn geometric(base: f64, dim: usize) -> Self {
        let inv_freq = (0..dim / 2).map(|i| base.powf(-2.0 * i as f64 / dim as f64)).collect();
        Self { inv_freq, base, attention_factor: 1.0, start: None }
    }

    /// Rotated dimension: two channels a band.
    pub fn dim(&self) -> usize {
        2 * self.inv_freq.len()
    }

    /// The angle of every band at every position: `[positions, dim / 2]`, row-major.
    pub fn angles<'a>(&'a self, positions: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        positions.iter().flat_map(move |&position| self.at(position).iter().map(move |f| position * f))
    }

    /// Every frequency through a function of the band and the frequency.
    #[must_use]
    pub fn map(&self, function: impl Fn(usize, f64) -> f64) -> Self {
        let map =
            |inv_freq: &[f64]| inv_freq.iter().enumerate().map(|(band, &f)| function(band, f)).collect();
        Self {
            inv_freq: map(&self.inv_freq),
            start: self.start.as_ref().map(|start| Start { inv_freq: map(&start.inv_freq), ..*start }),
            ..*self
        }
    }

    /// The frequencies that a position is read with.
    fn at(&self, position: f64) -> &[f64] {
        match &self.start {
            Some(start) if position < start.below => &start.inv_freq,
            _ => &self.inv_freq,
        }
    }
}

/// How q and k are rotated: described, so that the model can choose the fused kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// Frequencies of the rotated channels.
    pub frequencies: Frequencies,
    /// Which channels make a pair.
    pub layout: Layout,
}

impl Rotation {
    /// cos and sin at the given positions, each `[rows, length, dim / 2]`.
    pub fn table(&self, positions: &Positions, device: &Device) -> RotationTable {
        let factor = self.frequencies.attention_factor;
        let shape = [positions.rows(), positions.length(), self.frequencies.inv_freq.len()];
        let upload = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, shape), device);
        let (cos, sin) = self
            .frequencies
            .angles(positions.values())
            .map(|angle| ((factor * angle.cos()) as f32, (factor * angle.sin()) as f32))
            .unzip();
        RotationTable { cos: upload(cos), sin: upload(sin), layout: self.layout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_from_one_downwards() {
        let frequencies = Frequencies::geometric(1e4, 8);
        let expected = [1.0, 0.1, 0.01, 0.001];
        assert!(frequencies.inv_freq.iter().zip(expected).all(|(f, e)| (f / e - 1.0).abs() < 1e-12));
        assert_eq!(frequencies.dim(), 8);
    }

    #[test]
    fn the_first_positions_may_be_read_otherwise() {
        let trained = Frequencies::geometric(1e4, 4);
        let start = Some(Start { below: 2.0, inv_freq: trained.inv_freq.clone() });
        let slower = Frequencies { start, ..trained.map(|_, f| f / 4.0) };
        let angles: Vec<f64> = slower.angles(&[1.0, 2.0]).collect();
        assert_eq!(angles, [1.0, 0.01, 0.5, 0.005]);
    }

    #[test]
    fn tables_are_exact_far_out() {
        let rotation = Rotation { frequencies: Frequencies::geometric(1e4, 64), layout: Layout::Half };
        let table = rotation.table(&Positions::range(65_535..65_536), &Device::flex());
        let cos = table.cos.into_data().try_to_vec::<f32>().unwrap();
        for (band, cos) in cos.iter().enumerate() {
            let angle = 65_535.0 * rotation.frequencies.inv_freq[band];
            assert!((f64::from(*cos) - angle.cos()).abs() < 1e-7);
        }
    }
}
