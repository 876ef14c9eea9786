//! What a run knows of a model that was not trained here.

use longwave_core::{Error, Result};
use longwave_position::extensions::rope_parameters::{Rotary, of_model};
use longwave_position::reading::{Published, Rescale};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// `[imported]`: written by `longwave import` where the weights were not trained here. Such a run is read and not trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// SHA-256 of the weights.
    pub weights: String,
    /// What the scaling of positions in its file is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<FileScaling>,
    /// Its `config.json`, as text: what its positions are, and what an export writes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// What the scaling of positions in a published file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileScaling {
    /// The model was trained with it: every reading has it, and L is the length after scaling.
    #[default]
    Trained,
    /// Somebody added it for reading: the model is read without it unless an extension asks for it, and L is the length before
    /// scaling.
    Added,
}

impl fmt::Display for FileScaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trained => "trained",
            Self::Added => "added",
        })
    }
}

impl FromStr for FileScaling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "trained" => Ok(Self::Trained),
            "added" => Ok(Self::Added),
            other => Err(Error::usage(format!("`{other}` is not known: it must be `trained` or `added`")).hint(
                "`trained`: the model was trained with the scaling of its file; `added`: somebody added it to read longer texts",
            )),
        }
    }
}

impl Imported {
    /// Its `config.json`, where it has one.
    pub fn config(&self) -> Result<Option<Map<String, Value>>> {
        let read = |text: &String| {
            serde_json::from_str(text).map_err(|error| {
                Error::usage(format!("`imported.config` is damaged: {error}")).hint("import the model again")
            })
        };
        self.config.as_ref().map(read).transpose()
    }

    /// What its file says of its positions.
    pub fn published(&self) -> Result<Option<Published>> {
        let Some(config) = self.config()? else { return Ok(None) };
        let Rotary { counts_from, scaling, .. } =
            of_model(&config).map_err(|error| error.context("`imported.config`"))?;
        let trained = self.scaling == Some(FileScaling::Trained);
        let scaling = scaling.filter(|_| trained).map(|scaling| Arc::new(scaling) as Arc<dyn Rescale>);
        Ok(counts_from.map(|length| Published { length, scaling }))
    }
}
