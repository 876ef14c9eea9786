//! Reading rows of a table, also between them.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Row numbers as a tensor, `[count]`.
pub fn indices(rows: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i64> = rows.map(|row| row.cast_signed() as i64).collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), device)
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
    let share: Vec<f32> = places.iter().map(|place| place.share as f32).collect();
    let share = Tensor::<2>::from_data(TensorData::new(share, [places.len(), 1]), &device);
    low.clone() + (high - low) * share
}
