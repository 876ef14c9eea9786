//! A run that has been trained, opened without its corpus.

use crate::checkpoint::{Checkpoint, Meta};
use crate::restore::restored_model;
use crate::run::{CheckpointId, Run, existing_checkpoint};
use crate::run_config::RunConfig;
use burn::tensor::Device;
use longwave_core::Result;
use longwave_data::Tokenizer;
use longwave_model::Gpt;
use longwave_model::resolved::Resolved;
use std::path::Path;

/// A trained model with its tokenizer.
#[derive(Clone, Debug)]
pub struct Trained {
    pub config: RunConfig,
    pub resolved: Resolved,
    /// The weights, without gradients.
    pub model: Gpt,
    pub meta: Meta,
    /// The tokenizer of the run's folder.
    pub tokenizer: Tokenizer,
}

impl Trained {
    /// Opens a checkpoint of a run's folder with the tokenizer that lies beside it. The corpus may be gone: it
    /// is not looked at.
    pub fn open(folder: &Path, which: CheckpointId, device: &Device) -> Result<Self> {
        let config = Run::read(folder)?;
        let checkpoint = Checkpoint::load(&existing_checkpoint(folder, which)?)?;
        let tokenizer = Tokenizer::of_run(folder, checkpoint.meta.tokenizer.as_deref())?;
        let resolved = config.model.resolve(tokenizer.vocab_size(), config.train.length)?;
        let model = restored_model(&config, &resolved, &tokenizer, device, &checkpoint)?;
        Ok(Self { config, resolved, model, meta: checkpoint.meta, tokenizer })
    }
}
