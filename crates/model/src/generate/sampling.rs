//! How the next token is chosen.

use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use serde::Serialize;

/// Temperature first, then the `top_k` likeliest tokens, then the nucleus of them (`top_p`, Holtzman et al.
/// 2020, arXiv:1904.09751, section 3.1). Tokens of one logit are taken in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampling {
    /// Divides the logits; 0 always takes the most likely token.
    pub temperature: f64,
    /// Keeps only the most likely tokens, this many.
    pub top_k: Option<usize>,
    /// Keeps the fewest likeliest tokens whose probabilities sum to this.
    pub top_p: Option<f64>,
    /// Decides every draw.
    pub seed: u64,
}

impl Sampling {
    /// Checks the values.
    pub fn validate(&self) -> Result<()> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(Error::value("--temperature", self.temperature, "it must be a number of at least 0")
                .hint("0 always takes the most likely token, 1 samples what the model says"));
        }
        if self.top_k == Some(0) {
            return Err(
                Error::value("--top-k", 0, "it must be at least 1").hint("leave it out to keep every token")
            );
        }
        if let Some(top_p) = self.top_p.filter(|top_p| !(*top_p > 0.0 && *top_p <= 1.0)) {
            return Err(Error::value("--top-p", top_p, "it must be above 0 and at most 1")
                .hint("leave it out to keep every token"));
        }
        Ok(())
    }

    /// The token that follows, from its logits `[vocab_size]`; `step` counts the tokens chosen before.
    pub fn choose(&self, logits: &[f32], step: u64) -> Result<u32> {
        if logits.is_empty() || logits.iter().any(|logit| !logit.is_finite()) {
            return Err(Error::failed("the model's logits are not finite numbers")
                .hint("its weights are broken: take another checkpoint, or train again"));
        }
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        let likeliest = order[0];
        if self.temperature == 0.0 {
            return Ok(likeliest);
        }
        order.truncate(self.top_k.unwrap_or(order.len()));
        let largest = f64::from(logits[likeliest as usize]);
        let mut weights: Vec<f64> = order
            .iter()
            .map(|&id| ((f64::from(logits[id as usize]) - largest) / self.temperature).exp())
            .collect();
        if let Some(top_p) = self.top_p {
            weights.truncate(nucleus(&weights, top_p));
        }
        let total: f64 = weights.iter().sum();
        let mut left = Stream::new(self.seed, "generate", step).uniform() * total;
        for (&id, weight) in order.iter().zip(&weights) {
            left -= weight;
            if left < 0.0 {
                return Ok(id);
            }
        }
        // Rounding may leave a crumb past the last one.
        Ok(order[weights.len() - 1])
    }
}

/// How many of the weights, largest first, it takes to reach a share of their sum.
fn nucleus(weights: &[f64], share: f64) -> usize {
    let wanted = share * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    for (index, weight) in weights.iter().enumerate() {
        sum += weight;
        if sum >= wanted {
            return index + 1;
        }
    }
    weights.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling { temperature: 1.0, top_k: None, top_p: None, seed: 0 };

    /// Probabilities 0.5, 0.25, 0.125, 0.125.
    fn logits() -> Vec<f32> {
        [0.125f32, 0.5, 0.25, 0.125].iter().map(|p| p.ln()).collect()
    }

    fn shares(sampling: &Sampling) -> Vec<f64> {
        let mut counts = [0.0; 4];
        for step in 0..20_000 {
            counts[sampling.choose(&logits(), step).unwrap() as usize] += 1.0 / 20_000.0;
        }
        counts.to_vec()
    }

    fn assert_shares(sampling: &Sampling, expected: [f64; 4]) {
        for (found, expected) in shares(sampling).into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.015, "{sampling:?}: {found} and {expected}");
        }
    }

    #[test]
    fn draws_what_the_logits_say() {
        assert_shares(&PLAIN, [0.125, 0.5, 0.25, 0.125]);
        // Squared probabilities 1/64, 1/4, 1/16, 1/64 of 11/32.
        let cold = Sampling { temperature: 0.5, ..PLAIN };
        assert_shares(&cold, [0.0455, 0.727, 0.182, 0.0455]);
    }

    #[test]
    fn keeps_the_likeliest() {
        assert_shares(&Sampling { top_k: Some(2), ..PLAIN }, [0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]);
        assert_shares(&Sampling { top_p: Some(0.6), ..PLAIN }, [0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]);
        // Of two tokens alike the smaller id is kept.
        assert_shares(&Sampling { top_p: Some(0.8), ..PLAIN }, [1.0 / 7.0, 4.0 / 7.0, 2.0 / 7.0, 0.0]);
        // The nucleus is one of what `top_k` left.
        let both = Sampling { top_k: Some(3), top_p: Some(0.5), ..PLAIN };
        assert_shares(&both, [0.0, 1.0, 0.0, 0.0]);
        assert_shares(&Sampling { top_k: Some(99), top_p: Some(1.0), ..PLAIN }, [0.125, 0.5, 0.25, 0.125]);
    }

    #[test]
    fn temperature_zero_takes_the_likeliest_and_the_smaller_id() {
        let greedy = Sampling { temperature: 0.0, ..PLAIN };
        assert_eq!(greedy.choose(&logits(), 7).unwrap(), 1);
        assert_eq!(greedy.choose(&[1.0, 2.0, 2.0], 0).unwrap(), 1);
    }

    #[test]
    fn the_seed_decides() {
        let draws = |seed| {
            (0..40)
                .map(|step| Sampling { seed, ..PLAIN }.choose(&logits(), step).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn wrong_values_and_broken_logits_are_rejected() {
        for wrong in [
            Sampling { temperature: -1.0, ..PLAIN },
            Sampling { temperature: f64::NAN, ..PLAIN },
            Sampling { top_k: Some(0), ..PLAIN },
            Sampling { top_p: Some(0.0), ..PLAIN },
            Sampling { top_p: Some(1.5), ..PLAIN },
        ] {
            let error = wrong.validate().unwrap_err();
            assert_eq!((error.exit_code(), error.hint_text().is_some()), (2, true), "{wrong:?}");
        }
        assert!(PLAIN.choose(&[0.0, f32::NAN], 0).is_err());
    }
}
