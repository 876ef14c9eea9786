//! `learned`: a table of vectors, one per position, added to the token embeddings.
//!
//! `h_t = x_t + p[position_t]`, p of shape `[table_size, width]`, drawn from N(0, 0.02) (Radford et
//! al. 2019, GPT-2; Vaswani et al. 2017, arXiv:1706.03762, section 3.5, learned variant). Enters once,
//! before the first block; one table for the whole model.
//!
//! A position at or past `table_size` has no vector: such a reading is refused. Interpolated by s
//! (arXiv:2306.15595 applied to a table) the vector of position m is read at u = min(m / s,
//! `table_size` - 1), between rows floor(u) and floor(u) + 1.

use super::Configure;
use crate::encoding::{Dimensions, Position, Rows};
use crate::init::Init;
use crate::positions::Positions;
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `kind = "learned"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Positions the table holds; the training length unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_size: Option<usize>,
}

/// The table and how it is read.
#[derive(Module, Debug)]
pub struct Learned {
    /// `[table_size, width]`.
    pub table: Param<Tensor<2>>,
    /// Positions are divided by this; 1 reads the table as it was trained.
    #[module(skip)]
    scale: f64,
}

impl Configure for Config {
    type Encoding = Learned;
    const KIND: &'static str = "learned";
    const SUMMARY: &'static str = "a learned vector per position, added to the token embeddings (GPT-2)";
    const SOURCE: &'static str = "arXiv:1706.03762, section 3.5";

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        match self.table_size {
            Some(size) if size < dimensions.train_length => Err(Error::value(
                &format!("{section}.table_size"),
                size,
                format!("it must be at least `train.length = {}`", dimensions.train_length),
            )
            .hint("leave it out to take the training length")),
            _ => Ok(()),
        }
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Learned {
        let size = self.table_size.unwrap_or(dimensions.train_length);
        Learned { table: init.normal("position.learned.table", [size, dimensions.width], 0.02), scale: 1.0 }
    }
}

impl Learned {
    /// A table that is already there, `[table_size, width]`.
    pub fn from_table(table: Param<Tensor<2>>) -> Self {
        Self { table, scale: 1.0 }
    }

    fn size(&self) -> usize {
        self.table.dims()[0]
    }

    /// The vectors of all positions, `[rows, length, width]`.
    fn vectors(&self, positions: &Positions) -> Tensor<3> {
        let [size, width] = self.table.dims();
        let places: Vec<f64> =
            positions.values().iter().map(|p| (p / self.scale).clamp(0.0, size as f64 - 1.0)).collect();
        let shape = [positions.rows(), positions.length(), width];
        let low = self.select(places.iter().map(|place| place.floor() as i64));
        if places.iter().all(|place| place.fract() == 0.0) {
            return low.reshape(shape);
        }
        let high = self.select(places.iter().map(|place| (place.floor() as i64 + 1).min(size as i64 - 1)));
        let weight: Vec<f32> = places.iter().map(|place| place.fract() as f32).collect();
        let count = weight.len();
        let weight = Tensor::<2>::from_data(TensorData::new(weight, [count, 1]), &self.table.device());
        (low.clone() + (high - low) * weight).reshape(shape)
    }

    fn select(&self, rows: impl Iterator<Item = i64>) -> Tensor<2> {
        let rows: Vec<i64> = rows.collect();
        let count = rows.len();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &self.table.device());
        self.table.val().select(0, rows)
    }
}

impl Position for Learned {
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        if rows.layer == 0 { hidden + self.vectors(rows.positions) } else { hidden }
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        let reach = self.size() as f64 * self.scale;
        let past = |largest: f64| {
            Error::usage(format!(
                "a `learned` encoding has no vector for position {largest}: its table holds positions 0 to {}",
                self.size() - 1
            ))
            .hint(
                "evaluate lengths up to the table's size, read it interpolated (`extend = [\"linear\"]`), or train \
                 with a larger `position.table_size`",
            )
        };
        match positions.largest() {
            Some(largest) if largest >= reach => Err(past(largest)),
            _ => Ok(()),
        }
    }

    fn interpolate(&mut self, scale: f64) -> bool {
        self.scale = scale;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn table() -> Learned {
        let init = Init::new(0, &Device::flex());
        Learned::from_table(init.values([3, 2], &[0.0, 1.0, 10.0, 11.0, 20.0, 21.0]))
    }

    fn read(learned: &Learned, positions: &Positions) -> Vec<f32> {
        learned.vectors(positions).into_data().try_to_vec().unwrap()
    }

    #[test]
    fn reads_rows_and_between_rows() {
        let mut learned = table();
        assert_eq!(read(&learned, &Positions::range(1..3)), [10.0, 11.0, 20.0, 21.0]);
        assert!(learned.interpolate(2.0));
        // Position 5 of 6 is read at 2.5 and stays at the last row.
        assert_eq!(
            read(&learned, &Positions::explicit(1, vec![1.0, 2.0, 5.0])),
            [5.0, 6.0, 10.0, 11.0, 20.0, 21.0]
        );
    }

    #[test]
    fn refuses_a_position_past_the_table() {
        let mut learned = table();
        assert!(learned.check(&Positions::range(0..3)).is_ok());
        let error = learned.check(&Positions::range(0..4)).unwrap_err();
        assert!(error.message().contains("position 3"), "{error}");
        assert!(learned.interpolate(2.0) && learned.check(&Positions::range(0..6)).is_ok());
    }
}
