use crate::machine::device::adapter;
use crate::ops::head::tests::{WEIGHTINGS, assert_relatively_close, given, inputs, targets};
use crate::ops::head::{Engine, HeadLoss, reference};
use crate::testing::{assert_close, assert_fused_on, differentiate, list};
use crate::{Precision, head_loss, head_scores};
use burn::tensor::{Int, Tensor};

/// [`head_loss`] with so many rows at once.
fn on_gpu(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    precision: Precision,
    at_once: usize,
) -> Tensor<1> {
    let engine = Engine::of(precision);
    HeadLoss { targets, weights, precision, engine, at_once }.run(hidden, weight)
}

/// Classes that a vector divides and others, one block and many.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("the head on the GPU") else { return };
    for shape in [[1, 1, 1, 1], [1, 5, 3, 17], [2, 9, 8, 64], [3, 7, 5, 300]] {
        let rows = shape[0] * shape[1];
        for (weighting, at_once) in WEIGHTINGS.into_iter().zip([rows, 4, 1]) {
            let what = format!("{shape:?} {weighting:?}, {at_once} at once");
            assert_fused_on(&device, &what, &given(shape), |given| {
                let (hidden, weight) = inputs(given, shape, true);
                let weights = weighting.weights(rows, &given[0]);
                let targets = targets(rows, shape[3], &given[0].device());
                on_gpu(hidden, weight, targets, weights, Precision::F32, at_once)
            });
        }
    }
}

/// In half precision, by blocks: what is rounded is what the linear map and the loss round one after the other, but for the weights'
/// gradient, whose parts are.
#[test]
fn halves_by_blocks_agree_with_the_operations_one_after_the_other() {
    let Some(device) = adapter("the head in half precision on the GPU") else { return };
    let precisions = [Precision::F16, Precision::Bf16];
    for precision in precisions.into_iter().filter(|precision| precision.check("precision", &device).is_ok())
    {
        for (shape, at_once) in [([1, 5, 3, 17], 2), ([2, 9, 8, 64], 7), ([3, 7, 5, 300], 1)] {
            let rows = shape[0] * shape[1];
            for weighting in WEIGHTINGS {
                let run = |by_blocks: bool| {
                    differentiate(&device, &given(shape), |given| {
                        let (hidden, weight) = inputs(given, shape, true);
                        let targets = targets(rows, shape[3], &given[0].device());
                        let weights = weighting.weights(rows, &given[0]);
                        let loss = if by_blocks {
                            on_gpu(hidden, weight, targets, weights, precision, at_once)
                        } else {
                            reference::loss(reference::losses(hidden, weight, targets, precision), weights)
                        };
                        // As a loss is scaled.
                        loss.mul_scalar(1024.0)
                    })
                };
                let (what, [actual, expected]) =
                    (format!("{precision} {shape:?} {weighting:?}"), [true, false].map(run));
                let off = 2.0 * precision.unit_roundoff() as f32;
                assert_close(&what, &actual.0, &expected.0, off);
                for (index, (actual, expected)) in actual.1.iter().zip(&expected.1).enumerate() {
                    // A rounding for each block that a number is made of.
                    let blocks = if index == 1 { rows.div_ceil(at_once) } else { 1 };
                    let off = (1.0 + (blocks as f32).sqrt()) * precision.unit_roundoff() as f32;
                    assert_relatively_close(&format!("{what}: gradient {index}"), actual, expected, off);
                }
            }
        }
    }
}

/// Small gradients of f16 vanish without the scale of the loss, and not with it.
#[test]
fn the_scale_of_a_loss_keeps_small_gradients_of_f16() {
    let Some(device) = adapter("a scaled loss on the GPU") else { return };
    if Precision::F16.check("precision", &device).is_err() {
        return;
    }
    let of_hidden = |scale: f32| {
        let weights = Tensor::full([4], 1e-6_f32, &device);
        let device = device.clone().autodiff();
        let hidden = Tensor::<3>::ones([1, 4, 2], &device).mul_scalar(1e-3).require_grad();
        let weight = Tensor::<2>::ones([2, 512], &device);
        let targets = Tensor::zeros([4], &device);
        let loss = on_gpu(hidden.clone(), weight, targets, Some(weights), Precision::F16, 3);
        let gradients = loss.mul_scalar(scale).backward();
        list(hidden.grad(&gradients).unwrap()).into_iter().map(|x| x / scale).collect::<Vec<_>>()
    };
    // The slope of each of 511 classes is 1e-6 / 512, below what f16 has, and that of the target takes as much away as all.
    assert!(of_hidden(1.0).iter().all(|x| x.abs() > 5e-7), "only the target's slope is left");
    assert!(of_hidden(65_536.0).iter().all(|x| x.abs() < 1e-8), "all slopes add up to almost 0");
}

/// As many launches as the linear map, the loss and their gradients take one after the other: three products, the losses
/// with the logits' gradient, their sum, and the two gradients times that of the loss.
#[test]
fn a_block_takes_few_launches() {
    use crate::machine::device::counted;
    use crate::testing::tensor;
    use crate::{cross_entropy, linear, mean};
    let Some(device) = adapter("launches of the head") else { return };
    let device = device.autodiff();
    let run = |apart: bool| {
        let hidden = tensor::<3>(1, [2, 8, 16], &device).require_grad();
        let weight = tensor::<2>(2, [16, 64], &device).require_grad();
        let targets = targets(16, 64, &device);
        counted(|| {
            let loss = if apart {
                mean(cross_entropy(linear(hidden, weight, None).reshape([16, 64]), targets))
            } else {
                head_loss(hidden, weight, targets, None, Precision::F32)
            };
            loss.backward()
        })
        .1
    };
    let [fused, apart] = [run(false), run(true)];
    assert_eq!(fused.launches.get("LossKernel"), Some(&1), "{fused:#?}");
    assert!(fused.launched() <= apart.launched(), "{fused:#?} {apart:#?}");
}

#[test]
fn scores_agree_with_the_cpu() {
    let Some(gpu) = adapter("scores on the GPU") else { return };
    let shape = [2, 9, 8, 70];
    let [gpu, cpu] = [gpu, burn::tensor::Device::flex()].map(|device| {
        let given = given(shape).map(|values| crate::testing::flat(values, &device));
        let (hidden, weight) = inputs(&given, shape, true);
        let (losses, guesses) = head_scores(hidden, weight, targets(18, 70, &device), Precision::F32);
        (list(losses), guesses.into_data().iter::<i64>().collect::<Vec<_>>())
    });
    assert_close("losses", &gpu.0, &cpu.0, 2e-6);
    assert_eq!(gpu.1, cpu.1);
}

#[test]
fn a_nan_and_a_target_that_is_no_class_are_not_hidden() {
    let Some(device) = adapter("the head on the GPU") else { return };
    let loss = |number: f32, target: i32| {
        let weight = Tensor::<2>::from_floats([[0.0, number, 0.0]], &device);
        let targets = Tensor::from_ints([0, target], &device);
        let hidden = Tensor::<3>::ones([1, 2, 1], &device);
        list(head_loss(hidden, weight, targets, None, Precision::F32))[0]
    };
    assert!(loss(f32::NAN, 0).is_nan() && loss(0.0, 3).is_nan() && loss(0.0, -1).is_nan());
    assert!((loss(0.0, 2) - 3.0_f32.ln()).abs() < 1e-6);
}
