//! Every bias over shapes, windows, offsets and query scales.

use super::*;

#[test]
fn every_bias_in_every_case() {
    for (case, kinds) in cases() {
        for kind in kinds {
            case.check(kind);
        }
    }
}

/// Where logits reach some hundreds, each row's weights sum to 1 but for 1e-5. Distances enlarge what that adds to the gradient of slopes, to
/// 2e-3 if it is not taken away.
#[test]
fn steep_slopes_have_their_gradient() {
    let shape = Shape { heads: 4, queries: 3, keys: 300, ..PLAIN.shape };
    let case = Case { shape, offset: 297, scaled: Some(2), ..PLAIN };
    let mut inputs = case.inputs(BiasKind::Slopes);
    inputs[3].iter_mut().for_each(|slope| *slope *= 8.0);
    let run = |inputs: &[Tensor<1>]| case.fused(BiasKind::Slopes, inputs);
    let [fused, exact] = [
        differentiate(&Device::flex(), &inputs, run),
        differentiate_in(DType::F64, &Device::flex(), &inputs, |inputs| by_reference(|| run(inputs))),
    ];
    assert_close("the gradient of slopes", &fused.1[3], &exact.1[3], 5e-5);
}
