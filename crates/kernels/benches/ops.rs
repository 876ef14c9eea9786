//! Times of the fused operations beside their references, at the size of a small GPT.
//!
//! `cargo bench --profile dev -p longwave-kernels --bench ops [-- NAME] [--fused-only]`; one line per
//! operation and direction.

#![allow(clippy::print_stdout, reason = "the report is the purpose")]

use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_kernels::{
    AdamW, AdamWState, Attention, Bias, Heads, Layout, Precision, RelativeVectors, RotationTable, Terms,
    VectorTable, adamw_all, attention, gelu, head_loss, layer_norm, linear, rms_norm, split_rotate, swiglu,
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

/// Numbers that an operation reads, as they are and as a leaf that receives a gradient.
struct Input<const D: usize>([Tensor<D>; 2]);

impl<const D: usize> Input<D> {
    fn new(seed: u64, shape: [usize; D]) -> Self {
        let plain = tensor(seed, shape, &Device::flex());
        Self([plain.clone(), Tensor::from_inner(plain).require_grad()])
    }

    fn get(&self, tracked: bool) -> Tensor<D> {
        self.0[usize::from(tracked)].clone()
    }
}

/// Times the forward pass alone, and with the backward pass, whose inputs are tracked.
fn both<const D: usize>(name: &str, operation: &dyn Fn(bool) -> Tensor<D>) {
    report(&format!("{name}, forward"), &mut || {
        black_box(operation(false));
    });
    report(&format!("{name}, forward and backward"), &mut || {
        black_box(operation(true).sum().backward());
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
    let qkv = [1, 2, 3].map(|seed| Input::new(seed, [BATCH, HEADS, LENGTH, HEAD_DIM]));
    let call = |tracked: bool, bias: Bias, terms: Terms| {
        let [q, k, v] = qkv.each_ref().map(|input| input.get(tracked));
        attention(q, k, v, &Attention { bias, terms, ..Attention::causal(HEAD_DIM) })
    };
    let table = Input::new(4, [HEADS, LENGTH]);
    let slopes = tensor::<1>(5, [HEADS], &plain);
    both("attention", &|tracked| call(tracked, Bias::None, Terms::default()));
    both("attention, bias by distance", &|tracked| {
        call(tracked, Bias::ByDistance(table.get(tracked)), Terms::default())
    });
    both("attention, slopes", &|tracked| {
        let slopes = if tracked { Tensor::from_inner(slopes.clone()) } else { slopes.clone() };
        call(tracked, Bias::Slopes(slopes), Terms::default())
    });
    for name in ["keys", "queries", "values"] {
        both(&format!("attention, vectors of {name}"), &|tracked| {
            let device = if tracked { plain.clone().autodiff() } else { plain.clone() };
            call(tracked, Bias::None, vectors(name, &device).into())
        });
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
    let x = Input::new(1, [BATCH, LENGTH, WIDTH]);
    let wide = Input::new(2, [BATCH, LENGTH, 4 * WIDTH]);
    let gain = Input::new(3, [WIDTH]);
    let weight = Input::new(5, [WIDTH, 4 * WIDTH]);
    both("rms_norm", &|tracked| rms_norm(x.get(tracked), gain.get(tracked), 1e-5));
    both("layer_norm", &|tracked| layer_norm(x.get(tracked), gain.get(tracked), None, 1e-5));
    both("linear", &|tracked| linear(x.get(tracked), weight.get(tracked), None));
    both("gelu", &|tracked| gelu(wide.get(tracked)));
    both("swiglu", &|tracked| swiglu(wide.get(tracked)));

    let rows = BATCH * LENGTH;
    let targets = |device: &Device| {
        let targets: Vec<i64> = (0..rows).map(|row| (row * 7 % CLASSES).cast_signed() as i64).collect();
        Tensor::<1, Int>::from_data(TensorData::new(targets, [rows]), device)
    };
    let targets = [targets(&Device::flex()), targets(&Device::flex().autodiff())];
    let targets = |tracked: bool| targets[usize::from(tracked)].clone();
    let head = Input::new(6, [CLASSES, WIDTH]);
    for precision in [Precision::F32, Precision::Bf16] {
        both(&format!("head_loss in {precision}"), &|tracked| {
            head_loss(x.get(tracked), head.get(tracked).transpose(), targets(tracked), None, precision)
        });
    }
}

fn optimizer() {
    let device = Device::flex();
    let shape = [12 * WIDTH * 8 * WIDTH];
    let gradient = tensor::<1>(2, shape, &device);
    let options = AdamW {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        weight_decay: 0.1,
        step: 10,
        gradient_scale: 1.0,
    };
    let (m, v) = (gradient.clone().abs(), gradient.clone().abs());
    let mut state = Some(AdamWState { parameter: tensor(1, shape, &device), m, v });
    report("adamw_all, 1.6 million parameters", &mut || {
        let given = state.take().map(|state| (state, gradient.clone(), options));
        state = adamw_all(given.into_iter().collect(), None).pop();
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
