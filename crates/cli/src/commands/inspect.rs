//! `longwave inspect`: shows an encoding and what an extension makes of it, or lists what there is.

use super::session::{load_config, reading_of};
use crate::args;
use crate::output::data;
use longwave_core::{Error, Result};
use longwave_inspect::{Picture, catalog, pictures, tables};
use longwave_position::Lengths;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(arguments: &args::Inspect) -> Result<()> {
    let Some(path) = &arguments.config else { return list(arguments.json) };
    let config = load_config(path, &arguments.set)?;
    let train = config.run.train.length;
    let at_training = Lengths { train, length: train };
    let length = arguments.length.map(|length| length.whole("--length", at_training)).transpose()?;
    let lengths = Lengths { length: length.unwrap_or(train), ..at_training };
    let extend = super::eval::one_extension(arguments.extend.as_deref())?;
    let (trained, dimensions) = reading_of(&config.run)?;
    let read = extend.apply(&trained, lengths)?;
    let pictures = pictures(&trained, &read, &extend, lengths, &dimensions)?;
    if arguments.json {
        return json(&pictures);
    }
    data(&pictures.iter().map(Picture::text).collect::<Vec<_>>().join("\n"))
}

/// Every encoding and every extension.
fn list(as_json: bool) -> Result<()> {
    if as_json {
        return json(
            &serde_json::json!({ "encodings": catalog::encodings()?, "extensions": catalog::extensions()? }),
        );
    }
    data(&(tables::encodings()? + "\n" + &tables::extensions()?))
}

fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::failed(format!("the picture cannot be written as JSON: {error}")))?;
    data(&(text + "\n"))
}
