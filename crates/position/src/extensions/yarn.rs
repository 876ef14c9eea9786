//! `yarn`: NTK by parts, with a temperature on the logits.
//!
//! Frequencies as `ntk_by_parts`; cos and sin of q and k are multiplied by `0.1 mscale ln s + 1` where s > 1,
//! so q.k by its square (Peng et al. 2023, arXiv:2309.00071, section 3.4). With waves that are added (`sinusoidal`)
//! q.k is scaled. `temperature = t` takes the place of the formula at every scale: it divides the logits by t, in the
//! layers whose frequencies change, which for q.k of rotated channels alone is a factor `1 / sqrt(t)` on cos and sin.
//! `attention_factor` takes its place too, as the factor on cos and sin itself. With `mscale_all_dim` the factor is
//! `m(mscale) / m(mscale_all_dim)`, `m(x) = 0.1 x ln s + 1` where s > 1, else 1 (`rope_parameters` in transformers, where
//! `mscale` alone changes nothing; here it multiplies the logarithm).

use super::ramp::{Parts, Ramp, yarn_factor};
use crate::extension::FrequencyRule;
use crate::extension::temperature::Temperatures;
use crate::prelude::*;

keys! {
    /// Keys of `yarn`.
    pub struct Yarn {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
        /// How the ramp rises.
        pub ramp: Ramp = Ramp::Code,
        /// Bands that make at most this many turns in L tokens are interpolated.
        pub alpha: f64 = 1.0,
        /// Bands that make at least this many turns in L tokens are kept.
        pub beta: f64 = 32.0,
        /// `ramp = "code"`: rounds the ends of the ramp outwards to whole bands.
        pub truncate: bool = true,
        /// Factor on the logarithm in `0.1 mscale ln s + 1`.
        pub mscale: f64 = 1.0,
        /// Divides the logits of the layers whose frequencies change, in place of the formula: with 1 it is `ntk_by_parts`.
        pub temperature: Option<Temperatures> = None,
        /// Multiplies cos and sin of q and k at every scale, in place of the formula.
        pub attention_factor: Option<f64> = None,
        /// Divides the formula's factor by that of another `mscale`: `m(mscale) / m(mscale_all_dim)`.
        pub mscale_all_dim: Option<f64> = None,
    }
}

impl Yarn {
    fn parts(&self) -> Parts {
        Parts { ramp: self.ramp, alpha: self.alpha, beta: self.beta, truncate: self.truncate }
    }

    /// The factor on cos and sin.
    pub(super) fn factor(&self, scale: f64) -> f64 {
        match (self.attention_factor, &self.temperature, self.mscale_all_dim) {
            (Some(factor), ..) => factor,
            (None, Some(_), _) => 1.0,
            (None, None, all_dim) => {
                yarn_factor(self.mscale, scale) / all_dim.map_or(1.0, |all_dim| yarn_factor(all_dim, scale))
            }
        }
    }

    /// Two keys that take the place of the formula, or one and a key of the formula, contradict each other.
    fn validate_factor(&self, section: &str) -> Result<()> {
        if let Some(factor) = self.attention_factor {
            check_attention_factor(section, factor)?;
        }
        if let Some(all_dim) = self.mscale_all_dim {
            check_not_below(section, "mscale_all_dim", all_dim, 0.0).map_err(|error| {
                error.hint("with the same number as `mscale` the logits stay as they are")
            })?;
        }
        let shown = |temperature: &Temperatures| match temperature {
            Temperatures::All(number) => number.to_string(),
            Temperatures::Heads(rows) => format!("{rows:?}"),
        };
        let given = [
            ("attention_factor", self.attention_factor.map(|factor| factor.to_string())),
            ("temperature", self.temperature.as_ref().map(shown)),
            ("mscale_all_dim", self.mscale_all_dim.map(|all_dim| all_dim.to_string())),
        ];
        let is_own = (self.mscale - Self::default().mscale).abs() > 0.0;
        let mscale = given[..2].iter().find(|(_, value)| value.is_some()).filter(|_| is_own);
        if let Some((first, _)) = mscale {
            let allowed = format!("`{section}.{first}` takes the place of the formula, and of this key");
            return Err(Error::value(&format!("{section}.mscale"), self.mscale, allowed)
                .hint("leave one of them out"));
        }
        let mut given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
        if let (Some((first, _)), Some((second, value))) = (given.next(), given.next()) {
            let allowed = format!("`{section}.{first}` takes the place of the formula, and of this key");
            return Err(
                Error::value(&format!("{section}.{second}"), value, allowed).hint("leave one of them out")
            );
        }
        Ok(())
    }
}

impl FrequencyRule for Yarn {
    const KIND: &'static str = "yarn";
    const DESCRIPTION: &'static str = "ntk_by_parts with sharper attention (YaRN)";
    const SOURCE: &'static str = "arXiv:2309.00071 and its repository";
    const FORMULA: &'static str = "θ'_i = θ_i (g_i + (1 − g_i) / s), g_i = 1 − clip((i − lo) / (hi − lo), 0, 1)\n\
        lo = max(0, ⌊c(32)⌋), hi = min(d − 1, ⌈c(1)⌉), c(r) = d ln(L / (2π r)) / (2 ln b)\n\
        a'_{mn} = (0.1 ln s + 1)^2 q'_m · k'_n / √d";
    const OWN_TEMPERATURE: bool = true;

    fn scale(&self) -> Scale {
        self.scale
    }

    fn temperature(&self) -> Option<&Temperatures> {
        self.temperature.as_ref()
    }

    fn validate(&self, section: &str) -> Result<()> {
        check_not_below(section, "mscale", self.mscale, 0.0)
            .map_err(|error| error.hint("0 leaves the logits as they are, 1 is the published scaling"))?;
        if let Some(temperature) = &self.temperature {
            temperature.check(section)?;
        }
        self.validate_factor(section)?;
        self.parts().validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::Same, Band::ByScale),
            Example::new("ramp = 'paper'").bands(Band::Between, Band::ByScale),
            Example::new("attention_factor = 1.2").changes_short_texts().bands(Band::Same, Band::ByScale),
            Example::new("mscale_all_dim = 0.8").bands(Band::Same, Band::ByScale),
            Example::new("resonance = true").changes_short_texts().bands(Band::Same, Band::ByScale),
        ]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, lengths: Lengths) -> Result<Frequencies> {
        let parts = self.parts().interpolated(Self::KIND, old, scale, lengths)?;
        Ok(parts.amplified(self.factor(scale)))
    }
}
