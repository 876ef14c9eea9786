//! The output head and its loss: the product of hidden states and weights, and the negative log-likelihood of targets under
//! it, without ever holding all logits.
//!
//! **Fused:** the product, [`cross_entropy`] and the sum or mean of the losses. Since the result is one number, the
//! gradients are computed with it, for the gradient 1, and multiplied by the true one in the backward pass (as Liger Kernel
//! does: Hsu et al. 2024, arXiv:2410.10989; Wijmans et al. 2024, arXiv:2411.09009, compute the logits twice instead). Rows
//! of weight 0 get no logits on the CPU. Where no gradient is wanted, no logits outlive their tile.
//!
//! **Kept for the backward pass:** the gradients of the hidden states and of the weights, which it hands out.
//!
//! **Bytes:** for r rows of width w and c classes at least `4 (2 r w + 2 w c)`: hidden states, weights and their gradients.
//! The logits and their gradient, which [`linear`] and [`cross_entropy`] write and read as `4 r c` each several times, are
//! those of one block: 13 MiB with 4,096 classes. Alone, with the system's allocator, it takes 0.79 times as long as those
//! two with 4,096 rows of width 256 and as many classes, in bf16 0.73 times, and where only losses and guesses are read 0.65
//! and 0.45 times (Zen 4). A whole step of the program takes as long as before, within the noise.
//!
//! **How, on the CPU:** weights are laid out once for all tiles, as they are and transposed. A tile of rows is one task: its
//! logits, in the second cache, become their gradient in place, and that the gradient of the tile's hidden states. After a
//! block of tiles, the strips of 64 classes are the tasks: each adds the block's part of the weights' gradient to sums that
//! are brought into the order of the weights at the end. `half.rs` has the products of bf16, and what is rounded there is
//! what [`Precision`] says: logits, their gradient, and both gradients in the end.
//!
//! **Tried, and as fast:** tiles of 24 to 64 rows, and blocks of 8 to 32 of them.
//!
//! `cube/` says how it is done on the GPU. Elsewhere (f16 on the CPU, plain operations) it is the linear map and the loss one after
//! the other.
//!
//! [`linear`]: crate::linear()
//! [`cross_entropy`]: crate::cross_entropy()

#[cfg(feature = "gpu")]
mod cube;
mod flex;
mod gradient;
mod half;
mod products;
mod reference;
mod rows;

use crate::Precision;
use crate::autodiff::{self, CpuTensor, bf16_values, compact, tensor_of, values};
use crate::bf16::{Arithmetic, arithmetic, rounded, widened};
use crate::linear::Weights;
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::FlexTensor;
use flex::{Outcome, Task, compute};
use half::Half;
use longwave_core::memory_check::product;
use products::{Wide, gathered, scattered};

/// Bytes of logits that exist at once, 64 MiB, where they are not tiles on the CPU; at least those of one row.
const LOGITS_BYTES: usize = 1 << 26;

/// The sum of the losses of all targets in nats, each times its weight, or without weights their mean: `[1]`.
///
/// hidden `[batch, length, width]` and weight `[width, classes]` of f32, targets `[batch * length]` (each in `0..classes`),
/// weights `[batch * length]`. The logits are `hidden weight` in the precision. Weights are constants: they receive no
/// gradient, and a row whose weight is 0 may be left out whatever it holds.
///
/// # Panics
/// The sizes do not fit each other, there are no classes, or (fused, on the CPU) a target is not in `0..classes`; on the GPU
/// the loss is NaN then.
pub fn head_loss(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    precision: Precision,
) -> Tensor<1> {
    check(&hidden, &weight, &targets);
    let count = targets.dims()[0];
    assert!(
        weights.as_ref().is_none_or(|weights| weights.dims()[0] == count),
        "head_loss: the number of weights"
    );
    let weights = weights.map(Tensor::without_autodiff);
    #[cfg(feature = "gpu")]
    if runs_on_gpu(&hidden, &weight) {
        let at_once = reference::rows_of_block(weight.dims()[1]);
        if precision == Precision::F32 {
            return cube::head_loss(hidden, weight, targets, weights, at_once);
        }
        if count > at_once && (hidden.is_tracked() || weight.is_tracked()) {
            return cube::half_head_loss(hidden, weight, targets, weights, precision, at_once);
        }
    }
    if !is_fused(&hidden, &weight, precision) {
        return reference::loss(reference::losses(hidden, weight, targets, precision), weights);
    }
    let shares = match weights {
        None => vec![1.0 / count as f32; count],
        Some(weights) => weights.into_data().iter::<f32>().collect(),
    };
    loss_and_gradients(hidden, weight, targets, &shares, Engine::of(precision))
}

/// The loss of each target in nats, `[batch * length]`, for inputs as in [`head_loss`]. Where a logit is NaN, so is the loss.
///
/// Where a gradient is tracked, this is the linear map and [`cross_entropy`](crate::cross_entropy()), which keep all logits.
///
/// # Panics
/// As [`head_loss`].
pub fn head_losses(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    precision: Precision,
) -> Tensor<1> {
    check(&hidden, &weight, &targets);
    if reads_in_tiles(&hidden, &weight, precision) {
        return read(hidden, weight, targets, precision, false).0;
    }
    reference::losses(hidden, weight, targets, precision)
}

/// The same, and the class that has the largest logit in the place of each target, the first of those alike.
///
/// # Panics
/// As [`head_loss`].
pub fn head_scores(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    precision: Precision,
) -> (Tensor<1>, Tensor<1, Int>) {
    check(&hidden, &weight, &targets);
    if reads_in_tiles(&hidden, &weight, precision) {
        let device = hidden.device();
        let (losses, guesses) = read(hidden, weight, targets, precision, true);
        let count = guesses.len();
        return (losses, Tensor::from_data(TensorData::new(guesses, [count]), &device));
    }
    reference::scores(hidden, weight, targets, precision)
}

/// The most logits that [`head_loss`] with a gradient, or otherwise [`head_scores`], holds at once of so many rows, in numbers. In
/// `f16` the CPU holds those of all rows for a gradient, as does [`use_reference`](crate::use_reference).
pub fn logits_at_once(rows: usize, classes: usize, gradient: bool) -> u64 {
    let all = gradient && crate::reference_in_use();
    product(&[if all { rows } else { rows.min(reference::rows_of_block(classes)) }, classes])
}

fn reads_in_tiles(hidden: &Tensor<3>, weight: &Tensor<2>, precision: Precision) -> bool {
    is_fused(hidden, weight, precision) && !hidden.is_tracked() && !weight.is_tracked()
}

/// Losses and, if asked for, guesses on the CPU, of what nothing tracks.
fn read(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    precision: Precision,
    guesses: bool,
) -> (Tensor<1>, Vec<i32>) {
    let count = targets.dims()[0];
    let targets = autodiff::indices(targets, weight.dims()[1]);
    let inputs = [CpuTensor::new(hidden), CpuTensor::new(weight)];
    let hidden = compact(inputs[0].data().clone());
    let task = Task { targets: &targets, shares: &[], wanted: [false; 2], guesses };
    let outcome = Engine::of(precision).compute(&values(&hidden), &Weights::new(inputs[1].data()), &task);
    let losses = autodiff::record(&inputs, tensor_of(outcome.losses, [count]), || NoGradient);
    (losses, outcome.guesses)
}

/// What an operation records that nothing tracks.
#[derive(Clone, Debug)]
struct NoGradient;

impl autodiff::Gradient<2> for NoGradient {
    fn gradients(self, _: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        [None, None]
    }
}

fn check(hidden: &Tensor<3>, weight: &Tensor<2>, targets: &Tensor<1, Int>) {
    let ([batch, length, width], [inputs, classes]) = (hidden.dims(), weight.dims());
    assert_eq!(width, inputs, "head: {width} channels for {inputs} rows of weights");
    assert_eq!(batch * length, targets.dims()[0], "head: hidden states and targets differ in rows");
    assert!(classes > 0, "head: no classes");
}

fn is_fused(hidden: &Tensor<3>, weight: &Tensor<2>, precision: Precision) -> bool {
    precision != Precision::F16
        && autodiff::cpu_kernel_applies(hidden)
        && autodiff::cpu_kernel_applies(weight)
        && hidden.shape().num_elements() > 0
}

#[cfg(feature = "gpu")]
fn runs_on_gpu(hidden: &Tensor<3>, weight: &Tensor<2>) -> bool {
    autodiff::gpu_kernel_applies(hidden)
        && autodiff::gpu_kernel_applies(weight)
        && crate::cross_entropy::cube::supports(weight)
        && hidden.shape().num_elements() > 0
}

/// What multiplies on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    /// f32.
    Wide,
    /// f32 on numbers rounded to bf16.
    Rounded,
    /// The processor's dot products of bf16.
    Dot,
}

impl Engine {
    fn of(precision: Precision) -> Self {
        match (precision, arithmetic()) {
            (Precision::Bf16, Arithmetic::Dot) => Self::Dot,
            (Precision::Bf16, Arithmetic::Widened) => Self::Rounded,
            _ => Self::Wide,
        }
    }

    /// Computes with hidden states `[rows, width]`.
    fn compute(self, hidden: &[f32], weights: &Weights, task: &Task<'_>) -> Outcome {
        let (rows, [width, classes]) = (task.targets.len(), weights.sizes());
        let (sizes, gradient) = ([rows, width, classes], task.wanted[0]);
        if self == Self::Wide {
            let given = weights.values();
            return compute(&Wide::new(hidden, weights.matrix(&given), sizes, gradient, false), task);
        }
        let (hidden, halves) = (rounded(hidden), weights.halves());
        let halves = bf16_values(&halves);
        if self == Self::Dot {
            return compute(&Half::new(&hidden, weights.of_halves(halves), sizes, gradient), task);
        }
        let (hidden, given) = (widened(&hidden), widened(halves));
        compute(&Wide::new(&hidden, weights.matrix(&given), sizes, gradient, true), task)
    }
}

/// [`head_loss`] on the CPU, with the gradients that are wanted.
fn loss_and_gradients(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    shares: &[f32],
    engine: Engine,
) -> Tensor<1> {
    let shape @ [.., width] = hidden.dims();
    let classes = weight.dims()[1];
    let targets = autodiff::indices(targets, classes);
    let inputs = [CpuTensor::new(hidden), CpuTensor::new(weight)];
    let wanted = inputs.each_ref().map(CpuTensor::is_tracked);
    let hidden = compact(inputs[0].data().clone());
    let weights = Weights::new(inputs[1].data());
    let chosen: Vec<usize> = (0..shares.len()).filter(|row| shares[*row] != 0.0).collect();
    let mut outcome = if chosen.len() == shares.len() {
        engine.compute(
            &values(&hidden),
            &weights,
            &Task { targets: &targets, shares, wanted, guesses: false },
        )
    } else {
        let hidden = gathered(&values(&hidden), width, &chosen);
        let targets: Vec<usize> = chosen.iter().map(|row| targets[*row]).collect();
        let shares: Vec<f32> = chosen.iter().map(|row| shares[*row]).collect();
        let task = Task { targets: &targets, shares: &shares, wanted, guesses: false };
        engine.compute(&hidden, &weights, &task)
    };
    if chosen.len() < shares.len() {
        let all = |hidden: Vec<f32>| scattered(&hidden, width, &chosen, shares.len());
        outcome.hidden = outcome.hidden.map(all);
    }
    // Few numbers: on one thread, and so in their order.
    let losses = outcome.losses.iter().zip(&chosen);
    let loss: f64 = losses.map(|(loss, row)| f64::from(*loss) * f64::from(shares[*row])).sum();
    autodiff::record(&inputs, tensor_of(vec![loss as f32], [1]), || gradient::Saved {
        gradients: [
            outcome.hidden.map(|hidden| tensor_of(hidden, shape)),
            outcome.weights.map(|sums| sums.into_tensor([width, classes], weights.is_turned())),
        ],
        rounds: engine != Engine::Wide,
    })
}

#[cfg(test)]
mod tests;
