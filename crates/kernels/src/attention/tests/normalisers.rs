//! Other normalisers than the softmax in fused attention, against the reference.

use super::*;
use crate::attention::normaliser::tests::all;
use crate::testing::assert_matches_within;

/// LSSAR takes 1 off `N a`, which enlarges the rounding errors of its softplus: gradients in plain f32 are off by up to 3e-6, in the
/// fused form by 9e-6.
const OF_LSSAR: [f32; 2] = [2e-6, 1.2e-5];

#[test]
fn fused_attention_with_every_normaliser_agrees_with_the_reference() {
    let shape = Shape { queries: 35, keys: 75, key_heads: 1, ..PLAIN.shape };
    let cases = [
        PLAIN,
        Case { window: Some(9), ..PLAIN },
        Case { window: Some(9), sinks: 3, scaled: Some(1), ..PLAIN },
        Case { shape, offset: 40, scaled: Some(2), ..PLAIN },
        Case { shape, offset: 40, border: Some(23), ..PLAIN },
        // One of both pairs of q and k is out of reach.
        Case { shape, offset: 40, border: Some(75), ..PLAIN },
        Case { shape, offset: 40, border: Some(0), ..PLAIN },
    ];
    // A power of p makes rounding errors p times as large: its golden file holds the published 15.
    for normaliser in all(3) {
        let is_lssar = format!("{normaliser:?}").starts_with("Lssar");
        let tolerances = if is_lssar { OF_LSSAR } else { ROUNDING };
        for case in cases {
            for kind in BIAS_KINDS {
                let call = |inputs: &[Tensor<1>]| {
                    let (qkv, options) = case.call(kind, inputs);
                    (qkv, Attention { normaliser: Arc::clone(&normaliser), ..options })
                };
                let fused = |inputs: &[Tensor<1>]| {
                    let ([q, k, v], options) = call(inputs);
                    let Some(border) = case.border else { return attention(q, k, v, &options) };
                    attention_by_distance([q, k], case.far(inputs), v, border, &options)
                };
                let what = format!("{normaliser:?} {case:?} {kind:?}");
                // Both ranges have a form of their own in the reference.
                let by_reference = |x: &[Tensor<1>]| by_reference(|| fused(x));
                assert_matches_within(
                    tolerances,
                    &Device::flex(),
                    &what,
                    &case.inputs(kind),
                    fused,
                    by_reference,
                );
            }
        }
    }
}
