//! Every fused operation, values and gradients, against plain tensor operations on the CPU.

use super::operation::{Operation, flat};
use super::{Checked, Each, Finding, list, of_encodings};
use crate::numbers;
use burn::tensor::{Device, Tensor};
use longwave_core::Result;
use longwave_kernels::{
    AdamW, AdamWState, Attention, Bias, Heads, Layout, OPERATIONS, Precision, RotationTable, adamw_all,
    attention, attention_by_distance, clip_factor, gelu, rotate, split_rotate, sums_of_squares,
};
use longwave_position::Positions;
use longwave_position::frequency::{Frequencies, Rotation};

/// Operations in f32: rotations of `turned` rows, attention in texts of `read`, and operations on `rows` rows.
pub(super) fn every(turned: usize, read: usize, rows: usize) -> Vec<Operation> {
    let of_encodings = of_encodings::operations(read);
    [rotations(turned), attentions(read), of_encodings, by_rows(rows)].into_iter().flatten().collect()
}

pub(super) fn all(checked: &Checked, each: &mut Each<'_>) -> Result<()> {
    for operation in every(37, 67, 19) {
        each(format!("kernel: {}", operation.name), &mut || operation.check(checked, Precision::F32))?;
    }
    for half in [Precision::F16, Precision::Bf16] {
        let operation = feed_forward(half, 19);
        each(format!("kernel: {}", operation.name), &mut || match half.check("", &checked.device) {
            Ok(()) => operation.check(checked, half),
            Err(_) => Ok("the device does not compute in it".to_owned()),
        })?;
    }
    each("kernel: adamw".to_owned(), &mut || update(checked))
}

/// Heads that share keys, and channels that no vector width divides.
const HEADS: Heads = Heads { query: 4, key_value: 2, head_dim: 10 };

/// What is turned: the layout and so many of the channels.
const ROTATIONS: [(Layout, usize); 3] = [(Layout::Half, 10), (Layout::Interleaved, 10), (Layout::Half, 6)];

fn name_of((layout, rotated): (Layout, usize)) -> String {
    format!("{layout:?}, {rotated} of 10 channels").to_lowercase()
}

/// Positions past 65,536.
fn table_of((layout, rotated): (Layout, usize), length: usize, device: &Device) -> RotationTable {
    let frequencies = Frequencies::geometric(10_000.0, rotated);
    let positions = Positions::range(70_000..70_000 + length);
    let [table, _] = Rotation::new(frequencies, layout).tables(&positions, device);
    table
}

fn rotations(length: usize) -> Vec<Operation> {
    let mut operations = Vec::new();
    for rotation in ROTATIONS {
        let name = name_of(rotation);
        operations.push(Operation::new(format!("rotate, {name}"), &[2 * 4 * length * 10], move |inputs| {
            // Heads and rows arrive transposed, so that they do not lie contiguously.
            let x = inputs[0].clone().reshape([2, length, 4, 10]).swap_dims(1, 2);
            let table = table_of(rotation, length, &x.device());
            flat(rotate(x, &table))
        }));
        let sizes = [2 * length * HEADS.packed()];
        operations.push(Operation::new(format!("split and rotate, {name}"), &sizes, move |inputs| {
            let packed = inputs[0].clone().reshape([2, length, HEADS.packed()]);
            let table = table_of(rotation, length, &packed.device());
            let (q, k, v) = split_rotate(packed, HEADS, Some(&table), Some(&table));
            Tensor::cat(vec![flat(q), flat(k), flat(v)], 0)
        }));
    }
    operations
}

fn attentions(length: usize) -> Vec<Operation> {
    let shape = [2, 4, length, 10];
    let (queries, keys) = (2 * 4 * length * 10, 2 * 2 * length * 10);
    let kinds: [(&str, &[usize]); 5] = [
        ("no bias", &[]),
        ("bias by distance", &[4 * length]),
        ("slopes", &[4]),
        ("bias by pairs", &[2 * 4 * length, 2 * 4 * length]),
        ("bias by block", &[4 * length * length]),
    ];
    let mut operations = Vec::new();
    for (kind, sizes) in kinds {
        for (window, sinks) in [(None, 0), (Some(20), 3)] {
            let name = if window.is_some() { format!("{kind}, window and sinks") } else { kind.to_owned() };
            let sizes = [&[queries, keys, keys], sizes].concat();
            operations.push(Operation::new(format!("attention, {name}"), &sizes, move |inputs| {
                let input = |index: usize| inputs[index].clone();
                let bias = match kind {
                    "bias by distance" => Bias::ByDistance(input(3).reshape([4, length])),
                    // Slopes of the size that ALiBi has: large negative ones would make every softmax a single key.
                    "slopes" => Bias::Slopes(input(3).abs().mul_scalar(0.25)),
                    "bias by pairs" => Bias::Pair {
                        query: input(3).reshape([2, 4, length]),
                        key: input(4).reshape([2, 4, length]),
                    },
                    "bias by block" => Bias::Block(input(3).reshape([1, 4, length, length])),
                    _ => Bias::None,
                };
                let [k, v] = [1, 2].map(|index| input(index).reshape([2, 2, length, 10]));
                let options = Attention { bias, window, sinks, ..Attention::causal(10) };
                flat(attention(input(0).reshape(shape), k, v, &options))
            }));
        }
    }
    let many = 3 * length + 300;
    let sizes = [2 * 4 * 3 * 10, 2 * 2 * many * 10, 2 * 2 * many * 10];
    operations.push(Operation::new(
        "attention, 3 queries over many keys".to_owned(),
        &sizes,
        move |inputs| {
            let [k, v] = [1, 2].map(|index| inputs[index].clone().reshape([2, 2, many, 10]));
            let options = Attention { query_offset: many - 3, ..Attention::causal(10) };
            flat(attention(inputs[0].clone().reshape([2, 4, 3, 10]), k, v, &options))
        },
    ));
    for (window, sinks, near) in [(None, 0, 17), (Some(30), 3, 20)] {
        let name = if window.is_some() { ", window and sinks" } else { "" };
        let sizes = [queries, keys, keys, queries, keys];
        operations.push(Operation::new(format!("attention, two rotations{name}"), &sizes, move |inputs| {
            let query = |index: usize| inputs[index].clone().reshape(shape);
            let key = |index: usize| inputs[index].clone().reshape([2, 2, length, 10]);
            let options = Attention { window, sinks, ..Attention::causal(10) };
            flat(attention_by_distance([query(0), key(1)], [query(3), key(4)], key(2), near, &options))
        }));
    }
    operations
}

fn by_rows(rows: usize) -> Vec<Operation> {
    let operation = |known: &longwave_kernels::Operation| {
        let longwave_kernels::Operation { name, sizes, run } = *known;
        Operation::new(name, &sizes(rows), move |inputs| run(inputs, rows))
    };
    OPERATIONS.iter().map(operation).collect()
}

/// Linear maps and an activation in half precision.
pub(super) fn feed_forward(half: Precision, rows: usize) -> Operation {
    const WIDTH: usize = 74;
    const INNER: usize = 38;
    Operation::new(
        format!("linear and gelu in {half}"),
        &[rows * WIDTH, WIDTH * INNER, INNER * WIDTH],
        move |inputs| {
            let x = inputs[0].clone().reshape([1, rows, WIDTH]);
            let inner = half.linear(x.clone(), inputs[1].clone().reshape([WIDTH, INNER]));
            flat(half.into_stream(gelu(inner), inputs[2].clone().reshape([INNER, WIDTH]), Some(x)))
        },
    )
}

fn update(checked: &Checked) -> Finding {
    let options = AdamW {
        learning_rate: 1e-2,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        weight_decay: 0.1,
        step: 3,
        gradient_scale: 0.5,
    };
    // Several parameters, whose gradients are clipped where they lie.
    let run = |device: &Device| {
        let given: Vec<_> = [1003, 1, 2048]
            .into_iter()
            .map(|count| {
                let of = |name: &str| numbers::tensor::<1>(&format!("{name} {count}"), [count], device);
                let state = AdamWState { parameter: of("p"), m: of("m"), v: of("v").abs() };
                (state, of("g"), options)
            })
            .collect();
        let gradients: Vec<Tensor<1>> = given.iter().map(|(_, gradient, _)| gradient.clone()).collect();
        let clip = clip_factor(sums_of_squares(&gradients), 1.0);
        let updated = adamw_all(given, Some(clip)).into_iter();
        updated
            .flat_map(|AdamWState { parameter, m, v }| [parameter, m, v].map(list).concat())
            .collect::<Vec<_>>()
    };
    let [actual, expected] = checked.both(run);
    checked.compare("values", &actual, &expected).map(|worst| format!("within {worst:.1e}"))
}
