//! `bench train`: training steps of a config, beside the same steps with plain tensor operations and beside
//! the matrix products of a step alone.

use crate::clock::{Subject, Timing, subject};
use crate::record::{Direction, Record};
use crate::{Bench, numbers};
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use longwave_data::Dataset;
use longwave_kernels::Precision;
use longwave_kernels::device::counted;
use longwave_model::resolved::Resolved;
use longwave_train::schedule::Schedule;
use longwave_train::{Run, RunConfig, Trainer, fresh_model};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

const PLAIN: &str = "the same steps with plain tensor operations";

/// Times training steps from fresh weights. Nothing is written, and the weights are forgotten.
pub fn run(
    bench: &Bench,
    config: &RunConfig,
    dataset: &Dataset,
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    let resolved = config.model.resolve(dataset.tokenizer().vocab_size(), config.train.length)?;
    let run = Run { folder: PathBuf::new(), config: config.clone(), hash: String::new() };
    let mut subjects = vec![steps(bench, &run, dataset, &resolved, bench.reference)?];
    subjects.extend(products(bench, config, &resolved));
    if !bench.reference && !bench.alone {
        subjects.push(steps(bench, &run, dataset, &resolved, true)?);
    }
    let times = bench.clock.time(&mut subjects)?;
    let (timed, counts) = counted(|| subjects[0]());
    timed?;
    bench.asked_kernels();
    let [step, linear, scores, ..] = times[..] else { return Ok(()) };
    // A causal query sees half of the square on average.
    let half = |whole: f64| whole / 2.0;
    let products = Timing {
        median: linear.median + half(scores.median),
        least: linear.least + half(scores.least),
        peak_bytes: None,
    };
    let record = |case: String, timing: &Timing| step_record(bench, config, case, timing);
    let sizes = sizes(config, &resolved);
    let launches = Some(counts.launched()).filter(|launches| *launches > 0);
    let uploaded = launches.map(|_| counts.uploaded);
    show(Record { launches, uploaded, ..record(sizes.clone(), &step).against(PLAIN, times.get(3)) })?;
    show(record(format!("{sizes}, products"), &products))
}

/// Times training steps alone.
pub fn step(bench: &Bench, config: &RunConfig, dataset: &Dataset) -> Result<Record> {
    let resolved = config.model.resolve(dataset.tokenizer().vocab_size(), config.train.length)?;
    let run = Run { folder: PathBuf::new(), config: config.clone(), hash: String::new() };
    let times = bench.clock.time(&mut [steps(bench, &run, dataset, &resolved, bench.reference)?])?;
    Ok(step_record(bench, config, sizes(config, &resolved), &times[0]))
}

fn step_record(bench: &Bench, config: &RunConfig, case: String, timing: &Timing) -> Record {
    let record = Record::new("train", case, Direction::Step, &bench.device_name, timing);
    record.reading(config.train.batch_tokens)
}

/// The encoding and the sizes of a step, in words.
fn sizes(config: &RunConfig, resolved: &Resolved) -> String {
    let mut sizes = format!(
        "{}, {} x {}, {} x {}",
        config.position.name(),
        resolved.dimensions.layers,
        resolved.dimensions.width,
        config.train.sequences(),
        config.train.length
    );
    if config.train.precision != Precision::F32 {
        sizes = format!("{sizes}, {}", config.train.precision);
    }
    sizes
}

fn steps<'a>(
    bench: &'a Bench,
    run: &'a Run,
    dataset: &'a Dataset,
    resolved: &Resolved,
    reference: bool,
) -> Result<Subject<'a>> {
    let fresh = fresh_model(&run.config, resolved, &bench.device.clone().autodiff())?;
    let mut trainer = Trainer::new(run, dataset, fresh, &bench.device, None)?;
    let schedule = Schedule::new(&run.config.train);
    Ok(Box::new(move || {
        longwave_kernels::use_reference(reference);
        let start = Instant::now();
        trainer.advance(&schedule, &|| false)?;
        bench.device.sync().map_err(|error| Error::failed(format!("the device failed: {error:?}")))?;
        Ok(start.elapsed())
    }))
}

/// The channels that go into and come out of each linear map of a model.
pub(crate) fn weights(resolved: &Resolved) -> Vec<(usize, usize)> {
    let d = resolved.dimensions;
    let inner = resolved.feed_forward_width;
    let gated = if resolved.config.feed_forward.is_gated() { 2 * inner } else { inner };
    let of_layer = [
        (d.width, (d.heads + 2 * d.kv_heads) * d.head_dim),
        (d.heads * d.head_dim, d.width),
        (d.width, gated),
        (inner, d.width),
    ];
    let mut all = of_layer.repeat(d.layers);
    all.push((d.width, d.vocab_size));
    all
}

/// The matrix products of a step: those with weights (forward, and backward for both sides), and those of
/// attention over the whole square (forward two, backward five: the scores again, and four gradients).
fn products<'a>(bench: &'a Bench, config: &RunConfig, resolved: &Resolved) -> [Subject<'a>; 2] {
    let d = resolved.dimensions;
    let (length, batch) = (config.train.length, config.train.micro_batch());
    let (times, precision) = (config.train.accumulation, config.train.precision);
    let rows = batch * length;
    let shapes = weights(resolved);
    let device = &bench.device;
    // Tensors of one shape are shared: every product reads them and writes a new one.
    let made: Rc<RefCell<Vec<Tensor<2>>>> = Rc::default();
    let of = move |shape: [usize; 2]| {
        let mut made = made.borrow_mut();
        if let Some(known) = made.iter().find(|tensor| tensor.dims() == shape) {
            return known.clone();
        }
        made.push(numbers::tensor("product", shape, device));
        made[made.len() - 1].clone()
    };
    let linear = subject(
        device,
        move || shapes.iter().map(|&(i, o)| [of([rows, i]), of([i, o]), of([rows, o])]).collect::<Vec<_>>(),
        move |products| {
            for _ in 0..times {
                for [x, w, y] in &products {
                    product(precision, x.clone(), w.clone());
                    product(precision, y.clone(), w.clone().transpose());
                    product(precision, x.clone().transpose(), y.clone());
                }
            }
        },
    );
    let x = numbers::tensor::<4>("attention", [batch, d.heads, length, d.head_dim], device);
    let p = numbers::tensor::<4>("probabilities", [batch, d.heads, length, length], device);
    let scores = subject(
        device,
        || (),
        move |()| {
            for _ in 0..times * d.layers {
                for _ in 0..3 {
                    std::hint::black_box(x.clone().matmul(x.clone().swap_dims(2, 3)));
                }
                for _ in 0..4 {
                    std::hint::black_box(p.clone().matmul(x.clone()));
                }
            }
        },
    );
    [linear, scores]
}

/// A product, in half precision with the rounding of both factors.
fn product(precision: Precision, left: Tensor<2>, right: Tensor<2>) {
    if precision == Precision::F32 {
        std::hint::black_box(left.matmul(right));
    } else {
        std::hint::black_box(precision.linear(left.unsqueeze(), right));
    }
}
