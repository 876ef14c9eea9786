//! `longwave validate`: checks a config without running it.

use crate::configs::load_config;
use crate::options::ConfigArgument;
use crate::output::data;
use burn::tensor::Device;
use clap::Args;
use longwave_core::Result;
use longwave_experiment::obstacles;
use longwave_train::memory_check;

/// Check a config without running it
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Change a key of the config, as `train.steps=200`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs the command: prints the config with every default written out.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let config = load_config(arguments.config.required()?, &arguments.set)?;
    // The vocabulary of a tokenizer's file is not known yet.
    memory_check::check(&config.run, config.run.data.vocab_size().unwrap_or(1), &Device::flex())?;
    if let Some(obstacle) = obstacles(&config)?.into_iter().flatten().flatten().next() {
        return Err(obstacle.error);
    }
    let text = toml::to_string(&config.to_table()?).map_err(|error| {
        longwave_core::Error::failed(format!("the config cannot be written as TOML: {error}"))
    })?;
    data(&text)
}
