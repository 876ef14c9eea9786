use super::*;
use crate::testing::{assert_fused_on, numbers, on_devices, tensor};
use burn::tensor::Device;

on_devices! {
    "norms":
    /// Widths that vectors divide and that none divides, more channels than a cube of a GPU has units, and fewer.
    odd_shapes_agree_with_the_reference => |device| all_agree(device, &SHAPES),
    rows_of_heads_get_length_1_and_empty_ones_stay => lengths_of_rows,
    what_nothing_depends_on_receives_nothing => gradients_of_parts,
}

const SHAPES: [[usize; 3]; 10] = [
    [1, 1, 1],
    [2, 37, 5],
    [3, 50, 16],
    [2, 41, 130],
    [2, 3, 64],
    [1, 70, 32],
    [1, 9, 48],
    [2, 3, 96],
    [1, 2, 300],
    [1, 2, 1000],
];

fn inputs([batch, length, width]: [usize; 3]) -> Vec<Vec<f32>> {
    vec![numbers(1, batch * length * width), numbers(2, width), numbers(3, width)]
}

/// x arrives with its first two dimensions swapped, so that it does not lie contiguously.
fn x(inputs: &[Tensor<1>], [batch, length, width]: [usize; 3]) -> Tensor<3> {
    inputs[0].clone().reshape([length, batch, width]).swap_dims(0, 1)
}

/// The gain and the bias among the inputs.
fn weights(inputs: &[Tensor<1>]) -> Weights {
    Weights { gain: inputs.get(1).cloned(), bias: inputs.get(2).cloned() }
}

/// What the fused forms compute, and the reference: of so many inputs.
fn agrees(device: &Device, shape: [usize; 3], kind: RowNorm, count: usize, eps: f64) {
    let norm = Norm { width: shape[2], eps, kind };
    let (what, given) = (format!("{kind:?} of {count} inputs {shape:?}, {eps}"), &inputs(shape)[..count]);
    let outputs = |given: &[Tensor<1>]| normalised(x(given, shape), weights(given), norm);
    assert_fused_on(device, &what, given, |given| {
        let [y, _] = outputs(given);
        y
    });
    // A branch beside its residual stream.
    assert_fused_on(device, &format!("{what}, beside the stream"), given, |given| {
        let [y, x] = outputs(given);
        y * 2.0 + x.clone() * x
    });
}

pub(super) fn all_agree(device: &Device, shapes: &[[usize; 3]]) {
    for &shape in shapes {
        agrees(device, shape, RowNorm::Rms, 2, 1e-2);
        agrees(device, shape, RowNorm::Layer, 2, 1e-2);
        agrees(device, shape, RowNorm::Layer, 3, 1e-2);
        // The whole range of lengths lies above the least one, or below.
        for least in [1e-6, 1e3] {
            agrees(device, shape, RowNorm::Unit, 1, least);
        }
    }
}

fn lengths_of_rows(device: &Device) {
    let x = tensor::<4>(1, [2, 3, 5, 8], device);
    let [rows, zeros] = [x.clone(), x.zeros_like()].map(|x| unit_norm(x, 1e-6));
    let lengths = rows.square().sum_dim(3).sqrt();
    assert!((lengths - 1.0).abs().max().into_scalar::<f32>() < 1e-6);
    assert!(zeros.abs().max().into_scalar::<f32>() == 0.0);
}

/// A frozen gain, a norm that nothing reads, and a stream that does not go on.
fn gradients_of_parts(device: &Device) {
    let device = device.clone().autodiff();
    let x = || tensor::<3>(1, [2, 3, 4], &device).require_grad();
    let frozen = tensor::<1>(2, [4], &device);
    let leaf = x();
    let gradients = rms_norm(leaf.clone(), frozen.clone(), 1e-5).sum().backward();
    assert!(leaf.grad(&gradients).is_some());
    assert!(frozen.grad(&gradients).is_none());

    let (leaf, gain) = (x(), frozen.require_grad());
    let [_, stream] = rms_norm_residual(leaf.clone(), gain.clone(), 1e-5);
    let gradients = stream.sum().backward();
    assert_eq!(crate::testing::list(leaf.grad(&gradients).unwrap()), [1.0; 24]);
    assert!(gain.grad(&gradients).is_none());

    let (leaf, other) = (x(), x());
    let [normed, _] = layer_norm_residual(leaf.clone(), gain.clone(), None, 1e-5);
    let alone = layer_norm(other.clone(), gain.clone(), None, 1e-5);
    let [a, b] = [(leaf, normed), (other, alone)]
        .map(|(leaf, y)| leaf.grad(&(y.clone() * y).sum().backward()).unwrap());
    assert_eq!(crate::testing::list(a), crate::testing::list(b));
}

#[test]
#[should_panic(expected = "norm: 3 weights for a width of 4")]
fn a_gain_of_another_width_is_rejected() {
    rms_norm(Tensor::<2>::zeros([2, 4], &Device::flex()), Tensor::ones([3], &Device::flex()), 1e-5);
}
