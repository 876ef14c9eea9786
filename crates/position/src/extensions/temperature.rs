//! `temperature`: what divides the logits, one number for all heads or one for each head of each layer.

use crate::reading::{LayerReading, Temperature};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// The value of the key `temperature`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Temperatures {
    /// The same in every head of every layer.
    All(f64),
    /// A row for each layer that the extension changes, with a number for each head.
    Heads(Vec<Vec<f64>>),
}

impl Temperatures {
    pub(super) fn check(&self, section: &str) -> Result<()> {
        let key = format!("{section}.temperature");
        let numbers: Vec<(String, f64)> = match self {
            Self::All(temperature) => vec![(key, *temperature)],
            Self::Heads(rows) => {
                let of_row = |(layer, row): (usize, &Vec<f64>)| {
                    let number = |(head, &number): (usize, &f64)| (format!("{key}[{layer}][{head}]"), number);
                    row.iter().enumerate().map(number).collect::<Vec<_>>()
                };
                rows.iter().enumerate().flat_map(of_row).collect()
            }
        };
        match numbers.into_iter().find(|(_, number)| !(number.is_finite() && *number > 0.0)) {
            None => Ok(()),
            Some((key, number)) => Err(Error::value(&key, number, "it must be a number above 0")
                .hint("it divides the logits: below 1 sharpens attention, above 1 flattens it")),
        }
    }

    /// That of each of some layers, whose attention has so many heads.
    fn of_layers(&self, layers: usize, heads: usize) -> Result<Vec<Temperature>> {
        let rows = match self {
            Self::All(temperature) => return Ok(vec![Temperature::All(*temperature); layers]),
            Self::Heads(rows) => rows,
        };
        let wrong = |what: String| {
            Err(Error::usage(format!(
                "`temperature` {what}; it changes {layers} layers of {heads} heads each"
            ))
            .hint("give a row for each layer that the extension changes, with a number for each head: `temperature = [[0.8, 1.0], ..]`"))
        };
        if rows.len() != layers {
            return wrong(format!("has {} rows", rows.len()));
        }
        if let Some((layer, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != heads) {
            return wrong(format!("has {} numbers in row {layer}", row.len()));
        }
        Ok(rows.iter().map(|row| Temperature::Heads(row.clone())).collect())
    }

    /// Divides the logits of those layers that `divides` chooses; the value has a row for every layer.
    pub(super) fn apply(
        &self,
        layers: &mut [LayerReading],
        heads: usize,
        divides: impl Fn(&LayerReading) -> bool,
    ) -> Result<()> {
        let temperatures = self.of_layers(layers.len(), heads)?;
        for (layer, temperature) in layers.iter_mut().zip(temperatures) {
            if divides(layer) {
                layer.temperature = layer.temperature.times(&temperature);
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Temperatures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            All(f64),
            Heads(Vec<Vec<f64>>),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::All(temperature)) => Ok(Self::All(temperature)),
            Ok(Raw::Heads(rows)) => Ok(Self::Heads(rows)),
            Err(_) => {
                Err(D::Error::custom("it must be a number, or a list with a row of numbers for each layer"))
            }
        }
    }
}

impl JsonSchema for Temperatures {
    fn schema_name() -> Cow<'static, str> {
        "Temperatures".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        let number = serde_json::json!({ "type": "number", "exclusiveMinimum": 0 });
        json_schema!({
            "description": "Divides the logits: one number, or a row for each layer with a number for each head.",
            "anyOf": [number, { "type": "array", "items": { "type": "array", "items": number } }],
        })
    }
}
