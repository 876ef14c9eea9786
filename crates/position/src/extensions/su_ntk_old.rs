
use crate::extension::{Band, Example, FrequencyRule, Lengths, Scale};
use crate::frequency::Frequencies;
use longwave_core::Result;

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
    const DESCRIPTION: &'static str = "Su's first base conversion: the base grows to b s, and a base of L to one of L'";
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
