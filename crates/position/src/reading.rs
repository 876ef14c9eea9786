//! A reading: the encoding of every layer, with its geometry, masks and scales.
//!
//! It is what the model is given for a forward pass. A fresh model reads as its config says; an
//! extension changes the reading, never other weights.

use crate::encoding::{Dimensions, Geometry, HeadUse, Heads, Position, PositionUse, QueryBlock, Rows};
use crate::encodings::{Encoding, EncodingConfig};
use crate::frequency::Rotation;
use crate::init::Init;
use crate::layout::TextLayout;
use crate::positions::Positions;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_core::{Error, Result};
use longwave_kernels::{Attention, Bias};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::borrow::Cow;
use toml::Value;

/// `[position]`: one encoding, or a list of them whose hooks compose in order.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionConfig {
    encodings: Vec<EncodingConfig>,
}

impl PositionConfig {
    /// Reads the `[position]` table or list.
    ///
    /// # Errors
    /// An unknown kind or key, a wrong type, or an empty list.
    pub fn from_value(value: &Value, section: &str) -> Result<Self> {
        let encodings = match value {
            Value::Array(items) if items.is_empty() => {
                return Err(Error::usage(format!("`{section}` is an empty list"))
                    .hint("for a model without positional encoding write `kind = \"none\"`"));
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| EncodingConfig::from_value(item, &format!("{section}[{index}]")))
                .collect::<Result<_>>()?,
            one => vec![EncodingConfig::from_value(one, section)?],
        };
        Ok(Self { encodings })
    }

    /// Names the encoding in tables and rows: the kinds joined by `+`.
    pub fn name(&self) -> String {
        self.encodings.iter().map(EncodingConfig::kind).collect::<Vec<_>>().join("+")
    }

    /// Checks the values against the model's sizes.
    ///
    /// # Errors
    /// A value that is not allowed, or two encodings that both rotate.
    pub fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        let one = self.encodings.len() == 1;
        for (index, encoding) in self.encodings.iter().enumerate() {
            let section = if one { section.to_owned() } else { format!("{section}[{index}]") };
            encoding.validate(&section, dimensions)?;
        }
        Ok(())
    }

    /// Tokens of the segment before that every layer also attends to.
    pub fn memory(&self) -> usize {
        self.encodings.iter().map(EncodingConfig::memory).max().unwrap_or_default()
    }

    /// Builds the reading of a fresh model.
    ///
    /// # Errors
    /// As [`validate`](Self::validate), or two encodings that both rotate.
    pub fn build(&self, section: &str, dimensions: &Dimensions, init: &Init, log_n: LogN) -> Result<Reading> {
        self.validate(section, dimensions)?;
        let encodings: Vec<_> = self.encodings.iter().map(|config| config.build(dimensions, init)).collect();
        if encodings.iter().filter(|encoding| encoding.rotation(0).is_some()).count() > 1 {
            return Err(Error::usage(format!("`{section}` rotates q and k twice: `{}`", self.name()))
                .hint("keep one rotary encoding in the list"));
        }
        let uses = encodings.iter().filter(|encoding| encoding.head_use() != HeadUse::None).count();
        if uses > 1 && encodings.iter().any(|encoding| encoding.head_use() == HeadUse::Widens) {
            return Err(Error::usage(format!(
                "`{section}` lists encodings that cannot share q and k: `{}`: one makes them wider, another needs \
                 their width",
                self.name()
            ))
            .hint("keep one of `pope`, `transformer_xl`, `tupe`, `shaw`, `deberta` and `cope` in the list"));
        }
        let layer = LayerReading {
            encodings: (0..encodings.len()).collect(),
            geometry: None,
            mask: Mask::default(),
            log_n,
            logit_scale: 1.0,
        };
        let layout = TextLayout::fresh(&self.encodings, section, dimensions, log_n)?;
        Ok(Reading { encodings, layers: vec![layer; dimensions.layers], layout })
    }
}

impl Serialize for PositionConfig {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.encodings.as_slice() {
            [one] => one.serialize(serializer),
            list => list.serialize(serializer),
        }
    }
}

impl JsonSchema for PositionConfig {
    fn schema_name() -> Cow<'static, str> {
        "PositionConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<EncodingConfig>();
        json_schema!({
            "description": "The positional encoding, or a list of encodings whose hooks compose in order.",
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }]
        })
    }
}

/// Scaling of the queries by the logarithm of their position (kexue.fm/archives/8823 and 9708).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogN {
    /// Queries stay as they are.
    #[default]
    Off,
    /// Trained with it: `ln(m + 1) / ln L` at position m.
    Trained {
        /// L in tokens.
        train_length: usize,
    },
    /// Added to a model trained without it: `max(1, ln(m + 1) / ln L)`.
    PostHoc {
        /// L in tokens.
        train_length: usize,
    },
}

impl LogN {
    /// The factor on the query at position m.
    pub fn factor(self, position: f64) -> f64 {
        let ratio = |length: usize| (position + 1.0).ln() / (length as f64).ln();
        match self {
            Self::Off => 1.0,
            Self::Trained { train_length } => ratio(train_length),
            Self::PostHoc { train_length } => ratio(train_length).max(1.0),
        }
    }
}

/// Which keys a query sees besides the causal mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Keys at a distance below this, the query itself included; all of them without it.
    pub window: Option<usize>,
    /// Keys at positions below this stay visible past the window.
    pub sinks: usize,
}

impl Mask {
    /// Whether a query does not see an earlier key, both given by position.
    pub fn hides(self, query: f64, key: f64) -> bool {
        self.window.is_some_and(|window| query - key >= window as f64) && key >= self.sinks as f64
    }

    /// The same mask for keys counted from 0, where that is all it takes; else it must be asked pair
    /// by pair.
    pub fn by_index(self, positions: &Positions) -> Option<Self> {
        if self.window.is_none() {
            return Some(Self::default());
        }
        let mut firsts = positions.values().iter().step_by(positions.length().max(1));
        let first = *firsts.next()?;
        let alike = self.sinks == 0 || firsts.all(|other| other.to_bits() == first.to_bits());
        let sinks = (self.sinks as f64 - first).max(0.0) as usize;
        (positions.consecutive() && alike).then_some(Self { window: self.window, sinks })
    }
}

/// How one layer reads positions.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerReading {
    /// Indices into the encodings of the reading, composed in this order.
    pub encodings: Vec<usize>,
    /// Positions that pairs are read at, where an extension says so; else as the encoding says.
    pub geometry: Option<Geometry>,
    /// Window and sinks.
    pub mask: Mask,
    /// Query scale.
    pub log_n: LogN,
    /// Multiplies the logits (`temperature` divides them).
    pub logit_scale: f64,
}

/// The encodings of a model and how each layer reads them.
#[derive(Module, Debug)]
pub struct Reading {
    encodings: Vec<Encoding>,
    #[module(skip)]
    layers: Vec<LayerReading>,
    #[module(skip)]
    layout: TextLayout,
}

impl Reading {
    /// How a layer reads positions.
    pub fn layer(&self, layer: usize) -> &LayerReading {
        &self.layers[layer]
    }

    /// All layers, for an extension to change.
    pub fn layers_mut(&mut self) -> &mut [LayerReading] {
        &mut self.layers
    }

    /// The encodings, each once.
    pub fn encodings(&self) -> &[Encoding] {
        &self.encodings
    }

    /// The encodings, for an extension to change.
    pub fn encodings_mut(&mut self) -> &mut [Encoding] {
        &mut self.encodings
    }

    /// The kinds joined by `+`.
    pub fn name(&self) -> String {
        self.encodings.iter().map(Encoding::kind).collect::<Vec<_>>().join("+")
    }

    /// Hook (a) of every encoding of the layer, in order.
    pub fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        self.of(rows.layer).fold(hidden, |hidden, encoding| encoding.embed(hidden, rows))
    }

    /// Hook (b), described: the rotation of the one encoding of the layer that rotates.
    pub fn rotation(&self, layer: usize) -> Option<Rotation> {
        self.of(layer).find_map(|encoding| encoding.rotation(layer))
    }

    /// Hook (b), as a map of q.
    pub fn map_query(&self, q: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        self.of(rows.layer).fold(q, |q, encoding| encoding.map_query(q, rows))
    }

    /// Hook (b), as a map of k.
    pub fn map_key(&self, k: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        self.of(rows.layer).fold(k, |k, encoding| encoding.map_key(k, rows))
    }

    /// Hook (c): what the encodings of the layer add to the logits of the queries at hand. One
    /// description stays a description; several are summed into a block.
    pub fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let mut biases: Vec<Bias> = self
            .of(block.rows.layer)
            .map(|encoding| encoding.bias(block))
            .filter(|bias| !matches!(bias, Bias::None))
            .collect();
        if biases.len() <= 1 {
            return biases.pop().unwrap_or(Bias::None);
        }
        let (queries, keys) = (block.queries.len(), block.rows.positions.length());
        let device = block.input.device();
        let dense = |bias| {
            let attention = Attention { bias, query_offset: block.queries.start, ..Attention::causal(1) };
            attention.bias_block(queries, keys, &device)
        };
        biases.into_iter().filter_map(dense).reduce(|a, b| a + b).map_or(Bias::None, Bias::Block)
    }

    /// Whether the layer must be read one block of queries at a time: an encoding says so, or several
    /// add a bias, whose sum is a block.
    pub fn by_block(&self, layer: usize, positions: &Positions) -> bool {
        self.of(layer).any(|encoding| encoding.by_block(positions))
            || self.of(layer).filter(|encoding| encoding.adds_bias()).count() > 1
    }

    /// How many numbers per score the encodings of the layer hold at once.
    pub fn numbers_per_score(&self, layer: usize) -> usize {
        self.of(layer).map(Position::numbers_per_score).max().unwrap_or(1).max(1)
    }

    /// Hook (d) on scores.
    pub fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        self.of(block.rows.layer).fold(scores, |scores, encoding| encoding.scores(scores, heads, block))
    }

    /// Hook (d) on values: the sum of all additions to the output.
    pub fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        self.of(block.rows.layer)
            .filter_map(|encoding| encoding.values(probabilities, block))
            .reduce(|sum, addition| sum + addition)
    }

    /// Hook (e): the extension's geometry, else the encoding's, else plain.
    pub fn geometry(&self, layer: usize) -> Geometry {
        self.layers[layer]
            .geometry
            .clone()
            .or_else(|| self.of(layer).find_map(|encoding| encoding.geometry(layer)))
            .unwrap_or_else(Geometry::plain)
    }

    /// The log-n factors of the queries of a layer, `[rows, length]`, where it scales them.
    pub fn query_scale(&self, layer: usize, positions: &Positions, device: &Device) -> Option<Tensor<2>> {
        let log_n = self.layers[layer].log_n;
        if log_n == LogN::Off {
            return None;
        }
        let factors: Vec<f32> = positions.values().iter().map(|&m| log_n.factor(m) as f32).collect();
        Some(Tensor::from_data(TensorData::new(factors, [positions.rows(), positions.length()]), device))
    }

    /// How the tokens of a text are laid out over positions.
    pub fn layout(&self) -> TextLayout {
        self.layout
    }

    /// Lays texts out otherwise, for an extension.
    pub fn set_layout(&mut self, layout: TextLayout) {
        self.layout = layout;
    }

    /// What of the positions the encodings read, log-n scaling included.
    pub fn position_use(&self) -> PositionUse {
        if self.layers.iter().any(|layer| layer.log_n != LogN::Off) {
            return PositionUse::Positions;
        }
        self.encodings.iter().map(Position::position_use).max().unwrap_or(PositionUse::Order)
    }

    /// Tokens of the segment before that every layer also attends to.
    pub fn memory(&self) -> usize {
        self.encodings.iter().map(Position::memory).max().unwrap_or_default()
    }

    /// Whether a pass over these positions is defined for every encoding.
    ///
    /// # Errors
    /// A position that an encoding has no value for.
    pub fn check(&self, positions: &Positions) -> Result<()> {
        self.encodings.iter().try_for_each(|encoding| encoding.check(positions))
    }

    fn of(&self, layer: usize) -> impl Iterator<Item = &Encoding> {
        self.layers[layer].encodings.iter().map(|&index| &self.encodings[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn dimensions() -> Dimensions {
        Dimensions {
            layers: 2,
            width: 8,
            heads: 2,
            kv_heads: 2,
            head_dim: 4,
            train_length: 8,
            vocab_size: 16,
        }
    }

    fn build(text: &str) -> Result<Reading> {
        let mut table: toml::Table = text.parse().unwrap();
        let config = PositionConfig::from_value(&table.remove("position").unwrap(), "position")?;
        config.build("position", &dimensions(), &Init::new(0, &Device::flex()), LogN::Off)
    }

    #[test]
    fn a_list_composes_in_order() {
        let reading = build("position = [{ kind = \"learned\" }, { kind = \"rope\" }]").unwrap();
        assert_eq!(reading.name(), "learned+rope");
        assert!(reading.rotation(1).is_some());
        let hidden = Tensor::zeros([1, 4, 8], &Device::flex());
        let tokens = Tensor::zeros([1, 4], &Device::flex());
        let positions = Positions::range(0..4);
        let at = |layer| Rows { layer, tokens: &tokens, positions: &positions };
        let sum = |hidden: Tensor<3>| hidden.abs().sum().into_scalar::<f32>();
        assert!(sum(reading.embed(hidden.clone(), at(0))) > 0.0);
        assert!(sum(reading.embed(hidden, at(1))) == 0.0);
        assert!(reading.check(&Positions::range(0..9)).is_err());
    }

    #[test]
    fn two_rotations_and_an_empty_list_are_refused() {
        assert!(build("position = [{ kind = \"rope\" }, { kind = \"rope\" }]").is_err());
        assert!(build("position = []").is_err());
        let both = build("position = [{ kind = \"shaw\" }, { kind = \"pope\" }]").unwrap_err();
        assert!(both.message().contains("cannot share q and k"), "{both}");
    }

    #[test]
    fn a_mask_by_index_hides_what_the_mask_hides() {
        for (mask, start) in [(Some(3), 0), (Some(3), 1), (Some(1), 5), (None, 0)]
            .map(|(w, s)| (Mask { window: w, sinks: 2 }, s))
        {
            let positions = Positions::range(start..start + 8);
            let by_index = mask.by_index(&positions).unwrap();
            for (i, &query) in positions.values().iter().enumerate() {
                for (j, &key) in positions.values()[..=i].iter().enumerate() {
                    assert_eq!(
                        by_index.hides(i as f64, j as f64),
                        mask.hides(query, key),
                        "{mask:?} {start} {i} {j}"
                    );
                }
            }
        }
        let mask = Mask { window: Some(3), sinks: 2 };
        assert_eq!(mask.by_index(&Positions::range(0..8).map(|p| p / 2.0)), None);
        assert_eq!(mask.by_index(&Positions::explicit(2, vec![0.0, 1.0, 5.0, 6.0])), None);
    }

    #[test]
    fn log_n_as_published() {
        let trained = LogN::Trained { train_length: 8 };
        assert!(trained.factor(0.0).abs() < 1e-15 && (trained.factor(7.0) - 1.0).abs() < 1e-15);
        let later = LogN::PostHoc { train_length: 8 };
        assert!((later.factor(3.0) - 1.0).abs() < 1e-15 && (later.factor(63.0) - 2.0).abs() < 1e-12);
    }
}
