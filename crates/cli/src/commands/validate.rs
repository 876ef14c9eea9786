//! `longwave validate`: checks a config without running it.

use crate::configs::load_config;
use crate::options::ConfigArgument;
use crate::output::lines;
use crate::terminal::{Terminal, describe_notes};
use clap::Args;
use longwave_core::{Result, written};
use longwave_experiment::check;

/// Check a config, its corpus and its tokenizer without running it
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Change a key of the config, as `train.steps=200`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs the command: says how the texts were read, and prints the config with every default written out.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let config = load_config(arguments.config.required()?, &arguments.set)?;
    describe_notes(&check(&config, &mut Terminal::default())?);
    lines(&written::toml("the config", &config.to_table()?)?)
}
