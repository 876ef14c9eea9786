//! `longwave validate`: checks a config without running it.

use super::session::{load_config, reading_of};
use crate::args;
use crate::output::data;
use burn::tensor::Device;
use longwave_core::Result;
use longwave_train::memory_check;

/// Runs the command: prints the config with every default written out.
pub(crate) fn run(arguments: &args::Validate) -> Result<()> {
    let config = load_config(&arguments.config, &arguments.set)?;
    // The vocabulary of a tokenizer's file is not known yet.
    memory_check::check(&config.run, config.run.data.vocab_size().unwrap_or(1), &Device::flex())?;
    reading_of(&config.run)?;
    let text = toml::to_string(&config.to_table()?).map_err(|error| {
        longwave_core::Error::failed(format!("the config cannot be written as TOML: {error}"))
    })?;
    data(&text)
}
