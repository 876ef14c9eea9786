//! `best` of a study file: the length at which everything is ranked, and by what.

use crate::schema::pointed;
use longwave_core::Result;
use longwave_core::config::read;
use longwave_eval::Metric;
use longwave_position::Tokens;
use serde::Deserialize;
use toml::{Table, Value};

/// What a study ranks: `best = "8L"`, or `best = { at = "8L", metric = "bits_per_byte" }`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    pub at: Tokens,
    /// What is compared; what the protocol is about unless given.
    #[serde(default)]
    pub metric: Option<Metric>,
}

impl Best {
    pub(crate) fn in_toml(&self) -> String {
        match self.metric {
            None => self.at.in_toml(),
            Some(metric) => format!("{{ at = {}, metric = \"{}\" }}", self.at.in_toml(), metric.name()),
        }
    }

    /// Takes `best` out of a study's document.
    pub(crate) fn take(document: &mut Table) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Plain {
            best: Tokens,
        }
        match document.remove("best") {
            None => Ok(None),
            Some(Value::Table(table)) => read(&table, "best").map(Some).map_err(pointed),
            Some(value) => {
                let plain: Plain =
                    read(&Table::from_iter([("best".to_owned(), value)]), "").map_err(pointed)?;
                Ok(Some(Self { at: plain.best, metric: None }))
            }
        }
    }
}
