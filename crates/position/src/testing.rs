//! What the tests of encodings share: an attention of random q, k and v with every hook.

use crate::encoding::{Dimensions, Heads, QueryBlock, Rows};
use crate::encodings::{Encoding, EncodingConfig};
use crate::init::Init;
use crate::positions::Positions;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use longwave_core::random::Stream;
use longwave_kernels::{Attention, Bias, rotate};

/// A small model.
pub(crate) fn dimensions() -> Dimensions {
    Dimensions { layers: 2, width: 8, heads: 2, kv_heads: 2, head_dim: 4, train_length: 16, vocab_size: 16 }
}

/// The encoding of a `[position]` table, given as TOML.
pub(crate) fn build(text: &str, device: &Device) -> Encoding {
    let table: toml::Table = text.parse().unwrap();
    let config = EncodingConfig::from_value(&toml::Value::Table(table), "position").unwrap();
    config.validate("position", &dimensions()).unwrap_or_else(|error| panic!("{error}"));
    config.build(&dimensions(), &Init::new(0, device))
}

/// The message of a refused `[position]` table.
pub(crate) fn message_of(text: &str) -> String {
    let table: toml::Table = text.parse().unwrap();
    EncodingConfig::from_value(&toml::Value::Table(table), "position")
        .and_then(|config| config.validate("position", &dimensions()))
        .unwrap_err()
        .to_string()
}

/// Normal numbers that depend on the name alone.
pub(crate) fn random<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let mut stream = Stream::new(1, name, 0);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| stream.normal() as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// What the layer's hooks make of random inputs: the hidden state `[1, length, width]` and the attention
/// output `[1, heads, length, head_dim]`.
pub(crate) fn attend(
    encoding: &Encoding,
    layer: usize,
    positions: &Positions,
    device: &Device,
) -> (Tensor<3>, Tensor<4>) {
    let d = dimensions();
    let length = positions.length();
    let tokens: Vec<i64> = (0i64..).take(length).map(|t| t % 5).collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [1, length]), device);
    let key_matrix = random("key matrix", [d.width, d.kv_heads * d.head_dim], device);
    let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(layer, &tokens, positions) };
    let input = encoding.embed(random("x", [1, length, d.width], device), rows);
    let shape = [1, d.heads, length, d.head_dim];
    let [mut q, mut k, v] = ["q", "k", "v"].map(|name| random::<4>(name, shape, device));
    if let Some(rotation) = encoding.rotation(layer) {
        let [q_table, k_table] = rotation.tables(positions, device);
        (q, k) = (rotate(q, &q_table), rotate(k, &k_table));
    }
    (q, k) = (encoding.map_query(q, rows), encoding.map_key(k, rows));
    let queries = 0..length;
    let block = QueryBlock { rows, queries: &queries, input: &input };
    let scale = 0.5;
    let scores = q.clone().matmul(k.clone().swap_dims(2, 3)).mul_scalar(scale);
    let scores = encoding.scores(scores, Heads { q: &q, k: &k, scale }, block);
    let options = Attention { bias: encoding.bias(block), ..Attention::causal(d.head_dim) };
    let scores = match options.bias_block(length, length, device) {
        Some(bias) => scores + bias,
        None => scores,
    };
    let hidden = options.hidden(length, length, device);
    let probabilities = softmax(scores.mask_fill(hidden.unsqueeze(), f32::NEG_INFINITY), 3);
    let out = probabilities.clone().matmul(v);
    match encoding.values(&probabilities, block) {
        Some(addition) => (input, out + addition),
        None => (input, out),
    }
}

/// The bias of the layer at the positions, all of them queries: `[heads, length, length]`, row-major.
pub(crate) fn bias(encoding: &Encoding, positions: &Positions) -> Vec<f32> {
    let device = Device::flex();
    let length = positions.length();
    let tokens = Tensor::<2, Int>::zeros([1, length], &device);
    let input = random("x", [1, length, dimensions().width], &device);
    let rows = Rows::new(1, &tokens, positions);
    let block = QueryBlock { rows, queries: &(0..length), input: &input };
    let bias = encoding.bias(block);
    assert_eq!(
        matches!(bias, Bias::Block(_)),
        encoding.needs_scores(positions),
        "what `needs_scores` promises"
    );
    let options = Attention { bias, ..Attention::causal(4) };
    options.bias_block(length, length, &device).unwrap().into_data().try_to_vec().unwrap()
}

/// Panics unless every parameter has a finite gradient that is not all zero.
pub(crate) fn assert_learns(encoding: &Encoding, loss: &Tensor<1>, what: &str) {
    struct Visitor<'a> {
        gradients: Gradients,
        path: Vec<String>,
        what: &'a str,
    }
    impl ModuleVisitor for Visitor<'_> {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = param.val().grad(&self.gradients);
            let gradient =
                gradient.unwrap_or_else(|| panic!("{}: {:?} has no gradient", self.what, self.path));
            let values = gradient.into_data().try_to_vec::<f32>().unwrap();
            assert!(values.iter().all(|g| g.is_finite()), "{}: {:?} {values:?}", self.what, self.path);
            assert!(values.iter().any(|&g| g != 0.0), "{}: {:?} is 0", self.what, self.path);
        }
    }
    encoding.visit(&mut Visitor { gradients: loss.backward(), path: Vec::new(), what });
}
