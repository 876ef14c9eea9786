//! Numbers that may be infinite or NaN: JSON has neither, so they are `null` there.

use serde::{Deserialize, Deserializer, Serializer};

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.serialize_none() }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

pub(crate) fn finite(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().map(|value| value.is_finite().then_some(*value)).collect()
}
