//! How a config's model reads positions, before any weight is trained.

use crate::config::Config;
use burn::tensor::Device;
use longwave_core::Result;
use longwave_eval::Obstacle;
use longwave_model::complex_weights::WeightKind;
use longwave_model::resolved::Resolved;
use longwave_position::{Init, Reading};
use longwave_train::{RunConfig, memory_check, reading_after};

/// How a config's model reads positions after its last stage, with fresh parameters, and the model's sizes. Only the
/// data knows the vocabulary, so it counts as one token here.
///
/// # Errors
/// The encoding does not fit the model's sizes or its parts, or the extension of a stage does not apply.
pub fn reading_of(config: &RunConfig) -> Result<(Reading, Resolved)> {
    let (fresh, resolved) = first(config, &Init::new(config.seed, &Device::flex()), 1)?;
    Ok((reading_after(config, &fresh, config.last_stage())?, resolved))
}

/// The same with parameters that have shapes and no numbers yet: enough to check a config, whatever its sizes.
fn undrawn(config: &RunConfig) -> Result<Reading> {
    let (fresh, _) = undrawn_first(config, 1)?;
    reading_after(config, &fresh, config.last_stage())
}

/// How the model reads before its first stage, with parameters that have no numbers yet.
pub(crate) fn undrawn_first(config: &RunConfig, vocab_size: usize) -> Result<(Reading, Resolved)> {
    first(config, &Init::counting(&Device::flex()), vocab_size)
}

fn first(config: &RunConfig, init: &Init, vocab_size: usize) -> Result<(Reading, Resolved)> {
    let resolved = config.model.resolve(vocab_size, config.train.length)?;
    let fresh = config
        .position
        .build("position", &resolved.dimensions, init, resolved.log_n())?
        .with_attention(config.model.attention)?;
    resolved.check_weight_kind(WeightKind::of(fresh.capabilities().makes_complex()))?;
    Ok((fresh, resolved))
}

/// What a config's evaluations ask for that does not apply to its model, block by block; `None` for a model that does not
/// fit in memory, which is not built.
///
/// # Errors
/// As [`reading_of`], or a value of a block is not allowed.
pub fn obstacles(config: &Config) -> Result<Option<Vec<Vec<Obstacle>>>> {
    let run = &config.run;
    if memory_check::lack(run, run.data.vocab_size().unwrap_or(1))?.is_some() {
        return Ok(None);
    }
    let reading = undrawn(run)?;
    let of = |(index, it): (usize, &longwave_eval::Evaluation)| {
        longwave_eval::obstacles(&reading, &it.block, &format!("evaluate[{index}]"))
    };
    config.evaluations().iter().enumerate().map(of).collect::<Result<_>>().map(Some)
}
