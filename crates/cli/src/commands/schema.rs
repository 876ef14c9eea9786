//! `longwave schema`: the JSON schema of a config.

use crate::output::data;
use longwave_core::{Error, Result};

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let schema = serde_json::to_string_pretty(&longwave_eval::schema())
        .map_err(|error| Error::failed(format!("the schema cannot be written as JSON: {error}")))?;
    data(&(schema + "\n"))
}
