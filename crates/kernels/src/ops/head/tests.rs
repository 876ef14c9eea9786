use super::*;
use crate::testing::{
    assert_close, assert_fused_on, assert_matches_reference_on, assert_threads_change_no_bit, by_reference,
    differentiate, flat, list, numbers, on_threads, tensor,
};
use burn::tensor::{DType, Device};

/// Batch, length, width and classes: one row, sizes around those of strips, more rows than a block has.
const SHAPES: [[usize; 4]; 5] =
    [[1, 1, 1, 1], [1, 1, 5, 3], [2, 37, 7, 65], [3, 50, 66, 128], [2, 450, 6, 131]];

pub(crate) fn targets(rows: usize, classes: usize, device: &Device) -> Tensor<1, Int> {
    let targets: Vec<i64> = (0..rows).map(|row| ((row * 7 + 3) % classes).cast_signed() as i64).collect();
    Tensor::from_data(TensorData::new(targets, [rows]), device)
}

/// What rows are weighted by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weighting {
    Mean,
    /// A share for each row, of which some are 0.
    Some,
    /// None but 0.
    Nothing,
}

/// On a GPU all of them run with bounds checked: one kernel serves those with weights and without.
pub(crate) const WEIGHTINGS: [Weighting; 3] = [Weighting::Mean, Weighting::Some, Weighting::Nothing];

impl Weighting {
    /// Of the type of an input, and where it lies.
    pub(crate) fn weights(self, rows: usize, input: &Tensor<1>) -> Option<Tensor<1>> {
        let device = input.clone().without_autodiff().device();
        let share = |row: usize| if row % 3 == 1 { 0.0 } else { (row % 5 + 1) as f32 / rows as f32 };
        let weights = match self {
            Self::Mean => return None,
            Self::Some => flat((0..rows).map(share).collect(), &device),
            Self::Nothing => Tensor::zeros([rows], &device),
        };
        Some(weights.cast(input.dtype()))
    }
}

/// Hidden states with their first two dimensions swapped, so that they do not lie contiguously; weights as they lie or as
/// the transpose of how they lie.
pub(crate) fn inputs(
    given: &[Tensor<1>],
    [batch, length, width, classes]: [usize; 4],
    turned: bool,
) -> (Tensor<3>, Tensor<2>) {
    let hidden = given[0].clone().mul_scalar(3.0).reshape([length, batch, width]).swap_dims(0, 1);
    let weight = given[1].clone();
    let weight =
        if turned { weight.reshape([classes, width]).transpose() } else { weight.reshape([width, classes]) };
    (hidden, weight)
}

pub(crate) fn given([batch, length, width, classes]: [usize; 4]) -> [Vec<f32>; 2] {
    [numbers(1, batch * length * width), numbers(2, width * classes)]
}

fn fused(
    given: &[Tensor<1>],
    shape: [usize; 4],
    turned: bool,
    weighting: Weighting,
    precision: Precision,
) -> Tensor<1> {
    let (hidden, weight) = inputs(given, shape, turned);
    let (device, rows) = (given[0].device(), shape[0] * shape[1]);
    let weights = weighting.weights(rows, &given[0]);
    head_loss(hidden, weight, targets(rows, shape[3], &device), weights, precision)
}

/// [`assert_close`] relative to the largest number: gradients are small where rows are many.
#[track_caller]
pub(crate) fn assert_relatively_close(what: &str, actual: &[f32], expected: &[f32], tolerance: f32) {
    let largest = expected.iter().fold(1e-30_f32, |largest, x| largest.max(x.abs()));
    let [actual, expected] = [actual, expected].map(|x| x.iter().map(|x| x / largest).collect::<Vec<_>>());
    assert_close(what, &actual, &expected, tolerance);
}

#[test]
fn agrees_with_the_reference() {
    for shape in SHAPES {
        for turned in [false, true] {
            for weighting in WEIGHTINGS {
                let what = format!("{shape:?} {turned} {weighting:?}");
                assert_fused_on(&Device::flex(), &what, &given(shape), |given| {
                    fused(given, shape, turned, weighting, Precision::F32)
                });
            }
        }
    }
}

/// More rows than blocks have, so that gradients of weights are added up.
#[test]
fn many_rows_agree_with_the_reference() {
    let shape = [2, 1700, 32, 100];
    for weighting in [Weighting::Mean, Weighting::Some] {
        let fused = |given: &[Tensor<1>]| fused(given, shape, true, weighting, Precision::F32);
        let what = format!("{weighting:?}");
        assert_matches_reference_on(&Device::flex(), &what, &given(shape), fused, |given| {
            by_reference(|| fused(given))
        });
    }
}

/// In bf16, what is rounded is what the linear map and the loss round one after the other; sums in another order may tip a
/// rounding.
#[test]
fn bf16_agrees_with_the_operations_one_after_the_other() {
    let precision = Precision::Bf16;
    for shape in SHAPES {
        for turned in [false, true] {
            for weighting in WEIGHTINGS {
                let (rows, device) = (shape[0] * shape[1], Device::flex());
                let apart = |given: &[Tensor<1>]| {
                    let (hidden, weight) = inputs(given, shape, turned);
                    let device = given[0].device();
                    let losses =
                        reference::losses(hidden, weight, targets(rows, shape[3], &device), precision);
                    reference::loss(losses, weighting.weights(rows, &given[0]))
                };
                let expected = differentiate(&device, &given(shape), apart);
                for engine in [Engine::of(precision), Engine::Rounded, Engine::Dot] {
                    let what = format!("{shape:?} {turned} {weighting:?} {engine:?}");
                    let actual = differentiate(&device, &given(shape), |given| {
                        let (hidden, weight) = inputs(given, shape, turned);
                        let weights = weighting.weights(rows, &given[0]);
                        let targets = targets(rows, shape[3], &given[0].device());
                        HeadLoss { targets, weights, precision, engine, at_once: rows }.run(hidden, weight)
                    });
                    assert_close(&what, &actual.0, &expected.0, 1e-5);
                    for (index, (actual, expected)) in actual.1.iter().zip(&expected.1).enumerate() {
                        let off = 2.0 * precision.unit_roundoff() as f32;
                        assert_relatively_close(&format!("{what}: gradient {index}"), actual, expected, off);
                    }
                }
            }
        }
    }
}

#[test]
fn gradients_of_bf16_are_of_bf16() {
    let device = Device::flex().autodiff();
    let hidden = tensor::<3>(1, [2, 9, 6], &device).require_grad();
    let weight = tensor::<2>(2, [6, 70], &device).require_grad();
    let loss = head_loss(hidden.clone(), weight.clone(), targets(18, 70, &device), None, Precision::Bf16);
    let gradients = loss.mul_scalar(0.3).backward();
    for x in [list(hidden.grad(&gradients).unwrap()), list(weight.grad(&gradients).unwrap())] {
        let halves = flat(x.clone(), &Device::flex()).cast(DType::BF16).cast(DType::F32);
        assert_eq!(list(halves), x);
    }
}

#[test]
fn scores_agree_with_the_loss_and_the_largest_logit() {
    let device = Device::flex();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        for shape in SHAPES {
            let rows = shape[0] * shape[1];
            let given = given(shape).map(|values| flat(values, &device));
            let (hidden, weight) = inputs(&given, shape, true);
            let targets = targets(rows, shape[3], &device);
            let (losses, guesses) = head_scores(hidden.clone(), weight.clone(), targets.clone(), precision);
            let logits = reference::logits(hidden, weight, precision);
            let expected = crate::cross_entropy(logits.clone(), targets);
            assert_close(&format!("{precision} {shape:?}"), &list(losses), &list(expected), 2e-6);
            let guesses: Vec<i64> = guesses.into_data().iter().collect();
            let expected: Vec<i64> = logits.argmax(1).into_data().iter().collect();
            assert_eq!(guesses, expected, "{precision} {shape:?}");
        }
    }
}

#[test]
fn of_logits_alike_the_first_is_the_guess() {
    let device = Device::flex();
    let hidden = Tensor::<3>::ones([1, 2, 1], &device);
    let mut row = [0.0; 40];
    (row[17], row[20], row[39]) = (1.0, 1.0, 1.0);
    let weight = Tensor::<2>::from_floats([row], &device);
    let (losses, guesses) = head_scores(hidden, weight, Tensor::from_ints([17, 0], &device), Precision::F32);
    assert_eq!(guesses.into_data().iter::<i64>().collect::<Vec<_>>(), [17, 17]);
    let sum = (37.0 + 3.0 * 1.0_f32.exp()).ln();
    assert_close("losses", &list(losses), &[sum - 1.0, sum], 1e-6);
}

#[test]
fn frozen_inputs_receive_nothing() {
    let device = Device::flex().autodiff();
    let bits = [[true, false], [false, true]].map(|[of_hidden, of_weight]| {
        let (hidden, weight) = (tensor::<3>(1, [2, 30, 8], &device), tensor::<2>(2, [8, 70], &device));
        let hidden = if of_hidden { hidden.require_grad() } else { hidden };
        let weight = if of_weight { weight.require_grad() } else { weight };
        let loss = head_loss(hidden.clone(), weight.clone(), targets(60, 70, &device), None, Precision::F32);
        let gradients = loss.clone().backward();
        assert_eq!(hidden.grad(&gradients).is_some(), of_hidden);
        assert_eq!(weight.grad(&gradients).is_some(), of_weight);
        list(loss)[0].to_bits()
    });
    assert_eq!(bits[0], bits[1]);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let shape = [2, 500, 40, 300];
    for precision in [Precision::F32, Precision::Bf16] {
        let fused = |given: &[Tensor<1>]| fused(given, shape, true, Weighting::Some, precision);
        assert_threads_change_no_bit(precision.name(), &given(shape), fused);
    }
}

/// What Miri runs: blocks of tiles, whose rows and strips are used again.
#[test]
fn the_head_is_computed_by_several_threads() {
    let leaf = |count: usize| {
        let whole: Vec<f32> = (0..count).map(|n| (n % 7) as f32 - 3.0).collect();
        flat(whole, &Device::flex().autodiff()).require_grad()
    };
    for precision in [Precision::F32, Precision::Bf16] {
        let (hidden, weight) = (leaf(30 * 3), leaf(3 * 66));
        let targets = Tensor::from_ints([5; 30], &hidden.device());
        let loss = on_threads(2, || {
            let (hidden, weight) = (hidden.clone().reshape([1, 30, 3]), weight.clone().reshape([3, 66]));
            head_loss(hidden, weight, targets, None, precision)
        });
        let gradients = loss.backward();
        // The logits of a row keep their softmax where all move alike.
        let gradient = list(weight.grad(&gradients).unwrap());
        assert!(gradient.chunks(66).all(|channel| channel.iter().sum::<f32>().abs() < 0.02), "{precision}");
        assert!(list(hidden.grad(&gradients).unwrap()).iter().all(|x| x.is_finite()));
    }
}

#[test]
fn a_nan_is_not_hidden() {
    let device = Device::flex();
    for precision in [Precision::F32, Precision::Bf16] {
        for place in 0..70 {
            let mut weight = [[0.0; 70]];
            weight[0][place] = f32::NAN;
            let weight = || Tensor::<2>::from_floats(weight, &device);
            let hidden = || Tensor::<3>::ones([1, 1, 1], &device);
            let target = || Tensor::from_ints([0], &device);
            assert!(list(head_loss(hidden(), weight(), target(), None, precision))[0].is_nan(), "{place}");
            assert!(list(head_scores(hidden(), weight(), target(), precision).0)[0].is_nan(), "{place}");
        }
    }
}

#[test]
#[should_panic(expected = "class 3 of 3 classes")]
fn a_target_out_of_range_is_rejected() {
    let device = Device::flex();
    let weights = Some(Tensor::zeros([1], &device));
    let (hidden, weight) = (Tensor::zeros([1, 1, 2], &device), Tensor::zeros([2, 3], &device));
    head_loss(hidden, weight, Tensor::from_ints([3], &device), weights, Precision::F32);
}
