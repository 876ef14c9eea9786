//! What a step reads: rows of tokens, their targets and their positions.
//!
//! A pure function of the training text or task, the config, the seed and the step, so that resuming needs no saved
//! state.

use crate::config::TrainConfig;
use crate::run_config::RunConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::Result;
use longwave_data::{Batch, Dataset, Split};
use longwave_kernels::device;
use longwave_model::upload;
use longwave_position::{Lengths, Positions};
use std::ops::Range;

/// The rows of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainBatch {
    batch: Batch,
    positions: Positions,
}

/// A part of a step that is computed at once.
#[derive(Clone, Debug)]
pub struct MicroBatch {
    /// Token ids `[micro batch, length]`.
    pub inputs: Tensor<2, Int>,
    /// The token after each, `[micro batch, length]`.
    pub targets: Tensor<2, Int>,
    /// The share of every target in the mean over the whole step's, `[micro batch, length]`; `None` where all
    /// have the same.
    pub weights: Option<Tensor<2>>,
    /// Positions `[1 or micro batch, length]`.
    pub positions: Positions,
}

impl TrainBatch {
    /// The rows of a step of a stage, by the number of its batch: the steps before it, counted over all stages, and the
    /// batches that they left out. Rows that [go on](Self::continues) are as the text has them; all others begin with the token that
    /// texts begin with.
    pub fn of_step(config: &RunConfig, stage: usize, dataset: &Dataset, step: u64) -> Result<Self> {
        let (train, lengths, seed) = (config.stage(stage), config.lengths(stage), config.seed);
        let (positions, rows) = (&train.positions, train.sequences());
        let texts = rows / positions.rows_per_text();
        let texts = dataset.batch(train.sampling, seed, step, texts, positions.text_length(lengths))?;
        let mut rows = Self::read(train, lengths, texts, [seed, step]);
        // Without a memory a row is a text of its own, even where it follows the row of the step before.
        rows.batch.continues &= config.position.memory() > 0;
        Ok(if rows.batch.continues { rows } else { rows.alone(dataset) })
    }

    /// The same rows, each of which is a text of its own: it goes on from no memory, and begins with the token that texts begin
    /// with.
    #[must_use]
    pub fn alone(mut self, dataset: &Dataset) -> Self {
        dataset.tokens(Split::Train).begin(&mut self.batch.inputs, self.batch.length);
        self.batch.continues = false;
        self
    }

    /// The rows of a step, of its texts.
    fn read(config: &TrainConfig, lengths: Lengths, texts: Batch, [seed, step]: [u64; 2]) -> Self {
        let drawn = config.positions.draw(seed, step, config.sequences(), lengths);
        let batch = match &drawn.tokens {
            Some(columns) => texts.columns(columns),
            None => texts.cut(config.length),
        };
        Self { batch, positions: drawn.positions }
    }

    /// Whether each row goes on where the same row of the step before ended, with a memory of it.
    pub fn continues(&self) -> bool {
        self.batch.continues
    }

    /// One of the `accumulation` parts, on a device.
    pub fn micro_batch(&self, config: &TrainConfig, part: usize, device: &Device) -> MicroBatch {
        let (rows, length) = (config.micro_batch(), self.batch.length);
        let range = part * rows..(part + 1) * rows;
        let upload = |tokens: &[u32]| {
            upload(&tokens[range.start * length..range.end * length], [rows, length], device)
        };
        MicroBatch {
            inputs: upload(&self.batch.inputs),
            targets: upload(&self.batch.targets),
            weights: self.weights(range.start * length..range.end * length, [rows, length], device),
            positions: self.positions.of_rows(range.clone()),
        }
    }

    /// Weights of some targets, of the shape `[micro batch, length]`.
    fn weights(&self, targets: Range<usize>, shape: [usize; 2], on: &Device) -> Option<Tensor<2>> {
        let scored = self.batch.scored.as_ref()?;
        let share = 1.0 / scored.iter().filter(|&&scored| scored).count() as f32;
        let weights: Vec<f32> =
            scored[targets].iter().map(|&scored| if scored { share } else { 0.0 }).collect();
        Some(device::upload(TensorData::new(weights, shape), on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longwave_data::{Sampling, TokenFile, batch};
    use longwave_position::TrainingPositions;

    fn tokens() -> TokenFile {
        TokenFile::from_documents(&[("count", &(0..1000).collect::<Vec<_>>())])
    }

    /// The step's rows, taken from texts as a dataset takes them.
    fn feed(config: &TrainConfig, seed: u64, step: u64) -> TrainBatch {
        let texts = config.sequences() / config.positions.rows_per_text();
        let lengths = Lengths { train: config.length, length: config.length };
        let length = config.positions.text_length(lengths);
        let texts = batch(&tokens(), config.sampling, seed, step, texts, length).unwrap();
        TrainBatch::read(config, lengths, texts, [seed, step])
    }

    fn config(positions: TrainingPositions) -> TrainConfig {
        let mut config =
            TrainConfig { length: 8, batch_tokens: 64, accumulation: 2, ..TrainConfig::default() };
        config.positions = positions;
        config.sampling = Sampling::Random;
        config
    }

    #[test]
    fn contiguous_rows_are_the_batch_itself() {
        let config = config(TrainingPositions::Contiguous);
        let feed = feed(&config, 3, 5);
        assert_eq!(feed.batch, batch(&tokens(), Sampling::Random, 3, 5, 8, 8).unwrap());
        let parts = [0, 1].map(|part| feed.micro_batch(&config, part, &Device::flex()));
        let read: Vec<i32> = parts
            .iter()
            .flat_map(|part| part.inputs.clone().into_data_as::<i32>().try_to_vec::<i32>().unwrap())
            .collect();
        assert!(read.iter().zip(&feed.batch.inputs).all(|(&a, &b)| a as u32 == b));
        assert_eq!(parts[1].positions, Positions::range(0..8));
    }

    #[test]
    fn segments_read_on_and_begin_at_zero() {
        let config = config(TrainingPositions::Segments { count: 4, max_position: None });
        let feed = feed(&config, 0, 0);
        assert_eq!(feed.batch.starts.len(), 8);
        assert!(feed.batch.starts[..4].windows(2).all(|pair| pair[1] == pair[0] + 8));
        assert_ne!(feed.batch.starts[4], feed.batch.starts[3] + 8);
        assert_eq!(feed.positions, Positions::range(0..8));
    }

    #[test]
    fn parts_keep_the_positions_of_their_rows() {
        let pose = TrainingPositions::Pose {
            max_position: longwave_position::Tokens::times(4.0),
            max_skip: Some(5),
        };
        let config = config(pose);
        let feed = feed(&config, 0, 0);
        let parts = [0, 1].map(|part| feed.micro_batch(&config, part, &Device::flex()).positions);
        assert_eq!([parts[0].values(), parts[1].values()].concat(), feed.positions.values());
        // Tokens are their own places in the text: what is skipped shows, and no target is.
        let rows = feed.batch.inputs.iter().zip(&feed.batch.targets);
        assert!(rows.clone().all(|(input, target)| target == &(input + 1)));
        let ends = feed.batch.inputs.chunks(8).zip(&feed.batch.starts);
        assert!(ends.clone().any(|(row, &start)| row[7] as usize > start + 7));
        assert!(ends.clone().all(|(row, &start)| row[7] as usize <= start + 7 + 5));
    }

    #[test]
    fn every_row_that_reads_no_memory_begins_as_texts_do() {
        let folder = tempfile::tempdir().unwrap();
        let [corpus, cache] = ["a.txt", "cache"].map(|name| folder.path().join(name));
        std::fs::write(&corpus, ('a'..='z').cycle().take(4000).collect::<String>()).unwrap();
        let open = |position: &str, train: &str| {
            let text = format!(
                "name = 'x'\nseed = 1\nposition = {{ {position} }}\n[data]\ncorpus = '{}'\ncache = '{}'\nbos = '^'\n[train]\n\
                 length = 16\nbatch_tokens = 64\n{train}\n",
                corpus.display(),
                cache.display()
            );
            let run = RunConfig::from_table(text.parse().unwrap()).unwrap();
            let dataset = Dataset::open(&run.data, &mut |_| ()).unwrap();
            (run, dataset)
        };
        let firsts = |rows: &TrainBatch| rows.batch.inputs.iter().copied().step_by(16).collect::<Vec<_>>();
        let begin = u32::from(b'^');
        for (train, step) in [
            ("sampling = 'random'", 0),
            ("sampling = 'shuffled'", 3),
            ("sampling = 'sequential'", 0),
            ("sampling = 'sequential'", 3),
            ("positions = { kind = 'segments', count = 4 }", 2),
            ("positions = { kind = 'pose' }", 2),
        ] {
            let (run, dataset) = open("kind = 'rope'", train);
            let rows = TrainBatch::of_step(&run, 0, &dataset, step).unwrap();
            assert_eq!((firsts(&rows), rows.continues()), (vec![begin; 4], false), "{train}");
            let count = rows.batch.inputs.iter().filter(|token| **token == begin).count();
            assert_eq!(count, 4, "{train}: the rest is the text");
        }
        let (run, dataset) = open("kind = 'transformer_xl', memory = 16", "sampling = 'sequential'");
        let of_step = |step| TrainBatch::of_step(&run, 0, &dataset, step).unwrap();
        assert_eq!(firsts(&of_step(0)), [begin; 4]);
        let (before, now) = (of_step(2), of_step(3));
        let follows: Vec<u32> = before.batch.targets.chunks(16).map(|row| row[15]).collect();
        assert_eq!((firsts(&now), now.continues()), (follows, true));
        assert_eq!(firsts(&now.alone(&dataset)), [begin; 4]);
    }

    #[test]
    fn a_task_is_scored_on_its_answers_wherever_it_is_read() {
        let text = "name = \"x\"
seed = 1
[data]
task = { kind = \"copy\" }
[position]
kind = \"rope\"
[train]
\
                    length = 16
batch_tokens = 128
accumulation = 2
";
        let run = RunConfig::from_table(text.parse().unwrap()).unwrap();
        let dataset = Dataset::open(&run.data, &mut |_| ()).unwrap();
        let drawn = |positions: TrainingPositions| {
            let mut run = run.clone();
            run.train.positions = positions;
            let feed = TrainBatch::of_step(&run, 0, &dataset, 4).unwrap();
            let config = &run.train;
            let weights = |part| feed.micro_batch(config, part, &Device::flex()).weights.unwrap();
            let sum: f32 = (weights(0).sum() + weights(1).sum()).into_scalar();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            feed
        };
        let plain = drawn(TrainingPositions::Contiguous);
        assert!(plain.batch.scored.as_ref().unwrap().contains(&false));
        let far = longwave_position::Tokens::times(4.0);
        let pose = drawn(TrainingPositions::Pose { max_position: far, max_skip: Some(0) });
        assert_eq!((&pose.batch.targets, &pose.batch.scored), (&plain.batch.targets, &plain.batch.scored));
        assert_ne!(pose.positions, plain.positions);
    }
}
