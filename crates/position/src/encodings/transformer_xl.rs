//! `transformer_xl`: relative sinusoids with a key matrix of their own, or the content's.
//!
//! `logit_ij = (q_i.k_j + q_i.r_n + u.k_j + v_bias.r_n) / sqrt(d)`, `r_n = R(n) w_r` split into heads, n = i - j,
//! `R(n) = [sin(n w_0), .. | cos(n w_0), ..]`, `w_i = base^(-2i/width)` (Dai et al. 2019, arXiv:1901.02860,
//! section 3.3). u, `v_bias` `[layers, heads, head_dim]` and `w_r` `[layers, width, heads head_dim]` from
//! N(0, 0.02). `XLNet` (Yang et al. 2019, arXiv:1906.08237) has the same: `kind = "xlnet"` is another name.
//!
//! `shared_key = true` has no `w_r` but `r_n = R(n) w_k`, `w_k` `[width, kv_heads head_dim]` the block's own
//! projection of keys, a head of which serves several query heads where attention shares it so: the terms of
//! absolute positions with R in place of p and u, v in place of `p W_q`, before the paper sets `W_{k,R}`
//! apart from `W_{k,E}` (kexue.fm/archives/8130 writes both forms). The projection learns from both, as one
//! matrix.
//!
//! With `memory = N` the keys and values of every block are those of the segment and of the N tokens before
//! it, for which the block's inputs of earlier segments are kept (section 3.2): `h = [stop(memory) | x]`,
//! `q = x W_q`, `k, v = h W_k, h W_v`. No gradient flows into what is kept, so training needs
//! `train.sampling = "sequential"`, whose rows go on where they ended a step before. Any length is then read in
//! segments of L, each with its memory: distances end at L + N - 1, and a token depends on tokens back by up
//! to N tokens a layer and segment.
//!
//! No `[queries, keys, width]` is formed: with g = `w_r (q + v_bias)`, `g.R(i - j)` falls apart into the sines
//! and cosines of i and of j, so that q and k, each made `width` channels wider, have the whole logit as
//! their inner product: `q' = [q + u | g turned to i]`, `k' = [k | cos(j w) | sin(j w)]`. Where rows are read at
//! consecutive positions, the kernel gets `r_n` of every distance instead: `head_dim` channels for each, and not `width`.

use crate::encoding::MapsByDistance;
use crate::prelude::*;
use longwave_kernels::VectorTable;

keys! {
    /// Keys of `kind = "transformer_xl"`.
    pub struct Config {
        /// The base of the geometric progression of frequencies.
        pub base: f64 = 10_000.0,
        /// The block's projection of keys takes the place of `w_r`.
        pub shared_key: bool = false,
        /// N: tokens before a segment that every layer also attends to.
        pub memory: usize = 0,
    }
}

/// With fewer queries than one in so many rows, as in a text that is read piece by piece, wider q and k are faster than a
/// vector for every distance.
const FEW_QUERIES: usize = 8;

/// The biases and the key matrix of positions.
#[derive(Module, Debug)]
pub struct TransformerXl {
    /// `[layers, heads, head_dim]`.
    pub u: Param<Tensor<3>>,
    /// `[layers, heads, head_dim]`.
    pub v_bias: Param<Tensor<3>>,
    /// `[layers, width, heads head_dim]`, unless the projection of keys takes its place.
    pub w_r: Option<Param<Tensor<3>>>,
    #[module(skip)]
    frequencies: Frequencies,
}

impl Configure for Config {
    type Encoding = TransformerXl;
    const KIND: &'static str = "transformer_xl";
    const DESCRIPTION: &'static str = "relative sinusoids with a key matrix and biases of their own";
    const SOURCE: &'static str = "arXiv:1901.02860";
    const FORMULA: &'static str = "a_{mn} = ((q_m + u) · k_n + (q_m + w) · g_{m−n}) / √d, u and w learned for each head\n\
        g_r = (sin(r θ_0), sin(r θ_1), .. , cos(r θ_0), cos(r θ_1), ..) W, W learned\n\
        θ_i = b^{−2i/D}, b = 10000";
    const ALIASES: &'static [&'static str] = &["xlnet"];
    const PYTORCH: Option<&'static str> = Some(include_str!("transformer_xl.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: waves of distances that training never showed");
    const LENGTHS: &'static [&'static str] = &["memory"];
    const VARIANTS: &'static [&'static str] = &["memory = 5", "shared_key = true"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        check_even_width(Self::KIND, "", dimensions)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> TransformerXl {
        let Dimensions { layers, width, heads, head_dim, .. } = *dimensions;
        TransformerXl {
            u: init.normal("position.transformer_xl.u", [layers, heads, head_dim], 0.02),
            v_bias: init.normal("position.transformer_xl.v_bias", [layers, heads, head_dim], 0.02),
            w_r: (!self.shared_key)
                .then(|| init.normal("position.transformer_xl.w_r", [layers, width, heads * head_dim], 0.02)),
            frequencies: Frequencies::geometric(self.base, width),
        }
    }

    fn memory(&self) -> usize {
        self.memory
    }
}

impl TransformerXl {
    /// What makes keys of waves, `[width, heads head_dim]`.
    ///
    /// # Panics
    /// The block's projection serves, and the rows come without it.
    fn key_matrix(&self, rows: Rows<'_>, [heads, head_dim]: [usize; 2]) -> Tensor<2> {
        if let Some(w_r) = &self.w_r {
            return at_layer(w_r, rows.layer);
        }
        let shared =
            rows.key_matrix.expect("the model passes the matrix where `reads_key_matrix` is set").clone();
        let [width, columns] = shared.dims();
        let kv_heads = columns / head_dim;
        let each = shared.reshape([width, kv_heads, 1, head_dim]).repeat_dim(2, heads / kv_heads);
        each.reshape([width, heads * head_dim])
    }
}

impl Position for TransformerXl {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let projection =
            self.w_r.as_ref().map(|_| ParameterSpec::decayed("w_r", &["layers", "width", "heads head_dim"]));
        let biases = [
            ParameterSpec::undecayed("u", &["layers", "heads", "head_dim"]),
            ParameterSpec::undecayed("v_bias", &["layers", "heads", "head_dim"]),
        ];
        biases.into_iter().chain(projection).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Distances,
            head_use: HeadUse::Widens,
            is_relative_qk: true,
            reads_key_matrix: self.w_r.is_none(),
            ..Capabilities::default()
        }
    }

    fn map_heads(&self, [q, k]: [Tensor<4>; 2], [queries, keys]: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        let half = self.frequencies.inv_freq.len();
        let waves = |rows: Rows<'_>| self.frequencies.waves(rows.positions, &q.device());
        let [batch, kv_heads, length, _] = k.dims();
        let [cos, sin] = waves(keys).map(|wave| wave.expand([batch, kv_heads, length, half]));
        let k = Tensor::cat(vec![k, cos, sin], 3);

        let [cos, sin] = waves(queries);
        let [_, heads, _, dim] = q.dims();
        let bias = |parameter| at_layer::<3, 2>(parameter, queries.layer).reshape([1, heads, 1, dim]);
        let w_r = self.key_matrix(queries, [heads, dim]).reshape([1, 2 * half, heads, dim]);
        let g = (q.clone() + bias(&self.v_bias)).matmul(w_r.permute([0, 2, 3, 1])); // [.., width]
        let [g_sin, g_cos] = [0..half, half..2 * half].map(|channels| g.clone().slice_dim(3, channels));
        let with_cos = g_sin.clone() * sin.clone() + g_cos.clone() * cos.clone();
        let with_sin = g_cos * sin - g_sin * cos;
        [Tensor::cat(vec![q + bias(&self.u), with_cos, with_sin], 3), k]
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let (rows, distances) = (block.rows, block.queries.end);
        // Frequencies of its own for the first positions: then waves depend on both positions, and not on the distance.
        let by_distance = rows.positions.consecutive() && self.frequencies.start.is_none();
        // Every distance needs a vector, which pays only where many queries read it.
        if !by_distance || block.queries.len() * FEW_QUERIES < distances {
            return ScoreForm::Plain;
        }
        let [u, v_bias] = [&self.u, &self.v_bias].map(|parameter| at_layer::<3, 2>(parameter, rows.layer));
        let [heads, dim] = u.dims();
        let [cos, sin] = self.frequencies.waves(&Positions::range(0..distances), &u.device());
        let waves = Tensor::cat(vec![sin, cos], 3).reshape([distances, 2 * self.frequencies.inv_freq.len()]);
        let keys = waves
            .matmul(self.key_matrix(rows, [heads, dim]))
            .reshape([distances, heads, dim])
            .swap_dims(0, 1);
        let shift = (v_bias - u.clone()).reshape([heads, dim, 1]);
        let key_bias = keys.clone().matmul(shift).reshape([heads, distances]);
        let keys = VectorTable { vectors: keys, buckets: (0..distances as u32).collect() };
        ScoreForm::Maps(MapsByDistance { query_bias: u, keys, key_bias })
    }

    fn frequencies(&self) -> Option<&Frequencies> {
        Some(&self.frequencies)
    }

    fn set_frequencies(&mut self, frequencies: Frequencies) {
        self.frequencies = frequencies;
    }
}
