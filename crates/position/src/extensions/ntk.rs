//! `ntk`: NTK-aware base conversion.
//!
//! `base' = base s^(d / (d - 2))`, `inv_freq'_i = base'^(-2i/d) = inv_freq_i s^(-2i/(d-2))`
//! (Peng et al. 2023, arXiv:2309.00071, definition 1): the fastest band keeps its frequency, the slowest
//! is exactly interpolated (`inv_freq / s`), and the others lie between. Nothing is trained.

use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `ntk`.
    pub struct Ntk {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
    }
}

/// The frequencies of the converted base.
pub fn converted(kind: &str, old: &Frequencies, scale: f64) -> Result<Frequencies> {
    let dim = old.dim();
    if dim <= 2 {
        return Err(Error::usage(format!(
            "`{kind}` needs at least two frequencies, and a rotated dimension of {dim} has one"
        ))
        .hint("use wider heads, or `linear`"));
    }
    let d = dim as f64;
    let base = old.base * scale.powf(d / (d - 2.0));
    // Band by band, so that frequencies which are no powers of the base (zeros, say) stay what they are.
    Ok(Frequencies { base, ..old.map(|i, f| f * scale.powf(-2.0 * i as f64 / (d - 2.0))) })
}

impl FrequencyRule for Ntk {
    const KIND: &'static str = "ntk";
    const DESCRIPTION: &'static str = "NTK-aware base conversion: the base grows to b s^(d/(d-2))";
    const SOURCE: &'static str = "arXiv:2309.00071, definition 1";
    const FORMULA: &'static str = "b' = b s^{d/(d−2)}\n\
        θ'_i = b'^{−2i/d} = θ_i s^{−2i/(d−2)}";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        let examples = [Example::new(""), Example::new("log_n = true").shifts(Shifts::None)];
        examples.map(|example| example.bands(Band::Same, Band::ByScale)).into()
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        converted(Self::KIND, old, scale)
    }
}
