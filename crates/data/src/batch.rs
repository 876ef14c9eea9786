//! The stateless sampler: a batch is a pure function of (tokens, sampling, seed, step).

use crate::permutation::Permutation;
use crate::tokens::TokenFile;
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How training windows are drawn from the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Every window starts anywhere in the stream, each start equally likely.
    #[default]
    Random,
    /// The stream is cut into windows that do not overlap; each epoch reads every one of them once,
    /// in an order of its own. The fewer than `length` tokens left at the end are not read.
    Shuffled,
    /// The stream is cut into as many lanes as a batch has rows; row r reads its lane from the beginning,
    /// each step where the one before ended, and begins again once no whole window is left. Every row
    /// continues the row of the step before, as a memory needs. Steps of earlier stages count.
    Sequential,
}

/// One batch of training windows, row-major `[batch, length]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, `[batch, length]`.
    pub inputs: Vec<u32>,
    /// The token after each input, `[batch, length]`.
    pub targets: Vec<u32>,
    /// Where each row starts in the stream, `[batch]`; empty where rows are made by a task.
    pub starts: Vec<usize>,
    /// Whether each target is scored, `[batch, length]`; `None` scores all.
    pub scored: Option<Vec<bool>>,
    pub batch: usize,
    pub length: usize,
    /// Whether each row goes on where the same row of the step before ended.
    pub continues: bool,
}

impl Batch {
    /// The same tokens as rows of `length`: each row becomes so many that follow each other in the text.
    ///
    /// # Panics
    /// `length` does not divide the rows.
    #[must_use]
    pub fn cut(self, length: usize) -> Self {
        assert!(
            length > 0 && self.length.is_multiple_of(length),
            "{} tokens in rows of {length}",
            self.length
        );
        let pieces = self.length / length;
        let starts: Vec<usize> = self
            .starts
            .iter()
            .flat_map(|start| (0..pieces).map(move |piece| start + piece * length))
            .collect();
        Self { batch: self.batch * pieces, starts, length, continues: self.continues && pieces == 1, ..self }
    }

    /// Some tokens of each row with their targets: `columns[r]` are those of row r, as many in each row.
    ///
    /// # Panics
    /// There are not as many lists as rows, their lengths differ, or a column is not in the batch.
    #[must_use]
    pub fn columns(&self, columns: &[Vec<usize>]) -> Self {
        let length = columns.first().map_or(0, Vec::len);
        let alike = columns.len() == self.batch && columns.iter().all(|row| row.len() == length);
        assert!(alike, "{} lists of columns for {} rows", columns.len(), self.batch);
        let places: Vec<usize> = (0..self.batch)
            .zip(columns)
            .flat_map(|(row, columns)| columns.iter().map(move |column| row * self.length + column))
            .collect();
        let of = |tokens: &[u32]| places.iter().map(|&place| tokens[place]).collect();
        Self {
            inputs: of(&self.inputs),
            targets: of(&self.targets),
            starts: self.starts.clone(),
            scored: self.scored.as_ref().map(|scored| places.iter().map(|&place| scored[place]).collect()),
            batch: self.batch,
            length,
            continues: false,
        }
    }
}

/// The batch of `step`: `batch` rows of `length` inputs and, one token further, their targets.
///
/// The same arguments always give the same batch, so a run resumes in mid-epoch without any saved
/// state. Windows cross document boundaries: the stream is what the documents are, one after another. Rows hold what the stream
/// holds: whoever reads them as texts of their own begins them, see [`TokenFile::begin`].
pub fn batch(
    tokens: &TokenFile,
    sampling: Sampling,
    seed: u64,
    step: u64,
    batch: usize,
    length: usize,
) -> Result<Batch> {
    if batch == 0 || length == 0 {
        return Err(Error::usage(format!("a batch of {batch} rows of {length} tokens is empty"))
            .hint("set the length and the number of tokens of a batch to at least 1"));
    }
    if tokens.len() <= length {
        return Err(Error::usage(format!(
            "the training text holds {} tokens, and a sequence of length {length} needs {} (its targets are \
             shifted by one)",
            tokens.len(),
            length.saturating_add(1)
        ))
        .hint("shorten `train.length`, or add text to `data.corpus`"));
    }
    let starts: Vec<usize> = match sampling {
        Sampling::Random => {
            let mut stream = Stream::new(seed, "batch", step);
            let choices = (tokens.len() - length) as u64;
            (0..batch).map(|_| stream.below(choices) as usize).collect()
        }
        Sampling::Shuffled => shuffled_starts(tokens.len(), seed, step, batch, length),
        Sampling::Sequential => {
            let lane = windows_of_a_lane(tokens.len(), batch, length)?;
            let window = step % lane;
            let starts = (0..batch as u64).map(|row| (row * lane + window) as usize * length).collect();
            return Ok(Batch { continues: window > 0, ..gather(tokens, starts, length) });
        }
    };
    Ok(gather(tokens, starts, length))
}

fn windows_of_a_lane(tokens: usize, batch: usize, length: usize) -> Result<u64> {
    let windows = (tokens - 1) / length / batch;
    if windows == 0 {
        return Err(Error::usage(format!(
            "the training text holds {tokens} tokens, and {batch} lanes of a sequence of length {length} each need \
             {} (the last target is one further)",
            batch * length + 1
        ))
        .hint("lower `train.batch_tokens`, or add text to `data.corpus`"));
    }
    Ok(windows as u64)
}

/// Row `r` of step `s` reads window number `s * batch + r` of an endless sequence of epochs.
fn shuffled_starts(tokens: usize, seed: u64, step: u64, batch: usize, length: usize) -> Vec<usize> {
    let windows = ((tokens - 1) / length) as u64;
    let first = u128::from(step) * batch as u128;
    let mut order: Option<(u64, Permutation)> = None;
    (0..batch as u128)
        .map(|row| {
            let epoch = ((first + row) / u128::from(windows)) as u64;
            let index = ((first + row) % u128::from(windows)) as u64;
            let permutation = match order.take() {
                Some((known, permutation)) if known == epoch => permutation,
                _ => Permutation::new(windows, &mut Stream::new(seed, "epoch", epoch)),
            };
            let start = permutation.apply(index) as usize * length;
            order = Some((epoch, permutation));
            start
        })
        .collect()
}

fn gather(tokens: &TokenFile, starts: Vec<usize>, length: usize) -> Batch {
    let mut inputs = Vec::with_capacity(starts.len() * length);
    let mut targets = Vec::with_capacity(starts.len() * length);
    for &start in &starts {
        let row = tokens.read(start..start + length + 1);
        inputs.extend_from_slice(&row[..length]);
        targets.extend_from_slice(&row[1..]);
    }
    Batch { inputs, targets, batch: starts.len(), starts, scored: None, length, continues: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream whose token at position `i` is `i`.
    fn counting(count: u32) -> TokenFile {
        TokenFile::from_documents(&[("count", &(0..count).collect::<Vec<_>>())])
    }

    #[test]
    fn a_batch_depends_on_nothing_but_its_arguments() {
        let tokens = counting(1000);
        for sampling in [Sampling::Random, Sampling::Shuffled] {
            let draw = |seed, step| batch(&tokens, sampling, seed, step, 4, 16).unwrap();
            let late = draw(1, 77);
            let _ = draw(1, 5);
            assert_eq!(draw(1, 77), late);
            assert_ne!(draw(1, 78).starts, late.starts);
            assert_ne!(draw(2, 77).starts, late.starts);
        }
    }

    #[test]
    fn targets_are_the_inputs_one_further() {
        let tokens = counting(100_000);
        let batch = batch(&tokens, Sampling::Random, 0, 0, 3, 8).unwrap();
        assert_eq!((batch.batch, batch.length, batch.inputs.len(), batch.targets.len()), (3, 8, 24, 24));
        for row in 0..3 {
            for i in 0..8 {
                assert_eq!(batch.inputs[row * 8 + i] as usize, batch.starts[row] + i);
                assert_eq!(batch.targets[row * 8 + i] as usize, batch.starts[row] + i + 1);
            }
        }
    }

    #[test]
    fn cut_rows_follow_each_other() {
        let tokens = counting(1000);
        let batch = batch(&tokens, Sampling::Random, 0, 0, 2, 12).unwrap();
        let cut = batch.clone().cut(4);
        assert_eq!((cut.batch, cut.length, cut.starts.len()), (6, 4, 6));
        for (row, &start) in cut.starts.iter().enumerate() {
            let expected: Vec<u32> = (start as u32..).take(4).collect();
            assert_eq!(cut.inputs[row * 4..row * 4 + 4], expected);
            assert_eq!(cut.targets[row * 4 + 3], expected[3] + 1);
        }
        assert_eq!(batch.starts[1], cut.starts[3]);
    }

    #[test]
    fn what_is_scored_stays_with_its_target() {
        // Rows of a task: nothing starts anywhere in a text, and targets divisible by three are scored.
        let of_text = batch(&counting(1000), Sampling::Random, 0, 0, 2, 12).unwrap();
        let scored = Some(of_text.targets.iter().map(|target| target % 3 == 0).collect());
        let task = Batch { starts: Vec::new(), scored, ..of_text };
        for changed in [task.columns(&[vec![0, 3, 4, 11], vec![5, 6, 7, 8]]), task.cut(4)] {
            let scored = changed.scored.unwrap();
            assert_eq!((scored.len(), changed.batch * changed.length), (changed.targets.len(), scored.len()));
            assert!(scored.iter().zip(&changed.targets).all(|(&scored, target)| scored == (target % 3 == 0)));
        }
    }

    #[test]
    fn columns_keep_the_token_that_follows_in_the_text() {
        let tokens = counting(1000);
        let batch = batch(&tokens, Sampling::Random, 0, 0, 2, 8).unwrap();
        let some = batch.columns(&[vec![0, 1, 5], vec![0, 6, 7]]);
        assert_eq!((some.batch, some.length), (2, 3));
        let start = |row: usize| batch.starts[row] as u32;
        assert_eq!(some.inputs[..3], [0, 1, 5].map(|column| start(0) + column));
        assert_eq!(some.targets[3..], [1, 7, 8].map(|column| start(1) + column));
    }

    #[test]
    fn random_reaches_the_first_and_the_last_start() {
        let tokens = counting(12);
        let mut seen = [false; 4];
        for step in 0..50 {
            for start in batch(&tokens, Sampling::Random, 0, step, 2, 8).unwrap().starts {
                seen[start] = true;
            }
        }
        assert_eq!(seen, [true; 4]);
    }

    #[test]
    fn shuffled_reads_every_window_once_per_epoch() {
        // 10 windows of 8 and 3 tokens left over; batches of 4 do not divide the epoch.
        let tokens = counting(84);
        let starts: Vec<usize> = (0..10)
            .flat_map(|step| batch(&tokens, Sampling::Shuffled, 3, step, 4, 8).unwrap().starts)
            .collect();
        let epochs: Vec<Vec<usize>> = starts.chunks(10).map(<[usize]>::to_vec).collect();
        for epoch in &epochs {
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).map(|window| window * 8).collect::<Vec<_>>());
        }
        assert_ne!(epochs[0], epochs[1]);
    }

    #[test]
    fn sequential_rows_continue_the_step_before() {
        // 3 lanes of 4 windows of 8, and 7 tokens left over.
        let tokens = counting(104);
        let read = |step| batch(&tokens, Sampling::Sequential, 5, step, 3, 8).unwrap();
        assert_eq!((read(0).starts, read(0).continues), (vec![0, 32, 64], false));
        for step in 1..4 {
            let (before, now) = (read(step - 1), read(step));
            assert!(now.continues);
            for row in 0..3 {
                assert_eq!(now.inputs[row * 8], before.targets[row * 8 + 7]);
            }
        }
        assert_eq!(read(4), read(0), "an epoch begins again");
        let error = batch(&tokens, Sampling::Sequential, 0, 0, 13, 8).unwrap_err();
        assert!(error.message().contains("13 lanes"), "{error}");
    }

    #[test]
    fn the_order_never_changes() {
        // Runs that are stored resume only as long as these stand.
        let tokens = counting(100);
        let starts = |sampling| batch(&tokens, sampling, 0, 0, 4, 8).unwrap().starts;
        assert_eq!(starts(Sampling::Random), RANDOM);
        assert_eq!(starts(Sampling::Shuffled), SHUFFLED);
    }
    const RANDOM: [usize; 4] = [65, 60, 23, 4];
    const SHUFFLED: [usize; 4] = [88, 56, 80, 0];

    #[test]
    fn a_stream_that_is_too_short_is_an_error() {
        let tokens = counting(8);
        let error = batch(&tokens, Sampling::Random, 0, 0, 1, 8).unwrap_err();
        assert!(error.message().contains("holds 8 tokens") && error.message().contains("needs 9"), "{error}");
        assert!(error.hint_text().unwrap().contains("train.length"));
        for sampling in [Sampling::Random, Sampling::Shuffled] {
            let whole = batch(&tokens, sampling, 0, 0, 2, 7).unwrap();
            assert_eq!(whole.starts, [0, 0]);
        }
        assert!(batch(&tokens, Sampling::Random, 0, 0, 0, 4).is_err());
        assert!(batch(&tokens, Sampling::Random, 0, 0, 4, 0).is_err());
    }
}
