//! The operations on rows, with a call of each: what tests, `selfcheck` and its table of parity compute.
//!
//! Operations on queries and keys have many forms each; their tests and `selfcheck` list these.

use crate::{
    Lssar, Normaliser, Precision, Softmax, StickBreaking, cross_entropy, dropout, entmax, fading_scores,
    gelu, head_loss, layer_norm, linear, mean, normalise, rms_norm, rms_norm_residual, sum, swiglu,
    unit_norm,
};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use longwave_core::random::StreamKey;
use std::sync::Arc;

/// A call of an operation: flat inputs, a flat output.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// As `selfcheck` calls it.
    pub name: &'static str,
    /// The numbers of each input, for so many rows.
    pub sizes: fn(usize) -> Vec<usize>,
    /// The output of inputs of these sizes.
    pub run: fn(&[Tensor<1>], usize) -> Tensor<1>,
}

/// Numbers of a row: no vector width but 2 divides it.
const WIDTH: usize = 74;

/// Of operations on one input.
const ALONE: fn(usize) -> Vec<usize> = |rows| vec![rows * WIDTH];

/// Of operations on rows with a gain.
const WITH_GAIN: fn(usize) -> Vec<usize> = |rows| vec![rows * WIDTH, WIDTH];

/// The first input as `[1, rows, WIDTH]`.
fn x(inputs: &[Tensor<1>], rows: usize) -> Tensor<3> {
    inputs[0].clone().reshape([1, rows, WIDTH])
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let count = tensor.shape().num_elements();
    tensor.reshape([count])
}

/// A class for each row.
fn targets(rows: usize, classes: usize, device: &Device) -> Tensor<1, Int> {
    let targets: Vec<i32> = (0..rows).map(|row| (row * 31 % classes) as i32).collect();
    Tensor::from_data(TensorData::new(targets, [rows]), device)
}

/// The weights of scores, of which each query sees those up to its own; the first of every five sees nothing.
fn weights(scores: &[Tensor<1>], rows: usize, normaliser: &Arc<dyn Normaliser>) -> Tensor<1> {
    let scores = scores[0].clone().mul_scalar(5.0).reshape([1, 1, rows, WIDTH]);
    let hidden = (0..rows * WIDTH).map(|n| (n / WIDTH).is_multiple_of(5) || n % WIDTH > n / WIDTH);
    let hidden = TensorData::new(hidden.collect::<Vec<bool>>(), [1, 1, rows, WIDTH]);
    let hidden = Tensor::<4, Bool>::from_data(hidden, &scores.device());
    flat(normalise(scores.mask_fill(hidden, f32::NEG_INFINITY), normaliser, 0))
}

/// Every operation on rows.
pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "rms_norm",
        sizes: WITH_GAIN,
        run: |inputs, rows| flat(rms_norm(x(inputs, rows), inputs[1].clone(), 1e-5)),
    },
    Operation { name: "unit_norm", sizes: ALONE, run: |inputs, rows| flat(unit_norm(x(inputs, rows), 1e-6)) },
    Operation {
        name: "layer_norm",
        sizes: |rows| vec![rows * WIDTH, WIDTH, WIDTH],
        run: |inputs, rows| {
            flat(layer_norm(x(inputs, rows), inputs[1].clone(), Some(inputs[2].clone()), 1e-5))
        },
    },
    Operation {
        name: "rms_norm beside its residual stream",
        sizes: WITH_GAIN,
        run: |inputs, rows| {
            let [normed, stream] = rms_norm_residual(x(inputs, rows), inputs[1].clone(), 1e-5);
            flat(normed * 2.0 + stream.clone() * stream)
        },
    },
    Operation {
        name: "dropout",
        sizes: ALONE,
        run: |inputs, rows| flat(dropout(x(inputs, rows), 0.3, StreamKey::new(1, "selfcheck", 0))),
    },
    Operation {
        name: "mean",
        sizes: ALONE,
        run: |inputs, rows| mean(x(inputs, rows)) + sum(inputs[0].clone() * inputs[0].clone()),
    },
    Operation { name: "gelu", sizes: ALONE, run: |inputs, rows| flat(gelu(x(inputs, rows))) },
    Operation { name: "swiglu", sizes: ALONE, run: |inputs, rows| flat(swiglu(x(inputs, rows))) },
    Operation {
        name: "linear",
        sizes: |rows| vec![rows * WIDTH, WIDTH * rows, rows * rows],
        run: |inputs, rows| {
            let weight = inputs[1].clone().reshape([WIDTH, rows]);
            flat(linear(x(inputs, rows), weight, Some(inputs[2].clone().reshape([1, rows, rows]))))
        },
    },
    Operation {
        name: "weights of scores by softmax",
        sizes: ALONE,
        run: |inputs, rows| weights(inputs, rows, &(Arc::new(Softmax) as _)),
    },
    Operation {
        name: "weights of scores by entmax",
        sizes: ALONE,
        run: |inputs, rows| weights(inputs, rows, &entmax(1.5)),
    },
    Operation {
        name: "weights of scores by lssar",
        sizes: ALONE,
        run: |inputs, rows| weights(inputs, rows, &(Arc::new(Lssar { power: Some(3) }) as _)),
    },
    Operation {
        name: "weights of scores by stick-breaking",
        sizes: ALONE,
        run: |inputs, rows| {
            // With more rows than keys, a query has no key of its own here.
            let stick = StickBreaking { attend_current: true, rest_to_own: false };
            weights(inputs, rows, &(Arc::new(stick) as _))
        },
    },
    Operation {
        name: "fading scores",
        sizes: |rows| vec![rows * WIDTH; 3],
        run: |inputs, rows| {
            let [q, k, gates] =
                [0, 1, 2].map(|input: usize| inputs[input].clone().reshape([1, 1, rows, WIDTH]));
            flat(fading_scores(q, k, gates.square().cumsum(2).neg(), 0))
        },
    },
    Operation {
        name: "cross_entropy",
        sizes: ALONE,
        run: |inputs, rows| {
            let logits = inputs[0].clone().mul_scalar(5.0).reshape([rows, WIDTH]);
            let targets = targets(rows, WIDTH, &logits.device());
            flat(cross_entropy(logits, targets))
        },
    },
    Operation {
        name: "head and loss",
        sizes: |rows| vec![rows * WIDTH, WIDTH * 2 * rows],
        run: |inputs, rows| {
            let hidden = x(inputs, rows);
            let weight = inputs[1].clone().reshape([2 * rows, WIDTH]).transpose();
            let targets = targets(rows, 2 * rows, &hidden.device());
            flat(head_loss(hidden, weight, targets, None, Precision::F32))
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_matches_reference_on, by_reference, devices, numbers};

    /// What the CPU has no form for, or only for more rows.
    const NOT_ON_CPU: [&str; 3] = ["dropout", "mean", "cross_entropy"];
    /// What the GPU has no form for.
    fn is_on_gpu(name: &str) -> bool {
        !["linear", "fading scores"].contains(&name) && !name.starts_with("weights of scores")
    }

    #[test]
    fn odd_shapes_of_every_operation_agree_with_its_reference() {
        for device in devices("every operation") {
            let is_fused = |name: &str| {
                if device == Device::flex() { !NOT_ON_CPU.contains(&name) } else { is_on_gpu(name) }
            };
            for Operation { name, sizes, run } in OPERATIONS.iter().filter(|op| is_fused(op.name)) {
                for rows in [1, 19, 37] {
                    let inputs: Vec<_> =
                        sizes(rows).iter().zip(1..).map(|(n, seed)| numbers(seed, *n)).collect();
                    let what = format!("{name}, {rows} rows");
                    let by_reference = |inputs: &[Tensor<1>]| by_reference(|| run(inputs, rows));
                    assert_matches_reference_on(&device, &what, &inputs, |x| run(x, rows), by_reference);
                }
            }
        }
    }
}
