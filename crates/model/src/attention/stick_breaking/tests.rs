use crate::attention::{Rotations, attend};
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_kernels::{Shares, stick_breaking};
use longwave_position::encoding::{Dimensions, QueryBlock, Rows};
use longwave_position::reading::{AttentionKind, LogN, Remainder, StickBreaking};
use longwave_position::{Init, PositionConfig, Positions, Reading};

const HEADS: usize = 2;
const DIM: usize = 4;

fn logits(rows: &[&[f32]]) -> Tensor<4> {
    let shape = [1, 1, rows.len(), rows[0].len()];
    Tensor::from_data(TensorData::new(rows.concat(), shape), &Device::flex())
}

fn numbers(x: Tensor<4>) -> Vec<f32> {
    x.into_data().try_to_vec().unwrap()
}

fn largest(x: Tensor<4>) -> f32 {
    x.abs().max().into_scalar()
}

#[test]
fn shares_and_the_rest_add_up_to_one() {
    let logits = logits(&[
        &[0.3, -1.0, 2.0, f32::NEG_INFINITY],
        &[f32::NEG_INFINITY; 4],
        &[80.0, -80.0, 40.0, 1.0],
        &[0.0, 0.0, 0.0, 0.0],
    ]);
    let Shares { weights, rest } = stick_breaking(logits);
    let (weights, rest) = (numbers(weights), numbers(rest));
    for (row, rest) in weights.chunks(4).zip(&rest) {
        assert!((row.iter().sum::<f32>() + rest - 1.0).abs() < 1e-6, "{row:?} {rest}");
    }
    assert_eq!((&weights[4..8], rest[1]), ([0.0; 4].as_slice(), 1.0), "nothing is visible");
    assert_eq!(weights[3], 0.0);
    let halves = [0.0625, 0.125, 0.25, 0.5];
    assert!(weights[12..].iter().zip(halves).all(|(found, half)| (found - half).abs() < 1e-7));
}

#[test]
fn products_in_the_log_stay_exact_over_many_keys() {
    // beta = 1/2: the 200th key has 2^-200, far below f32.
    let z = Tensor::<4>::zeros([1, 1, 1, 200], &Device::flex());
    let weights = numbers(stick_breaking(z).weights);
    for (age, weight) in weights.iter().rev().enumerate() {
        let expected = 0.5f64.powi(age as i32 + 1) as f32;
        assert!((weight - expected).abs() <= 1e-3 * expected.max(1e-30), "{age}: {weight}");
    }
}

fn reading(position: &str, attend_current: bool, remainder: Remainder) -> Reading {
    let dimensions = Dimensions {
        layers: 1,
        width: HEADS * DIM,
        heads: HEADS,
        kv_heads: HEADS,
        head_dim: DIM,
        train_length: 8,
        vocab_size: 16,
    };
    let kind = AttentionKind::StickBreaking(StickBreaking { attend_current, remainder });
    PositionConfig::from_value(&toml::Value::String(position.to_owned()), "position")
        .and_then(|config| config.build("position", &dimensions, &Init::new(0, &Device::flex()), LogN::Off))
        .and_then(|reading| reading.with_attention(kind))
        .unwrap()
}

fn qkv(length: usize, device: &Device) -> [Tensor<4>; 3] {
    let init = Init::new(3, device);
    ["q", "k", "v"].map(|name| init.normal(name, [1, HEADS, length, DIM], 1.5).val())
}

fn attended(reading: &Reading, [q, k, v]: [Tensor<4>; 3], queries: std::ops::Range<usize>) -> Tensor<4> {
    let length = k.dims()[2];
    let tokens = Tensor::<2, Int>::zeros([1, length], &q.device());
    let input = Tensor::zeros([1, length, HEADS * DIM], &q.device());
    let positions = Positions::range(0..length);
    let block = QueryBlock { rows: Rows::new(0, &tokens, &positions), queries: &queries, input: &input };
    attend([q, k, v], 0.5, block, reading, &mut Rotations::default())
}

#[test]
fn older_keys_change_nothing_of_the_weights_of_newer_ones() {
    // Values that are columns of the identity give the weights.
    let length = 8;
    let device = Device::flex();
    let [q, k, _] = qkv(length, &device);
    let reading = reading("none", false, Remainder::Drop);
    let eye = Tensor::<2>::eye(length, &device).unsqueeze::<4>().expand([1, HEADS, length, length]);
    let whole = attended(&reading, [q.clone(), k.clone(), eye.clone()], 0..length);
    let without_first = k.clone().slice_assign([0..1, 0..HEADS, 0..3, 0..DIM], k.slice_dim(2, 0..3).neg());
    let other = attended(&reading, [q, without_first, eye], 0..length);
    let newer = |x: &Tensor<4>| x.clone().slice_dim(3, 3..length);
    assert_eq!(numbers(newer(&whole)), numbers(newer(&other)));
    assert!(largest(whole - other) > 1e-3);
}

#[test]
fn blocks_of_queries_and_a_query_alone_give_the_same() {
    for position in ["none", "rope", "alibi"] {
        let reading = reading(position, false, Remainder::Value);
        let [q, k, v] = qkv(200, &Device::flex());
        let whole = attended(&reading, [q.clone(), k.clone(), v.clone()], 0..200);
        for queries in [0..1, 63..64, 130..200] {
            let some = [q.clone().slice_dim(2, queries.clone()), k.clone(), v.clone()];
            let found = attended(&reading, some, queries.clone());
            assert!(largest(found - whole.clone().slice_dim(2, queries)) < 1e-5, "{position}");
        }
        let own = numbers(whole.slice_dim(2, 0..1) - v.slice_dim(2, 0..1));
        assert!(own.iter().all(|x| x.abs() < 1e-6), "the first query has nothing but its own value");
    }
}

#[test]
fn gradients_are_slopes() {
    let device = Device::flex().autodiff();
    for (attend_current, remainder) in [(false, Remainder::Value), (true, Remainder::Drop)] {
        let reading = reading("none", attend_current, remainder);
        let leaves = qkv(9, &device).map(|x| Tensor::<4>::from_data(x.into_data(), &device).require_grad());
        let weigh =
            |device: &Device| Init::new(5, device).normal::<4>("weigh", [1, HEADS, 9, DIM], 1.0).val();
        let loss = |qkv: [Tensor<4>; 3]| {
            let device = qkv[0].device();
            (attended(&reading, qkv, 0..9) * weigh(&device)).sum()
        };
        let gradients = loss(leaves.clone()).backward();
        let plain = leaves.clone().map(Tensor::inner);
        for (index, leaf) in leaves.iter().enumerate() {
            let gradient = leaf.grad(&gradients).unwrap();
            let direction = Init::new(9, &Device::flex()).normal::<4>("along", leaf.dims(), 1.0).val();
            let slope: f32 = (gradient * direction.clone()).sum().into_scalar();
            let at = |step: f64| -> f32 {
                let mut moved = plain.clone();
                moved[index] = moved[index].clone() + direction.clone().mul_scalar(step);
                loss(moved).into_scalar()
            };
            let found = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!(
                slope.is_finite() && (slope - found).abs() < 2e-2 * slope.abs().max(1.0),
                "{index}: {slope} {found}"
            );
        }
    }
}
