//! A run's model: fresh weights, or those of a checkpoint, read as the stages so far have it.

use crate::checkpoint::{Checkpoint, StageReading};
use crate::run_config::RunConfig;
use crate::stage::StageConfig;
use burn::module::Module;
use burn::tensor::Device;
use longwave_core::{Error, Result, written};
use longwave_data::Tokenizer;
use longwave_model::Gpt;
use longwave_model::resolved::Resolved;
use longwave_position::layout::TextLayout;
use longwave_position::{ExtensionConfig, Init, Lengths, Positions, Reading};

/// A reading as `stage` of a config trains it, made from that of a fresh or trained model.
pub fn reading_after(config: &RunConfig, fresh: &Reading, stage: usize) -> Result<Reading> {
    let mut reading = config.as_published(fresh.clone())?;
    for stage in 1..=stage {
        reading = begin(config, &reading, stage)?;
    }
    Ok(reading)
}

/// The reading of the stage before, changed as `stage` says.
pub(crate) fn begin(config: &RunConfig, before: &Reading, stage: usize) -> Result<Reading> {
    let lengths = config.lengths(stage);
    let StageConfig { extend, trained, .. } = &config.stages[stage - 1];
    trained_on(extend, trained.head_scale(), before, lengths)
        .and_then(|reading| reading.check(&Positions::range(0..lengths.length)).map(|()| reading))
        .map_err(|error| error.context(format!("`{}`", RunConfig::section(stage))))
}

/// The reading that a stage trains. A memory's segments are as long as its sequences from then on.
fn trained_on(
    extend: &ExtensionConfig,
    head_scale: Option<f64>,
    before: &Reading,
    lengths: Lengths,
) -> Result<Reading> {
    let mut reading = extend.apply(before, lengths)?;
    if reading.has_learned_copies(before) {
        return Err(Error::usage(format!(
            "`layers` of `{}` changes some of the layers that share the parameters of `{}`, and training cannot move one \
             set of numbers in two ways",
            extend.kind(),
            before.name()
        ))
        .hint("leave `layers` out of a stage, or give those layers an entry of their own in `position.layers`"));
    }
    match reading.layout() {
        TextLayout::Contiguous => {}
        TextLayout::Recurrent { memory, .. } => {
            reading.set_layout(TextLayout::Recurrent { length: lengths.length, memory });
        }
        TextLayout::Drawn { .. } | TextLayout::Cells { .. } | TextLayout::Segments { .. } => {
            return Err(Error::usage(format!(
                "`{}` lays out texts that are read, not trained on",
                extend.kind()
            ))
            .hint("give the stage `positions`, whose kinds are `randpos`, `float` and `segments` too"));
        }
    }
    match head_scale {
        None => Ok(reading),
        Some(start) => reading.with_head_scale(start).map_err(|error| {
            error.hint("`train = \"head_scale\"` is for softmax attention; leave it out of the stage")
        }),
    }
}

/// The readings of the stages of a config up to one, as a checkpoint records them.
pub(crate) fn recorded(config: &RunConfig, stage: usize) -> Result<Vec<StageReading>> {
    config.stages[..stage]
        .iter()
        .map(|stage| {
            let extend = written::json_value(format!("`{}`", stage.extend.kind()), &stage.extend)?;
            Ok(StageReading { length: stage.train.length, extend, head_scale: stage.trained.head_scale() })
        })
        .collect()
}

/// A model with fresh weights on `device`, which reads as its file says where it was imported. One that is trained needs a device that tracks gradients.
pub fn fresh_model(config: &RunConfig, resolved: &Resolved, device: &Device) -> Result<Gpt> {
    let mut model = Gpt::new(resolved, &config.position, &Init::new(config.seed, device))?;
    model.position = config.as_published(model.position)?;
    Ok(model)
}

/// The model of a checkpoint on `device`, without gradients.
pub fn restored_model(
    config: &RunConfig,
    resolved: &Resolved,
    tokenizer: &Tokenizer,
    device: &Device,
    checkpoint: &Checkpoint,
) -> Result<Gpt> {
    let mut fresh = fresh_model(config, resolved, device)?;
    fresh.position.set_digits(|| tokenizer.digits())?;
    Ok(restore(config, fresh, device, checkpoint)?.valid())
}

/// Puts the weights of a checkpoint into a `fresh` model of the same config, with the reading that the checkpoint
/// records. `device` is the plain device of the weights.
pub fn restore(config: &RunConfig, fresh: Gpt, device: &Device, checkpoint: &Checkpoint) -> Result<Gpt> {
    checkpoint.weights(read_after(config, fresh, &checkpoint.meta.stages)?, device)
}

/// A fresh model that reads as recorded stages made it read.
pub fn read_after(config: &RunConfig, fresh: Gpt, stages: &[StageReading]) -> Result<Gpt> {
    let mut model = fresh;
    for stage in stages {
        let value = toml::Value::try_from(&stage.extend)
            .map_err(|error| Error::failed(format!("the checkpoint's reading is damaged: {error}")))?;
        let extend = ExtensionConfig::from_value(&value, "the checkpoint's reading")?;
        let lengths = Lengths { train: config.train.length, length: stage.length };
        model.position = trained_on(&extend, stage.head_scale, &model.position, lengths)?;
    }
    Ok(model)
}
