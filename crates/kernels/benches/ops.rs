//! Times of the fused operations beside their references, at the size of a small GPT.
//!
//! `cargo bench --profile dev -p longwave-kernels --bench ops [-- NAME] [--fused-only]`; one line per
//! operation and direction.

#![allow(clippy::print_stdout, reason = "the report is the purpose")]

use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_kernels::{
    AdamW, Attention, Bias, Heads, Layout, Precision, RelativeVectors, RotationTable, VectorTable, adamw,
    attention, cross_entropy, gelu, head_loss, layer_norm, linear, rms_norm, split_rotate, swiglu,
    use_reference,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const BATCH: usize = 32;
const LENGTH: usize = 128;
const WIDTH: usize = 128;
const HEADS: usize = 4;
const HEAD_DIM: usize = WIDTH / HEADS;
const CLASSES: usize = 512;
/// Vectors by distance.
const BUCKETS: usize = 65;

/// Numbers in [-1, 1).
fn tensor<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    let mut state = seed;
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn median(run: &mut dyn FnMut()) -> Duration {
    for _ in 0..5 {
        run();
    }
    let mut times: Vec<Duration> = (0..31)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn report(name: &str, run: &mut dyn FnMut()) {
    // `cargo bench ... -- attention` runs what has that in its name.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    use_reference(false);
    let fused = median(run);
    if std::env::args().any(|argument| argument == "--fused-only") {
        println!("{name:50} {:9.3} ms", fused.as_secs_f64() * 1e3);
        return;
    }
    use_reference(true);
    let reference = median(run);
    use_reference(false);
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{name:50} {:9.3} ms  reference {:9.3} ms  {:6.2} times faster",
        milliseconds(fused),
        milliseconds(reference),
        fused.as_secs_f64().recip() * reference.as_secs_f64()
    );
}

/// Times the forward pass alone, and with the backward pass.
fn both<const D: usize>(
    name: &str,
    operation: &dyn Fn(&Device) -> Tensor<D>,
    prepared: &dyn Fn() -> Tensor<D>,
) {
    let device = Device::flex();
    report(&format!("{name}, forward"), &mut || {
        black_box(operation(&device));
    });
    report(&format!("{name}, forward and backward"), &mut || {
        black_box(prepared().sum().backward());
    });
}

/// Vectors by distance that are added to keys, queries or values.
fn vectors(name: &str, device: &Device) -> RelativeVectors {
    let table = |wanted: &str| {
        (wanted == name).then(|| VectorTable {
            vectors: tensor::<3>(6, [1, BUCKETS, HEAD_DIM], device),
            buckets: (0..LENGTH as u32).map(|n| n.min(BUCKETS as u32 - 1)).collect(),
        })
    };
    RelativeVectors {
        keys: table("keys"),
        key_bias: None,
        queries: table("queries"),
        values: table("values"),
    }
}

fn attentions() {
    let plain = Device::flex();
    let tracked = Device::flex().autodiff();
    let shape = [BATCH, HEADS, LENGTH, HEAD_DIM];
    let qkv = |device: &Device| [1, 2, 3].map(|seed| tensor::<4>(seed, shape, device));
    let (values, leaves) = (qkv(&plain), qkv(&tracked).map(Tensor::require_grad));
    let table = |device: &Device| tensor::<2>(4, [HEADS, LENGTH], device);
    for (name, bias, bias_leaf) in [
        ("attention", Bias::None, Bias::None),
        (
            "attention, bias by distance",
            Bias::ByDistance(table(&plain)),
            Bias::ByDistance(table(&tracked).require_grad()),
        ),
        (
            "attention, slopes",
            Bias::Slopes(tensor(5, [HEADS], &plain)),
            Bias::Slopes(tensor(5, [HEADS], &tracked)),
        ),
    ] {
        let call = |[q, k, v]: [Tensor<4>; 3], bias: &Bias| {
            attention(q, k, v, &Attention { bias: bias.clone(), ..Attention::causal(HEAD_DIM) })
        };
        both(name, &|_| call(values.clone(), &bias), &|| call(leaves.clone(), &bias_leaf));
    }
    for name in ["keys", "queries", "values"] {
        let call = |[q, k, v]: [Tensor<4>; 3]| {
            let relative = vectors(name, &q.device());
            attention(q, k, v, &Attention { terms: relative.into(), ..Attention::causal(HEAD_DIM) })
        };
        both(&format!("attention, vectors of {name}"), &|_| call(values.clone()), &|| call(leaves.clone()));
    }
    let long = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, HEADS, 4096, HEAD_DIM], &plain));
    report("attention, 1 x 4096, forward", &mut || {
        let [q, k, v] = long.clone();
        black_box(attention(q, k, v, &Attention::causal(HEAD_DIM)));
    });
}

fn splits() {
    let heads = Heads { query: HEADS, key_value: HEADS, head_dim: HEAD_DIM };
    let plain = Device::flex();
    let table = RotationTable {
        cos: tensor(1, [1, LENGTH, HEAD_DIM / 2], &plain),
        sin: tensor(2, [1, LENGTH, HEAD_DIM / 2], &plain),
        layout: Layout::Half,
    };
    let packed = tensor::<3>(3, [BATCH, LENGTH, heads.packed()], &plain);
    let leaf = Tensor::<3>::from_inner(packed.clone()).require_grad();
    // q, k and v each weighted by themselves, so that the gradients are full tensors.
    let square = |(q, k, v): (Tensor<4>, Tensor<4>, Tensor<4>)| {
        (q.clone() * q).sum() + (k.clone() * k).sum() + (v.clone() * v).sum()
    };
    report("split and rotate, forward", &mut || {
        black_box(split_rotate(packed.clone(), heads, Some(&table), Some(&table)));
    });
    report("split and rotate, with squares, both", &mut || {
        let parts = split_rotate(leaf.clone().mul_scalar(1.0), heads, Some(&table), Some(&table));
        black_box(square(parts).backward());
    });
    // What moving the same bytes takes.
    report("  (copy of packed)", &mut || {
        black_box(packed.clone().add_scalar(0.0));
    });
}

fn rows() {
    let (plain, tracked) = (Device::flex(), Device::flex().autodiff());
    let x = tensor::<3>(1, [BATCH, LENGTH, WIDTH], &plain);
    let wide = tensor::<3>(2, [BATCH, LENGTH, 4 * WIDTH], &plain);
    let gain = tensor::<1>(3, [WIDTH], &plain);
    let leaf = |x: &Tensor<3>| Tensor::<3>::from_inner(x.clone()).require_grad();
    let (x_leaf, wide_leaf) = (leaf(&x), leaf(&wide));
    let gain_leaf = Tensor::<1>::from_inner(gain.clone()).require_grad();
    both("rms_norm", &|_| rms_norm(x.clone(), gain.clone(), 1e-5), &|| {
        rms_norm(x_leaf.clone(), gain_leaf.clone(), 1e-5)
    });
    both("layer_norm", &|_| layer_norm(x.clone(), gain.clone(), None, 1e-5), &|| {
        layer_norm(x_leaf.clone(), gain_leaf.clone(), None, 1e-5)
    });
    let weight = tensor::<2>(5, [WIDTH, 4 * WIDTH], &plain);
    let weight_leaf = Tensor::<2>::from_inner(weight.clone()).require_grad();
    both("linear", &|_| linear(x.clone(), weight.clone(), None), &|| {
        linear(x_leaf.clone(), weight_leaf.clone(), None)
    });
    both("gelu", &|_| gelu(wide.clone()), &|| gelu(wide_leaf.clone()));
    both("swiglu", &|_| swiglu(wide.clone()), &|| swiglu(wide_leaf.clone()));

    let rows = BATCH * LENGTH;
    let logits = tensor::<2>(4, [rows, CLASSES], &plain);
    let logits_leaf = Tensor::<2>::from_inner(logits.clone()).require_grad();
    let targets = |device: &Device| {
        let targets: Vec<i64> = (0..rows).map(|row| (row * 7 % CLASSES).cast_signed() as i64).collect();
        Tensor::<1, Int>::from_data(TensorData::new(targets, [rows]), device)
    };
    let (plain_targets, tracked_targets) = (targets(&plain), targets(&tracked));
    both("cross_entropy", &|_| cross_entropy(logits.clone(), plain_targets.clone()), &|| {
        cross_entropy(logits_leaf.clone(), tracked_targets.clone())
    });
    let head = tensor::<2>(6, [CLASSES, WIDTH], &plain);
    let head_leaf = Tensor::<2>::from_inner(head.clone()).require_grad();
    for precision in [Precision::F32, Precision::Bf16] {
        both(
            &format!("head_loss in {precision}"),
            &|_| head_loss(x.clone(), head.clone().transpose(), plain_targets.clone(), None, precision),
            &|| {
                let weight = head_leaf.clone().transpose();
                head_loss(x_leaf.clone(), weight, tracked_targets.clone(), None, precision)
            },
        );
    }
}

fn optimizer() {
    let device = Device::flex();
    let shape = [12 * WIDTH, 8 * WIDTH];
    let gradient = tensor::<2>(2, shape, &device);
    let options = AdamW {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        weight_decay: 0.1,
        step: 10,
        gradient_scale: 1.0,
    };
    let mut state = Some((tensor::<2>(1, shape, &device), gradient.clone().abs(), gradient.clone().abs()));
    report("adamw, 1.6 million parameters", &mut || {
        state = state.take().map(|(parameter, m, v)| adamw(parameter, gradient.clone(), m, v, &options));
    });
}

fn main() {
    println!(
        "batch {BATCH}, length {LENGTH}, width {WIDTH}, {HEADS} heads, {CLASSES} classes, {} threads",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    attentions();
    splits();
    rows();
    optimizer();
}
