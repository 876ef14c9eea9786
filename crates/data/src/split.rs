//! The parts of a corpus: training, validation and test.

use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A part of the corpus with a purpose of its own.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = other_names)]
pub enum Split {
    /// What the model and the tokenizer learn from.
    Train,
    /// What choices are made by; `validation`, `val` and `dev` are other names for it.
    #[serde(alias = "validation", alias = "val", alias = "dev")]
    Valid,
    /// What results are reported on.
    #[default]
    Test,
}

fn other_names(schema: &mut Schema) {
    if let Some(choices) = schema.get_mut("oneOf").and_then(serde_json::Value::as_array_mut) {
        choices.push(serde_json::json!({ "enum": Split::Valid.names()[1..] }));
    }
}

impl Split {
    /// All splits, in the order of [`Split::index`].
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The names that the split has, also as a folder; there those after the first only beside a folder `train`.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Train => &["train"],
            Self::Valid => &["valid", "validation", "val", "dev"],
            Self::Test => &["test"],
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Split {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|split| split.names().contains(&text)).ok_or_else(|| {
            Error::value("split", format!("\"{text}\""), "it must be one of `train`, `validation`, `test`")
                .hint("`test` is what results are reported on; `valid`, `val` and `dev` are `validation` too")
        })
    }
}
