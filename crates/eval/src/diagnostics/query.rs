//! How a query spreads its attention: entropy, effective number of keys, the first token's share.
//!
//! With the probabilities `p` that a query gives to the N keys that it sees, divided by their sum where a sink takes some,
//!
//! ```text
//! H = -sum p ln p      keys in effect: e^H      share of the most that is possible: H / ln N
//! ```
//!
//! Source: dispersion of attention, Vasylenko et al. 2025 (arXiv:2506.16640); sinks, Gu et al. 2024 (arXiv:2410.10781, section 3.2).

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// H in nats.
    pub entropy: f64,
    /// e^H.
    pub effective_keys: f64,
    /// H / ln N; none where one key is seen.
    pub ratio: Option<f64>,
}

impl Spread {
    /// Of what a query gives to each key, of which it sees `visible`.
    pub fn of(given: impl Iterator<Item = f64>, visible: usize) -> Self {
        let (mut total, mut sum) = (0.0_f64, 0.0);
        for p in given {
            if p > 0.0 {
                total += p;
                sum += p * p.ln();
            }
        }
        if total <= 0.0 {
            return Self { effective_keys: 1.0, ..Self::default() };
        }
        // -sum (p / t) ln (p / t) = ln t - sum p ln p / t.
        let entropy = (total.ln() - sum / total).max(0.0);
        let ratio = (visible > 1).then(|| entropy / (visible as f64).ln());
        Self { entropy, effective_keys: entropy.exp(), ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_query_has_all_keys_and_a_sharp_one_has_one() {
        let of = |given: &[f64], visible| Spread::of(given.iter().copied(), visible);
        let even = of(&[0.25; 4], 4);
        assert!((even.effective_keys - 4.0).abs() < 1e-12 && (even.ratio.unwrap() - 1.0).abs() < 1e-12);
        let sharp = of(&[0.0, 1.0, 0.0], 3);
        assert_eq!(sharp, Spread { entropy: 0.0, effective_keys: 1.0, ratio: Some(0.0) });
        assert_eq!(of(&[1.0], 1).ratio, None);
        // A sink that takes half leaves the shares among the keys as they are.
        let beside_a_sink = of(&[0.25, 0.25], 2);
        assert!((beside_a_sink.entropy - 2.0_f64.ln()).abs() < 1e-12);
        assert_eq!(of(&[0.0, 0.0], 2).effective_keys, 1.0);
    }
}
