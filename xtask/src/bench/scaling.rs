//! `cargo xtask bench scaling`: what more threads give.
//!
//! Training steps of a config, and one pass over a long text, on 1, 2, 4, .. threads.

use longwave::burn::tensor::Device;
use longwave_bench::clock::Timing;
use longwave_bench::{Bench, Record, eval, train};
use longwave_core::{Error, Result};
use longwave_data::Dataset;
use longwave_train::RunConfig;

/// The long text's tokens, unless asked for otherwise.
pub(crate) const LENGTH: usize = 16_384;

/// Rounds over all numbers of threads: a machine's speed wanders.
const ROUNDS: usize = 3;
const ONE: &str = "one thread";

/// Times training steps and one pass over a text of `length` tokens on each number of threads up to `most`.
pub(crate) fn run(
    bench: &Bench,
    config: &RunConfig,
    dataset: &Dataset,
    length: usize,
    most: usize,
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    let bench = Bench { alone: true, ..bench.clone() };
    if bench.device != Device::flex() {
        return Err(Error::value("--device", &bench.device_name, "threads are those of the CPU")
            .hint("use `--device cpu`"));
    }
    let counts = counts(most);
    let vocab = dataset.tokenizer().vocab_size();
    let mut rounds: Vec<[Vec<Record>; 2]> = vec![[Vec::new(), Vec::new()]; counts.len()];
    for _ in 0..ROUNDS {
        for (threads, [steps, readings]) in counts.iter().zip(&mut rounds) {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(*threads)
                .build()
                .map_err(|error| Error::failed(format!("{threads} threads cannot be started: {error}")))?;
            let [step, reading] = pool.install(|| -> Result<_> {
                let step = train::step(&bench, config, dataset)?;
                let mut readings = Vec::new();
                eval::run(&bench, config, vocab, &[length], &mut |record| {
                    readings.push(record);
                    Ok(())
                })?;
                Ok([step, readings.remove(0)])
            })?;
            steps.push(step);
            readings.push(reading);
        }
    }
    for kind in 0..2 {
        let timings: Vec<Timing> = rounds.iter().map(|round| over_rounds(&round[kind])).collect();
        for (threads, (round, timing)) in counts.iter().zip(rounds.iter().zip(&timings)) {
            let first = &round[kind][0];
            let plural = if *threads == 1 { "" } else { "s" };
            let case = format!("{}, {threads} thread{plural}", first.case);
            let record = Record::new("scaling", case, first.direction, &bench.device_name, timing);
            let record = Record { threads: *threads, ..record.reading(first.tokens.unwrap_or(0)) };
            show(record.against(ONE, (*threads > 1).then_some(&timings[0])))?;
        }
    }
    Ok(())
}

/// 1, 2, 4, .. and the most.
fn counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|count| *count < most).collect();
    counts.push(most.max(1));
    counts
}

/// The median of the rounds' medians, and the fastest run of all.
fn over_rounds(records: &[Record]) -> Timing {
    let mut medians: Vec<f64> = records.iter().map(|record| record.seconds).collect();
    medians.sort_unstable_by(f64::total_cmp);
    let least = records.iter().map(|record| record.seconds_min).fold(f64::INFINITY, f64::min);
    Timing { median: medians[medians.len() / 2], least, peak_bytes: records[0].peak_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_doubled_up_to_all() {
        assert_eq!((counts(1), counts(2), counts(6)), (vec![1], vec![1, 2], vec![1, 2, 4, 6]));
    }
}
