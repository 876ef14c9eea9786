use super::*;
use crate::testing::{assert_matches, list, numbers, tensor};
use burn::tensor::Device;

const SHAPES: [[usize; 4]; 5] =
    [[1, 1, 1, 1], [2, 3, 37, 5], [1, 2, 50, 16], [2, 2, 41, 130], [1, 1, 3, 1000]];

type Kernel = fn(Tensor<4>) -> Shares;

/// Keys and queries swapped, so that the logits do not lie contiguously; the rest stands beside the weights.
fn call(inputs: &[Tensor<1>], [batch, heads, queries, keys]: [usize; 4], kernel: Kernel) -> Tensor<4> {
    let logits = inputs[0].clone().mul_scalar(4.0).reshape([batch, heads, keys, queries]).swap_dims(2, 3);
    let Shares { weights, rest } = kernel(logits);
    Tensor::cat(vec![weights, rest], 3)
}

/// Hides the last keys of each query, one fewer from query to query, and one key among the others.
fn hidden(seed: u64, [batch, heads, queries, keys]: [usize; 4]) -> Vec<f32> {
    let mut x = numbers(seed, batch * heads * queries * keys);
    for (index, x) in x.iter_mut().enumerate() {
        let (key, query) = (index / queries % keys, index % queries);
        if key > query % (keys + 1) || key == 3 && query % 4 == 1 {
            *x = f32::NEG_INFINITY;
        }
    }
    x
}

#[test]
fn agrees_with_the_reference() {
    for shape in SHAPES {
        for inputs in [numbers(1, shape.iter().product()), hidden(1, shape)] {
            assert_matches(
                &format!("stick-breaking {shape:?}"),
                &[inputs],
                |inputs| call(inputs, shape, stick_breaking),
                |inputs| call(inputs, shape, reference::stick_breaking),
            );
        }
    }
}

#[test]
fn either_output_alone_has_its_gradient() {
    let shape = [1, 2, 7, 40];
    let picks: [fn(Shares) -> Tensor<4>; 2] = [|shares| shares.weights, |shares| shares.rest];
    for pick in picks {
        let read = |kernel: Kernel| {
            let z = tensor::<4>(3, shape, &Device::flex().autodiff()).require_grad();
            let gradients = (pick(kernel(z.clone())) * 3.0).powi_scalar(2).sum().backward();
            list(z.grad(&gradients).unwrap())
        };
        crate::testing::assert_close(
            "gradient",
            &read(stick_breaking),
            &read(reference::stick_breaking),
            1e-6,
        );
    }
}

/// The definition, product by product, in f64.
#[test]
fn long_rows_of_large_logits_stay_exact() {
    let keys = 300;
    let z: Vec<f32> = numbers(5, keys).iter().map(|x| 90.0 * x - 60.0).collect();
    let shape = [1, 1, 1, keys];
    let logits = Tensor::<1>::from_floats(&z[..], &Device::flex()).reshape(shape);
    let Shares { weights, rest } = stick_breaking(logits);
    let mut left = 1.0_f64;
    for (z, weight) in z.iter().zip(list(weights)).rev() {
        let beta = 1.0 / (1.0 + (-f64::from(*z)).exp());
        let expected = beta * left;
        assert!((f64::from(weight) - expected).abs() <= 1e-4 * expected + 1e-37, "{weight} {expected}");
        left *= 1.0 / (1.0 + f64::from(*z).exp());
    }
    assert!((f64::from(list(rest)[0]) - left).abs() <= 1e-4 * left + 1e-37);
}

#[test]
fn a_query_that_sees_nothing_leaves_all() {
    let device = Device::flex().autodiff();
    for kernel in [stick_breaking as Kernel, reference::stick_breaking] {
        let z = Tensor::<4>::full([1, 1, 1, 20], f32::NEG_INFINITY, &device).require_grad();
        let Shares { weights, rest } = kernel(z.clone());
        assert_eq!((list(weights.clone()), list(rest.clone())), (vec![0.0; 20], vec![1.0]));
        let gradients = (weights.sum() + rest.sum()).backward();
        assert_eq!(list(z.grad(&gradients).unwrap()), [0.0; 20]);
    }
}

#[test]
fn a_nan_is_not_hidden() {
    let z = Tensor::<1>::from_floats([0.0, f32::NAN, 1.0, f32::NEG_INFINITY], &Device::flex());
    for kernel in [stick_breaking as Kernel, reference::stick_breaking] {
        let Shares { weights, rest } = kernel(z.clone().reshape([1, 1, 1, 4]));
        assert!(list(weights)[1].is_nan() && list(rest)[0].is_nan());
    }
}

#[test]
fn threads_change_no_bit() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let Shares { weights, rest } = stick_breaking(tensor::<4>(4, [2, 3, 50, 900], &Device::flex()));
            (list(weights), list(rest))
        })
    };
    assert_eq!(run(1), run(3));
}
