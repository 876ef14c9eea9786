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
//! `gpu/` says how it is done on the GPU. Elsewhere (f16 on the CPU, plain operations) it is the linear map and the loss one after
//! the other.
//!
//! [`linear`]: crate::linear()
//! [`cross_entropy`]: crate::cross_entropy()

mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod half;
mod products;
mod reference;
mod rows;

use crate::Precision;
use crate::machine::autodiff::{self, CpuTensor, bf16_values, compact, indices, tensor_of, values};
use crate::machine::bf16::{Arithmetic, arithmetic, rounded, widened};
use crate::machine::buffers::GRAIN;
use crate::op::prelude::*;
use crate::op::record;
use crate::ops::linear::Weights;
use burn::tensor::{Int, Tensor, TensorData};
use cpu::{Outcome, Task, compute};
use half::Half;
use longwave_core::memory_check::product;
use products::{Wide, gathered, scattered};
use rayon::prelude::*;
use rows::{round_in_place, scale};

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
    let at_once = reference::rows_of_block(weight.dims()[1]);
    let (weights, engine) = (weights.map(Tensor::without_autodiff), Engine::of(precision));
    HeadLoss { targets, weights, precision, engine, at_once }.run(hidden, weight)
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
    let targets = indices(targets, weight.dims()[1]);
    let inputs = [CpuTensor::new(hidden), CpuTensor::new(weight)];
    let hidden = compact(inputs[0].data().clone());
    let task = Task { targets: &targets, shares: &[], wanted: [false; 2], guesses };
    let outcome = Engine::of(precision).compute(&values(&hidden), &Weights::new(inputs[1].data()), &task);
    let losses = [tensor_of(outcome.losses, [count])];
    // Nothing is tracked.
    let [losses] = record(&inputs, [true; 2], losses, |_, _| [None, None]);
    (losses.into_tensor(), outcome.guesses)
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

/// [`head_loss`] of hidden states and weights.
#[derive(Clone)]
struct HeadLoss {
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    precision: Precision,
    /// On the CPU.
    engine: Engine,
    /// Rows whose logits exist at once on the GPU.
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "the CPU has tiles of its own"))]
    at_once: usize,
}

impl HeadLoss {
    fn run(self, hidden: Tensor<3>, weight: Tensor<2>) -> Tensor<1> {
        let [loss] = run(self, [hidden.into(), weight.into()]);
        loss.tensor()
    }

    /// What each loss is multiplied by.
    fn shares(weights: Option<Tensor<1>>, count: usize) -> Vec<f32> {
        match weights {
            None => vec![1.0 / count as f32; count],
            Some(weights) => weights.into_data().iter::<f32>().collect(),
        }
    }
}

impl Op<2> for HeadLoss {
    const NAME: &'static str = "head and loss";
    const ON_GPU: bool = true;

    fn reference(self, [hidden, weight]: [Any; 2]) -> [Any; 1] {
        let losses = reference::losses(hidden.tensor(), weight.tensor(), self.targets, self.precision);
        [reference::loss(losses, self.weights).into()]
    }

    fn suits_cpu(&self, [hidden, _]: &[Any; 2]) -> bool {
        self.precision != Precision::F16 && !hidden.is_empty()
    }

    fn cpu(
        self,
        [hidden, weight]: [FlexTensor; 2],
        wanted: [bool; 2],
    ) -> ([FlexTensor; 1], impl Gradient<Flex, 2>) {
        let shape: [usize; 3] = hidden.layout().shape().dims();
        let (hidden, weights) = (compact(hidden), Weights::new(&weight));
        let [width, classes] = weights.sizes();
        let targets = indices(self.targets, classes);
        let shares = Self::shares(self.weights, targets.len());
        let chosen: Vec<usize> = (0..shares.len()).filter(|row| shares[*row] != 0.0).collect();
        let all = Task { targets: &targets, shares: &shares, wanted, guesses: false };
        let mut outcome = if chosen.len() == shares.len() {
            self.engine.compute(&values(&hidden), &weights, &all)
        } else {
            let hidden = gathered(&values(&hidden), width, &chosen);
            let targets: Vec<usize> = chosen.iter().map(|row| targets[*row]).collect();
            let shares: Vec<f32> = chosen.iter().map(|row| shares[*row]).collect();
            self.engine.compute(&hidden, &weights, &Task { targets: &targets, shares: &shares, ..all })
        };
        if chosen.len() < shares.len() {
            let all = |hidden: Vec<f32>| scattered(&hidden, width, &chosen, shares.len());
            outcome.hidden = outcome.hidden.map(all);
        }
        // Few numbers: on one thread, and so in their order.
        let losses = outcome.losses.iter().zip(&chosen);
        let loss: f64 = losses.map(|(loss, row)| f64::from(*loss) * f64::from(shares[*row])).sum();
        // Computed with the loss, for the gradient 1 of that.
        let of_hidden = outcome.hidden.map(|hidden| tensor_of(hidden, shape));
        let of_weight = outcome.weights.map(|sums| sums.into_tensor([width, classes], weights.is_turned()));
        let rounds = self.engine != Engine::Wide;
        ([tensor_of(vec![loss as f32], [1])], move |output, _| {
            let factor = values(&only(output))[0];
            [of_hidden, of_weight].map(|gradient| gradient.map(|gradient| times(gradient, factor, rounds)))
        })
    }

    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, [hidden, weight]: &[Any; 2]) -> bool {
        let by_blocks = || {
            let is_tracked = hidden.is_tracked() || weight.is_tracked();
            self.targets.dims()[0] > self.at_once && is_tracked
        };
        crate::ops::cross_entropy::gpu::supports(weight)
            && !hidden.is_empty()
            && (self.precision == Precision::F32 || by_blocks())
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, inputs: [Primitive; 2], wanted: [bool; 2]) -> ([Primitive; 1], impl Gradient<Cube, 2>) {
        let (loss, kept) = gpu::head_loss(inputs, self, wanted);
        ([loss], move |output, wanted| kept.gradients(only(output), wanted))
    }
}

/// `factor * x`, rounded to bf16 if asked to. The numbers of x are all of its storage, in any order.
fn times(mut x: FlexTensor, factor: f32, rounds: bool) -> FlexTensor {
    let is_one = factor.to_bits() == 1.0_f32.to_bits();
    if is_one && !rounds {
        return x;
    }
    x.storage_mut::<f32>().par_chunks_mut(GRAIN).for_each(|x| {
        scale(x, factor);
        if rounds {
            round_in_place(x);
        }
    });
    x
}

#[cfg(test)]
mod tests;
