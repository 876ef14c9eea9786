//! The second seam: how a trained model is read at another length.
//!
//! An extension changes a [`Reading`]: frequencies, positions, geometry, masks, scales. It never
//! touches weights other than the encoding's own. Direct extrapolation is the identity.

mod example;
mod rule;
mod scale;
pub mod temperature;

use crate::encoding::{Geometry, check_positive};
use crate::encodings::Encoding;
use crate::reading::{Mask, Reading};
use crate::tokens::Tokens;
use longwave_core::{Error, Result};
use std::fmt::Display;

pub use crate::tokens::Lengths;
pub use example::{Band, Example, Shifts};
pub use rule::{FrequencyRule, change_frequencies};
pub use scale::Scale;

/// What an extension's file must say. One that is a rule for frequencies implements [`FrequencyRule`] instead.
pub trait Extend: Sized {
    /// Its name in `extend = [...]`.
    const KIND: &'static str;
    /// One line for the list of extensions.
    const DESCRIPTION: &'static str;
    /// Where it was published.
    const SOURCE: &'static str;
    /// What it changes with its default keys, in the notation of
    /// [`Configure::FORMULA`](crate::encoding::Configure::FORMULA).
    const FORMULA: &'static str;
    /// Whether `temperature` is a key of its own, in place of the one that every extension takes.
    const OWN_TEMPERATURE: bool = false;

    /// Checks the values.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key below `section`.
    fn validate(&self, section: &str) -> Result<()> {
        let _ = section;
        Ok(())
    }

    /// Changes the reading for a length.
    ///
    /// # Errors
    /// The encoding has no such reading ([`not_applicable`]).
    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()>;

    /// Settings that tests check, each with what it promises; the first is the plainest.
    /// `bands` is the number of frequencies of the encoding at hand. The default promises what `direct` does, so that
    /// the tests of an extension that does anything fail until it states what.
    fn examples(bands: usize, lengths: Lengths) -> Vec<Example> {
        let _ = (bands, lengths);
        vec![Example::new("")]
    }

    /// The window of `window`, of an extension that hides the keys behind it.
    fn window(&self) -> Option<Tokens> {
        None
    }
}

/// The error of an extension that means nothing for the encoding at hand.
pub fn not_applicable(kind: &str, needs: &str, reading: &Reading) -> Error {
    Error::usage(format!("`{kind}` does not apply to `{}`: it needs {needs}", reading.name()))
}

/// A factor on cos and sin must be positive.
pub(crate) fn check_attention_factor(section: &str, factor: f64) -> Result<()> {
    check_positive(section, "attention_factor", factor)
        .map_err(|error| error.hint("1.0 leaves the logits as they are"))
}

/// Reads every position divided by a scale.
///
/// # Errors
/// No encoding has such a reading.
pub fn divide_positions(kind: &str, reading: &mut Reading, scale: f64) -> Result<()> {
    let needs = "an encoding that is defined between whole positions";
    change_encodings(kind, needs, reading, |encoding| Ok(encoding.interpolate(scale)))
}

/// Changes encodings; `change` says whether there was something to change.
///
/// # Errors
/// There was nothing in any of them, or `change` has an objection.
pub(crate) fn change_encodings(
    kind: &str,
    needs: &str,
    reading: &mut Reading,
    change: impl Fn(&mut Encoding) -> Result<bool>,
) -> Result<()> {
    let mut any = false;
    for index in 0..reading.encodings().len() {
        if reading.acts(index) {
            any |= change(&mut reading.encodings_mut()[index])?;
        }
    }
    if any { Ok(()) } else { Err(not_applicable(kind, needs, reading)) }
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
    let needs = "an encoding that turns q and k, or waves, by position";
    if any { Ok(()) } else { Err(not_applicable(kind, needs, reading)) }
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
/// Says whether there was a layer to narrow.
pub fn set_window(reading: &mut Reading, window: usize, sinks: usize) -> bool {
    let mut any = false;
    for layer in reading.layers_mut() {
        if layer.mask.window.is_none_or(|trained| trained > window) {
            layer.mask = Mask { window: Some(window), sinks: sinks.max(layer.mask.sinks) };
            any = true;
        }
    }
    any
}

/// As [`set_window`].
///
/// # Errors
/// Every layer was trained with a window as narrow.
pub(crate) fn narrow(kind: &str, reading: &mut Reading, window: usize, sinks: usize) -> Result<()> {
    let needs = format!("a layer that sees more than the last {window} tokens");
    if set_window(reading, window, sinks) { Ok(()) } else { Err(not_applicable(kind, &needs, reading)) }
}
