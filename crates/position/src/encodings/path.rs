//! `path`: the rows between query and key change the key.
//!
//! `logit_ij = q_i^T H_i H_{i-1} .. H_{j+1} k_j / sqrt(head_dim)`, `H_t = 1 - beta_t w_t w_t^T`: the query's own row acts
//! first on q, and there is no factor where i = j (Yang et al. 2025, arXiv:2505.16381, equation 2, and fla-org's
//! flash-linear-attention). At beta = 1 a row erases the direction w of the keys before it, at 2 it mirrors it. With x the
//! layer's normalised input:
//!
//! - `y = x w_down w_up`, `w_down [width, rank]`, `w_up [rank, kv_heads head_dim]`; with `low_rank = false` `y = x w`,
//!   `w [width, kv_heads head_dim]`, which the authors advise where several query heads share a key head;
//! - `z_t = silu(sum_tap conv[tap] y_{t - tap})`, and w of a head is z of the head over `sqrt(|z|^2 + eps)`;
//! - `beta = 2 sigmoid(x w_beta + b_beta)`, one a key head, between 0 and 2.
//!
//! Matrices and taps start as N(0, 0.02), `b_beta` at 0. Positions do not enter, only the order of the rows. Scores are
//! computed from q and k as they are: no other encoding of the layer may rotate them or compute scores. What `fox` and
//! other biases add comes after the scale; the published `PaTH`-`FoX` adds its gates before it.
//!
//! [`path_attention`](longwave_kernels::path_attention()) reads such a layer, alone or with the gates of `fox`. Under a window, a sink or other
//! biases a block of queries walks back over the keys, a chunk of rows at a time.

use crate::convolution::causal;
use crate::per_layer::map_rows;
use crate::prelude::*;
use burn::tensor::activation::{sigmoid, silu};
use longwave_kernels::{Reflections, path_scores};

/// The most taps and ranks: far above the 3 and 32 of the published models.
const MOST: usize = 1 << 14;
/// That of the published models.
const RANK: usize = 32;

keys! {
    /// Keys of `kind = "path"`.
    pub struct Config {
        /// Inner width of the map from the input to w; nothing where `low_rank` is false.
        pub rank: usize = RANK,
        /// Rows that the convolution reads: a row and those before it.
        pub kernel: usize = 3,
        /// Whether the map from the input to w is a product of two narrow matrices, or one whole matrix.
        pub low_rank: bool = true,
        /// Added to the sum of squares that w is normalised by.
        pub eps: f64 = 1e-6,
    }
}

/// The maps from the input to w and beta.
#[derive(Module, Debug)]
pub struct Path {
    /// `[layers, width, rank]`.
    pub w_down: Option<Param<Tensor<3>>>,
    /// `[layers, rank, kv_heads head_dim]`.
    pub w_up: Option<Param<Tensor<3>>>,
    /// `[layers, width, kv_heads head_dim]`.
    pub w: Option<Param<Tensor<3>>>,
    /// `[layers, kernel, kv_heads head_dim]`: tap 0 is the row's own.
    pub conv: Param<Tensor<3>>,
    /// `[layers, width, kv_heads]`.
    pub w_beta: Param<Tensor<3>>,
    /// `[layers, kv_heads]`.
    pub b_beta: Param<Tensor<2>>,
    #[module(skip)]
    eps: f64,
}

impl Configure for Config {
    type Encoding = Path;
    const KIND: &'static str = "path";
    const DESCRIPTION: &'static str = "the rows between query and key change the key (PaTH)";
    const SOURCE: &'static str = "arXiv:2505.16381";
    const FORMULA: &'static str = "a_{mn} = q_m · (P_m P_{m−1} ⋯ P_{n+1} k_n) / √d, P_t = 1 − β_t w_t w_t^⊤\n\
        β_t = 2 / (1 + exp(−x_t · g − c)), x_t normalised, g and c learned\n\
        w_t = z_t / √(|z_t|^2 + 10^{−6}), z_t = SiLU(Σ_{j=0}^{2} f_j ⊙ (x_{t−j} A B)), f, A and B learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("path.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: later rows go on changing keys");
    const VARIANTS: &'static [&'static str] = &["low_rank = false\nkernel = 2"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        for (key, value) in [("rank", self.rank), ("kernel", self.kernel)] {
            check_at_least(section, key, value, 1)?;
            check_at_most(section, key, value, MOST)?;
        }
        let unread = (!self.low_rank && self.rank != RANK).then(|| self.rank.to_string());
        check_without(section, "rank", unread, "low_rank = true")?;
        check_positive(section, "eps", self.eps)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Path {
        let Dimensions { layers, width, kv_heads, head_dim, .. } = *dimensions;
        let channels = kv_heads * head_dim;
        let normal = |name: &str, shape| init.normal(&format!("position.path.{name}"), shape, 0.02);
        Path {
            w_down: self.low_rank.then(|| normal("w_down", [layers, width, self.rank])),
            w_up: self.low_rank.then(|| normal("w_up", [layers, self.rank, channels])),
            w: (!self.low_rank).then(|| normal("w", [layers, width, channels])),
            conv: normal("conv", [layers, self.kernel, channels]),
            w_beta: normal("w_beta", [layers, width, kv_heads]),
            b_beta: init.constant([layers, kv_heads], 0.0),
            eps: self.eps,
        }
    }
}

impl Path {
    /// w of every row of an input `[batch, length, width]`: `[batch, kv_heads, length, head_dim]`.
    pub fn directions(&self, input: &Tensor<3>, layer: usize) -> Tensor<4> {
        let matrices = [&self.w_down, &self.w_up, &self.w].into_iter().flatten();
        let y = matrices.fold(input.clone(), |x, matrix| map_rows(&x, matrix, None, layer));
        let ([batch, length, channels], heads) = (y.dims(), self.b_beta.dims()[1]);
        let z = silu(causal(&y, &at_layer(&self.conv, layer)));
        let z = z.reshape([batch, length, heads, channels / heads]).swap_dims(1, 2);
        let norms = z.clone().square().sum_dim(3).add_scalar(self.eps).sqrt(); // [batch, kv_heads, length, 1]
        z / norms
    }

    /// beta of every row of an input `[batch, length, width]`: `[batch, kv_heads, length, 1]`.
    pub fn strengths(&self, input: &Tensor<3>, layer: usize) -> Tensor<4> {
        let logits = map_rows(input, &self.w_beta, Some(&self.b_beta), layer);
        sigmoid(logits).mul_scalar(2.0).swap_dims(1, 2).unsqueeze_dim(3)
    }

    /// What the rows of a block's input before row `end` do.
    fn rows_until(&self, end: usize, block: QueryBlock<'_>) -> Reflections {
        let (input, layer) = (block.input.clone().slice_dim(1, 0..end), block.rows.layer);
        Reflections {
            directions: self.directions(&input, layer),
            strengths: self.strengths(&input, layer).squeeze_dim(3),
        }
    }
}

impl Position for Path {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let of_directions = if self.w.is_some() {
            vec![ParameterSpec::decayed("w", &["layers", "width", "channels"])]
        } else {
            vec![
                ParameterSpec::decayed("w_down", &["layers", "width", "rank"]),
                ParameterSpec::decayed("w_up", &["layers", "rank", "channels"]),
            ]
        };
        let others = [
            ParameterSpec::decayed("conv", &["layers", "taps", "channels"]),
            ParameterSpec::decayed("w_beta", &["layers", "width", "kv_heads"]),
            ParameterSpec::undecayed("b_beta", &["layers", "kv_heads"]),
        ];
        of_directions.into_iter().chain(others).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Order,
            head_use: HeadUse::Reads,
            reads_input: true,
            score_use: ScoreUse::Computes,
            scratch_per_score: 3,
            ..Capabilities::default()
        }
    }

    fn needs_scores(&self, _positions: &Positions) -> bool {
        true
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let Heads { q, k, scale } = heads;
        let [batch, count, queries, keys] = scores.dims();
        let end = block.queries.end;
        let k = k.clone().slice_dim(2, 0..end);
        let logits = path_scores(q.clone(), k, &self.rows_until(end, block)).mul_scalar(scale); // [batch, heads, queries, end]
        if end == keys {
            return logits;
        }
        // Keys after the last query, which the causal mask hides.
        let later = Tensor::zeros([batch, count, queries, keys - end], &scores.device());
        Tensor::cat(vec![logits, later], 3)
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        ScoreForm::Reflections(self.rows_until(block.input.dims()[1], block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::{gradients, replaced};
    use crate::testing::{Inputs, attend, build, dimensions, message_of, random};
    use longwave_kernels::repeat_heads;

    fn path(keys: &str, device: &Device) -> Path {
        build(&format!("kind = 'path'\n{keys}"), device).get::<Path>().unwrap().clone()
    }

    /// Multiplies every parameter, and moves one of them along a direction of its own.
    fn changed(path: Path, factor: f64, moved: usize, step: f64) -> Path {
        replaced(path, |index, old| {
            let step = if index == moved { step } else { 0.0 };
            let along = direction(index, &old).mul_scalar(step);
            old.mul_scalar(factor) + along
        })
    }

    fn direction(index: usize, of: &Tensor<1>) -> Tensor<1> {
        random(&format!("direction {index}"), of.dims(), &of.device())
    }

    #[test]
    fn gradients_of_parameters_are_those_of_finite_differences() {
        let device = Device::flex().autodiff();
        let positions = Positions::range(0..9);
        let inputs = Inputs::random("", 9, &device);
        let weights = random::<4>("weights", [1, 2, 9, 4], &device);
        let loss = |path: &Path| (attend(path, 1, &positions, &inputs).1 * weights.clone()).sum();
        for keys in ["", "low_rank = false"] {
            // As large as training makes them, so that a small step changes little.
            let path = changed(path(keys, &device), 25.0, 0, 0.0);
            let slopes = gradients(&path, &mut loss(&path).backward());
            for (index, gradient) in slopes.into_iter().map(Option::unwrap).enumerate() {
                let slope = (direction(index, &gradient) * gradient).sum().into_scalar::<f32>();
                let at = |step| loss(&changed(path.clone(), 1.0, index, step)).into_scalar::<f32>();
                let difference = (at(1e-3) - at(-1e-3)) / 2e-3;
                assert!(
                    (slope - difference).abs() < 0.02 * slope.abs().max(0.1),
                    "{keys} {index}: {slope} {difference}"
                );
            }
        }
    }

    #[test]
    fn query_heads_share_the_rows_of_their_key_head() {
        let device = Device::flex();
        let path = path("", &device);
        let mut shared = path.clone();
        // One key head for both query heads: the first.
        let first = |param: &Param<Tensor<3>>, channels: usize| {
            Param::from_tensor(param.val().slice_dim(2, 0..channels))
        };
        shared.w_up = path.w_up.as_ref().map(|w_up| first(w_up, 4));
        shared.conv = first(&path.conv, 4);
        shared.w_beta = first(&path.w_beta, 1);
        shared.b_beta = Param::from_tensor(path.b_beta.val().slice_dim(1, 0..1));
        let positions = Positions::range(0..6);
        let inputs = Inputs::random("", 6, &device);
        let [q, k, _] = inputs.qkv.clone();
        let k = repeat_heads(k.slice_dim(1, 0..1), 2);
        let rows = Rows::new(0, &inputs.tokens, &positions);
        let block = QueryBlock { rows, queries: &(0..6), input: &inputs.hidden };
        let scores = Tensor::zeros([1, 2, 6, 6], &device);
        let of = |path: &Path| path.scores(scores.clone(), Heads { q: &q, k: &k, scale: 0.5 }, block);
        let (own, shared) = (of(&path), of(&shared));
        let head = |x: &Tensor<4>, head: usize| x.clone().slice_dim(1, head..head + 1);
        let apart = |a: Tensor<4>, b: Tensor<4>| (a - b).abs().max().into_scalar::<f32>();
        assert!(apart(head(&own, 0), head(&shared, 0)) < 1e-6);
        assert!(apart(head(&own, 1), head(&shared, 1)) > 1e-3);
    }

    #[test]
    fn w_has_norm_one_and_beta_starts_at_one() {
        let device = Device::flex();
        let input = random::<3>("x", [2, 5, dimensions().width], &device);
        let path = path("eps = 1e-12", &device);
        let norms = path.directions(&input, 0).square().sum_dim(3);
        assert!((norms - 1.0).abs().max().into_scalar::<f32>() < 1e-3);
        let strengths = path.strengths(&input, 0);
        assert_eq!(strengths.dims(), [2, 2, 5, 1]);
        assert!((strengths - 1.0).abs().max().into_scalar::<f32>() < 0.1);
    }

    #[test]
    fn a_wrong_value_names_its_key() {
        assert!(message_of("kind = 'path'\nrank = 0").contains("position.rank"));
        assert!(message_of("kind = 'path'\nkernel = 99999").contains("position.kernel"));
        assert!(message_of("kind = 'path'\neps = 0.0").contains("position.eps"));
    }
}
