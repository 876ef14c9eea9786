//! `scale_invariant`: a factor and a penalty that grow with the logarithm of the distance.
//!
//! `logit_ij = a(n) q_i.k_j / sqrt(d) + m(n)` at distance n = i - j, with `a(n)^2 = 1 + 2 ln(1 + n / tau)` and
//! `m(n) = 1 - a(n)^2 = -2 ln(1 + n / tau)` (Anson et al. 2025, arXiv:2505.17083, section 3). For scores of unit
//! variance the expected weight `E exp(logit)` is then `sqrt(e) / (1 + n / tau)`: every range of distances from n to c n
//! gets the same mass in total, and the farther ones stay as selective. The published models combine it with p-RoPE and
//! with normalised queries and keys, which give the scores unit variance. No parameters, the same in every head and
//! layer. Interpolated by s, every distance is divided by s, which multiplies tau by s.
//!
//! The factor belongs to the pair, so log-n scaling cannot express it, and both together would adapt to the length twice:
//! rejected.

use crate::prelude::*;

keys! {
    /// Keys of `kind = "scale_invariant"`.
    pub struct Config {
        /// The distance, in tokens, from which on the logarithm grows.
        pub tau: f64 = 10.0,
    }
}

/// The factor and the penalty.
#[derive(Module, Debug)]
pub struct ScaleInvariant {
    #[module(skip)]
    tau: f64,
}

impl Configure for Config {
    type Encoding = ScaleInvariant;
    const KIND: &'static str = "scale_invariant";
    const DESCRIPTION: &'static str =
        "scales scores and lowers them with the log of the distance (scale-invariant attention)";
    const SOURCE: &'static str = "arXiv:2505.17083";
    const FORMULA: &'static str = "a_{mn} = c_r q_m · k_n / √d + 1 − c_r^2, r = m − n\n\
        c_r = √(1 + 2 ln(1 + r/10))";
    const PYTORCH: Option<&'static str> = Some(include_str!("scale_invariant.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: every decade of distances gets the same weight in total");
    const VARIANTS: &'static [&'static str] = &["tau = 0.5"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "tau", self.tau)
    }

    fn build(&self, _dimensions: &Dimensions, _init: &Init) -> ScaleInvariant {
        ScaleInvariant { tau: self.tau }
    }
}

impl ScaleInvariant {
    /// The factor a(n) and the addend m(n) of a distance that is divided by tau already.
    fn at(distance: f64) -> [f64; 2] {
        let penalty = -2.0 * distance.ln_1p();
        [(1.0 - penalty).sqrt(), penalty]
    }

    /// a and m of every pair, each `[rows, 1, queries, keys]`; those of distance 0 where the key lies ahead.
    fn of_pairs(&self, block: QueryBlock<'_>) -> [Tensor<4>; 2] {
        let positions = block.rows.positions;
        let (queries, keys) = (block.queries.clone(), positions.length());
        let shape = [positions.rows(), 1, queries.len(), keys];
        let pairs: [Vec<f64>; 2] = if positions.consecutive() {
            // A few distances serve all pairs.
            let tau = self.tau * positions.scale();
            let by_distance: Vec<_> = (0..queries.end).map(|n| Self::at(n as f64 / tau)).collect();
            [0, 1].map(|part| {
                let row = |i: usize| (0..keys).map(move |j| i.saturating_sub(j));
                let of_text = queries.clone().flat_map(row).map(|n| by_distance[n][part]);
                of_text.collect::<Vec<_>>().repeat(positions.rows())
            })
        } else {
            let distances = of_block(block);
            [0, 1].map(|part| distances.iter().map(|n| Self::at(n / self.tau)[part]).collect())
        };
        pairs.map(|values| upload(&values, &block.input.device()).reshape(shape))
    }
}

impl Position for ScaleInvariant {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Distances,
            score_use: ScoreUse::Scales,
            scratch_per_score: 2,
            ..Capabilities::default()
        }
    }

    fn needs_scores(&self, _positions: &Positions) -> bool {
        true
    }

    fn scores(&self, scores: Tensor<4>, _heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let [factor, penalty] = self.of_pairs(block);
        scores * factor + penalty
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        let rows = positions.in_text().iter().map(|&n| {
            let [factor, penalty] = Self::at(n / (self.tau * positions.scale()));
            vec![n, factor, penalty]
        });
        vec![Summary::new(
            "factor and penalty by distance",
            &["distance", "factor", "penalty"],
            rows.collect(),
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::message_of;

    /// The mean of exp(a z + m) over normal z, by the rule of Simpson.
    fn expected_weight(n: f64) -> f64 {
        let [a, m] = ScaleInvariant::at(n);
        let step = 1e-3;
        let density = |z: f64| (a * z + m - z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let weigh = |i: i32| if i % 2 == 0 { 2.0 } else { 4.0 };
        (-20_000..20_000).map(|i| weigh(i) * density(f64::from(i) * step)).sum::<f64>() * step / 3.0
    }

    #[test]
    fn the_expected_weight_falls_with_the_inverse_of_the_distance() {
        for n in [0.0, 0.1, 1.0, 12.7, 100.0] {
            let expected = 0.5f64.exp() / (1.0 + n);
            assert!((expected_weight(n) / expected - 1.0).abs() < 1e-9, "{n}");
        }
    }

    #[test]
    fn tau_must_be_positive() {
        for tau in ["0.0", "-1.0", "nan", "inf"] {
            let message = message_of(&format!("kind = \"scale_invariant\"\ntau = {tau}"));
            assert!(message.starts_with("`position.tau = "), "{message}");
        }
    }
}
