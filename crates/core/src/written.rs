//! Values written as JSON or TOML.
//!
//! What the program writes can be written: an error is a fault of the program, and names what it was about to write.

use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt::Display;
use toml::{Table, Value};

pub fn json(what: impl Display, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| failed(what, "JSON", &error))
}

/// JSON for people: a line for each field, and an end of the last.
pub fn json_lines(what: impl Display, value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| failed(what, "JSON", &error))?;
    Ok(text + "\n")
}

pub fn json_value(what: impl Display, value: &impl Serialize) -> Result<Json> {
    serde_json::to_value(value).map_err(|error| failed(what, "JSON", &error))
}

pub fn toml(what: impl Display, value: &impl Serialize) -> Result<String> {
    toml::to_string(value).map_err(|error| failed(what, "TOML", &error))
}

pub fn toml_value(what: impl Display, value: &impl Serialize) -> Result<Value> {
    Value::try_from(value).map_err(|error| failed(what, "TOML", &error))
}

pub fn toml_table(what: impl Display, value: &impl Serialize) -> Result<Table> {
    Table::try_from(value).map_err(|error| failed(what, "TOML", &error))
}

fn failed(what: impl Display, form: &str, error: &dyn Display) -> Error {
    Error::failed(format!("{what} cannot be written as {form}: {error}"))
}
