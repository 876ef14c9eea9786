//! Attention: the encoding's hooks around the fused kernels.
//!
//! What an encoding describes (a rotation, a bias by distance, slopes, a pair of vectors, vectors by distance) goes to
//! the fused kernels for all queries at once, and so do two pairs of position maps chosen by distance. What
//! needs the scores themselves is read one block of queries at a time, in [`blocks`]. `route` chooses the way of a layer, and `attend` goes it.
//! The fused kernels write no probabilities down; [`watched`] shows those of a model, for measurements.

mod attend;
pub mod blocks;
mod described;
mod output;
mod reflected;
mod rotations;
mod route;
mod sink;
pub mod watched;

pub use attend::attend;
pub use rotations::Rotations;
pub(crate) use route::is_in_blocks;
pub use route::route_in_words;

use crate::complex_weights::{Groups, PackedMap, WeightKind};
use crate::config::QkNorm;
use crate::norm::Norm;
use crate::resolved::Resolved;
use attend::{attend_by_distance, attend_in, described_maps};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use described::described;
use longwave_kernels::{self as kernels, Heads, Precision, rms_norm, split_rotate, unit_norm};
use longwave_position::encoding::{LayerInput, PositionMap, QueryBlock, Rows};
use longwave_position::reading::{AttentionKind, Remainder, StickBreaking};
use longwave_position::{Init, Reading};
use route::is_described;
use sink::{sharpened, with_sink};

/// The least norm that is divided by.
const LEAST_NORM: f64 = 1e-6;
/// The same for the cosines of LSSA.
const LEAST_COSINE_NORM: f64 = 1e-12;

/// Multi-head causal attention. Its projections have no biases, but for those of q, k and v where a model asks for them.
#[derive(Module, Debug)]
pub struct Attention {
    /// `[width, (heads + 2 kv_heads) head_dim]`: queries, keys and values side by side; half of the rows where the
    /// maps are complex, here and below.
    pub qkv: Param<Tensor<2>>,
    /// `[(heads + 2 kv_heads) head_dim]`: added to the packed projection (`model.qkv_bias`).
    pub qkv_bias: Option<Param<Tensor<1>>>,
    /// `[width, heads]` or `[width, heads head_dim]`: the logits of `model.attention_gate`. It is real where other maps are
    /// complex: like an activation, a gate is no linear map of the heads.
    pub gate: Option<Param<Tensor<2>>>,
    /// `[heads]` or `[heads head_dim]`: added to those logits.
    pub gate_bias: Option<Param<Tensor<1>>>,
    /// `[heads head_dim, width]`.
    pub output: Param<Tensor<2>>,
    /// Of what is added to the residual stream.
    pub output_norm: Option<Norm>,
    /// `[heads]`: the learned logit scale of `KeyNorm` and `CosA`.
    pub logit_scale: Option<Param<Tensor<1>>>,
    /// `[head_dim]`: gain of the normalised queries.
    pub query_gain: Option<Param<Tensor<1>>>,
    /// `[head_dim]`: gain of the normalised keys.
    pub key_gain: Option<Param<Tensor<1>>>,
    /// `[heads head_dim]`: where the rest of a stick goes, head by head.
    pub remainder: Option<Param<Tensor<1>>>,
    #[module(skip)]
    heads: Heads,
    #[module(skip)]
    qk_norm: QkNorm,
    /// Whether q and k become unit vectors, whose product `ln d` multiplies.
    #[module(skip)]
    cosines: bool,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    pub(crate) weight_kind: WeightKind,
    #[module(skip)]
    pub(crate) precision: Precision,
}

impl Attention {
    /// Fresh weights, N(0, 0.02).
    pub fn new(resolved: &Resolved, weight_kind: WeightKind, name: &str, init: &Init) -> Self {
        let d = &resolved.dimensions;
        let qk_norm = resolved.config.qk_norm;
        let packed = (d.heads + 2 * d.kv_heads) * d.head_dim;
        // A cosine lies in [-1, 1]: unscaled it could not single out a key. |q| does that for KeyNorm.
        let logit_scale = match qk_norm {
            QkNorm::Key => Some(1.0),
            QkNorm::Cosine => Some((d.head_dim as f64).sqrt()),
            QkNorm::None | QkNorm::Rms => None,
        };
        let remainder = matches!(
            resolved.config.attention,
            AttentionKind::StickBreaking(StickBreaking { remainder: Remainder::Bias, .. })
        );
        let gain =
            || (qk_norm == QkNorm::Rms).then(|| init.constant([weight_kind.stored_rows(d.head_dim)], 1.0));
        let gate_columns = resolved.gate_columns();
        let gate =
            (gate_columns > 0).then(|| init.normal(&format!("{name}.gate"), [d.width, gate_columns], 0.02));
        Self {
            qkv: init.normal(&format!("{name}.qkv"), [weight_kind.stored_rows(d.width), packed], 0.02),
            qkv_bias: resolved.config.qkv_bias.then(|| init.constant([packed], 0.0)),
            gate,
            gate_bias: resolved.config.attention_gate_bias.then(|| init.constant([gate_columns], 0.0)),
            output: init.normal(
                &format!("{name}.output"),
                [weight_kind.stored_rows(d.heads * d.head_dim), d.width],
                0.02,
            ),
            output_norm: resolved.config.norm_attention_output.then(|| resolved.norm(weight_kind, init)),
            logit_scale: logit_scale.map(|scale| init.constant([d.heads], scale)),
            query_gain: gain(),
            key_gain: gain(),
            remainder: remainder.then(|| init.constant([d.heads * d.head_dim], 0.0)),
            heads: Heads { query: d.heads, key_value: d.kv_heads, head_dim: d.head_dim },
            qk_norm,
            cosines: resolved.config.attention.reads_cosines(),
            eps: resolved.config.qk_norm_eps,
            weight_kind,
            precision: Precision::F32,
        }
    }

    /// The maps in the packed projection: of queries, keys and values.
    pub(crate) fn packed_maps(&self) -> Vec<PackedMap> {
        let Heads { query, key_value, head_dim } = self.heads;
        let map =
            |heads| PackedMap { outputs: heads * head_dim, groups: heads, weight_kind: self.weight_kind };
        vec![map(query), map(key_value), map(key_value)]
    }

    /// The packed projection, `[width, (heads + 2 kv_heads) head_dim]`; where it is complex, every head is a group.
    pub fn qkv_matrix(&self) -> Tensor<2> {
        let outputs = self.heads.query + 2 * self.heads.key_value;
        self.weight_kind.matrix(self.qkv.val(), Groups { inputs: 1, outputs })
    }

    /// The packed projection `[batch, length, (heads + 2 kv_heads) head_dim]` of a normalised input `[batch, length, width]`.
    pub(crate) fn packed(&self, input: Tensor<3>, matrix: Tensor<2>) -> Tensor<3> {
        match &self.qkv_bias {
            // In f32, as the bias is.
            Some(bias) => self.precision.into_stream(input, matrix, None) + bias.val().reshape([1, 1, -1]),
            None => self.precision.linear(input, matrix),
        }
    }

    /// The part of the packed projection that makes keys, `[width, kv_heads head_dim]`, where an encoding of the
    /// layer reads it.
    pub(crate) fn key_matrix(
        &self,
        packed: &Tensor<2>,
        reading: &Reading,
        layer: usize,
    ) -> Option<Tensor<2>> {
        let Heads { query, key_value, head_dim } = self.heads;
        let keys = query * head_dim..(query + key_value) * head_dim;
        reading.layer_capabilities(layer).reads_key_matrix.then(|| packed.clone().slice_dim(1, keys))
    }

    /// The projection of the heads' outputs, `[heads head_dim, width]`.
    pub fn output_matrix(&self) -> Tensor<2> {
        self.weight_kind.matrix(self.output.val(), Groups { inputs: self.heads.query, outputs: 1 })
    }

    /// `[batch, length, width]` (normalised) -> the same, added to `onto` if it is given.
    pub fn forward(
        &self,
        input: Tensor<3>,
        onto: Option<Tensor<3>>,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
    ) -> Tensor<3> {
        let length = input.dims()[1];
        let matrix = self.qkv_matrix();
        let key_matrix = self.key_matrix(&matrix, reading, rows.layer);
        let rows = Rows { key_matrix: key_matrix.as_ref(), ..rows };
        let packed = self.packed(input.clone(), matrix);
        let queries = 0..length;
        let block = QueryBlock { rows, queries: &queries, input: &input };
        let scale = self.scale();
        let has_scores = reading.attention() != AttentionKind::Linear;
        let plain = has_scores && reading.geometry(rows.layer).is_plain() && is_described(reading, rows);
        let as_projected = self.qk_norm == QkNorm::None && !self.cosines && self.remainder.is_none();
        let out = if plain && as_projected {
            // One pass over memory splits, transposes and rotates.
            let device = packed.device();
            let plain = (PositionMap::Identity, PositionMap::Identity);
            let tables = reading
                .rotation(rows.layer)
                .map(|rotation| rotations.tables(rotation, plain, rows.positions, rows.positions, &device));
            let [q_table, k_table] = tables.as_ref().map_or([None, None], |[q, k]| [Some(q), Some(k)]);
            let form = reading.score_form(block);
            let options = kernels::Attention {
                precision: self.precision,
                ..described(scale, block, reading, &device, &form)
            };
            let (q, k, v) = split_rotate(packed, self.heads, q_table, k_table);
            if let Some(maps) = described_maps(form, block, reading) {
                attend_by_distance([q, k, v], maps, options, block, reading)
            } else {
                let rows = Rows { input: Some(LayerInput { all: &input, first: 0 }), ..rows };
                let [q, k] = reading.map_heads([q, k], [rows; 2]);
                with_sink([sharpened(q, block, reading), k, v], &options, block, reading)
            }
        } else {
            let (q, k, v) = self.unrotated(packed);
            self.attend([q, k, v], block, reading, rotations)
        };
        self.joined(out, input, onto)
    }

    /// The same for the rows after the first `before`, which only serve as keys and values:
    /// `[batch, before + length, width]` (normalised) -> `[batch, length, width]`, added to `onto`.
    /// `rows.positions` are those of all rows, `rows.tokens` those of the rows that are read.
    pub fn forward_after(
        &self,
        input: Tensor<3>,
        before: usize,
        onto: Option<Tensor<3>>,
        rows: Rows<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
    ) -> Tensor<3> {
        let out = self.with_projections(&input, before, rows, reading, |qkv, block| {
            self.attend(qkv, block, reading, rotations)
        });
        let length = input.dims()[1];
        self.joined(out, input.slice_dim(1, before..length), onto)
    }

    /// What attention is given for the rows after the first `before` of a normalised input: q of these, k and v of all rows.
    fn with_projections<T>(
        &self,
        input: &Tensor<3>,
        before: usize,
        rows: Rows<'_>,
        reading: &Reading,
        then: impl FnOnce([Tensor<4>; 3], QueryBlock<'_>) -> T,
    ) -> T {
        let queries = before..input.dims()[1];
        let matrix = self.qkv_matrix();
        let key_matrix = self.key_matrix(&matrix, reading, rows.layer);
        let rows = Rows { key_matrix: key_matrix.as_ref(), ..rows };
        let (q, k, v) = self.unrotated(self.packed(input.clone(), matrix));
        let q = q.slice_dim(2, queries.clone());
        then([q, k, v], QueryBlock { rows, queries: &queries, input })
    }

    /// [`attend`] with what the rest of a stick adds, where that is learned.
    pub fn attend(
        &self,
        [q, k, v]: [Tensor<4>; 3],
        block: QueryBlock<'_>,
        reading: &Reading,
        rotations: &mut Rotations,
    ) -> Tensor<4> {
        let Some(remainder) = &self.remainder else {
            return attend_in(self.precision, [q, k, v], self.scale(), block, reading, rotations);
        };
        // A channel of ones adds up the weights.
        let [batch, kv_heads, length, dim] = v.dims();
        let ones = Tensor::ones([batch, kv_heads, length, 1], &v.device());
        let qkv = [q, k, Tensor::cat(vec![v, ones], 3)];
        let out = attend_in(self.precision, qkv, self.scale(), block, reading, rotations);
        let rest = out.clone().slice_dim(3, dim..dim + 1).neg().add_scalar(1.0); // [batch, heads, queries, 1]
        out.slice_dim(3, 0..dim) + rest * remainder.val().reshape([1, self.heads.query, 1, dim])
    }

    /// What multiplies `q.k`: `1 / sqrt(head_dim)`, `ln head_dim` of cosines, or 1 where a learned scale takes its place.
    pub fn scale(&self) -> f64 {
        if self.cosines {
            return (self.heads.head_dim as f64).ln();
        }
        match self.qk_norm {
            QkNorm::None | QkNorm::Rms => 1.0 / (self.heads.head_dim as f64).sqrt(),
            QkNorm::Key | QkNorm::Cosine => 1.0,
        }
    }

    /// Queries, keys and values, each `[batch, heads, length, head_dim]`, of the packed projections
    /// `[batch, length, (heads + 2 kv_heads) head_dim]`: normalised as configured, not rotated.
    pub fn unrotated(&self, packed: Tensor<3>) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let (q, k, v) = split_rotate(packed, self.heads, None, None);
        if self.cosines {
            return (unit_norm(q, LEAST_COSINE_NORM), unit_norm(k, LEAST_COSINE_NORM), v);
        }
        // Gains are those of RMS norms.
        let rms = |x, gain: &Option<Param<Tensor<1>>>| match gain {
            Some(gain) => rms_norm(x, self.weight_kind.gain(gain.val()), self.eps),
            None => x,
        };
        let (q, k) = match self.qk_norm {
            QkNorm::None | QkNorm::Rms => (rms(q, &self.query_gain), rms(k, &self.key_gain)),
            QkNorm::Key => (q, unit_norm(k, LEAST_NORM)),
            QkNorm::Cosine => (unit_norm(q, LEAST_NORM), unit_norm(k, LEAST_NORM)),
        };
        match &self.logit_scale {
            Some(scale) => (q * scale.val().reshape([1, self.heads.query, 1, 1]), k, v),
            None => (q, k, v),
        }
    }
}
