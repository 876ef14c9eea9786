//! `drop`: a rotary model without its rotation.
//!
//! Every angle is 0, and a factor on cos and sin is 1, so that q.k is read as it is: the order of the tokens is seen
//! through the causal mask alone (`DroPE`, Gelberg et al. 2025, arXiv:2512.12167). The paper trains on for a while
//! without the rotation, at the original length, and then reads longer texts: here a `[[stage]]` with `extend = "drop"`.
//! It then multiplies the logits by `1 + c ln s`, with c fitted on held-out text: 0.412 for its model of 494 million parameters trained from
//! scratch, 0.103 for `SmolLM` (appendix C.2). That is `temperature_law = { kind = "one_plus_log", c = .. }` of the reading.
//! Without such a stage it is a control. With `layers` some layers of a stack drop their rotation and the others keep it.

use crate::encodings::Encoding;
use crate::encodings::none::NoPosition;
use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// `drop` has no keys of its own.
    pub struct DropRotation {}
}

impl Extend for DropRotation {
    const KIND: &'static str = "drop";
    const DESCRIPTION: &'static str =
        "takes the rotation of q and k away (DroPE), usually for a further stage of training";
    const SOURCE: &'static str = "arXiv:2512.12167";
    const FORMULA: &'static str = "θ'_i = 0\n\
        a'_{mn} = q_m · k_n / √d";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").changes_short_texts().bands(Band::Absent, Band::Absent)]
    }

    fn apply(&self, reading: &mut Reading, _lengths: Lengths) -> Result<()> {
        let needs = "an encoding that rotates q and k";
        change_encodings(Self::KIND, needs, reading, |encoding| {
            if encoding.rotation(0).is_none() {
                return Ok(false);
            }
            if encoding.capabilities().adds_bias() {
                return Err(Error::usage(format!(
                    "`{}` both rotates and adds a bias, and `{}` takes a rotation away whole",
                    encoding.kind(),
                    Self::KIND
                ))
                .hint("give rotation and bias an encoding each: `position = [{ .. }, { .. }]`"));
            }
            // Nothing is learned in a rotation, so that no weight is lost.
            *encoding = Encoding::new("none", NoPosition {});
            Ok(true)
        })?;
        reading.rename(format!("{} without its rotation", reading.name()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::LogN;
    use crate::testing::{self, dimensions, extension};

    fn reading(position: &str) -> Reading {
        testing::reading(position, &dimensions(), LogN::Off).unwrap()
    }

    fn apply(extend: &str, reading: &Reading) -> Result<Reading> {
        extension(extend)?.apply(reading, Lengths { train: 16, length: 64 })
    }

    #[test]
    fn nothing_that_needs_a_rotation_applies_after_it() {
        for position in ["'rope'", "'xpos'", "{ kind = 'formula', inv_freq = '1/(1+band)' }"] {
            let dropped = apply("'drop'", &reading(position)).unwrap();
            assert!(dropped.rotation(0).is_none() && dropped.rotation(1).is_none());
            assert_eq!(dropped.position_use(), PositionUse::Order, "{position}");
            for other in [
                "'ntk'",
                "'linear'",
                "'rerope'",
                "{ kind = 'string', allow_untrained = true }",
                "'drop'",
                "{ kind = 'direct', resonance = true }",
            ] {
                let error = apply(other, &dropped).unwrap_err();
                assert!(error.message().contains("without its rotation"), "{other}: {error}");
                assert!(error.hint_text().is_some(), "{other}: {error}");
            }
            for other in ["'direct'", "{ kind = 'window', log_n = true, temperature = 0.8 }"] {
                apply(other, &dropped).unwrap();
            }
        }
        // A factor on cos and sin goes with them.
        let sharper = apply("{ kind = 'yarn', attention_factor = 1.5 }", &reading("'rope'")).unwrap();
        let dropped = apply("'drop'", &sharper).unwrap();
        assert!((dropped.layer(0).logit_scale - 1.0).abs() < 1e-15);
    }

    #[test]
    fn the_other_encodings_and_layers_stay() {
        let listed = apply("'drop'", &reading("['rope', 'alibi']")).unwrap();
        assert!(listed.capabilities().adds_bias() && listed.rotation(0).is_none());
        let some = apply("{ kind = 'drop', layers = [1] }", &reading("'rope'")).unwrap();
        assert!(some.rotation(0).is_some() && some.rotation(1).is_none());
        for position in
            ["'alibi'", "'pope'", "'sinusoidal'", "{ kind = 'formula', inv_freq = '1', bias = '-n' }"]
        {
            let error = apply("'drop'", &reading(position)).unwrap_err();
            assert!(error.hint_text().is_some(), "{position}: {error}");
        }
    }
}
