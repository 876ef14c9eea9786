//! The second seam: how a trained model is read at another length.
//!
//! An extension changes a [`Reading`]: frequencies, positions, geometry, masks, scales. It never
//! touches weights other than the encoding's own. Direct extrapolation is the identity.

mod example;
mod scale;

use crate::encoding::Geometry;
use crate::frequency::Frequencies;
use crate::reading::{Mask, Reading};
use crate::tokens::Tokens;
use longwave_core::{Error, Result};
use std::fmt::Display;

pub use crate::tokens::Lengths;
pub use example::{Band, Example, Shifts};
pub use scale::Scale;

/// What an extension's file must say.
///
/// An extension that turns every band half as fast, whatever the length:
///
/// ```
/// use longwave_core::Result;
/// use longwave_position::extension::{change_frequencies, Extend, Lengths};
/// use longwave_position::Reading;
///
/// struct HalfSpeed;
///
/// impl Extend for HalfSpeed {
///     const KIND: &'static str = "half_speed";
///     const DESCRIPTION: &'static str = "every frequency halved";
///     const SOURCE: &'static str = "this example";
///     const FORMULA: &'static str = "θ'_i = θ_i / 2";
///
///     fn apply(&self, reading: &mut Reading, _lengths: Lengths) -> Result<()> {
///         change_frequencies(Self::KIND, reading, |old| Ok(old.map(|_band, inv_freq| inv_freq / 2.0)))
///     }
/// }
/// # use burn::tensor::Device;
/// # use longwave_position::{reading::LogN, Dimensions, Init, PositionConfig};
/// # let sizes =
/// #     Dimensions { layers: 1, width: 8, heads: 1, kv_heads: 1, head_dim: 8, train_length: 16, vocab_size: 8 };
/// # let rope = PositionConfig::from_value(&"rope".into(), "position").unwrap();
/// # let mut reading = rope.build("position", &sizes, &Init::new(0, &Device::flex()), LogN::Off).unwrap();
/// # HalfSpeed.apply(&mut reading, Lengths { train: 16, length: 32 }).unwrap();
/// # assert_eq!(reading.encodings()[0].frequencies().unwrap().inv_freq[0], 0.5);
/// ```
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
