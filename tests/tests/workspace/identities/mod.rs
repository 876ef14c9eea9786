//! What articles on positional encodings state as facts, each a test named after its claim: those that are true, and
//! those that are not, where the test shows what is true instead.

mod digits;
mod distance;
mod expansion;
mod order;
mod rotation;
mod waves;

use burn::module::Param;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::random::Stream;
use longwave_kernels::{Attention, rotate};
use longwave_position::encoding::{Heads, LayerInput, QueryBlock, Rows};
use longwave_position::parameter::replaced;
use longwave_position::{Dimensions, Encoding, EncodingConfig, Init, Position, Positions};

/// A small model.
const SIZES: Dimensions =
    Dimensions { layers: 2, width: 8, heads: 2, kv_heads: 2, head_dim: 4, train_length: 16, vocab_size: 16 };

const ROWS: usize = 9;

/// A list of vectors.
type Matrix = Vec<Vec<f64>>;

/// The encoding of a `[position]` table in TOML, for other sizes, as it starts.
fn fresh(text: &str, sizes: &Dimensions) -> Encoding {
    let table: toml::Table = text.parse().unwrap();
    let config = EncodingConfig::from_value(&toml::Value::Table(table), "position").unwrap();
    config.validate("position", sizes).unwrap();
    config.build(sizes, &Init::new(0, &Device::flex()))
}

/// The same, its parameters made large enough to tell.
fn sized(text: &str, sizes: &Dimensions) -> Encoding {
    replaced(fresh(text, sizes), |_, old| old.mul_scalar(25.0))
}

fn build(text: &str) -> Encoding {
    sized(text, &SIZES)
}

/// Normal numbers that depend on the name alone.
fn random<const D: usize>(name: &str, shape: [usize; D]) -> Tensor<D> {
    let mut stream = Stream::new(3, name, 0);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| stream.normal() as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().try_to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

fn matrix(tensor: Tensor<2>) -> Matrix {
    let width = tensor.dims()[1];
    numbers(tensor).chunks(width).map(<[f64]>::to_vec).collect()
}

/// `[1, heads, rows, dim]`, head by head.
fn heads(tensor: &Tensor<4>) -> Vec<Matrix> {
    let [_, heads, rows, dim] = tensor.dims();
    let of = |head: usize| matrix(tensor.clone().slice_dim(1, head..head + 1).reshape([rows, dim]));
    (0..heads).map(of).collect()
}

/// A layer's slice of a parameter `[layers, rows, columns]`.
fn of_layer(parameter: &Param<Tensor<3>>, layer: usize) -> Matrix {
    matrix(parameter.val().slice_dim(0, layer..=layer).squeeze_dim::<2>(0))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A row times a matrix `[row's length, columns]`.
fn times(row: &[f64], by: &Matrix) -> Vec<f64> {
    assert_eq!(row.len(), by.len());
    (0..by[0].len()).map(|column| row.iter().zip(by).map(|(x, line)| x * line[column]).sum()).collect()
}

#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected}");
}

/// The vectors an encoding adds to a hidden state of 0, row by row.
fn added(encoding: &Encoding, positions: &Positions) -> Matrix {
    let waves = encoding.get::<longwave_position::encodings::sinusoidal::Sinusoidal>();
    let width = waves.map_or(SIZES.width, |waves| waves.frequencies().unwrap().dim());
    let hidden = Tensor::zeros([1, positions.length(), width], &Device::flex());
    matrix(entered(encoding, hidden, positions).squeeze_dim::<2>(0))
}

/// What a hidden state becomes.
fn entered(encoding: &Encoding, hidden: Tensor<3>, positions: &Positions) -> Tensor<3> {
    let tokens = Tensor::<2, Int>::zeros([1, positions.length()], &Device::flex());
    encoding.embed(hidden, Rows::new(0, &tokens, positions), &mut None)
}

/// Scale of the logits: `1 / sqrt(head_dim)`.
const SCALE: f64 = 0.5;

/// Random q and k, `[1, heads, rows, head_dim]`.
fn queries_and_keys() -> [Tensor<4>; 2] {
    ["q", "k"].map(|name| random::<4>(name, [1, SIZES.heads, ROWS, SIZES.head_dim]))
}

/// The block's projection of keys, `[width, heads head_dim]`.
fn key_matrix() -> Tensor<2> {
    random("key matrix", [SIZES.width, SIZES.heads * SIZES.head_dim])
}

/// The logits of layer 1 with every hook of an encoding, head by head: what q and k give before any mask.
fn logits(encoding: &Encoding, [q, k]: [Tensor<4>; 2], positions: &Positions) -> Vec<Matrix> {
    let device = Device::flex();
    let count = positions.length();
    let tokens = Tensor::<2, Int>::zeros([1, count], &device);
    let input = random("input", [1, count, SIZES.width]);
    let key_matrix = key_matrix();
    let block_input = Some(LayerInput { all: &input, first: 0 });
    let rows = Rows { key_matrix: Some(&key_matrix), input: block_input, ..Rows::new(1, &tokens, positions) };
    let block = QueryBlock { rows, queries: &(0..count), input: &input };
    let (q, k) = match encoding.rotation(1) {
        Some(rotation) => {
            let [q_table, k_table] = rotation.tables(positions, &device);
            (rotate(q, &q_table), rotate(k, &k_table))
        }
        None => (q, k),
    };
    let [q, k] = encoding.map_heads([q, k], [rows; 2]);
    let scores = q.clone().matmul(k.clone().swap_dims(2, 3)).mul_scalar(SCALE);
    let scores = encoding.scores(scores, Heads { q: &q, k: &k, scale: SCALE }, block);
    let options = Attention { bias: encoding.bias(block), ..Attention::causal(SIZES.head_dim) };
    heads(&match options.bias_block(count, count, &device) {
        Some(bias) => scores + bias,
        None => scores,
    })
}

/// Holds logits against a formula, over the pairs whose key does not lie ahead.
fn assert_logits(found: &[Matrix], formula: impl Fn(usize, usize, usize) -> f64, what: &str) {
    for (head, found) in found.iter().enumerate() {
        for (i, row) in found.iter().enumerate() {
            for (j, &logit) in row[..=i].iter().enumerate() {
                let expected = formula(head, i, j);
                assert_close(
                    logit,
                    expected,
                    2e-5 * (1.0 + expected.abs()),
                    &format!("{what}, head {head}, {i}, {j}"),
                );
            }
        }
    }
}
