//! The learned parameters of a formula: where they start, and how training treats them.

use super::Formula;
use crate::encoding::Dimensions;
use crate::parameter::ParameterSpec;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names that the start of a parameter knows.
const OF_START: [&str; 6] = ["head", "heads", "layer", "layers", "L", "d"];

/// A learned parameter of a formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "it must be a number, or a table with `start` (a number or a formula) and, where wanted, `per_layer`, \
                 `per_head`, `min`, `max` and `decay`\nhint: `{ start = 1.0, min = 0.0 }` is a parameter with a bound, and \
                 `1.0` one without"
)]
pub enum Parameter {
    /// Where it starts; every layer and head has its own.
    Start(f64),
    /// With its keys.
    Table(ParameterKeys),
}

/// The keys of a learned parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterKeys {
    /// Where it starts: a number, or a formula of `heads`, `layers`, `L`, `d`, of `head` where every head has its own, and of
    /// `layer` where every layer has.
    pub start: Start,
    /// Whether every layer has its own.
    #[serde(default = "yes")]
    pub per_layer: bool,
    /// Whether every head has its own.
    #[serde(default = "yes")]
    pub per_head: bool,
    /// The least value that training allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest value that training allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Whether weight decay pulls it towards 0.
    #[serde(default)]
    pub decay: bool,
}

/// Where a parameter starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Start {
    /// The same for all layers and heads.
    Number(f64),
    /// A formula.
    Formula(String),
}

fn yes() -> bool {
    true
}

impl Parameter {
    pub(crate) fn keys(&self) -> ParameterKeys {
        match self {
            Self::Start(start) => ParameterKeys {
                start: Start::Number(*start),
                per_layer: true,
                per_head: true,
                min: None,
                max: None,
                decay: false,
            },
            Self::Table(keys) => keys.clone(),
        }
    }
}

impl ParameterKeys {
    /// The least and the largest value; infinite where none is given.
    pub(crate) fn bounds(&self) -> [f64; 2] {
        [self.min.unwrap_or(f64::NEG_INFINITY), self.max.unwrap_or(f64::INFINITY)]
    }

    /// `[layers or 1, heads or 1]`.
    pub(crate) fn shape(&self, dimensions: &Dimensions) -> [usize; 2] {
        [if self.per_layer { dimensions.layers } else { 1 }, if self.per_head { dimensions.heads } else { 1 }]
    }

    /// The start of each layer and head, `[layers or 1, heads or 1]` row-major.
    pub(crate) fn starts(&self, key: &str, dimensions: &Dimensions) -> Result<Vec<f64>> {
        let [layers, heads] = self.shape(dimensions);
        let formula = match &self.start {
            Start::Number(number) => Formula::Number(*number),
            Start::Formula(text) => {
                let key = format!("{key}.start");
                let formula = Formula::read(&key, text, &OF_START)?;
                let shared = [("head", "per_head", self.per_head), ("layer", "per_layer", self.per_layer)];
                let named = |(name, _, has_own): &(&str, &str, bool)| !has_own && formula.has(name);
                if let Some((name, switch, _)) = shared.into_iter().find(named) {
                    let what = format!("`{name}` cannot stand in it, as every {name} has the same parameter");
                    return Err(Error::value(&key, format!("{text:?}"), what)
                        .hint(format!("write it without `{name}`, or remove `{switch} = false`")));
                }
                formula
            }
        };
        let at = |layer, head| formula.number(&|name| of_sizes(name, layer, head, dimensions));
        let places = (0..layers).flat_map(|layer| (0..heads).map(move |head| (layer, head)));
        Ok(places.map(|(layer, head)| at(layer, head)).collect())
    }

    /// What training knows of it, by its place in the list of parameters.
    pub(crate) fn spec(&self, index: usize) -> ParameterSpec {
        let axes: &[&str] = match (self.per_layer, self.per_head) {
            (true, true) => &["layers", "heads"],
            (true, false) => &["layers", "one"],
            (false, true) => &["one", "heads"],
            (false, false) => &["one", "one"],
        };
        let name = format!("values.{index}");
        let spec = if self.decay {
            ParameterSpec::decayed(name, axes)
        } else {
            ParameterSpec::undecayed(name, axes)
        };
        match self.bounds() {
            [least, most] if least > f64::NEG_INFINITY || most < f64::INFINITY => spec.bounded(least, most),
            _ => spec,
        }
    }
}

/// The value of a name that sizes, layer and head decide; NaN for any other.
pub(crate) fn of_sizes(name: &str, layer: usize, head: usize, dimensions: &Dimensions) -> f64 {
    match name {
        "head" => head as f64 + 1.0,
        "heads" => dimensions.heads as f64,
        "layer" => layer as f64,
        "layers" => dimensions.layers as f64,
        "L" => dimensions.train_length as f64,
        "d" => dimensions.head_dim as f64,
        _ => f64::NAN,
    }
}
