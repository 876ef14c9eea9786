//! Reading rows of a table, also between them, and making a learned table longer.

use crate::upload::upload_shaped;
use burn::module::Param;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use longwave_kernels::device::constant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Row numbers as a tensor, `[count]`.
pub fn indices(rows: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i64> = rows.map(|row| row.cast_signed() as i64).collect();
    let count = rows.len();
    constant(TensorData::new(rows, [count]), device)
}

/// A place between two rows: `(1 - share) low + share high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The row below.
    pub low: usize,
    /// The row above.
    pub high: usize,
    /// How far towards the row above, from 0 to 1.
    pub share: f64,
}

impl Between {
    /// The place `at` of a table of `size` rows; places past the ends stay there.
    pub fn rows(at: f64, size: usize) -> Self {
        let last = size.saturating_sub(1);
        let at = at.clamp(0.0, last as f64);
        let low = at.floor() as usize;
        Self { low, high: (low + 1).min(last), share: at.fract() }
    }
}

/// The rows of `table` `[size, width]` at some places: `[places, width]`.
pub fn read(table: Tensor<2>, places: &[Between]) -> Tensor<2> {
    let device = table.device();
    let low = table.clone().select(0, indices(places.iter().map(|place| place.low), &device));
    if places.iter().all(|place| place.share == 0.0) {
        return low;
    }
    let high = table.select(0, indices(places.iter().map(|place| place.high), &device));
    let share = upload_shaped(places.iter().map(|place| place.share), [places.len(), 1], &device);
    low.clone() + (high - low) * share
}

/// The rows of a table at some numbers, also between them; past the ends the last ones.
pub fn read_at(table: Tensor<2>, at: impl Iterator<Item = f64>) -> Tensor<2> {
    let [size, _] = table.dims();
    let places: Vec<Between> = at.map(|at| Between::rows(at, size)).collect();
    read(table, &places)
}

/// Row i N + j of a table of N rows p: `alpha u_i + (1 - alpha) u_j` with `u_k = (p_k - alpha p_0) / (1 - alpha)`, which is
/// `p_j` for i = 0 (kexue.fm/archives/7947).
pub fn read_hierarchical(table: &Tensor<2>, at: impl Iterator<Item = f64> + Clone, alpha: f64) -> Tensor<2> {
    let n = table.dims()[0] as f64;
    let remainder = read_at(table.clone(), at.clone().map(|m| m.rem_euclid(n)));
    let quotient = read_at(table.clone(), at.map(|m| (m / n).floor()));
    // Both u written out.
    remainder + (quotient - table.clone().slice_dim(0, 0..1)).mul_scalar(alpha / (1.0 - alpha))
}

/// Checks the share of [`read_hierarchical`].
pub(crate) fn check_alpha(section: &str, alpha: f64) -> Result<()> {
    if alpha > 0.0 && alpha < 1.0 && (alpha - 0.5).abs() >= 1e-9 {
        return Ok(());
    }
    let allowed = "it must lie between 0 and 1 and not be 0.5, which would read i N + j as j N + i";
    Err(Error::value(&format!("{section}.alpha"), alpha, allowed).hint("the published one is 0.4"))
}

/// Where the rows of a longer table come from. N is the trained table's size, p its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// Row m of a table of N' rows is p at m N / N', between rows (arXiv:2306.15595 applied to a table).
    #[default]
    Interpolate,
    /// The trained rows, then rows as before training.
    Random,
    /// `u_k = (p_k - alpha p_0) / (1 - alpha)`; row i N + j is `alpha u_i + (1 - alpha) u_j`, so that the
    /// first N are the trained ones; up to N^2 rows (kexue.fm/archives/7947).
    Hierarchical,
}

/// A longer table: its size, and how it is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Longer {
    /// Rows of the longer table.
    pub size: usize,
    pub fill: Fill,
    /// `hierarchical`: the share of the quotient's vector, between 0 and 1 and not 0.5.
    pub alpha: f64,
}

/// The distribution that a table's rows were drawn from before training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fresh {
    pub seed: u64,
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

impl Fresh {
    /// The vector of a position past the table, the same for the same position and seed.
    pub fn vector(&self, position: usize, width: usize) -> impl Iterator<Item = f32> + use<> {
        let mut stream = Stream::new(self.seed, "position past the table", position as u64);
        let Self { mean, deviation, .. } = *self;
        (0..width).map(move |_| (mean + deviation * stream.normal()) as f32)
    }
}

impl Longer {
    /// The table `[size, width]` made from a trained one `[N, width]`, as a parameter of its own; one that is
    /// long enough already stays as it is.
    pub fn extend(&self, table: &Param<Tensor<2>>, fresh: Fresh) -> Result<Param<Tensor<2>>> {
        let value = table.val();
        let [old, width] = value.dims();
        if self.size <= old {
            return Ok(table.clone());
        }
        let tracked = value.is_autodiff();
        let value = if tracked { value.inner() } else { value };
        let at = (0..self.size).map(|m| m as f64);
        let longer = match self.fill {
            Fill::Interpolate => read_at(value, at.map(|m| m * old as f64 / self.size as f64)),
            Fill::Random => {
                let drawn: Vec<f32> = (old..self.size).flat_map(|m| fresh.vector(m, width)).collect();
                let shape = [self.size - old, width];
                let drawn = Tensor::from_data(TensorData::new(drawn, shape), &value.device());
                Tensor::cat(vec![value, drawn], 0)
            }
            Fill::Hierarchical if self.size > old * old => {
                return Err(Error::usage(format!(
                    "`fill = \"hierarchical\"` makes up to {} rows of a table of {old}, and {} are asked for",
                    old * old,
                    self.size
                ))
                .hint("read at most N^2 positions, or use `fill = \"interpolate\"`"));
            }
            Fill::Hierarchical => read_hierarchical(&value, at, self.alpha),
        };
        Ok(Param::from_tensor(if tracked { Tensor::from_inner(longer) } else { longer }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(size: usize, fill: Fill) -> Result<Vec<f32>> {
        let table = Tensor::from_floats([[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]], &Device::flex());
        let fresh = Fresh { seed: 0, mean: 0.0, deviation: 0.02 };
        let longer = Longer { size, fill, alpha: 0.4 }.extend(&Param::from_tensor(table), fresh)?;
        Ok(longer.val().into_data().try_to_vec().unwrap())
    }

    #[test]
    fn a_longer_table_begins_as_its_rule_says() {
        let trained = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0];
        for fill in [Fill::Interpolate, Fill::Random, Fill::Hierarchical] {
            assert_eq!(extended(3, fill).unwrap(), trained, "{fill:?}: as long as it was");
        }
        assert_eq!(
            extended(6, Fill::Interpolate).unwrap(),
            [0.0, 1.0, 5.0, 6.0, 10.0, 11.0, 15.0, 16.0, 20.0, 21.0, 20.0, 21.0]
        );
        let random = extended(5, Fill::Random).unwrap();
        assert_eq!(random[..6], trained);
        assert!(random[6..].iter().all(|x| *x != 0.0 && x.abs() < 0.2), "{random:?}");
        let hierarchical = extended(9, Fill::Hierarchical).unwrap();
        assert_eq!(hierarchical[..6], trained);
        // Row 3 * 1 + 2: p_2 + 0.4 / 0.6 (p_1 - p_0).
        assert!((hierarchical[10] - (20.0 + 10.0 * 0.4 / 0.6)).abs() < 1e-5, "{hierarchical:?}");
        assert!(extended(10, Fill::Hierarchical).is_err());
    }
}
