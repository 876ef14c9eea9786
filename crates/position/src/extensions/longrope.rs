//! `longrope`: a factor for every band, found by search.
//!
//! `inv_freq'_i = inv_freq_i / f_i` with `f = long_factor` past the training length and `short_factor` (all 1 unless
//! given) up to it; the first `n_hat` positions are read as trained. Cos and sin are multiplied by
//! `sqrt(1 + ln s / ln L)` where s > 1, with either list (Ding et al. 2024, arXiv:2402.13753; `"longrope"` in
//! transformers, which has no `n_hat`). s is the factor a model was extended by: with `"auto"` it is that of
//! the length at hand, and a given one scales short texts too. `attention_factor` takes the formula's place. The factors are the result of a search on
//! data; they are used as given.

use crate::extension::FrequencyRule;
use crate::frequency::Start;
use crate::prelude::*;

/// Keys of `longrope`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongRope {
    /// s: how much longer than L the texts are that the factors were searched for.
    #[serde(default)]
    pub scale: Scale,
    /// One factor a band, fastest first, past the training length.
    pub long_factor: Vec<f64>,
    /// One factor a band up to the training length; all 1 where it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_factor: Vec<f64>,
    /// Positions below this one are read as trained.
    #[serde(default)]
    pub n_hat: usize,
    /// Multiplies cos and sin of q and k at every length, in place of the formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_factor: Option<f64>,
}

impl LongRope {
    fn check_factors(section: &str, key: &str, factors: &[f64]) -> Result<()> {
        let hint = "a factor divides the band's frequency: 1 keeps it, s interpolates it";
        factors.iter().enumerate().try_for_each(|(band, &factor)| {
            check_positive(section, &format!("{key}[{band}]"), factor).map_err(|error| error.hint(hint))
        })
    }
}

/// `sqrt(1 + ln s / ln L)` where s > 1.
fn attention_factor(scale: f64, train: usize) -> f64 {
    if scale > 1.0 { (1.0 + scale.ln() / (train as f64).ln()).sqrt() } else { 1.0 }
}

impl FrequencyRule for LongRope {
    const KIND: &'static str = "longrope";
    const DESCRIPTION: &'static str = "divides each frequency by a factor found by search (LongRoPE)";
    const SOURCE: &'static str = "arXiv:2402.13753; \"longrope\" in transformers";
    const FORMULA: &'static str = "θ'_i = θ_i / λ_i, for T > L, λ found by search\n\
        θ'_i = θ_i, for T ≤ L\n\
        a'_{mn} = (1 + ln s / ln L) q'_m · k'_n / √d";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn validate(&self, section: &str) -> Result<()> {
        if self.long_factor.is_empty() {
            return Err(Error::value(
                &format!("{section}.long_factor"),
                "[]",
                "it must hold a factor for each band",
            )
            .hint("give one factor for each frequency, fastest first: half the rotated dimension"));
        }
        Self::check_factors(section, "long_factor", &self.long_factor)?;
        Self::check_factors(section, "short_factor", &self.short_factor)?;
        self.attention_factor.map_or(Ok(()), |factor| check_attention_factor(section, factor))
    }

    fn examples(bands: usize, _lengths: Lengths) -> Vec<Example> {
        let factors: Vec<f64> = (0..bands).map(|band| (1.0 + band as f64).min(3.0)).collect();
        let slowest = Band::By(factors.last().copied().unwrap_or(1.0));
        let keys = format!("long_factor = {factors:?}");
        vec![
            Example::new(&keys).bands(Band::Same, slowest),
            Example::new(format!("{keys}, n_hat = 4")).bands(Band::Same, slowest).shifts(Shifts::None),
        ]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, lengths: Lengths) -> Result<Frequencies> {
        if lengths.train < 2 {
            return Err(Error::usage("`longrope` divides by ln L, which is 0 at a training length of 1")
                .hint("use `frequencies` with an `attention_factor`"));
        }
        let (key, factors) = if lengths.length > lengths.train {
            ("long_factor", &self.long_factor)
        } else {
            ("short_factor", &self.short_factor)
        };
        let bands = old.inv_freq.len();
        let left_out = key == "short_factor" && factors.is_empty();
        if !left_out && factors.len() != bands {
            return Err(Error::usage(format!(
                "`{key}` has {} factors, but the encoding has {bands} bands",
                factors.len()
            ))
            .hint("give one factor for each frequency, fastest first: half the rotated dimension"));
        }
        let factor = self.attention_factor.unwrap_or_else(|| attention_factor(scale, lengths.train));
        let scaled = old.map(|i, f| if left_out { f } else { f / factors[i] }).amplified(factor);
        let start = match &old.start {
            _ if self.n_hat == 0 || left_out => scaled.start.clone(),
            None => Some(Start { below: self.n_hat as f64, inv_freq: old.inv_freq.clone() }),
            Some(trained) if trained.below as usize == self.n_hat => Some(trained.clone()),
            Some(trained) => {
                let why = format!(
                    "the model reads its first {} positions with frequencies of their own",
                    trained.below
                );
                return Err(Error::value("n_hat", self.n_hat, why).hint(format!(
                    "`n_hat = {}` keeps them as they are, and `n_hat = 0` divides them, too",
                    trained.below
                )));
            }
        };
        Ok(Frequencies { start, ..scaled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longrope() -> LongRope {
        LongRope {
            scale: Scale::Auto,
            long_factor: vec![1.5, 4.0],
            short_factor: vec![],
            n_hat: 2,
            attention_factor: None,
        }
    }

    #[test]
    fn switches_past_the_training_length() {
        let trained = Frequencies::geometric(1e4, 4);
        let at = |length: usize| {
            longrope().frequencies(&trained, length as f64 / 16.0, Lengths { train: 16, length }).unwrap()
        };
        assert_eq!(at(16).inv_freq, trained.inv_freq);
        let long = at(64);
        assert_eq!(long.inv_freq, [1.0 / 1.5, 0.01 / 4.0]);
        assert!((long.attention_factor - 1.5f64.sqrt()).abs() < 1e-12, "{}", long.attention_factor);
        assert_eq!(long.angles(&[1.0]).collect::<Vec<_>>(), trained.inv_freq, "the first positions stay");
    }

    /// A model that was trained with it has a start of its own, of other frequencies than those of later positions.
    #[test]
    fn a_second_one_keeps_the_start_of_the_first() {
        let trained = Frequencies::geometric(1e4, 4);
        let lengths = Lengths { train: 16, length: 64 };
        let once = longrope().frequencies(&trained, 4.0, lengths).unwrap();
        let again = |long_factor: Vec<f64>, n_hat: usize| {
            LongRope { long_factor, n_hat, attention_factor: Some(1.0), ..longrope() }
                .frequencies(&once, 4.0, lengths)
        };
        for n_hat in [0, 2] {
            assert_eq!(again(vec![1.0, 1.0], n_hat).unwrap(), once, "factors of 1 change nothing");
        }
        let at = |n_hat: usize, position: f64| {
            let angles = again(vec![2.0, 2.0], n_hat).unwrap();
            angles.angles(&[position]).map(|angle| (angle * 1e6).round() / 1e6).collect::<Vec<_>>()
        };
        assert_eq!((at(2, 1.0), at(0, 1.0)), (vec![1.0, 0.01], vec![0.5, 0.005]));
        assert_eq!((at(2, 3.0), at(0, 3.0)), (vec![1.0, 0.00375], vec![1.0, 0.00375]));
        let error = again(vec![2.0, 2.0], 4).unwrap_err();
        assert!(error.message().starts_with("`n_hat = 4`") && error.hint_text().is_some(), "{error}");
    }

    #[test]
    fn lists_are_checked() {
        let wide = Frequencies::geometric(1e4, 6);
        let error = longrope().frequencies(&wide, 4.0, Lengths { train: 16, length: 64 }).unwrap_err();
        assert_eq!(error.message(), "`long_factor` has 2 factors, but the encoding has 3 bands");
        let bad = LongRope { long_factor: vec![1.0, -2.0], ..longrope() };
        let error = bad.validate("extend").unwrap_err();
        assert!(error.message().starts_with("`extend.long_factor[1] = -2`"), "{error}");
    }
}
