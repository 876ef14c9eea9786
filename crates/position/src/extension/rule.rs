//! Extensions that are a rule for frequencies.

use super::temperature::Temperatures;
use super::{Example, Extend, Lengths, Scale, not_applicable};
use crate::frequency::Frequencies;
use crate::reading::Reading;
use longwave_core::Result;

/// An extension that gives every encoding other frequencies: its [`Extend`] follows from this. What is not described here is as there.
///
/// One that turns every band half as fast, whatever the length:
///
/// ```
/// use longwave_core::Result;
/// use longwave_position::extension::{FrequencyRule, Lengths};
/// use longwave_position::frequency::Frequencies;
///
/// struct HalfSpeed;
///
/// impl FrequencyRule for HalfSpeed {
///     const KIND: &'static str = "half_speed";
///     const DESCRIPTION: &'static str = "every frequency halved";
///     const SOURCE: &'static str = "this example";
///     const FORMULA: &'static str = "θ'_i = θ_i / 2";
///
///     fn frequencies(&self, old: &Frequencies, _scale: f64, _lengths: Lengths) -> Result<Frequencies> {
///         Ok(old.map(|_band, inv_freq| inv_freq / 2.0))
///     }
/// }
/// # use burn::tensor::Device;
/// # use longwave_position::{reading::LogN, Dimensions, Extend, Init, PositionConfig};
/// # let sizes =
/// #     Dimensions { layers: 1, width: 8, heads: 1, kv_heads: 1, head_dim: 8, train_length: 16, vocab_size: 8 };
/// # let rope = PositionConfig::from_value(&"rope".into(), "position").unwrap();
/// # let mut reading = rope.build("position", &sizes, &Init::new(0, &Device::flex()), LogN::Off).unwrap();
/// # HalfSpeed.apply(&mut reading, Lengths { train: 16, length: 32 }).unwrap();
/// # assert_eq!(reading.encodings()[0].frequencies().unwrap().inv_freq[0], 0.5);
/// ```
pub trait FrequencyRule: Sized {
    const KIND: &'static str;
    const DESCRIPTION: &'static str;
    const SOURCE: &'static str;
    const FORMULA: &'static str;
    const OWN_TEMPERATURE: bool = false;

    /// s, checked before anything else is read of it; [`Scale::Auto`] where the extension has no such key.
    fn scale(&self) -> Scale {
        Scale::Auto
    }

    fn validate(&self, section: &str) -> Result<()> {
        let _ = section;
        Ok(())
    }

    fn examples(bands: usize, lengths: Lengths) -> Vec<Example> {
        let _ = (bands, lengths);
        vec![Example::new("")]
    }

    /// The new frequencies, with the factor on cos and sin, at the scale s.
    ///
    /// # Errors
    /// The rule means nothing for these frequencies or lengths.
    fn frequencies(&self, old: &Frequencies, scale: f64, lengths: Lengths) -> Result<Frequencies>;

    /// What divides the logits of the layers whose frequencies change.
    fn temperature(&self) -> Option<&Temperatures> {
        None
    }
}

impl<R: FrequencyRule> Extend for R {
    const KIND: &'static str = <R as FrequencyRule>::KIND;
    const DESCRIPTION: &'static str = <R as FrequencyRule>::DESCRIPTION;
    const SOURCE: &'static str = <R as FrequencyRule>::SOURCE;
    const FORMULA: &'static str = <R as FrequencyRule>::FORMULA;
    const OWN_TEMPERATURE: bool = <R as FrequencyRule>::OWN_TEMPERATURE;

    fn validate(&self, section: &str) -> Result<()> {
        FrequencyRule::validate(self, section)?;
        self.scale().validate(section)
    }

    fn examples(bands: usize, lengths: Lengths) -> Vec<Example> {
        <R as FrequencyRule>::examples(bands, lengths)
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale().at(lengths);
        change_frequencies(<R as FrequencyRule>::KIND, reading, |old| self.frequencies(old, scale, lengths))?;
        let Some(temperature) = self.temperature() else { return Ok(()) };
        let changed: Vec<bool> =
            reading.encodings().iter().map(|encoding| encoding.frequencies().is_some()).collect();
        let heads = reading.heads();
        temperature.apply(reading.layers_mut(), heads, |layer| {
            layer.encodings.iter().any(|place| changed[place.encoding])
        })
    }
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
    let acts: Vec<bool> = (0..rotates.len()).map(|index| reading.acts(index)).collect();
    let encodings = reading.encodings_mut().iter_mut().enumerate();
    for (index, encoding) in encodings.filter(|(index, _)| acts[*index]) {
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
