//! Linear attention.

use super::*;
use crate::testing;
use burn::tensor::{Device, Int};
use longwave_position::encoding::{Dimensions, Rows};
use longwave_position::frequency::Frequencies;
use longwave_position::reading::{AttentionKind, LogN};
use longwave_position::{Init, Positions};

const HEADS: usize = 2;
const DIM: usize = 4;

fn reading(kind: &str) -> Reading {
    let dimensions = Dimensions {
        layers: 1,
        width: HEADS * DIM,
        heads: HEADS,
        kv_heads: HEADS,
        head_dim: DIM,
        train_length: 8,
        vocab_size: 16,
    };
    let reading = testing::reading(&format!("'{kind}'"), &dimensions, LogN::Off, &Device::flex());
    reading.with_attention(AttentionKind::Linear).unwrap()
}

fn qkv(length: usize, device: &Device) -> [Tensor<4>; 3] {
    let init = Init::new(3, device);
    ["q", "k", "v"].map(|name| init.normal(name, [1, HEADS, length, DIM], 1.5).val())
}

fn attended(kind: &str, qkv: [Tensor<4>; 3], positions: &Positions) -> Tensor<4> {
    let device = qkv[0].device();
    let tokens = Tensor::<2, Int>::zeros([1, positions.length()], &device);
    let input = Tensor::zeros([1, positions.length(), HEADS * DIM], &device);
    let rows = Rows::new(0, &tokens, positions);
    let block = QueryBlock { rows, queries: &(0..positions.length()), input: &input };
    attend(qkv, 1.0, block, &reading(kind), &mut Rotations::default())
}

fn numbers(x: Tensor<4>) -> Vec<f64> {
    x.into_data().try_to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

fn largest(x: Tensor<4>) -> f32 {
    x.abs().max().into_scalar()
}

/// The defining sums over all pairs, in f64; pairs (b, b + DIM / 2) turn by `m inv_freq_b`.
fn direct(qkv: &[Tensor<4>; 3], positions: &Positions, rotates: bool) -> Vec<f64> {
    let length = positions.length();
    let [q, k, v] = qkv.clone().map(numbers);
    let at =
        |x: &[f64], head: usize, row: usize| -> Vec<f64> { x[(head * length + row) * DIM..][..DIM].to_vec() };
    let phi = |x: Vec<f64>| -> Vec<f64> {
        x.into_iter().map(|x| if x > 0.0 { x + 1.0 } else { x.exp() }).collect()
    };
    let turn = |x: &[f64], position: f64| -> Vec<f64> {
        let mut turned = x.to_vec();
        for (band, f) in Frequencies::geometric(1e4, DIM).inv_freq.into_iter().enumerate() {
            let (sin, cos) = if rotates { (position * f).sin_cos() } else { (0.0, 1.0) };
            let (a, b) = (x[band], x[band + DIM / 2]);
            (turned[band], turned[band + DIM / 2]) = (a * cos - b * sin, b * cos + a * sin);
        }
        turned
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut out = Vec::new();
    for head in 0..HEADS {
        for m in 0..length {
            let query = phi(at(&q, head, m));
            let turned = turn(&query, positions.values()[m]);
            let (mut numerator, mut denominator) = ([0.0; DIM], 0.0);
            for n in 0..=m {
                let key = phi(at(&k, head, n));
                let weight = dot(&turned, &turn(&key, positions.values()[n]));
                denominator += dot(&query, &key);
                for (sum, value) in numerator.iter_mut().zip(at(&v, head, n)) {
                    *sum += weight * value;
                }
            }
            out.extend(numerator.map(|sum| sum / denominator));
        }
    }
    out
}

#[test]
fn agrees_with_the_sums_over_all_pairs_in_f64() {
    // 300 rows are three chunks, the last one short.
    let qkv = qkv(300, &Device::flex());
    for (kind, rotates) in [("none", false), ("rope", true)] {
        for positions in [Positions::range(0..300), Positions::range(0..300).map(|m| 40_000.0 + m / 2.0)] {
            let expected = direct(&qkv, &positions, rotates);
            let found = numbers(attended(kind, qkv.clone(), &positions));
            let scale = expected.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!((found - expected).abs() <= 1e-5 * scale, "{kind}[{index}]: {found} for {expected}");
            }
        }
    }
}

#[test]
fn a_later_row_changes_nothing_earlier() {
    let positions = Positions::range(0..200);
    let before = qkv(200, &Device::flex());
    let after = before.clone().map(|x| {
        let [_, heads, _, dim] = x.dims();
        let changed = x.clone().slice_dim(2, 150..151).neg();
        x.slice_assign([0..1, 0..heads, 150..151, 0..dim], changed)
    });
    let [before, after] = [before, after].map(|qkv| attended("rope", qkv, &positions));
    assert!(largest((before.clone() - after.clone()).slice_dim(2, 0..150)) == 0.0);
    assert!(largest((before - after).slice_dim(2, 150..200)) > 1e-3);
}
