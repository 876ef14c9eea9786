//! `temperature`: what divides the logits, one number for all heads or one for each head of each layer.

use crate::encoding::check_positive;
use crate::reading::{LayerReading, Temperature};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The value of the key `temperature`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "it must be a number, or a list with a row of numbers for each layer")]
pub enum Temperatures {
    /// The same in every head of every layer.
    All(f64),
    /// A row for each layer that the extension changes, with a number for each head.
    Heads(Vec<Vec<f64>>),
}

impl Temperatures {
    pub(crate) fn check(&self, section: &str) -> Result<()> {
        let check = |key: &str, number: f64| {
            check_positive(section, key, number).map_err(|error| {
                error.hint("it divides the logits: below 1 sharpens attention, above 1 flattens it")
            })
        };
        match self {
            Self::All(temperature) => check("temperature", *temperature),
            Self::Heads(rows) => rows.iter().enumerate().try_for_each(|(layer, row)| {
                let mut numbers = row.iter().enumerate();
                numbers
                    .try_for_each(|(head, number)| check(&format!("temperature[{layer}][{head}]"), *number))
            }),
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
    pub(crate) fn apply(
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
            "description": "Divides the logits: one number, or a row for each layer with a number for each head. That of `yarn` takes \
                            the place of its own factor.",
            "anyOf": [number, { "type": "array", "items": { "type": "array", "items": number } }],
        })
    }
}
