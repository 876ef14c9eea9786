//! `bench scaling`: what more threads give.
//!
//! Measured: training steps of a config, and one pass over a long text, on 1, 2, 4, .. threads. Counted: the pieces that
//! each operation of a step is cut into, and how much faster these let 8, 16 and 64 cores be at best, if moving data and
//! waiting cost nothing.

use crate::clock::Timing;
use crate::record::Record;
use crate::{Bench, eval, train};
use longwave_core::{Error, Result};
use longwave_data::Dataset;
use longwave_kernels::pieces::{self, Call};
use longwave_report::grid::{Grid, Header};
use longwave_train::RunConfig;
use serde::Serialize;

/// The long text's tokens, unless asked for otherwise.
pub const LENGTH: usize = 16_384;
/// The cores that the table is for.
pub const CORES: [usize; 3] = [8, 16, 64];

/// Rounds over all numbers of threads: a machine's speed wanders.
const ROUNDS: usize = 3;
const ONE: &str = "one thread";

/// An operation of a training step, or of reading the long text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Operation {
    /// `scaling`, as in a [`Record`].
    pub bench: &'static str,
    /// In words.
    pub operation: String,
    /// The tokens of a text that it is counted for.
    pub length: usize,
    /// How often it is called.
    pub calls: usize,
    /// The fewest and the most pieces of one call.
    pub pieces: [usize; 2],
    /// The best speed-up on each of [`CORES`], over all calls.
    pub best: [f64; 3],
}

impl Operation {
    /// `calls` are the weights of the pieces of each call.
    fn new(operation: String, length: usize, calls: &[&[usize]]) -> Self {
        let work: usize = calls.iter().copied().flatten().sum();
        let best = CORES.map(|cores| {
            let time: f64 = calls.iter().map(|weights| longest_first(weights, cores)).sum();
            work as f64 / time.max(1.0)
        });
        let counts = || calls.iter().map(|weights| weights.len());
        let pieces = [counts().min().unwrap_or(0), counts().max().unwrap_or(0)];
        Self { bench: "scaling", operation, length, calls: calls.len(), pieces, best }
    }

    /// The operation as one line of JSON.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::failed(format!("an operation cannot be written as JSON: {error}")))
    }
}

/// The time of pieces on some cores, where the heaviest piece that is left goes to the core that is free first.
fn longest_first(weights: &[usize], cores: usize) -> f64 {
    let mut sorted = weights.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut loads = vec![0; cores];
    for weight in sorted {
        if let Some(load) = loads.iter_mut().min() {
            *load += weight;
        }
    }
    loads.into_iter().max().unwrap_or(0) as f64
}

/// The operations of a training step, and those of reading the long text and of its gradient: both are run once for it.
pub fn operations(
    bench: &Bench,
    config: &RunConfig,
    dataset: &Dataset,
    length: usize,
) -> Result<Vec<Operation>> {
    let (trained, of_step) = pieces::watched(|| train::one_step(bench, config, dataset));
    trained?;
    let vocab = dataset.tokenizer().vocab_size();
    let (read, of_text) = pieces::watched(|| eval::differentiate(bench, config, vocab, length));
    read?;
    let mut all = by_operation(config.train.length, &of_step);
    all.extend(by_operation(length, &of_text));
    Ok(all)
}

/// The calls of each operation and direction together, in the order of their first calls.
fn by_operation(length: usize, calls: &[Call]) -> Vec<Operation> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for call in calls {
        if !names.contains(&(call.operation, call.backward)) {
            names.push((call.operation, call.backward));
        }
    }
    let of = |(operation, backward): (&str, bool)| {
        let calls = calls.iter().filter(|call| (call.operation, call.backward) == (operation, backward));
        let weights: Vec<&[usize]> = calls.map(|call| &call.weights[..]).collect();
        let name = if backward { format!("{operation}, backward") } else { operation.to_owned() };
        Operation::new(name, length, &weights)
    };
    names.into_iter().map(of).collect()
}

/// The operations as a table, with what it assumes.
pub fn table(operations: &[Operation]) -> String {
    let cores = CORES.map(|cores| Header::number(format!("{cores} cores")).at_least(8));
    let names = [
        Header::words("operation").at_least(32),
        Header::number("length"),
        Header::number("calls"),
        Header::number("pieces").at_least(11),
    ];
    let row = |of: &Operation| {
        let [fewest, most] = of.pieces;
        let pieces = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
        let first = [of.operation.clone(), of.length.to_string(), of.calls.to_string(), pieces];
        first.into_iter().chain(of.best.iter().map(|best| format!("{best:.1}x"))).collect::<Vec<_>>()
    };
    Grid::of(names.into_iter().chain(cores), operations.iter().map(row)).lines()
        + "\npieces: of one call, forward unless it says backward\n\
           cores: the best speed-up that the pieces allow, the heaviest first, if moving data and waiting cost nothing"
}

pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// Times training steps and one pass over a text of `length` tokens on each number of threads up to `most`.
pub fn run(
    bench: &Bench,
    config: &RunConfig,
    dataset: &Dataset,
    length: usize,
    most: usize,
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<()> {
    let bench = Bench { alone: true, ..bench.clone() };
    if bench.device != burn::tensor::Device::flex() {
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
    use crate::record::Direction;
    use crate::testing::{alone, bench};
    use crate::train::tests::small;
    use longwave_position::PositionConfig;
    use longwave_position::reading::AttentionKind;

    #[test]
    fn the_heaviest_piece_is_given_away_first() {
        let _alone = alone();
        assert_eq!(longest_first(&[1, 1, 1, 3], 2), 3.0);
        assert_eq!(longest_first(&[2; 5], 4), 4.0);
        assert_eq!(longest_first(&[], 4), 0.0);
        let operation = |calls: &[&[usize]]| Operation::new("some".to_owned(), 1, calls);
        let even = operation(&[&[1; 16]]);
        assert_eq!((even.calls, even.pieces, even.best), (1, [16, 16], [8.0, 16.0, 16.0]));
        let two = operation(&[&[8], &[1; 8]]);
        assert_eq!((two.calls, two.pieces, two.best[0]), (2, [1, 8], 16.0 / 9.0));
    }

    #[test]
    fn threads_are_doubled_up_to_all() {
        let _alone = alone();
        assert_eq!((counts(1), counts(2), counts(6)), (vec![1], vec![1, 2], vec![1, 2, 4, 6]));
    }

    /// The operations with an encoding and a kind of attention, of a model with 4 heads.
    fn with(encoding: &str, attention: AttentionKind, length: usize) -> Vec<Operation> {
        let (_folder, mut config, dataset) = small();
        (config.run.model.width, config.run.model.heads) = (Some(64), Some(4));
        config.run.model.attention = attention;
        let value = format!("value = {encoding}").parse::<toml::Table>().unwrap().remove("value").unwrap();
        config.run.position = PositionConfig::from_value(&value, "position").unwrap();
        operations(&bench(), &config.run, &dataset, length).unwrap()
    }

    #[test]
    fn a_long_text_has_work_for_64_cores() {
        let _alone = alone();
        let all = with("'rope'", AttentionKind::Softmax, LENGTH);
        let long = |operation: &&Operation| operation.length == LENGTH;
        let attention = all.iter().filter(long).filter(|all| all.operation.starts_with("attention"));
        let attention: Vec<_> = attention.collect();
        assert_eq!(attention.len(), 2, "forward and backward");
        for operation in attention {
            assert!(operation.pieces[0] >= 64 && operation.best[2] > 50.0, "{operation:?}");
        }
        let text = table(&all);
        let row = format!("{:32} {LENGTH:>7}", "attention, backward");
        for part in ["products, backward", "optimizer", "rotation, backward", &row, "64 cores"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_reads_a_layer_is_counted() {
        let _alone = alone();
        let softmax = AttentionKind::Softmax;
        for (encoding, attention, operation) in [
            ("'dape'", softmax, "pair attention"),
            ("'path'", softmax, "path attention"),
            ("'pope'", softmax, "polar"),
            ("'cope'", softmax, "attention"),
            ("'rope'", AttentionKind::Linear, "linear attention"),
        ] {
            let all = with(encoding, attention, 256);
            for name in [operation.to_owned(), format!("{operation}, backward")] {
                let of = all.iter().filter(|one| one.operation == name);
                assert_eq!(of.map(|one| one.length).collect::<Vec<_>>(), [16, 256], "{encoding}: {name}");
            }
        }
    }

    #[test]
    fn every_number_of_threads_is_measured() {
        let _alone = alone();
        let (_folder, config, dataset) = small();
        let mut records = Vec::new();
        run(&bench(), &config.run, &dataset, 64, 3, &mut |record| {
            records.push(record);
            Ok(())
        })
        .unwrap();
        let threads: Vec<usize> = records.iter().map(|record| record.threads).collect();
        assert_eq!(threads, [1, 2, 3, 1, 2, 3]);
        assert_eq!((records[0].direction, records[3].direction), (Direction::Step, Direction::Forward));
        assert!(records.iter().all(|record| record.speedup.is_some() == (record.threads > 1)));
    }
}
