//! `longwave inspect`: shows an encoding and what an extension makes of it, or lists what there is.

use crate::configs::load_config;
use crate::options::{ConfigArgument, one_extension};
use crate::output::data;
use clap::Args;
use longwave_core::{Error, Result};
use longwave_experiment::reading_of;
use longwave_inspect::{Picture, catalog, pictures, tables};
use longwave_position::{Lengths, Tokens};
use serde::Serialize;

/// Show an encoding in full, and what an extension makes of it, or list all there are
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// List every encoding and every extension instead, as two Markdown tables
    #[arg(long, conflicts_with_all = ["file", "config", "set", "length", "extend"])]
    list: bool,
    /// Change a key of the config, as `position.base=500000.0`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The length that is read, in tokens or as a multiple of the training length such as `4L`; the training length
    /// unless given
    #[arg(long, value_name = "N|4L")]
    length: Option<Tokens>,
    /// The extension it is read with: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    extend: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        return list(arguments.json);
    }
    let config = load_config(arguments.config.required()?, &arguments.set)?;
    let train = config.run.train.length;
    let at_training = Lengths { train, length: train };
    let length = arguments.length.map(|length| length.whole("--length", at_training)).transpose()?;
    let lengths = Lengths { length: length.unwrap_or(train), ..at_training };
    let extend = one_extension(arguments.extend.as_deref())?;
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
