//! The frequencies of `rope`, said by a base, by their ends or by a spacing.

use super::{BASE, Config};
use crate::auto::Auto;
use crate::frequency::resonance_obstacle;
use crate::prelude::*;
use std::f64::consts::TAU;

/// How frequencies lie between the fastest and the slowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Each a fixed part of the one before it.
    #[default]
    Geometric,
    /// Closer together at the fast end.
    Cosh,
}

impl Spacing {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_geometric(&self) -> bool {
        *self == Self::Geometric
    }
}

/// tau of `spacing = "cosh"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "it must be \"auto\" or a number of at least 0")]
pub enum Tau {
    /// The published rule.
    Word(Auto),
    /// A number.
    Given(f64),
}

impl Config {
    /// The frequencies of `rotated` channels, `turning` bands of which will turn.
    pub(super) fn frequencies(&self, rotated: usize, turning: usize, train_length: usize) -> Frequencies {
        match (self.spacing, self.slowest_turns) {
            (Spacing::Geometric, None) => Frequencies::geometric(self.base, rotated),
            (Spacing::Geometric, Some(turns)) => {
                let slowest = TAU * turns / train_length as f64;
                Frequencies::between(self.fastest.unwrap_or(1.0), slowest, turning, rotated)
            }
            (Spacing::Cosh, _) => {
                let tau = match self.tau {
                    Some(Tau::Given(tau)) => tau,
                    Some(Tau::Word(Auto::Auto)) | None => rotated as f64 / (train_length as f64).sqrt(),
                };
                Frequencies::cosh(self.base, rotated, tau)
            }
        }
    }

    /// Checks the keys that say the frequencies in place of the base, where `bands` is what turns of `rotated` channels.
    pub(super) fn check_schedule(&self, section: &str, bands: usize, train_length: usize) -> Result<()> {
        let key = |key: &str| format!("{section}.{key}");
        match (self.spacing, self.tau) {
            (Spacing::Geometric, Some(tau)) => {
                return check_without(section, "tau", Some(tau.in_toml()), "spacing = \"cosh\"");
            }
            // sinh of it must be a number.
            (Spacing::Cosh, Some(Tau::Given(tau))) if !(0.0..=500.0).contains(&tau) => {
                return Err(Error::value(&key("tau"), tau, "it must be a number from 0 to 500")
                    .hint("\"auto\" is the published rule, 2.8 for 32 rotated channels at L = 128"));
            }
            _ => {}
        }
        let Some(turns) = self.slowest_turns else {
            let fastest = self.fastest.map(|fastest| fastest.to_string());
            return check_without(section, "fastest", fastest, "slowest_turns");
        };
        let fastest = self.fastest.unwrap_or(1.0);
        check_positive(section, "fastest", fastest)?;
        if let Some(obstacle) = resonance_obstacle(fastest).filter(|_| self.resonance) {
            let allowed = format!("`{section}.resonance = true` rounds its {obstacle}");
            return Err(Error::value(&key("fastest"), fastest, allowed)
                .hint("give at most 4 pi / 3 = 4.18, or leave `resonance` out"));
        }
        check_positive(section, "slowest_turns", turns)?;
        let error =
            |allowed: String, hint: &str| Err(Error::value(&key("slowest_turns"), turns, allowed).hint(hint));
        if self.base.to_bits() != BASE.to_bits() {
            return error(
                format!("the base follows from it, and `{section}.base = {}` is given too", self.base),
                "leave one of them out",
            );
        }
        if self.spacing == Spacing::Cosh {
            return error(
                "`spacing = \"cosh\"` lays the bands out by the base".to_owned(),
                "leave one of them out, or give `base`",
            );
        }
        if bands < 2 {
            let allowed = format!("it needs two bands that turn, and here {bands} of them do");
            return error(allowed, "rotate more channels: `fraction`, `p`, wider heads");
        }
        let most = fastest * train_length as f64 / TAU;
        if turns > most * (1.0 + 1e-9) {
            let allowed = format!(
                "the fastest band turns {most:.3} times in L = {train_length} tokens, and no band more often than that"
            );
            return error(allowed, "give fewer turns, or a larger `fastest`");
        }
        Ok(())
    }
}

impl Tau {
    fn in_toml(self) -> String {
        match self {
            Self::Word(Auto::Auto) => "\"auto\"".to_owned(),
            Self::Given(tau) => tau.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::dimensions;
    use super::*;

    #[test]
    fn the_slowest_band_turns_as_often_as_asked() {
        let dimensions = Dimensions { train_length: 128, ..dimensions(32) };
        let read = |keys: &str| {
            let config: Config = toml::from_str(keys).unwrap();
            config.validate("position", &dimensions)?;
            let built = config.build(&dimensions, &Init::new(0, &Device::flex()));
            Ok::<_, Error>(built.frequencies().unwrap().clone())
        };
        let same = |a: &Frequencies, b: &Frequencies| {
            a.inv_freq.iter().zip(&b.inv_freq).all(|(a, b)| (a - b).abs() < 1e-12 * b.max(1e-300))
        };
        let once = read("slowest_turns = 1.0").unwrap();
        assert!((once.inv_freq[15] * 128.0 / TAU - 1.0).abs() < 1e-12);
        assert!((once.base - 24.906).abs() < 0.001, "{}", once.base);
        // Every band turns once at least, so that HoPE leaves none out.
        assert_eq!(read("slowest_turns = 1.0\nhope = true").unwrap(), once);
        assert!(same(&read(&format!("base = {}", once.base)).unwrap(), &once));
        let half = read("slowest_turns = 2.0\np = 0.5").unwrap();
        assert!((half.inv_freq[7] * 128.0 / TAU - 2.0).abs() < 1e-12 && half.inv_freq[8..] == [0.0; 8]);
        let spaced = read("spacing = 'cosh'").unwrap();
        assert!(same(&spaced, &read("spacing = 'cosh'\ntau = 2.8284271247461903").unwrap()));
        assert!(same(&spaced, &read("spacing = 'cosh'\ntau = 'auto'").unwrap()));
        let rounded = read("slowest_turns = 1.0\nfastest = 4.18\nresonance = true").unwrap();
        assert!((rounded.as_read()[0] - TAU / 2.0).abs() < 1e-12);
        assert!(read("slowest_turns = 1.0\nfastest = 20.0").is_ok());
        for (keys, start) in [
            ("tau = 1.0", "`position.tau = 1`"),
            ("spacing = 'cosh'\ntau = -1.0", "`position.tau = -1`"),
            ("spacing = 'cosh'\nslowest_turns = 1.0", "`position.slowest_turns = 1`"),
            ("fastest = 0.5", "`position.fastest = 0.5`"),
            ("slowest_turns = 1.0\nbase = 128.0", "`position.slowest_turns = 1`"),
            ("slowest_turns = 21.0", "`position.slowest_turns = 21`"),
            ("slowest_turns = 2.0\nfastest = 0.05", "`position.slowest_turns = 2`"),
            ("slowest_turns = 1.0\np = 0.07", "`position.slowest_turns = 1`"),
            ("slowest_turns = 0.0", "`position.slowest_turns = 0`"),
            // 4 pi / 3 = 4.1888 radians a token are a wavelength of 1.5 tokens.
            ("slowest_turns = 1.0\nfastest = 20.0\nresonance = true", "`position.fastest = 20`"),
            ("slowest_turns = 1.0\nfastest = 4.19\nresonance = true", "`position.fastest = 4.19`"),
        ] {
            let error = read(keys).unwrap_err();
            assert!(error.message().starts_with(start), "{keys}: {error}");
        }
    }
}
