//! `tupe`: positions with projections of their own, untied from the content's.
//!
//! `logit_ij = (q_i.k_j + (z_i u_q)_h . (z_j u_k)_h) / sqrt(2d)`, `z_m = layer_norm(table[m])`, and with
//! `relative = "t5"` also `rel_table[h, bucket(i - j)]` as in `t5` (Ke et al. 2021, arXiv:2006.15595,
//! equations 7 and 8; the authors' code normalises the table). table `[table_size, width]`, `u_q`
//! `[width, heads head_dim]` and `u_k` `[width, kv_heads head_dim]` from N(0, 0.02), `ln_gain` at 1, `ln_bias`
//! at 0, all shared by the layers. A causal model needs no untied first token.
//!
//! The position term is an inner product too: q and k are made twice as wide, and no matrix of positions is
//! formed. A position at or past `table_size` is rejected; interpolated by s, the table is read at m / s,
//! between rows, and distances are divided by s.

use super::learned::check_rows;
use super::t5::Buckets;
use crate::prelude::*;
use crate::table::{Fresh, Longer, read_at};

/// Added to the variance.
const EPS: f64 = 1e-5;

/// What is added by distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Relative {
    /// Nothing (TUPE-A).
    #[default]
    None,
    /// A learned bias per bucket of distances (TUPE-R).
    T5,
}

keys! {
    /// Keys of `kind = "tupe"`.
    pub struct Config {
        /// Positions the table holds; the training length unless given.
        pub table_size: Option<usize> = None,
        /// What is added by distance.
        pub relative: Relative = Relative::None,
        /// `t5`: number of buckets, even.
        pub buckets: usize = 32,
        /// `t5`: the distance from which on all share the last bucket.
        pub max_distance: usize = 128,
    }
}

/// The table and its projections, shared by all layers.
#[derive(Module, Debug)]
pub struct Tupe {
    /// `[table_size, width]`.
    pub table: Param<Tensor<2>>,
    /// `[width]`.
    pub ln_gain: Param<Tensor<1>>,
    /// `[width]`.
    pub ln_bias: Param<Tensor<1>>,
    /// `[width, heads head_dim]`.
    pub u_q: Param<Tensor<2>>,
    /// `[width, kv_heads head_dim]`.
    pub u_k: Param<Tensor<2>>,
    /// `[heads, buckets]`, where distances count.
    pub rel_table: Option<Param<Tensor<2>>>,
    #[module(skip)]
    buckets: Buckets,
    /// Decides the rows of a longer table that is filled at random.
    #[module(skip)]
    seed: u64,
}

impl Config {
    fn buckets(&self) -> Buckets {
        Buckets { buckets: self.buckets, max_distance: self.max_distance }
    }
}

impl Configure for Config {
    type Encoding = Tupe;
    const KIND: &'static str = "tupe";
    const DESCRIPTION: &'static str =
        "positions with projections of their own, untied from the content (TUPE)";
    const SOURCE: &'static str = "arXiv:2006.15595";
    const FORMULA: &'static str = "a_{mn} = (q_m · k_n + (z_m U) · (z_n V)) / √(2d), U and V learned for each head\n\
        z_m = LayerNorm(e_m), e_m learned, for m < L";
    const PYTORCH: Option<&'static str> = Some(include_str!("tupe.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Rejected(
        "no vector there; a larger `table_size` adds rows that texts of L tokens never train; `linear` interpolates, \
         `table` makes it longer",
    );
    const LENGTHS: &'static [&'static str] = &["table_size", "max_distance"];
    const VARIANTS: &'static [&'static str] = &["relative = 't5'"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        if let Some(size) = self.table_size {
            check_at_least(section, "table_size", size, dimensions.train_length)?;
        }
        self.buckets().check(section)
    }

    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        let relative = self.relative == Relative::T5;
        relative.then(|| Some(("max_distance", self.buckets().last_begins()?)))?
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Tupe {
        let Dimensions { width, heads, kv_heads, head_dim, .. } = *dimensions;
        let size = self.table_size.unwrap_or(dimensions.train_length);
        let relative = self.relative == Relative::T5;
        Tupe {
            table: init.normal("position.tupe.table", [size, width], 0.02),
            ln_gain: init.constant([width], 1.0),
            ln_bias: init.constant([width], 0.0),
            u_q: init.normal("position.tupe.u_q", [width, heads * head_dim], 0.02),
            u_k: init.normal("position.tupe.u_k", [width, kv_heads * head_dim], 0.02),
            rel_table: relative.then(|| init.normal("position.tupe.rel_table", [heads, self.buckets], 0.02)),
            buckets: self.buckets(),
            seed: init.seed(),
        }
    }
}

impl Tupe {
    /// x `[batch, heads, length, head_dim]` beside the projected positions: `[.., 2 head_dim]`.
    fn widened(&self, x: Tensor<4>, projection: &Param<Tensor<2>>, positions: &Positions) -> Tensor<4> {
        let [batch, heads, length, dim] = x.dims();
        let p = read_at(self.table.val(), positions.values().iter().copied());
        let centred = p.clone() - p.mean_dim(1);
        let deviation = centred.clone().square().mean_dim(1).add_scalar(EPS).sqrt();
        let z = centred / deviation * self.ln_gain.val().unsqueeze() + self.ln_bias.val().unsqueeze();
        let projected = z
            .matmul(projection.val())
            .reshape([positions.rows(), length, heads, dim])
            .swap_dims(1, 2)
            .expand([batch, heads, length, dim]);
        Tensor::cat(vec![x, projected], 3)
    }
}

impl Position for Tupe {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let absolute = [
            ParameterSpec::decayed("table", &["table_size", "width"]),
            ParameterSpec::undecayed("ln_gain", &["width"]),
            ParameterSpec::undecayed("ln_bias", &["width"]),
            ParameterSpec::decayed("u_q", &["width", "heads head_dim"]),
            ParameterSpec::decayed("u_k", &["width", "kv_heads head_dim"]),
        ];
        let relative =
            self.rel_table.as_ref().map(|_| ParameterSpec::undecayed("rel_table", &["heads", "buckets"]));
        absolute.into_iter().chain(relative).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            head_use: HeadUse::Appends,
            bias_use: self.rel_table.is_some().into(),
            domain: Domain::Rows(self.table.lazy_shape()[0]),
            ..Capabilities::default()
        }
    }

    fn map_heads(&self, [q, k]: [Tensor<4>; 2], [queries, keys]: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        // Two terms share the variance: 1 / sqrt(2d) instead of 1 / sqrt(d).
        let q = self.widened(q, &self.u_q, queries.positions).div_scalar(2f64.sqrt());
        [q, self.widened(k, &self.u_k, keys.positions)]
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        match &self.rel_table {
            Some(table) => bias_by_distance(block, |distances| self.buckets.read(table.val(), distances)),
            None => Bias::None,
        }
    }

    fn needs_scores(&self, positions: &Positions) -> bool {
        self.rel_table.is_some() && !positions.consecutive()
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        check_rows("tupe", positions, self.table.lazy_shape()[0])
    }

    fn extend_table(&mut self, longer: &Longer) -> Result<bool> {
        let fresh = Fresh { seed: self.seed, mean: 0.0, deviation: 0.02 };
        self.table = longer.extend(&self.table, fresh)?;
        Ok(true)
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        self.rel_table.iter().map(|_| self.buckets.summary(positions)).collect()
    }
}
