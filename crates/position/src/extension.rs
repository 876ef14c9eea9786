//! The second seam: how a trained model is read at another length.
//!
//! An extension changes a [`Reading`]: frequencies, positions, geometry, masks, scales. It never
//! touches weights other than the encoding's own. Direct extrapolation is the identity.

use crate::encoding::Geometry;
use crate::frequency::Frequencies;
use crate::reading::{Mask, Reading};
use crate::tokens::Tokens;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt::Display;

pub use crate::tokens::Lengths;

/// What an extension's file must say.
pub trait Extend: Sized {
    /// Its name in `extend = [...]`.
    const KIND: &'static str;
    /// One line for the list of extensions.
    const DESCRIPTION: &'static str;
    /// Where it was published.
    const SOURCE: &'static str;
    /// Whether `temperature` is a key of its own, in place of the one that every extension takes.
    const OWN_TEMPERATURE: bool = false;

    /// Checks the values.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key below `section`.
    fn validate(&self, section: &str) -> Result<()>;

    /// Changes the reading for a length.
    ///
    /// # Errors
    /// The encoding has no such reading ([`not_applicable`]).
    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()>;

    /// The window of `window`, of an extension that hides the keys behind it.
    fn window(&self) -> Option<Tokens> {
        None
    }
}

/// The error of an extension that means nothing for the encoding at hand.
pub fn not_applicable(kind: &str, needs: &str, reading: &Reading) -> Error {
    Error::usage(format!("`{kind}` does not apply to `{}`: it needs {needs}", reading.name()))
}

/// Replaces the frequencies of every encoding that has some.
///
/// A new factor on cos and sin reaches the logits by its square. In a layer where nothing rotates
/// (waves that are added), the logits are scaled by that square instead.
///
/// # Errors
/// No encoding has frequencies, or `change` has an objection.
pub fn change_frequencies(
    kind: &str,
    reading: &mut Reading,
    change: impl Fn(&Frequencies) -> Result<Frequencies>,
) -> Result<()> {
    let rotates: Vec<bool> =
        reading.encodings().iter().map(|encoding| encoding.rotation(0).is_some()).collect();
    let mut logit_scales = vec![None; rotates.len()];
    for (index, encoding) in reading.encodings_mut().iter_mut().enumerate() {
        let Some(old) = encoding.frequencies() else { continue };
        let mut new = change(old)?;
        logit_scales[index] = Some((new.attention_factor / old.attention_factor).powi(2));
        if !rotates[index] {
            new.attention_factor = old.attention_factor;
        }
        encoding.set_frequencies(new);
    }
    if logit_scales.iter().all(Option::is_none) {
        return Err(not_applicable(kind, "an encoding made of frequencies", reading));
    }
    for layer in reading.layers_mut() {
        if !layer.encodings.iter().any(|place| rotates[place.encoding]) {
            layer.logit_scale *=
                layer.encodings.iter().find_map(|place| logit_scales[place.encoding]).unwrap_or(1.0);
        }
    }
    Ok(())
}

/// Lets every layer whose q.k depends on the distance read pairs by a geometry.
///
/// # Errors
/// No layer does.
pub fn set_geometry(kind: &str, reading: &mut Reading, geometry: &Geometry) -> Result<()> {
    let is_relative_qk: Vec<bool> =
        reading.encodings().iter().map(|encoding| encoding.capabilities().is_relative_qk).collect();
    let mut any = false;
    for layer in reading.layers_mut() {
        if layer.encodings.iter().any(|place| is_relative_qk[place.encoding]) {
            layer.geometry = Some(geometry.clone());
            any = true;
        }
    }
    if any {
        Ok(())
    } else {
        Err(not_applicable(kind, "an encoding that turns q and k, or waves, by position", reading))
    }
}

/// How far a text looks back, by an extension that promises to read no distance that training did not show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Farthest {
    /// The largest distance that is read, in tokens; may be fractional.
    pub(crate) distance: f64,
    /// Whether a setting of the extension allows distances that training never showed.
    pub(crate) allowed: bool,
}

impl Farthest {
    /// Refuses distances of L tokens and more, which no text of the training has. `key` is the setting that leads
    /// there, `value` what it says, `better` what to do about it.
    ///
    /// # Errors
    /// The farthest distance was not trained, and nothing allows it.
    pub(crate) fn check(
        self,
        kind: &str,
        (key, value): (&str, impl Display),
        lengths: Lengths,
        better: impl FnOnce() -> String,
    ) -> Result<()> {
        let Lengths { train, length } = lengths;
        // A quotient that should be whole may be a little less.
        if self.allowed || self.distance < train as f64 - 1e-9 {
            return Ok(());
        }
        // At most three decimals.
        let distance = (self.distance * 1e3).round() / 1e3;
        // A constant distance may be further than the text is long.
        let text =
            if distance < length as f64 { format!(" in a text of {length} tokens") } else { String::new() };
        Err(Error::value(
            key,
            value,
            format!(
                "`{kind}` then reads distances up to {distance}{text}, and training showed those below L = {train} only"
            ),
        )
        .hint(format!("{}, or say `allow_untrained = true` to measure it all the same", better())))
    }
}

/// Narrows every layer to a window, and lets the first `sinks` positions stay visible. A layer that was
/// trained with a window as narrow stays as it is, and sinks it was trained with stay visible in any.
pub fn set_window(reading: &mut Reading, window: usize, sinks: usize) {
    for layer in reading.layers_mut() {
        if layer.mask.window.is_none_or(|trained| trained > window) {
            layer.mask = Mask { window: Some(window), sinks: sinks.max(layer.mask.sinks) };
        }
    }
}

/// How much longer the text is: `"auto"` takes L'/L for each length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// L'/L of the length that is read, at least 1.
    #[default]
    Auto,
    /// The same for every length.
    Fixed(f64),
}

impl Scale {
    /// The scale for a length.
    pub fn at(self, lengths: Lengths) -> f64 {
        match self {
            Self::Auto => lengths.scale(),
            Self::Fixed(scale) => scale,
        }
    }

    /// Checks a given scale.
    ///
    /// # Errors
    /// It is below 1 or not finite.
    pub fn validate(self, section: &str) -> Result<()> {
        match self {
            Self::Fixed(scale) if !(scale.is_finite() && scale >= 1.0) => Err(Error::value(
                &format!("{section}.scale"),
                scale,
                "it must be \"auto\" or a number of at least 1",
            )
            .hint("\"auto\" takes evaluated length / training length")),
            _ => Ok(()),
        }
    }
}

impl Serialize for Scale {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(scale) => serializer.serialize_f64(*scale),
        }
    }
}

impl<'de> Deserialize<'de> for Scale {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(f64),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Number(scale)) => Ok(Self::Fixed(scale)),
            Ok(Raw::Word(word)) if word == "auto" => Ok(Self::Auto),
            _ => Err(serde::de::Error::custom("it must be \"auto\" or a number")),
        }
    }
}

impl JsonSchema for Scale {
    fn schema_name() -> Cow<'static, str> {
        "Scale".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A factor of at least 1, or `auto`: the length that is read over L, where that is more than 1.",
            "anyOf": [{ "const": "auto" }, { "type": "number", "minimum": 1 }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_never_shrinks() {
        assert!((Scale::Auto.at(Lengths { train: 128, length: 512 }) - 4.0).abs() < 1e-15);
        assert!((Scale::Auto.at(Lengths { train: 128, length: 64 }) - 1.0).abs() < 1e-15);
        assert!(Scale::Fixed(0.5).validate("extend").is_err());
    }
}
