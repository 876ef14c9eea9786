//! What an extension must not make of a reading: numbers that leave f32.

use crate::extension::Lengths;
use crate::reading::{LayerReading, Reading};
use longwave_core::{Error, Result};

/// The largest factor on logits that leaves them room in f32.
const LARGEST_FACTOR: f64 = 1e30;

/// Refuses frequencies that are no numbers, and factors that take the logits out of f32.
pub(super) fn check_numbers(kind: &str, reading: &Reading, lengths: Lengths) -> Result<()> {
    let error = |what: &str| {
        Err(Error::usage(format!("`{kind}` gives {what} at length {}", lengths.length))
            .hint("one of its values is far from any that was published: take it nearer to the default"))
    };
    let angles = |f: &f64| (f * lengths.length as f64).is_finite();
    for frequencies in reading.encodings().iter().filter_map(|encoding| encoding.frequencies()) {
        if !(frequencies.base.is_finite() && frequencies.as_read().iter().all(angles)) {
            return error("frequencies that are no numbers");
        }
        let factor = frequencies.attention_factor.powi(2);
        if factor.is_nan() || factor > LARGEST_FACTOR {
            return error("logits that no f32 holds");
        }
    }
    // What multiplies q.k in a layer is the product of all its factors.
    let holds = |layer: &LayerReading| {
        let rotations =
            layer.encodings.iter().filter_map(|place| reading.encodings()[place.encoding].frequencies());
        let factor: f64 =
            rotations.map(|frequencies| frequencies.attention_factor.powi(2).max(1.0)).product();
        layer.temperature.numbers().iter().all(|t| factor * layer.logit_scale.max(1.0) / t <= LARGEST_FACTOR)
    };
    if reading.layers().iter().all(holds) { Ok(()) } else { error("logits that no f32 holds") }
}
