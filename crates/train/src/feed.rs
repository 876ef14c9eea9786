//! What a step reads: rows of tokens, their targets and their positions.
//!
//! A pure function of the training text, the config, the seed and the step, so that resuming needs no saved
//! state.

use crate::config::TrainConfig;
use crate::run_config::RunConfig;
use crate::trainer::upload;
use burn::tensor::{Device, Int, Tensor};
use longwave_core::{Error, Result};
use longwave_data::{Batch, Sampling, TokenFile, batch};
use longwave_position::{Init, Positions};

/// The rows of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    batch: Batch,
    positions: Positions,
}

/// A part of a step that is computed at once.
#[derive(Clone, Debug)]
pub struct Part {
    /// Token ids `[micro batch, length]`.
    pub inputs: Tensor<2, Int>,
    /// The token after each, `[micro batch, length]`.
    pub targets: Tensor<2, Int>,
    /// Positions `[1 or micro batch, length]`.
    pub positions: Positions,
}

impl Feed {
    /// The rows of a step.
    ///
    /// # Errors
    /// The training text is shorter than what a row is taken from.
    pub fn of_step(config: &TrainConfig, tokens: &TokenFile, seed: u64, step: u64) -> Result<Self> {
        let (positions, lengths, rows) = (&config.positions, config.lengths(), config.sequences());
        let texts = rows / positions.rows_per_text();
        let texts = batch(tokens, config.sampling, seed, step, texts, positions.text_length(lengths))?;
        let drawn = positions.draw(seed, step, rows, lengths);
        let batch = match &drawn.tokens {
            Some(columns) => texts.columns(columns),
            None => texts.cut(config.length),
        };
        Ok(Self { batch, positions: drawn.positions })
    }

    /// Whether each row goes on where the same row of the step before ended.
    pub fn continues(&self) -> bool {
        self.batch.continues
    }

    /// One of the `accumulation` parts, on a device.
    pub fn part(&self, config: &TrainConfig, part: usize, device: &Device) -> Part {
        let (rows, length) = (config.micro_batch(), self.batch.length);
        let range = part * rows..(part + 1) * rows;
        let upload = |tokens: &[u32]| {
            upload(&tokens[range.start * length..range.end * length], [rows, length], device)
        };
        Part {
            inputs: upload(&self.batch.inputs),
            targets: upload(&self.batch.targets),
            positions: self.positions.of_rows(range.clone()),
        }
    }
}

/// Whether the encoding of a config can be fed as the config says.
///
/// # Errors
/// It has no value for some of the positions it is trained with, or would learn nothing from them; or it
/// carries a memory, and rows do not continue those of the step before.
pub fn check(config: &RunConfig) -> Result<()> {
    let train = &config.train;
    let memory = config.position.memory();
    if memory > 0 && train.sampling != Sampling::Sequential {
        return Err(Error::value(
            "position.memory",
            memory,
            "rows must go on where they ended a step before",
        )
        .hint("set `train.sampling = \"sequential\"`"));
    }
    if memory == 0 && train.positions.is_contiguous() {
        return Ok(());
    }
    // The vocabulary is not known yet, and plays no part in this.
    let resolved = config.model.resolve(1, train.length)?;
    let init = Init::new(config.seed, &Device::flex());
    let reading = config.position.build("position", &resolved.dimensions, &init, resolved.log_n())?;
    train.positions.check("train.positions", &reading, train.lengths())
}

#[cfg(test)]
mod tests {
    use super::*;
    use longwave_position::TrainingPositions;

    fn tokens() -> TokenFile {
        TokenFile::from_documents(&[("count", &(0..1000).collect::<Vec<_>>())])
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
        let feed = Feed::of_step(&config, &tokens(), 3, 5).unwrap();
        assert_eq!(feed.batch, batch(&tokens(), Sampling::Random, 3, 5, 8, 8).unwrap());
        let parts = [0, 1].map(|part| feed.part(&config, part, &Device::flex()));
        let read: Vec<i32> = parts
            .iter()
            .flat_map(|part| part.inputs.clone().into_data_as::<i32>().try_to_vec::<i32>().unwrap())
            .collect();
        assert!(read.iter().zip(&feed.batch.inputs).all(|(&a, &b)| a as u32 == b));
        assert_eq!(parts[1].positions, Positions::range(0..8));
    }

    #[test]
    fn segments_read_on_and_begin_anew() {
        let config = config(TrainingPositions::Segments { count: 4, max_position: None });
        let feed = Feed::of_step(&config, &tokens(), 0, 0).unwrap();
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
        let feed = Feed::of_step(&config, &tokens(), 0, 0).unwrap();
        let parts = [0, 1].map(|part| feed.part(&config, part, &Device::flex()).positions);
        assert_eq!([parts[0].values(), parts[1].values()].concat(), feed.positions.values());
        // Tokens are their own places in the text: what is skipped shows, and no target is.
        let rows = feed.batch.inputs.iter().zip(&feed.batch.targets);
        assert!(rows.clone().all(|(input, target)| target == &(input + 1)));
        let ends = feed.batch.inputs.chunks(8).zip(&feed.batch.starts);
        assert!(ends.clone().any(|(row, &start)| row[7] as usize > start + 7));
        assert!(ends.clone().all(|(row, &start)| row[7] as usize <= start + 7 + 5));
    }
}
