//! `longwave schema`: the JSON schema of a config, or of a study file.

use crate::output::data;
use clap::Args;
use longwave_core::{Error, Result};

/// Print the JSON schema of a config, or of a study file
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The schema of a study file
    #[arg(long)]
    study: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let schema = if arguments.study {
        longwave_study::schema::schema()
    } else {
        longwave_experiment::schema().to_value()
    };
    let schema = serde_json::to_string_pretty(&schema)
        .map_err(|error| Error::failed(format!("the schema cannot be written as JSON: {error}")))?;
    data(&(schema + "\n"))
}
