//! `bench eval`: reading texts of growing length with fresh weights, as fixed-target evaluation reads them.

use crate::clock::{Subject, subject};
use crate::record::{Direction, Record};
use crate::{Bench, numbers};
use burn::tensor::{Device, Int, Tensor};
use longwave_core::memory_check::available;
use longwave_core::{Error, Result};
use longwave_eval::memory_check;
use longwave_model::resolved::Resolved;
use longwave_model::upload;
use longwave_model::{Gpt, Pass, Size};
use longwave_train::{RunConfig, fresh_model};

/// Lengths that are measured unless others are asked for, in training lengths.
pub const TIMES: [usize; 4] = [1, 2, 4, 8];

/// Tokens of one pass: shorter texts are read together, as evaluation does.
const TOKENS: usize = 8192;
/// Tokens of a text that the plain operations still read in bearable time.
const REFERENCE_LENGTH: usize = 4096;
const PLAIN: &str = "the same reading with plain tensor operations";

/// Times one pass over texts of each length, of which the last training length of tokens is scored.
pub fn run(
    bench: &Bench,
    config: &RunConfig,
    vocab_size: usize,
    lengths: &[usize],
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    if lengths.contains(&0) {
        return Err(Error::value("--lengths", 0, "it must be at least 1"));
    }
    let resolved = config.model.resolve(vocab_size, config.train.length)?;
    let model = fresh_model(config, &resolved, &bench.device)?;
    for &length in lengths {
        let scored = config.train.length.min(length);
        let texts = (TOKENS / length).max(1);
        fits(&model, &resolved, length, scored)?;
        let mut subjects = vec![reading(bench, &model, [texts, length], scored, bench.reference)];
        if !bench.reference && !bench.alone && length <= REFERENCE_LENGTH {
            subjects.push(reading(bench, &model, [texts, length], scored, true));
        }
        let times = bench.clock.time(&mut subjects)?;
        drop(subjects);
        bench.asked_kernels();
        let case = format!("{}, {texts} x {length}", config.position.name());
        let record = Record::new("eval", case, Direction::Forward, &bench.device_name, &times[0]);
        show(record.reading(texts * length).against(PLAIN, times.get(1)))?;
    }
    Ok(())
}

fn fits(model: &Gpt, resolved: &Resolved, length: usize, scored: usize) -> Result<()> {
    let needed = Size::reading_bytes(resolved, length, scored);
    memory_check::check(length, needed, available())?;
    model
        .position
        .check(&model.position.layout().positions(length))
        .map_err(|error| error.context(format!("length {length}")))
}

/// One pass over texts `[texts, length]` of random tokens: what a token is changes no time.
fn reading<'a>(
    bench: &'a Bench,
    model: &'a Gpt,
    shape: [usize; 2],
    scored: usize,
    reference: bool,
) -> Subject<'a> {
    let length = shape[1];
    let [tokens, targets] = tokens(model, shape, scored, &bench.device);
    let positions = model.position.layout().positions(length);
    subject(
        &bench.device,
        move || {
            longwave_kernels::use_reference(reference);
            (tokens.clone(), targets.clone())
        },
        move |(tokens, targets)| {
            let pass = Pass { tokens, positions: &positions, reading: &model.position, dropout: None };
            model.nll(&pass, targets, length - scored..length)
        },
    )
}

/// Random tokens `[texts, length]`, and as targets `[texts, scored]`.
fn tokens(model: &Gpt, [texts, length]: [usize; 2], scored: usize, device: &Device) -> [Tensor<2, Int>; 2] {
    let vocab = model.embedding.dims()[0] as f32;
    let tokens: Vec<u32> = numbers::values("tokens", texts * length)
        .into_iter()
        .map(|x| ((x.abs() * vocab) as u32).min(vocab as u32 - 1))
        .collect();
    let targets = upload(&tokens[..texts * scored], [texts, scored], device);
    [upload(&tokens, [texts, length], device), targets]
}
