//! `shaw`: learned vectors for clipped distances, added to keys and values.
//!
//! `logit_ij = q_i . (k_j + rel_k[r]) / sqrt(d)`, `out_i = sum_j a_ij (v_j + rel_v[r])`,
//! `r = clip(i - j, p_min, p_max) - p_min` (Shaw et al. 2018, arXiv:1803.02155, equations 3 to 5). `rel_k`,
//! `rel_v` `[layers, p_max - p_min + 1, head_dim]` from N(0, 0.02), shared by the heads of a layer;
//! `values = false` leaves `rel_v` out, without which the paper found translations as good (section 4.3).
//! Clipping defines every length. Fractional distances are rounded down; interpolated by s, distances are divided
//! by s first.

use crate::distance::{ChosenRows, chosen_by_distance};
use crate::prelude::*;
use burn::tensor::IndexingUpdateOp;
use longwave_kernels::RelativeVectors;

keys! {
    /// Keys of `kind = "shaw"`.
    pub struct Config {
        /// The smallest distance with its own vector; a causal model has none below 0.
        pub p_min: i32 = 0,
        /// The largest distance with its own vector.
        pub p_max: i32 = 64,
        /// Whether values have a table too.
        pub values: bool = true,
    }
}

/// The vectors of distances.
#[derive(Module, Debug)]
pub struct Shaw {
    /// `[layers, distances, head_dim]`.
    pub rel_k: Param<Tensor<3>>,
    /// `[layers, distances, head_dim]`, where values have a table.
    pub rel_v: Option<Param<Tensor<3>>>,
    #[module(skip)]
    config: Config,
}

impl Configure for Config {
    type Encoding = Shaw;
    const KIND: &'static str = "shaw";
    const DESCRIPTION: &'static str = "learned vectors of clipped distances, added to keys and values (Shaw)";
    const SOURCE: &'static str = "arXiv:1803.02155";
    const FORMULA: &'static str = "a_{mn} = q_m · (k_n + g_r) / √d, r = min(m − n, 64), g learned\n\
        o_m = Σ_n p_{mn} (v_n + c_r), o_m output of the head, c learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("shaw.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: distances past `p_max` share a vector");
    const VARIANTS: &'static [&'static str] = &["p_max = 5", "values = false"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        if self.p_min <= 0 && self.p_max >= 0 && self.p_max > self.p_min {
            return Ok(());
        }
        Err(Error::usage(format!(
            "`{section}.p_min = {}` and `p_max = {}` must enclose 0 and differ",
            self.p_min, self.p_max
        ))
        .hint("a causal model needs `p_min = 0` and `p_max` of 16 to 64"))
    }

    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        Some(("p_max", usize::try_from(self.p_max).ok()?))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Shaw {
        let distances = self.p_max.abs_diff(self.p_min) as usize + 1;
        let shape = [dimensions.layers, distances, dimensions.head_dim];
        Shaw {
            rel_k: init.normal("position.shaw.rel_k", shape, 0.02),
            rel_v: self.values.then(|| init.normal("position.shaw.rel_v", shape, 0.02)),
            config: self.clone(),
        }
    }
}

impl Shaw {
    /// Which vector a pair at a distance reads.
    fn row(&self, distance: f64) -> usize {
        let (low, high) = (f64::from(self.config.p_min), f64::from(self.config.p_max));
        (distance.floor().clamp(low, high) - low) as usize
    }

    /// Which vector each pair reads, `[batch, heads, queries, keys]`.
    fn chosen(&self, block: QueryBlock<'_>, batch_heads: [usize; 2], device: &Device) -> Tensor<4, Int> {
        chosen_by_distance(block, batch_heads, |n| self.row(n), device)
    }
}

impl Position for Shaw {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let keys = ParameterSpec::decayed("rel_k", &["layers", "distances", "head_dim"]);
        let values = self
            .rel_v
            .as_ref()
            .map(|_| ParameterSpec::decayed("rel_v", &["layers", "distances", "head_dim"]));
        std::iter::once(keys).chain(values).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Distances,
            head_use: HeadUse::Reads,
            score_use: ScoreUse::AddsVectors,
            domain: Domain::Whole,
            ..Capabilities::default()
        }
    }

    fn needs_scores(&self, positions: &Positions) -> bool {
        !positions.consecutive()
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let by_distance = |table: &Param<Tensor<3>>| {
            let chosen = ChosenRows::new(block, |n| self.row(n));
            let vectors = chosen.of(at_layer(table, block.rows.layer)).unsqueeze();
            chosen.vectors(vectors)
        };
        if !block.rows.positions.consecutive() {
            return ScoreForm::Plain;
        }
        let vectors = RelativeVectors {
            keys: Some(by_distance(&self.rel_k)),
            values: self.rel_v.as_ref().map(by_distance),
            ..RelativeVectors::default()
        };
        ScoreForm::Vectors { terms: vectors.into(), factor: 1.0 }
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let [batch, head_count, _, _] = scores.dims();
        let chosen = self.chosen(block, [batch, head_count], &scores.device());
        let rel_k = at_layer::<3, 2>(&self.rel_k, block.rows.layer).transpose().unsqueeze::<4>();
        // Every query with every vector: [batch, heads, queries, distances].
        let by_distance = heads.q.clone().matmul(rel_k).mul_scalar(heads.scale);
        scores + by_distance.gather(3, chosen)
    }

    fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        let rel_v = at_layer::<3, 2>(self.rel_v.as_ref()?, block.rows.layer);
        let [batch, heads, queries, _] = probabilities.dims();
        let device = probabilities.device();
        let chosen = self.chosen(block, [batch, heads], &device);
        let none = Tensor::zeros([batch, heads, queries, rel_v.dims()[0]], &device);
        let by_distance = none.scatter(3, chosen, probabilities.clone(), IndexingUpdateOp::Add);
        Some(by_distance.matmul(rel_v.unsqueeze::<4>()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::message_of;

    #[test]
    fn distances_must_enclose_zero() {
        assert!(message_of("kind = \"shaw\"\np_min = 1").contains("must enclose 0"));
        assert!(message_of("kind = \"shaw\"\np_max = -1").contains("must enclose 0"));
    }
}
