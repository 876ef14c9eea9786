//! `longwave schema`: the JSON schema of a config.

use crate::output::data;
use clap::Args;
use longwave_core::{Error, Result};

/// Print the JSON schema of a config
#[derive(Args, Debug)]
pub(crate) struct Arguments;

/// Runs the command.
pub(crate) fn run(_: &Arguments) -> Result<()> {
    let schema = serde_json::to_string_pretty(&longwave_experiment::schema())
        .map_err(|error| Error::failed(format!("the schema cannot be written as JSON: {error}")))?;
    data(&(schema + "\n"))
}
