//! `dynamic_ntk`: NTK-aware base conversion by the length that is read.
//!
//! `base' = base (f length / L - (f - 1))^(d / (d - 2))` past L, unchanged up to it (emozilla 2023;
//! `"dynamic"` in transformers and in the `YaRN` repository). `factor` f = 1 is `ntk` with the scale
//! length / L; a larger one converts further, as a model served with the fixed factor f would. A cache
//! of rotated keys would be wrong as soon as the text grows.

use super::ntk::converted;
use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `dynamic_ntk`.
    pub struct DynamicNtk {
        /// f, at least 1.
        pub factor: f64 = 1.0,
    }
}

impl FrequencyRule for DynamicNtk {
    const KIND: &'static str = "dynamic_ntk";
    const DESCRIPTION: &'static str = "NTK-aware base conversion by the length that is read";
    const SOURCE: &'static str = "arXiv:2309.00071, section 3.3; \"dynamic\" in transformers";
    const FORMULA: &'static str = "b' = b c^{d/(d−2)}, c = max(1, T/L)\n\
        θ'_i = b'^{−2i/d} = θ_i c^{−2i/(d−2)}";

    fn validate(&self, section: &str) -> Result<()> {
        check_not_below(section, "factor", self.factor, 1.0)
            .map_err(|error| error.hint("1 converts by the length over L alone"))
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").bands(Band::Same, Band::ByScale)]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        converted(Self::KIND, old, self.factor.mul_add(scale, 1.0 - self.factor))
    }
}
