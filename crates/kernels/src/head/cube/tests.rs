use crate::device::adapter;
use crate::head::cube::head_loss as on_gpu;
use crate::head::tests::{WEIGHTINGS, given, inputs, plain, targets};
use crate::testing::assert_matches_on;
use crate::{Precision, head_loss, head_scores};
use burn::tensor::Tensor;

/// Classes that a vector divides and others, one block and many.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("the head on the GPU") else { return };
    for shape in [[1, 1, 1, 1], [1, 5, 3, 17], [2, 9, 8, 64], [3, 7, 5, 300]] {
        let rows = shape[0] * shape[1];
        for (weighting, at_once) in WEIGHTINGS.into_iter().zip([rows, 4, 1]) {
            assert_matches_on(
                &device,
                &format!("{shape:?} {weighting:?}, {at_once} at once"),
                &given(shape),
                |given| {
                    let (hidden, weight) = inputs(given, shape, true);
                    let weights = weighting.weights(rows, &device);
                    on_gpu(hidden, weight, targets(rows, shape[3], &device), weights, at_once)
                },
                |given| plain(given, shape, true, weighting),
            );
        }
    }
}

/// As many launches as the linear map, the loss and their gradients take one after the other: three products, the losses
/// with the logits' gradient, their sum, and the two gradients times that of the loss.
#[cfg(not(feature = "fusion"))]
#[test]
fn a_block_takes_few_launches() {
    use crate::device::counted;
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
    assert_eq!(fused.launches.get("HeadKernel"), Some(&1), "{fused:#?}");
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
        (crate::testing::list(losses), guesses.into_data().iter::<i64>().collect::<Vec<_>>())
    });
    crate::testing::assert_close("losses", &gpu.0, &cpu.0, 2e-6);
    assert_eq!(gpu.1, cpu.1);
}

#[test]
fn a_nan_and_a_target_that_is_no_class_are_not_hidden() {
    let Some(device) = adapter("the head on the GPU") else { return };
    let loss = |number: f32, target: i32| {
        let weight = Tensor::<2>::from_floats([[0.0, number, 0.0]], &device);
        let targets = Tensor::from_ints([0, target], &device);
        let hidden = Tensor::<3>::ones([1, 2, 1], &device);
        crate::testing::list(head_loss(hidden, weight, targets, None, Precision::F32))[0]
    };
    assert!(loss(f32::NAN, 0).is_nan() && loss(0.0, 3).is_nan() && loss(0.0, -1).is_nan());
    assert!((loss(0.0, 2) - 3.0_f32.ln()).abs() < 1e-6);
}
