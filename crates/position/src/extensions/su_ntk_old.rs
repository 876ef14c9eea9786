//! `su_ntk_old`: Su's first base conversion.
//!
//! On a model whose base is its training length (`base = "L"`), it reads texts of L' tokens with the base L': `FMRoPE`'s reading
//! ("Frequency Bands in `RoPE`", Oka et al., ICLR 2026, section 6.1).
//!
//! `base' = base s`, so `inv_freq'_i = inv_freq_i s^(-2i/d)` (Su 2023, kexue.fm/archives/9675): positions in base
//! beta = base^(2/d) are read in base beta s^(2/d). The fastest band keeps its frequency; the slowest is divided
//! by `s^(1 - 2/d)` only, a little less than s.

use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `su_ntk_old`.
    pub struct SuNtkOld {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
    }
}

/// The frequencies of the base times `factor`.
pub(super) fn times(old: &Frequencies, factor: f64) -> Frequencies {
    let d = old.dim() as f64;
    Frequencies { base: old.base * factor, ..old.map(|i, f| f * factor.powf(-2.0 * i as f64 / d)) }
}

impl FrequencyRule for SuNtkOld {
    const KIND: &'static str = "su_ntk_old";
    const DESCRIPTION: &'static str =
        "Su's first base conversion: the base grows to b s, and a base of L to one of L'";
    const SOURCE: &'static str = "kexue.fm/archives/9675; Oka et al., Frequency Bands in RoPE, ICLR 2026";
    const FORMULA: &'static str = "b' = b s\n\
        θ'_i = b'^{−2i/d} = θ_i s^{−2i/d}";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").bands(Band::Same, Band::Between)]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        Ok(times(old, scale))
    }
}
