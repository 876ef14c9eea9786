use super::*;
use crate::testing::{assert_close, assert_matches_reference_on, list, numbers, on_threads, tensor};
use burn::tensor::activation;

const SHAPES: [[usize; 4]; 5] =
    [[1, 1, 1, 1], [2, 3, 5, 37], [1, 2, 16, 50], [2, 2, 41, 130], [1, 1, 3, 1000]];

pub(in crate::attention) fn all(power: u32) -> Vec<Arc<dyn Normaliser>> {
    let stick = |attend_current, rest_to_own| Arc::new(StickBreaking { attend_current, rest_to_own });
    vec![
        Arc::new(Softmax),
        entmax(1.001),
        entmax(1.25),
        entmax(1.5),
        entmax(2.0),
        Arc::new(Lssar { power: None }),
        Arc::new(Lssar { power: Some(1) }),
        Arc::new(Lssar { power: Some(power) }),
        stick(false, true),
        stick(true, true),
        stick(true, false),
    ]
}

fn rows(rows: &[&[f32]], device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(rows.concat(), [1, 1, rows.len(), rows[0].len()]), device)
}

/// The place of the first query: the last one's own key is the last key.
fn first([_, _, queries, keys]: [usize; 4]) -> usize {
    keys.saturating_sub(queries)
}

/// Scores that do not lie contiguously: of all keys up to the query's own, and of some of them.
fn scores(inputs: &[Tensor<1>], shape @ [batch, heads, queries, keys]: [usize; 4], some: bool) -> Tensor<4> {
    let x = inputs[0].clone().mul_scalar(4.0).reshape([batch, heads, keys, queries]).swap_dims(2, 3);
    let shown = |query, key| key <= query && !(some && (key == 3 || query % 4 == 1));
    let hidden = of_places([queries, keys], first(shape), |query, key| !shown(query, key), &x.device());
    x.mask_fill(hidden.expand(shape), f32::NEG_INFINITY)
}

#[test]
fn every_normaliser_agrees_with_its_plain_form() {
    for normaliser in all(15) {
        for shape in SHAPES {
            for some in [false, true] {
                assert_matches_reference_on(
                    &Device::flex(),
                    &format!("{normaliser:?} {shape:?}"),
                    &[numbers(1, shape.iter().product())],
                    |inputs| normalise(scores(inputs, shape, some), &normaliser, first(shape)),
                    |inputs| normaliser.plain(scores(inputs, shape, some), first(shape)),
                );
            }
        }
    }
}

/// Along a direction, by central differences.
#[test]
fn gradients_are_slopes() {
    let (shape, device) = ([1, 2, 9, 12], Device::flex());
    let weigh = tensor::<4>(7, shape, &device);
    let along = tensor::<1>(8, [216], &device);
    for normaliser in all(15) {
        let loss = |x: Tensor<1>| {
            (normalise(scores(&[x], shape, false), &normaliser, first(shape)) * weigh.clone()).sum()
        };
        let x = tensor::<1>(9, [216], &device);
        let leaf = Tensor::<1>::from_data(x.clone().into_data(), &device.clone().autodiff()).require_grad();
        let gradients = loss(leaf.clone()).backward();
        let slope: f32 = (leaf.grad(&gradients).unwrap() * along.clone()).sum().into_scalar();
        let at = |step: f64| loss(x.clone() + along.clone().mul_scalar(step)).into_scalar::<f32>();
        let found = (at(5e-3) - at(-5e-3)) / 1e-2;
        assert!((slope - found).abs() < 1e-2 * slope.abs().max(1.0), "{normaliser:?}: {slope} {found}");
    }
}

#[test]
fn the_softmax_is_that_of_burn_where_a_score_is_seen() {
    let x = tensor::<4>(2, [1, 3, 7, 20], &Device::flex().autodiff()).mul_scalar(9.0);
    assert_eq!(list(Softmax.plain(x.clone(), 0)), list(activation::softmax(x, 3)));
}

#[test]
fn entmax_near_one_is_almost_a_softmax() {
    let row = [1.0, 0.3, -2.0, 0.9];
    let of = |alpha| list(normalise(rows(&[&row], &Device::flex()), &entmax(alpha), 0));
    assert_close("almost a softmax", &of(1.000_01), &of(1.0), 1e-4);
}

/// Whatever the alpha, the length and the size of scores.
#[test]
fn entmax_adds_up_to_one() {
    for alpha in [1.0001, 1.1, 1.25, 1.5, 1.75, 1.999, 2.0] {
        for (keys, size) in [(5, 100.0), (1000, 0.01), (16_384, 1.0), (16_384, 30.0)] {
            let x = tensor::<4>(3, [1, 1, 2, keys], &Device::flex()).mul_scalar(size);
            let weights = list(normalise(x, &entmax(alpha), keys - 2));
            for row in weights.chunks(keys) {
                let sum: f64 = row.iter().map(|p| f64::from(*p)).sum();
                assert!((sum - 1.0).abs() < 1e-5, "{alpha}, {keys} keys of size {size}: {sum}");
            }
        }
    }
}

/// `2,000^15` leaves f32.
#[test]
fn powers_of_many_keys_do_not_overflow() {
    let mut row = [-9.0; 2000];
    row[7] = 9.0;
    let lssar = Lssar { power: Some(15) };
    let weights = list(normalise(rows(&[&row], &Device::flex()), &(Arc::new(lssar) as _), 1999));
    assert!((weights[7] - 1.0).abs() < 1e-6, "{}", weights[7]);
}

/// The definition, product by product, in f64.
#[test]
fn a_long_stick_of_large_logits_stays_exact() {
    let keys = 300;
    let z: Vec<f32> = numbers(5, keys).iter().map(|x| 90.0 * x - 60.0).collect();
    let stick = StickBreaking { attend_current: true, rest_to_own: false };
    let weights = list(normalise(rows(&[&z], &Device::flex()), &(Arc::new(stick) as _), keys - 1));
    let mut left = 1.0_f64;
    for (z, weight) in z.iter().zip(weights).rev() {
        let expected = left / (1.0 + (-f64::from(*z)).exp());
        assert!((f64::from(weight) - expected).abs() <= 1e-4 * expected + 1e-37, "{weight} {expected}");
        left /= 1.0 + f64::from(*z).exp();
    }
}

#[test]
fn the_rest_of_a_stick_goes_to_the_own_value() {
    let z = rows(&[&[0.0, 0.0, 0.0, 5.0]], &Device::flex());
    let of = |attend_current, rest_to_own, first| {
        let stick = StickBreaking { attend_current, rest_to_own };
        list(normalise(z.clone(), &(Arc::new(stick) as _), first))
    };
    assert_close("dropped", &of(false, false, 3), &[0.125, 0.25, 0.5, 0.0], 1e-6);
    assert_close("to the own value", &of(false, true, 3), &[0.125, 0.25, 0.5, 0.125], 1e-6);
    assert_close("the first query", &of(false, true, 0), &[1.0, 0.0, 0.0, 0.0], 1e-6);
    assert_close("its own key too", &of(true, true, 1), &[0.25, 0.75, 0.0, 0.0], 1e-6);
}

#[test]
fn rows_without_a_score_give_zeros_and_no_gradient() {
    let device = Device::flex().autodiff();
    for normaliser in all(15) {
        for fused in [true, false] {
            let x = Tensor::<4>::full([1, 1, 1, 20], f32::NEG_INFINITY, &device).require_grad();
            let weights =
                if fused { normalise(x.clone(), &normaliser, 19) } else { normaliser.plain(x.clone(), 19) };
            let mut expected = vec![0.0; 20];
            // The rest of a stick is all of it.
            expected[19] = list(weights.clone())[19].round();
            assert_eq!(list(weights.clone()), expected, "{normaliser:?}");
            let gradients = (weights * 3.0).powi_scalar(2).sum().backward();
            assert_eq!(list(x.grad(&gradients).unwrap()), [0.0; 20], "{normaliser:?}");
        }
    }
}

#[test]
fn a_nan_is_not_hidden() {
    for row in [[f32::NAN; 3], [f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY], [0.0, f32::NAN, 1.0]] {
        for normaliser in all(15) {
            let weights = list(normalise(rows(&[&row], &Device::flex()), &normaliser, 2));
            assert!(weights.iter().any(|p| p.is_nan()), "{normaliser:?}, {row:?}: {weights:?}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for normaliser in all(15) {
        let weights = || list(normalise(tensor::<4>(4, [1, 3, 50, 900], &Device::flex()), &normaliser, 850));
        assert_eq!(on_threads(1, weights), on_threads(3, weights), "{normaliser:?}");
    }
}
