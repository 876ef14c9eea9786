//! Scaling of queries by a logarithm that grows along the text.

use super::Mask;
use crate::init::Init;
use crate::parameter::ParameterSpec;
use crate::per_layer::at_layer;
use crate::positions::Positions;
use crate::upload::upload_shaped;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use longwave_core::Error;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ops::Range;

/// Scaling of the queries by a logarithm of n, the tokens of the text up to and with the query's own (kexue.fm/archives/8823 and 9708).
///
/// n is the query's position + 1, also where the rows at hand are a piece of a text. Where positions are drawn at
/// random (`train.positions`, the extension `randpos`), they say nothing of n, and rows are counted: the query's own
/// and those before it, in a cache too. A window changes nothing of n, but for `Learned`, whose n are the keys that the
/// window leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LogN {
    /// Queries stay as they are.
    #[default]
    Off,
    /// Trained with it: `ln n / ln L`.
    Trained {
        /// L in tokens.
        train_length: usize,
    },
    /// Added to a model trained without it: `max(1, ln n / ln L)`.
    PostHoc {
        /// L in tokens.
        train_length: usize,
    },
    /// The same with another length behind the logarithms: `max(1, ln(a + n) / ln(a + L))`.
    Shifted {
        a: f64,
        /// L in tokens.
        train_length: usize,
    },
    /// No logarithm: `max(1, sqrt((1 - n^(-2/d)) / (1 - L^(-2/d))))` (Li et al. 2025, arXiv:2501.08570).
    Info {
        /// d.
        head_dim: usize,
        /// L in tokens.
        train_length: usize,
    },
    /// No n at all: the logits of a row by the entropy of its probabilities (Velickovic et al. 2024, arXiv:2410.01104), see
    /// [`entropy_factor`].
    ByEntropy,
    /// `s ln n + b`, with s and b of every head learned: [`LearnedLogN`].
    Learned {
        /// Which row of the learned numbers is the layer's.
        row: usize,
        /// Whether there is a b.
        bias: bool,
        /// Whether it multiplies the whole logits, what encodings add to them too.
        scale_bias: bool,
    },
    /// `1 + beta ln(n + 1)^gamma`: [`AdaptiveLogN`](super::AdaptiveLogN).
    Adaptive {
        /// Which row of the parameters is the layer's.
        row: usize,
        /// Whether beta and gamma are of every query, from the layer's input; else they are numbers of the head.
        from_input: bool,
        /// Whether the maps of the input have biases.
        bias: bool,
    },
}

impl LogN {
    /// The factor on a query that sees `keys` keys, the same in all heads; what is learned comes on top.
    pub fn factor(self, keys: f64) -> f64 {
        let ratio = |length: usize| keys.ln() / (length as f64).ln();
        match self {
            Self::Off | Self::Adaptive { .. } | Self::ByEntropy => 1.0,
            Self::Trained { train_length } => ratio(train_length),
            Self::PostHoc { train_length } => ratio(train_length).max(1.0),
            Self::Shifted { a, train_length } => ((a + keys).ln() / (a + train_length as f64).ln()).max(1.0),
            Self::Info { head_dim, train_length } => {
                let of = |length: f64| 1.0 - length.powf(-2.0 / head_dim as f64);
                (of(keys) / of(train_length as f64)).sqrt().max(1.0)
            }
            Self::Learned { .. } => keys.ln(),
        }
    }

    /// The key that a config says it with.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Shifted { .. } | Self::Info { .. } | Self::ByEntropy => "temperature_law",
            _ => "log_n",
        }
    }

    /// Whether parameters have a part in it.
    pub fn is_learned(self) -> bool {
        matches!(self, Self::Learned { .. } | Self::Adaptive { .. })
    }

    /// Whether what is learned has biases (`model.log_n_bias`).
    pub(crate) fn has_bias(self) -> bool {
        matches!(self, Self::Learned { bias: true, .. } | Self::Adaptive { bias: true, .. })
    }
}

/// What multiplies the logits of rows `[.., queries, keys]` that have these probabilities, `[.., queries, 1]`: with H the entropy of a row
/// in nats, `max(1, -0.037 H^4 + 0.481 H^3 - 2.3 H^2 + 4.917 H - 1.791)`, which is 1 below 0.8 and above 6. The published polynomial was
/// fitted on another model. No gradient flows through it.
pub fn entropy_factor(probabilities: Tensor<4>) -> Tensor<4> {
    let probabilities = probabilities.detach();
    let logarithms = probabilities.clone().add_scalar(1e-9).log();
    let entropy = (probabilities * logarithms).sum_dim(3).neg();
    let polynomial = [0.481, -2.3, 4.917, -1.791]
        .into_iter()
        .fold(entropy.full_like(-0.037), |sum, coefficient| (sum * entropy.clone()).add_scalar(coefficient));
    polynomial.clamp_min(1.0)
}

/// The value of `log_n` in a config: `false`, `true`, `"learned"`, `"adaptive"`, `"power"` or a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogNKind {
    /// Queries stay as they are.
    #[default]
    Off,
    /// `ln n / ln L`.
    Fixed,
    /// `s ln n`, s learned for every head (scalable softmax).
    Learned(LearnedKeys),
    /// `1 + beta ln(n + 1)^gamma`, beta and gamma of every query and head from the layer's input (`ASEntmax`).
    Adaptive,
    /// The same with learned numbers of the head.
    Power,
}

/// Keys of `kind = "learned"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearnedKeys {
    /// Scales what encodings add to the logits too, as for BAM (arXiv:2505.22842); else `q.k` alone.
    pub scale_bias: bool,
}

const LEARNED: &str = "learned";
const ADAPTIVE: &str = "adaptive";
const POWER: &str = "power";

impl LogNKind {
    /// What a model has that is trained on `train_length` tokens; `bias` is for what is learned.
    pub fn of(self, train_length: usize, bias: bool) -> LogN {
        match self {
            Self::Off => LogN::Off,
            Self::Fixed => LogN::Trained { train_length },
            Self::Learned(LearnedKeys { scale_bias }) => LogN::Learned { row: 0, bias, scale_bias },
            Self::Adaptive => LogN::Adaptive { row: 0, from_input: true, bias },
            Self::Power => LogN::Adaptive { row: 0, from_input: false, bias: false },
        }
    }

    pub fn check(self, key: &str, train_length: usize) -> longwave_core::Result<()> {
        let value = match self {
            Self::Off | Self::Adaptive | Self::Power => return Ok(()),
            _ if train_length > 1 => return Ok(()),
            Self::Fixed => "true",
            Self::Learned(_) => "\"learned\"",
        };
        Err(Error::value(key, value, "it divides by the logarithm of `train.length`, which is 1")
            .hint("train on longer sequences, or leave it out"))
    }
}

/// A table, with the kind among its keys.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: String,
    #[serde(default)]
    scale_bias: bool,
}

impl Serialize for LogNKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Fixed => serializer.serialize_bool(true),
            Self::Learned(LearnedKeys { scale_bias: false }) => serializer.serialize_str(LEARNED),
            Self::Learned(LearnedKeys { scale_bias }) => {
                Table { kind: LEARNED.to_owned(), scale_bias: *scale_bias }.serialize(serializer)
            }
            Self::Adaptive => serializer.serialize_str(ADAPTIVE),
            Self::Power => serializer.serialize_str(POWER),
        }
    }
}

impl<'de> Deserialize<'de> for LogNKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Flag(bool),
            Word(String),
            Table(Table),
        }
        let learned = |scale_bias| Ok(Self::Learned(LearnedKeys { scale_bias }));
        match Raw::deserialize(deserializer) {
            Ok(Raw::Flag(false)) => Ok(Self::Off),
            Ok(Raw::Flag(true)) => Ok(Self::Fixed),
            Ok(Raw::Word(word)) if word == LEARNED => learned(false),
            Ok(Raw::Word(word)) if word == ADAPTIVE => Ok(Self::Adaptive),
            Ok(Raw::Word(word)) if word == POWER => Ok(Self::Power),
            Ok(Raw::Table(Table { kind, scale_bias })) if kind == LEARNED => learned(scale_bias),
            _ => Err(serde::de::Error::custom(
                "it must be true, false, \"learned\", \"adaptive\", \"power\" or { kind = \"learned\", scale_bias = true }",
            )),
        }
    }
}

impl JsonSchema for LogNKind {
    fn schema_name() -> Cow<'static, str> {
        "LogN".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let about =
            "The queries of every head times `s ln n`, s learned (scalable softmax, arXiv:2501.19399).";
        let learned = crate::tagged::tagged::<LearnedKeys>(LEARNED, about, generator);
        json_schema!({ "anyOf": [{ "enum": [false, true, LEARNED, ADAPTIVE, POWER] }, learned] })
    }
}

/// The learned part of scalable softmax (Nakanishi 2025, arXiv:2501.19399, equation 2): the logits of query i in head h
/// are `(s_h ln N_i + b_h) z_ij`, with N the keys that the query sees.
///
/// s starts at the reciprocal of the mean of ln n over `n = 1..L`, so that the factor is 1 on average where no window hides keys; b, which the paper
/// finds to help in training and to harm longer texts, at 0. Neither decays.
#[derive(Module, Debug)]
pub struct LearnedLogN {
    /// `[layers, heads]`: factors on ln N.
    pub s: Param<Tensor<2>>,
    /// `[layers, heads]`: what is added, where there is such a term.
    pub b: Option<Param<Tensor<2>>>,
}

impl LearnedLogN {
    pub(crate) fn new(layers: usize, heads: usize, bias: bool, train_length: usize, init: &Init) -> Self {
        let mean = (1..=train_length).map(|n| (n as f64).ln()).sum::<f64>() / train_length as f64;
        Self {
            s: init.constant([layers, heads], 1.0 / mean),
            b: bias.then(|| init.constant([layers, heads], 0.0)),
        }
    }

    pub(crate) fn parameters(&self) -> Vec<ParameterSpec> {
        let spec = |name| ParameterSpec::undecayed(name, &["layers", "heads"]);
        std::iter::once(spec("s")).chain(self.b.as_ref().map(|_| spec("b"))).collect()
    }

    /// The factors on some of the queries by a row of the numbers, `[rows, heads, queries]`; `positions` are those of
    /// all keys.
    pub(crate) fn factors(
        &self,
        row: usize,
        positions: &Positions,
        queries: &Range<usize>,
        mask: Mask,
        device: &Device,
    ) -> Tensor<3> {
        let visible = visible_keys(positions, queries, mask);
        let logs = visible.into_iter().map(f64::ln);
        let logs = upload_shaped(logs, [positions.rows(), 1, queries.len()], device); // [rows, 1, queries]
        let of_heads = |parameter: &Param<Tensor<2>>| {
            at_layer::<2, 1>(parameter, row).unsqueeze_dim::<2>(1).unsqueeze::<3>() // [1, heads, 1]
        };
        let scaled = of_heads(&self.s) * logs; // [rows, heads, queries]
        match &self.b {
            Some(b) => scaled + of_heads(b),
            None => scaled,
        }
    }
}

/// The number of keys that a mask leaves to each of some queries, row after row; `positions` are those of all keys.
pub(super) fn visible_keys(positions: &Positions, queries: &Range<usize>, mask: Mask) -> Vec<f64> {
    let seen = positions.columns(queries.clone());
    let Some(window) = mask.window else { return seen.keys_seen().collect() };
    let rows = positions.values().chunks(positions.length().max(1));
    if positions.consecutive() {
        // A text that begins further on has fewer of the first positions.
        let most = rows.flat_map(|row| {
            let sinks = row.first().map_or(0.0, |first| (mask.sinks as f64 - first).max(0.0));
            std::iter::repeat_n(window as f64 + sinks, queries.len())
        });
        return seen.keys_seen().zip(most).map(|(keys, most)| keys.min(most)).collect();
    }
    let hidden = rows.flat_map(|row| {
        queries.clone().map(move |i| row[..=i].iter().filter(|&&key| mask.hides(row[i], key)).count())
    });
    seen.keys_seen().zip(hidden).map(|(keys, hidden)| keys - hidden as f64).collect()
}

#[cfg(test)]
mod tests;
