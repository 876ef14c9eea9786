//! `longwave schema`: the JSON schema of a config, or of a study file.

use crate::output::data;
use clap::Args;
use longwave_core::{Result, written};

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
    data(&written::json_lines("the schema", &schema)?)
}
