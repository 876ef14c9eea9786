//! Which bands are interpolated, and how much: the ramp that `ntk_by_parts` and `yarn` share.

use crate::prelude::*;
use std::f64::consts::TAU;

/// How the ramp rises between the bands that are kept and those that are interpolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ramp {
    /// Linear in the band's index, as the published programs compute it.
    #[default]
    Code,
    /// Linear in the turns a band makes in L tokens, as the paper defines it.
    Paper,
}

/// A ramp with its ends. A turn is one wavelength; a band makes `turns_i = L inv_freq_i / 2 pi` of them
/// in the training length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// How the ramp rises.
    pub ramp: Ramp,
    /// Bands of at most so many turns are wholly interpolated.
    pub alpha: f64,
    /// Bands of at least so many turns are kept.
    pub beta: f64,
    /// `code`: rounds the ends outwards to whole bands.
    pub truncate: bool,
}

impl Parts {
    /// Checks the ends.
    pub fn validate(&self, section: &str) -> Result<()> {
        check_positive(section, "alpha", self.alpha).map_err(|error| {
            error.hint("the usual one is 1.0: bands of less than one turn are interpolated")
        })?;
        let enough = match self.ramp {
            Ramp::Code => self.beta >= self.alpha,
            // The ramp rises over the turns between them.
            Ramp::Paper => self.beta > self.alpha,
        };
        if !(self.beta.is_finite() && enough) {
            let allowed = format!("it must be a number above `{section}.alpha = {}`", self.alpha);
            return Err(Error::value(&format!("{section}.beta"), self.beta, allowed)
                .hint("the usual one is 32.0: bands of more turns than that are kept"));
        }
        Ok(())
    }

    /// `inv_freq_i ((1 - g_i) / s + g_i)`, with the kept share `g_i` of the ramp.
    pub fn interpolated(
        &self,
        kind: &str,
        frequencies: &Frequencies,
        scale: f64,
        lengths: Lengths,
    ) -> Result<Frequencies> {
        let train = lengths.train as f64;
        let mix = |f: f64, kept: f64| f * ((1.0 - kept) / scale + kept);
        match self.ramp {
            Ramp::Paper => Ok(frequencies.map(|_, f| {
                let turns = train * f / TAU;
                mix(f, ((turns - self.alpha) / (self.beta - self.alpha)).clamp(0.0, 1.0))
            })),
            Ramp::Code => {
                let (low, high) = self.ends(kind, frequencies, train)?;
                Ok(frequencies.map(|i, f| mix(f, 1.0 - ((i as f64 - low) / (high - low)).clamp(0.0, 1.0))))
            }
        }
    }

    /// The (fractional) indices of the last band that is kept and the first that is wholly interpolated.
    fn ends(&self, kind: &str, frequencies: &Frequencies, train: f64) -> Result<(f64, f64)> {
        if !frequencies.is_geometric() {
            return Err(Error::usage(format!(
                "`{kind}` with `ramp = \"code\"` finds its bands by the base, and the frequencies of this model do not follow from it"
            ))
            .hint("use `ramp = \"paper\"`, which counts the turns of each band"));
        }
        let d = frequencies.dim() as f64;
        let band_of = |turns: f64| d * (train / (turns * TAU)).ln() / (2.0 * frequencies.base.ln());
        let (mut low, mut high) = (band_of(self.beta), band_of(self.alpha));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        // d - 1 and not d/2 - 1 in the published programs.
        (low, high) = (low.max(0.0), high.min(d - 1.0));
        if high < low {
            return Err(Error::usage(format!(
                "`{kind}` with `ramp = \"code\"` is undefined at L = {train}: its ramp would run from band {low} down to \
                 band {high}"
            ))
            .hint(format!(
                "use `ramp = \"paper\"`, or an `alpha` below L / 2 pi = {:.3}, the turns of the fastest band",
                train / TAU
            )));
        }
        if (high - low).abs() < f64::EPSILON {
            high += 0.001;
        }
        Ok((low, high))
    }
}

/// `YaRN`'s factor on cos and sin of both q and k, so that logits are multiplied by its square:
/// `0.1 mscale ln s + 1` past s = 1 (arXiv:2309.00071, section 3.4).
pub(super) fn yarn_factor(mscale: f64, scale: f64) -> f64 {
    if scale > 1.0 { 0.1 * mscale * scale.ln() + 1.0 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { train: 128, length: 512 };

    fn parts(ramp: Ramp) -> Parts {
        Parts { ramp, alpha: 1.0, beta: 32.0, truncate: true }
    }

    #[test]
    fn the_ramps_part_where_no_band_turns_32_times() {
        let trained = Frequencies::geometric(1e4, 32);
        let read = |ramp| parts(ramp).interpolated("yarn", &trained, 4.0, LENGTHS).unwrap().inv_freq;
        let (code, paper) = (read(Ramp::Code), read(Ramp::Paper));
        assert_eq!(code[0].to_bits(), trained.inv_freq[0].to_bits(), "the code keeps the fastest band");
        assert!(paper[0] < 0.8 * trained.inv_freq[0], "the paper interpolates even that: {}", paper[0]);
        for (ramp, new) in [(Ramp::Code, code), (Ramp::Paper, paper)] {
            let slow = trained.inv_freq.iter().zip(&new).filter(|(f, _)| LENGTHS.train as f64 * **f < TAU);
            assert!(slow.clone().count() > 0);
            assert!(slow.clone().all(|(f, new)| (new * 4.0 / f - 1.0).abs() < 1e-12), "{ramp:?}");
        }
    }

    #[test]
    fn an_undefined_ramp_is_refused() {
        let trained = Frequencies::geometric(1e4, 8);
        let short = Lengths { train: 4, length: 16 };
        let exact = Parts { truncate: false, ..parts(Ramp::Code) };
        let error = exact.interpolated("yarn", &trained, 4.0, short).unwrap_err();
        assert!(error.message().contains("from band 0 down to band"), "{error}");
        assert!(error.hint_text().unwrap().contains("0.637"), "{error}");
        assert!(parts(Ramp::Paper).interpolated("yarn", &trained, 4.0, short).is_ok());
        // Rounded outwards, the same ramp is one step after the fastest band.
        let stepped = parts(Ramp::Code).interpolated("yarn", &trained, 4.0, short).unwrap();
        assert_eq!(stepped.inv_freq, [1.0, 0.025, 0.0025, 0.00025]);
    }

    #[test]
    fn ends_in_the_wrong_order_are_refused() {
        assert!(Parts { alpha: 0.0, ..parts(Ramp::Code) }.validate("extend").is_err());
        assert!(Parts { alpha: 33.0, ..parts(Ramp::Code) }.validate("extend").is_err());
        assert!(Parts { alpha: 32.0, ..parts(Ramp::Code) }.validate("extend").is_ok());
        assert!(Parts { alpha: 32.0, ..parts(Ramp::Paper) }.validate("extend").is_err());
    }
}
