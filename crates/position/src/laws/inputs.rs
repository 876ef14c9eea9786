//! What laws call hooks with: attention of random q, k and v with every hook.

use crate::encoding::{Dimensions, Heads, LayerInput, Position, QueryBlock, Rows};
use crate::positions::Positions;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::random::Stream;
use longwave_kernels::{Attention, rotate};

/// A small model.
pub(crate) fn dimensions() -> Dimensions {
    Dimensions { layers: 2, width: 8, heads: 2, kv_heads: 2, head_dim: 4, train_length: 16, vocab_size: 16 }
}

/// Normal numbers that depend on the name alone.
pub(crate) fn random<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let mut stream = Stream::new(1, name, 0);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| stream.normal() as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// What the hooks of one layer are called with.
#[derive(Clone)]
pub(crate) struct Inputs {
    /// `[1, length]`.
    pub(crate) tokens: Tensor<2, Int>,
    /// The hidden state before `embed`, `[1, length, width]`.
    pub(crate) hidden: Tensor<3>,
    /// `[1, heads, length, head_dim]` each.
    pub(crate) qkv: [Tensor<4>; 3],
    /// The projection of keys, `[width, kv_heads head_dim]`.
    pub(crate) key_matrix: Tensor<2>,
    /// The input of the block where it is not what `embed` returns.
    pub(crate) input: Option<Tensor<3>>,
}

impl Inputs {
    /// Random inputs of [`dimensions`] that depend on the name alone.
    pub(crate) fn random(name: &str, length: usize, device: &Device) -> Self {
        let d = dimensions();
        let tokens: Vec<i64> = (0i64..).take(length).map(|t| (t + name.len() as i64) % 5).collect();
        let shape = [1, d.heads, length, d.head_dim];
        Self {
            tokens: Tensor::from_data(TensorData::new(tokens, [1, length]), device),
            hidden: random(&format!("{name}x"), [1, length, d.width], device),
            qkv: ["q", "k", "v"].map(|part| random(&format!("{name}{part}"), shape, device)),
            key_matrix: random("key matrix", [d.width, d.kv_heads * d.head_dim], device),
            input: None,
        }
    }

    /// The first `kept` rows of these inputs, then the rows of others.
    pub(crate) fn then(self, kept: usize, others: Self) -> Self {
        fn joined<const D: usize>(a: Tensor<D>, b: Tensor<D>, dim: usize, kept: usize) -> Tensor<D> {
            let length = a.dims()[dim];
            Tensor::cat(vec![a.slice_dim(dim, 0..kept), b.slice_dim(dim, kept..length)], dim)
        }
        let [q, k, v] = self.qkv;
        let [other_q, other_k, other_v] = others.qkv;
        let length = self.tokens.dims()[1];
        let tokens = [self.tokens.slice_dim(1, 0..kept), others.tokens.slice_dim(1, kept..length)];
        Self {
            tokens: Tensor::cat(tokens.to_vec(), 1),
            hidden: joined(self.hidden, others.hidden, 1, kept),
            qkv: [joined(q, other_q, 2, kept), joined(k, other_k, 2, kept), joined(v, other_v, 2, kept)],
            ..self
        }
    }

    /// The rows at some positions, as the hooks of a layer see them.
    pub(crate) fn rows<'a>(
        &'a self,
        encoding: &dyn Position,
        layer: usize,
        positions: &'a Positions,
    ) -> Rows<'a> {
        let key_matrix = encoding.capabilities().reads_key_matrix.then_some(&self.key_matrix);
        Rows { key_matrix, ..Rows::new(layer, &self.tokens, positions) }
    }

    /// q and k, rotated and mapped by the layer.
    pub(crate) fn heads(
        &self,
        encoding: &dyn Position,
        layer: usize,
        positions: &Positions,
    ) -> [Tensor<4>; 2] {
        self.heads_of(encoding, layer, positions, self.input.as_ref().unwrap_or(&self.hidden))
    }

    /// The same where the block's normalised input is `input`.
    fn heads_of(
        &self,
        encoding: &dyn Position,
        layer: usize,
        positions: &Positions,
        input: &Tensor<3>,
    ) -> [Tensor<4>; 2] {
        let [mut q, mut k, _] = self.qkv.clone();
        let input = Some(LayerInput { all: input, first: 0 });
        let rows = Rows { input, ..self.rows(encoding, layer, positions) };
        if let Some(rotation) = encoding.rotation(layer).map(|rotation| rotation.over(positions.scale())) {
            let [q_table, k_table] = rotation.tables(positions, &q.device());
            (q, k) = (rotate(q, &q_table), rotate(k, &k_table));
        }
        encoding.map_heads([q, k], [rows; 2])
    }
}

/// What multiplies q.k in [`attend`].
pub(crate) const SCALE: f64 = 0.5;

/// What the hooks of a layer make of the inputs: the hidden state `[1, length, width]` and the attention output
/// `[1, heads, length, head_dim]`.
pub(crate) fn attend(
    encoding: &dyn Position,
    layer: usize,
    positions: &Positions,
    inputs: &Inputs,
) -> (Tensor<3>, Tensor<4>) {
    let (length, device) = (positions.length(), inputs.hidden.device());
    let rows = inputs.rows(encoding, layer, positions);
    let hidden = encoding.embed(inputs.hidden.clone(), rows, &mut None);
    let input = inputs.input.clone().unwrap_or_else(|| hidden.clone());
    let [q, k] = inputs.heads_of(encoding, layer, positions, &input);
    let block = QueryBlock { rows, queries: &(0..length), input: &input };
    let scale = SCALE;
    let scores = q.clone().matmul(k.clone().swap_dims(2, 3)).mul_scalar(scale);
    let scores = encoding.scores(scores, Heads { q: &q, k: &k, scale }, block);
    let options = Attention { bias: encoding.bias(block), ..Attention::causal(dimensions().head_dim) };
    let scores = match options.bias_block(length, length, &device) {
        Some(bias) => scores + bias,
        None => scores,
    };
    let hides = options.hidden(length, length, &device);
    let mut logits = scores.mask_fill(hides.unsqueeze(), f32::NEG_INFINITY);
    if let Some(sink) = encoding.sink(layer) {
        let [batch, heads, ..] = logits.dims();
        let column = sink.reshape([1, heads, 1, 1]).expand([batch, heads, length, 1]);
        logits = Tensor::cat(vec![logits, column], 3);
    }
    let probabilities = softmax(logits, 3).slice_dim(3, 0..length);
    let out = probabilities.clone().matmul(inputs.qkv[2].clone());
    match encoding.values(&probabilities, block) {
        Some(addition) => (hidden, out + addition),
        None => (hidden, out),
    }
}
