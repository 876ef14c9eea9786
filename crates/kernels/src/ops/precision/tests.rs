use super::*;
use crate::linear;
use crate::testing::{flat, list, numbers, on_threads, tensor};

const HALVES: [Precision; 2] = [Precision::F16, Precision::Bf16];

/// `[batch, length, in, out]`.
const SHAPE: [usize; 4] = [2, 9, 700, 5];

/// The number of the precision nearest to x, ties to even.
fn rounded(precision: Precision, x: f32) -> f32 {
    let wide = f64::from(x);
    // The lowest bit of the significand, or of subnormal numbers.
    let lowest = match precision {
        Precision::F32 => return x,
        Precision::F16 => (wide.abs().log2().floor() - 10.0).max(-24.0),
        Precision::Bf16 => (wide.abs().log2().floor() - 7.0).max(-133.0),
    };
    let unit = 2.0_f64.powf(lowest);
    if x == 0.0 { 0.0 } else { ((wide / unit).round_ties_even() * unit) as f32 }
}

fn all_rounded(precision: Precision, values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| rounded(precision, *x)).collect()
}

/// `a [rows, inner]` times `b [inner, columns]` by definition, in f64.
fn times(a: &[f32], b: &[f32], inner: usize) -> Vec<f64> {
    let columns = b.len() / inner;
    a.chunks(inner)
        .flat_map(|row| {
            (0..columns).map(move |column| {
                row.iter().enumerate().map(|(n, a)| f64::from(*a) * f64::from(b[n * columns + column])).sum()
            })
        })
        .collect()
}

fn transposed(a: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| a.iter().skip(column).step_by(columns).copied()).collect()
}

/// Holds values against f64's, of which one rounding to half and sums in f32 may separate them.
#[track_caller]
fn check(what: &str, precision: Precision, actual: &[f32], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len());
    assert_eq!(all_rounded(precision, actual), actual, "{what}: not of {precision}");
    // 700 terms of up to 1 in f32, far below the rounding: sums that were rounded to f16 on the way would show.
    let sum = 1e-5;
    for (actual, expected) in actual.iter().zip(expected) {
        let off = (f64::from(*actual) - expected).abs();
        assert!(off <= precision.unit_roundoff() * expected.abs() + sum, "{what}: {actual}, not {expected}");
    }
}

#[test]
fn casts_round_to_the_nearest() {
    let values: Vec<f32> = numbers(1, 500).iter().map(|x| x * 2.0_f32.powi((x * 1e4) as i32 % 16)).collect();
    for precision in HALVES {
        let cast = flat(values.clone(), &Device::flex()).cast(precision.dtype()).cast(DType::F32);
        assert_eq!(list(cast), all_rounded(precision, &values));
    }
}

#[test]
fn factors_and_result_are_rounded_and_nothing_else() {
    for precision in HALVES {
        only_factors_and_result_are_rounded(precision, &Device::flex());
    }
}

#[cfg(feature = "gpu")]
#[test]
fn on_the_gpu_too_and_sums_are_in_f32() {
    let Some(gpu) = crate::machine::device::adapter("products in half precision") else { return };
    for precision in HALVES.into_iter().filter(|half| half.check("", &gpu).is_ok()) {
        only_factors_and_result_are_rounded(precision, &gpu);
    }
}

#[cfg(feature = "gpu")]
#[test]
fn activations_of_halves_agree_on_the_gpu() {
    let Some(gpu) = crate::machine::device::adapter("activations in half precision") else { return };
    for precision in HALVES.into_iter().filter(|half| half.check("", &gpu).is_ok()) {
        for activation in [crate::gelu, crate::swiglu] {
            let run = |device: &Device| {
                let device = device.clone().autodiff();
                let x = flat(numbers(1, 240).iter().map(|x| 4.0 * x).collect(), &device).require_grad();
                let calls = crate::op::calls();
                let y = activation(x.clone().cast(precision.dtype()).reshape([2, 10, 12]));
                assert!(crate::op::calls() > calls && y.dtype() == precision.dtype());
                let y = y.cast(DType::F32);
                let gradients = (y.clone() * tensor::<3>(2, y.dims(), &device)).sum().backward();
                (list(y), list(x.grad(&gradients).unwrap()))
            };
            let ((y, x), (y_cpu, x_cpu)) = (run(&gpu), run(&Device::flex()));
            // Rounding errors of f32 may tip a rounding to half.
            let off = 2.0 * precision.unit_roundoff() as f32;
            crate::testing::assert_close("values", &y, &y_cpu, off);
            crate::testing::assert_close("gradient", &x, &x_cpu, off);
        }
    }
}

fn only_factors_and_result_are_rounded(precision: Precision, device: &Device) {
    let [batch, length, inputs, outputs] = SHAPE;
    let rows = batch * length;
    let device = device.clone().autodiff();
    for added in [false, true] {
        let leaf = |seed, count| flat(numbers(seed, count), &device).require_grad();
        let (x, w) = (leaf(1, rows * inputs), leaf(2, inputs * outputs));
        let onto = added.then(|| leaf(3, rows * outputs));
        let shaped = |onto: &Tensor<1>| onto.clone().reshape([batch, length, outputs]);
        let (x3, w2) = (x.clone().reshape([batch, length, inputs]), w.clone().reshape([inputs, outputs]));
        let out = if added {
            precision.into_stream(x3, w2, onto.as_ref().map(shaped))
        } else {
            let out = precision.linear(x3.clone(), w2.clone());
            assert_eq!(out.dtype(), precision.dtype());
            let stream = precision.into_stream(x3, w2, None);
            assert_eq!(stream.dtype(), DType::F32);
            assert_eq!(list(stream), list(out.clone().cast(DType::F32)));
            out.cast(DType::F32)
        };
        let weights = tensor::<3>(4, out.dims(), &device);
        let gradients = (out.clone() * weights.clone()).sum().backward();

        let [x_half, w_half, g_half] = [list(x.clone()), list(w.clone()), list(weights.clone())]
            .map(|values| all_rounded(precision, &values));
        let product = times(&x_half, &w_half, inputs);
        let product_out = match &onto {
            Some(onto) => list(out - shaped(onto)),
            None => list(out),
        };
        if added {
            // The addition is in f32: what is left of the product is as good as that.
            for (actual, expected) in product_out.iter().zip(&product) {
                let off = (f64::from(*actual) - expected).abs();
                assert!(off <= precision.unit_roundoff() * expected.abs() + 1e-5, "{actual} {expected}");
            }
            let gradient = list(onto.unwrap().grad(&gradients).unwrap());
            assert_eq!(gradient, list(weights), "the stream's gradient is not rounded");
        } else {
            check("product", precision, &product_out, &product);
        }
        let x_gradient = times(&g_half, &transposed(&w_half, outputs), outputs);
        check("gradient of x", precision, &list(x.grad(&gradients).unwrap()), &x_gradient);
        let w_gradient = times(&transposed(&x_half, inputs), &g_half, rows);
        check("gradient of w", precision, &list(w.grad(&gradients).unwrap()), &w_gradient);
    }
}

#[test]
fn in_f32_it_is_the_linear_map_itself() {
    let device = Device::flex();
    let (x, w) = (tensor::<3>(1, [2, 3, 8], &device), tensor::<2>(2, [8, 5], &device));
    let plain = list(linear(x.clone(), w.clone(), None));
    assert_eq!(list(Precision::F32.linear(x.clone(), w.clone())), plain);
    let onto = tensor::<3>(3, [2, 3, 5], &device);
    let plain = list(linear(x.clone(), w.clone(), Some(onto.clone())));
    assert_eq!(list(Precision::F32.into_stream(x, w, Some(onto))), plain);
}

#[test]
fn halves_repeat_bit_for_bit_whatever_the_number_of_threads() {
    let device = Device::flex();
    for precision in HALVES {
        let products = || {
            let (x, w) = (tensor::<3>(1, [3, 250, 96], &device), tensor::<2>(2, [96, 200], &device));
            list(crate::gelu(precision.linear(x, w)).cast(DType::F32))
        };
        assert_eq!(on_threads(1, products), on_threads(3, products));
    }
}

#[test]
fn what_computes_in_f32_takes_halves() {
    let device = Device::flex();
    for precision in HALVES {
        let half = |x: Tensor<3>| x.cast(precision.dtype());
        let packed = tensor::<3>(1, [2, 4, 12], &device);
        let heads = crate::Heads { query: 1, key_value: 1, head_dim: 4 };
        let (q, _, v) = crate::split_rotate(half(packed.clone()), heads, None, None);
        let (q_wide, _, v_wide) = crate::split_rotate(half(packed).cast(DType::F32), heads, None, None);
        assert_eq!((q.dtype(), list(q)), (DType::F32, list(q_wide)));
        assert_eq!(list(v), list(v_wide));
        let logits = tensor::<2>(2, [4, 7], &device).cast(precision.dtype());
        let targets = || Tensor::from_ints([0, 3, 6, 2], &device);
        let losses = crate::cross_entropy(logits.clone(), targets());
        assert_eq!(losses.dtype(), DType::F32);
        assert_eq!(list(losses), list(crate::cross_entropy(logits.cast(DType::F32), targets())));
    }
}

#[test]
fn the_cpu_computes_in_all() {
    for precision in Precision::ALL {
        precision.check("train.precision", &Device::flex()).unwrap();
        let json = serde_json::to_string(&precision).unwrap();
        assert_eq!(json, format!("\"{precision}\""));
    }
}

#[cfg(feature = "gpu")]
#[test]
fn a_precision_that_the_gpu_lacks_is_refused_with_those_that_it_has() {
    let Some(gpu) = crate::machine::device::adapter("precisions of the GPU") else { return };
    Precision::F32.check("train.precision", &gpu).unwrap();
    for precision in HALVES {
        let Err(error) = precision.check("train.precision", &gpu) else {
            assert!(gpu.supports_dtype(precision.dtype()));
            continue;
        };
        assert_eq!(error.exit_code(), 2);
        assert!(error.message().starts_with(&format!("`train.precision = \"{precision}\"`")), "{error}");
        assert!(error.message().contains("\"f32\"") && error.hint_text().unwrap().contains("--device cpu"));
    }
}
