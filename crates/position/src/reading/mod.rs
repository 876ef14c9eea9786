//! A reading: the encoding of every layer, with its geometry, masks and scales.
//!
//! It is what the model is given for a forward pass. A fresh model reads as its config says; an
//! extension changes the reading, never other weights.

mod attention;
mod head_scale;
mod log_n;
mod mask;
mod part;
mod temperature;

use crate::encoding::{
    Capabilities, Geometry, HeadUse, Heads, MapsByDistance, PositionUse, QueryBlock, Relative, Rows,
};
use crate::encodings::Encoding;
use crate::frequency::Rotation;
use crate::init::Init;
use crate::layout::TextLayout;
use crate::parameter::{ParameterSpec, check_listed};
use crate::positions::Positions;
pub use attention::{AttentionKind, Remainder, StickBreaking};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
pub use head_scale::{HeadScale, LEAST_HEAD_SCALE};
pub use log_n::{LearnedLogN, LogN, LogNKind};
use longwave_core::{Error, Result};
use longwave_kernels::{Attention, Bias};
pub use mask::Mask;
pub use temperature::Temperature;

/// An encoding as one layer reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerEncoding {
    /// Index into the encodings of the reading.
    pub encoding: usize,
    /// The layer's number among those that read this encoding: the one its hooks are given.
    pub layer: usize,
}

/// How one layer reads positions.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerReading {
    /// The encodings, composed in this order.
    pub encodings: Vec<LayerEncoding>,
    /// Positions that pairs are read at, where an extension says so; else as the encoding says.
    pub geometry: Option<Geometry>,
    /// Window and sinks.
    pub mask: Mask,
    /// Query scale.
    pub log_n: LogN,
    /// Multiplies q.k, beside `1 / sqrt(head_dim)`; what encodings add to the logits stays as it is.
    pub logit_scale: f64,
    /// Divides the logits, all that goes into the softmax: the scaled q.k and what encodings make of it and add.
    pub temperature: Temperature,
    /// Which row of the trained factors of heads is the layer's, where it has some.
    pub head_scale: Option<usize>,
}

/// The encodings of a model and how each layer reads them.
#[derive(Module, Debug)]
pub struct Reading {
    encodings: Vec<Encoding>,
    /// Where a layer's `log_n` is learned.
    log_n: Option<LearnedLogN>,
    /// Where a stage trains or has trained it.
    head_scale: Option<HeadScale>,
    #[module(skip)]
    layers: Vec<LayerReading>,
    #[module(skip)]
    name: String,
    #[module(skip)]
    attention: AttentionKind,
    #[module(skip)]
    layout: TextLayout,
    /// Query heads of a layer.
    #[module(skip)]
    heads: usize,
    /// Makes the parameters that a stage adds.
    #[module(skip)]
    init: Init,
}

impl Reading {
    pub(crate) fn new(
        name: String,
        encodings: Vec<Encoding>,
        log_n: Option<LearnedLogN>,
        layers: Vec<LayerReading>,
        heads: usize,
        init: &Init,
    ) -> Self {
        let layout = TextLayout::Contiguous;
        let attention = AttentionKind::Softmax;
        Self {
            encodings,
            log_n,
            head_scale: None,
            layers,
            name,
            attention,
            layout,
            heads,
            init: init.clone(),
        }
    }

    /// The same for another attention.
    ///
    /// # Errors
    /// Something in it acts on scores that the attention has none of.
    pub fn with_attention(self, attention: AttentionKind) -> Result<Self> {
        let reading = Self { attention, ..self };
        reading.check_log_n()?;
        reading.check_attention().map_err(|error| {
            let takes = match attention {
                AttentionKind::Linear => {
                    "linear attention takes `rope`, `xpos`, `none` and what acts on the hidden state; or write"
                }
                _ => "leave it out, or write",
            };
            error.hint(format!("{takes} `{}`", AttentionKind::Softmax))
        })?;
        Ok(reading)
    }

    /// The attention it is for.
    pub fn attention(&self) -> AttentionKind {
        self.attention
    }

    /// Whether everything in it means something to the attention.
    ///
    /// # Errors
    /// Linear attention has no scores to add to, to scale, or to select by distance. Stick-breaking attention has no sum of
    /// weights that more keys would flatten, and no first keys that take what others leave.
    pub fn check_attention(&self) -> Result<()> {
        match self.attention {
            AttentionKind::Softmax => Ok(()),
            AttentionKind::Linear => self.check_linear(),
            AttentionKind::StickBreaking(_) => self.check_stick_breaking(),
        }
    }

    fn check_stick_breaking(&self) -> Result<()> {
        let rejected = |what: &str| Err(Error::usage(format!("{what}, and `{}` is none", self.attention)));
        for (index, layer) in self.layers.iter().enumerate() {
            if let Some((encoding, _)) = self.of(index).find(|(encoding, _)| encoding.sink(0).is_some()) {
                return rejected(&format!("`{}` takes a share of a softmax", encoding.kind()));
            }
            if layer.log_n != LogN::Off {
                return rejected("log-n scales the scores of a softmax");
            }
            if layer.mask.sinks > 0 {
                return rejected("sinks are the first keys of a softmax");
            }
        }
        Ok(())
    }

    fn check_linear(&self) -> Result<()> {
        let rejected = |what: &str| {
            Err(Error::usage(format!(
                "{what}, and `{}` has no scores of pairs that it could act on",
                self.attention
            )))
        };
        for (index, layer) in self.layers.iter().enumerate() {
            for (encoding, _) in self.of(index) {
                let capabilities = encoding.capabilities();
                let on_scores = capabilities.adds_bias
                    || capabilities.head_use != HeadUse::None
                    || encoding.sink(0).is_some()
                    || encoding.needs_scores(&Positions::range(0..1));
                if on_scores {
                    return rejected(&format!("`{}` acts on softmax scores", encoding.kind()));
                }
            }
            if !self.geometry(index).is_plain() {
                return rejected("a geometry chooses between scores");
            }
            if layer.mask != Mask::default() {
                return rejected("a window masks scores");
            }
            if layer.log_n != LogN::Off {
                return rejected("log-n scales scores");
            }
            let factor = self.rotation(index).map_or(1.0, |rotation| rotation.frequencies.attention_factor);
            let is_one = |scale: f64| (scale - 1.0).abs() <= f64::EPSILON;
            if !(is_one(factor) && is_one(layer.logit_scale) && layer.temperature.is_one()) {
                return rejected("a temperature or an attention factor scales scores");
            }
            if layer.head_scale.is_some() {
                return rejected("a factor for each head scales scores");
            }
        }
        Ok(())
    }

    /// Whether the log-n scaling of every layer goes with its encodings.
    ///
    /// # Errors
    /// A layer scales queries by the number of keys, and an encoding scores by their distance.
    pub fn check_log_n(&self) -> Result<()> {
        for (index, layer) in self.layers.iter().enumerate() {
            let scaled = self.of(index).find(|(encoding, _)| encoding.capabilities().scales_scores);
            if let (Some((encoding, _)), true) = (scaled, layer.log_n != LogN::Off) {
                return Err(Error::usage(format!(
                    "`log_n` and `{}` both scale the scores of layer {index} as the text grows",
                    encoding.kind()
                ))
                .hint(format!("leave `log_n` out: `{}` scales each pair by its distance", encoding.kind())));
            }
        }
        Ok(())
    }

    /// The capabilities of all encodings together.
    pub fn capabilities(&self) -> Capabilities {
        let all = self.encodings.iter().map(|encoding| encoding.capabilities());
        all.fold(Capabilities::NONE, Capabilities::and)
    }

    /// The capabilities of the encodings of a layer together.
    pub fn layer_capabilities(&self, layer: usize) -> Capabilities {
        let all = self.of(layer).map(|(encoding, _)| encoding.capabilities());
        all.fold(Capabilities::NONE, Capabilities::and)
    }

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

    /// Every parameter of the encodings, of log-n scaling and of the factors of heads, in the order of their fields.
    ///
    /// # Errors
    /// An encoding does not list its parameters as they are.
    pub fn parameters(&self) -> Result<Vec<ParameterSpec>> {
        let mut all = Vec::new();
        for encoding in &self.encodings {
            let specs = encoding.parameters();
            check_listed(encoding.kind(), &specs, encoding)?;
            all.extend(specs);
        }
        all.extend(self.log_n.iter().flat_map(LearnedLogN::parameters));
        all.extend(self.head_scale.iter().flat_map(|_| HeadScale::parameters()));
        Ok(all)
    }

    /// Tells the encodings that read digits which tokens these are, as `of_tokenizer` says; it is not called where none
    /// asks.
    ///
    /// # Errors
    /// Those of `of_tokenizer`.
    pub fn set_digits(&mut self, of_tokenizer: impl Fn() -> Result<Vec<u32>>) -> Result<()> {
        for encoding in &mut self.encodings {
            if let Some(digits) = encoding.digits() {
                *digits = of_tokenizer()?;
            }
        }
        Ok(())
    }

    /// The encodings, for an extension to change.
    pub fn encodings_mut(&mut self) -> &mut [Encoding] {
        &mut self.encodings
    }

    /// How each layer reads positions, first to last.
    pub fn layers(&self) -> &[LayerReading] {
        &self.layers
    }

    /// The encoding's name, as in [`PositionConfig::name`](crate::PositionConfig::name).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names it otherwise in messages, where an extension has made something else of it.
    pub(crate) fn rename(&mut self, name: String) {
        self.name = name;
    }

    /// Hook (a) of every encoding of the layer, in order.
    pub fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        self.of(rows.layer).fold(hidden, |hidden, (encoding, layer)| encoding.embed(hidden, rows.at(layer)))
    }

    /// Hook (b), described: the rotation of the one encoding of the layer that rotates.
    pub fn rotation(&self, layer: usize) -> Option<Rotation> {
        self.of(layer).find_map(|(encoding, layer)| encoding.rotation(layer))
    }

    /// Hook (b), as a map of q.
    pub fn map_query(&self, q: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        self.of(rows.layer).fold(q, |q, (encoding, layer)| encoding.map_query(q, rows.at(layer)))
    }

    /// Hook (b), as a map of k.
    pub fn map_key(&self, k: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        self.of(rows.layer).fold(k, |k, (encoding, layer)| encoding.map_key(k, rows.at(layer)))
    }

    /// Hook (b), described by distance, for rows that are read at their own positions.
    pub fn maps_by_distance(&self, block: QueryBlock<'_>) -> Option<MapsByDistance> {
        self.of(block.rows.layer).find_map(|(encoding, layer)| encoding.maps_by_distance(block.at(layer)))
    }

    /// Hook (c): what the encodings of the layer add to the logits of the queries at hand, before the layer's
    /// temperature divides them. One description stays a description; several are summed into a block.
    pub fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let mut biases: Vec<Bias> = self
            .of(block.rows.layer)
            .map(|(encoding, layer)| encoding.bias(block.at(layer)))
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
    /// add a bias, whose sum is a block, or vectors.
    pub fn needs_scores(&self, layer: usize, positions: &Positions) -> bool {
        self.of(layer).any(|(encoding, _)| encoding.needs_scores(positions))
            || self.of(layer).filter(|(encoding, _)| encoding.capabilities().adds_bias).count() > 1
            || self.of(layer).filter(|(encoding, _)| encoding.capabilities().adds_vectors).count() > 1
    }

    /// Hook (d), described: the vectors of the one encoding of the layer that adds some.
    pub fn relative(&self, block: QueryBlock<'_>) -> Option<Relative> {
        self.of(block.rows.layer).find_map(|(encoding, layer)| encoding.relative(block.at(layer)))
    }

    /// Hook (a) for a piece of a text; `before` has what the rows before it left behind for each encoding of
    /// the layer, and is empty at the start of a text.
    pub fn embed_piece(
        &self,
        hidden: Tensor<3>,
        rows: Rows<'_>,
        before: &mut Vec<Option<Tensor<3>>>,
    ) -> Tensor<3> {
        before.resize(self.layers[rows.layer].encodings.len(), None);
        let encodings = self.of(rows.layer).zip(before);
        encodings.fold(hidden, |hidden, ((encoding, layer), before)| {
            encoding.embed_piece(hidden, rows.at(layer), before)
        })
    }

    /// Gets every encoding ready for a text of at most `length` tokens that is read piece by piece.
    pub fn prepare(&mut self, length: usize) {
        self.encodings.iter_mut().for_each(|encoding| encoding.prepare(length));
    }

    /// Hook (d) on scores.
    pub fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        self.of(block.rows.layer)
            .fold(scores, |scores, (encoding, layer)| encoding.scores(scores, heads, block.at(layer)))
    }

    /// Hook (d) on the softmax: the sink's logit of each head, `[heads]`, of the one encoding of the layer that has one.
    pub fn sink(&self, layer: usize) -> Option<Tensor<1>> {
        self.of(layer).find_map(|(encoding, layer)| encoding.sink(layer))
    }

    /// Hook (d) on values: the sum of all additions to the output.
    pub fn values(&self, probabilities: &Tensor<4>, block: QueryBlock<'_>) -> Option<Tensor<4>> {
        self.of(block.rows.layer)
            .filter_map(|(encoding, layer)| encoding.values(probabilities, block.at(layer)))
            .reduce(|sum, addition| sum + addition)
    }

    /// Hook (e): the extension's geometry, else the encoding's, else plain.
    pub fn geometry(&self, layer: usize) -> Geometry {
        self.layers[layer]
            .geometry
            .clone()
            .or_else(|| self.of(layer).find_map(|(encoding, layer)| encoding.geometry(layer)))
            .unwrap_or_else(Geometry::plain)
    }

    /// The log-n factors of the queries of a layer, `[rows, length]`, where it scales those of all heads alike;
    /// `positions` are those of the queries.
    pub fn query_scale(&self, layer: usize, positions: &Positions, device: &Device) -> Option<Tensor<2>> {
        let log_n = self.layers[layer].log_n;
        if matches!(log_n, LogN::Off | LogN::Learned { .. }) {
            return None;
        }
        let factors: Vec<f32> = positions.keys_seen().map(|keys| log_n.factor(keys) as f32).collect();
        Some(Tensor::from_data(TensorData::new(factors, [positions.rows(), positions.length()]), device))
    }

    /// The learned factors on the queries of a block, `[rows, heads, queries]`, where its layer has some.
    pub fn learned_query_scale(&self, block: QueryBlock<'_>) -> Option<Tensor<3>> {
        let LayerReading { log_n: LogN::Learned { row, .. }, mask, .. } = self.layers[block.rows.layer]
        else {
            return None;
        };
        let device = block.input.device();
        self.log_n
            .as_ref()
            .map(|learned| learned.factors(row, block.rows.positions, block.queries, mask, &device))
    }

    /// The same with a factor for each head and layer that a stage trains, `start` at first; those of an earlier stage
    /// stay as they were trained.
    ///
    /// # Errors
    /// The attention has no scores.
    pub fn with_head_scale(mut self, start: f64) -> Result<Self> {
        if self.head_scale.is_none() {
            self.head_scale = Some(HeadScale::new(self.layers.len(), self.heads, start, &self.init));
        }
        for (row, layer) in self.layers.iter_mut().enumerate() {
            layer.head_scale = Some(row);
        }
        self.check_attention()?;
        Ok(self)
    }

    /// What multiplies the logits of each head of a layer, beside what all heads share: trained factors, over the
    /// temperatures of the heads. `[heads]`; none where all heads are alike.
    pub fn head_factors(&self, layer: usize, device: &Device) -> Option<Tensor<1>> {
        let LayerReading { temperature, head_scale, .. } = &self.layers[layer];
        let trained = head_scale.and_then(|row| Some(self.head_scale.as_ref()?.factors(row)));
        let Temperature::Heads(temperatures) = temperature else { return trained };
        let inverse: Vec<f32> = temperatures.iter().map(|temperature| temperature.recip() as f32).collect();
        let inverse = Tensor::from_floats(inverse.as_slice(), device);
        Some(match trained {
            Some(trained) => trained * inverse,
            None => inverse,
        })
    }

    /// Query heads of a layer.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// How the tokens of a text are laid out over positions.
    pub fn layout(&self) -> TextLayout {
        self.layout
    }

    /// Lays texts out otherwise, for an extension.
    pub fn set_layout(&mut self, layout: TextLayout) {
        self.layout = layout;
    }

    /// What of the positions is read by any layer: its encodings and its mask. Log-n scaling counts keys, which drawn
    /// positions leave as they are.
    pub fn position_use(&self) -> PositionUse {
        let of_layer = |layer: &LayerReading| match layer.mask {
            Mask { window: None, .. } => PositionUse::Order,
            Mask { sinks: 0, .. } => PositionUse::Distances,
            // Sinks are places of the text.
            Mask { .. } => PositionUse::Positions,
        };
        self.layers.iter().map(of_layer).fold(self.capabilities().position_use, PositionUse::max)
    }

    /// Tokens of the previous segment that every layer also attends to.
    pub fn memory(&self) -> usize {
        match self.layout {
            TextLayout::Recurrent { memory, .. } => memory,
            _ => 0,
        }
    }

    /// Whether a pass over these positions is defined for every encoding.
    ///
    /// # Errors
    /// A position that an encoding has no value for.
    pub fn check(&self, positions: &Positions) -> Result<()> {
        self.encodings.iter().try_for_each(|encoding| encoding.check(positions))
    }

    /// Whether a pass over these positions, between whole ones, is defined for every encoding. `why` says in the message
    /// why they are not whole.
    ///
    /// # Errors
    /// An encoding has a value for whole positions or distances alone, or for none of these.
    pub fn check_between(&self, why: &str, positions: &Positions) -> Result<()> {
        let read = self.layers.iter().flat_map(|layer| &layer.encodings);
        for encoding in read.map(|place| &self.encodings[place.encoding]) {
            let capabilities = encoding.capabilities();
            if capabilities.whole_positions || capabilities.table_rows.is_some() {
                return Err(Error::usage(format!(
                    "{why}, and `{}` has a value for whole positions or distances alone",
                    encoding.kind()
                ))
                .hint("use `randpos`, whose positions are whole, or an encoding that is a function of the position, such as `rope`"));
            }
        }
        self.check(positions)
    }

    /// The encodings of a layer, each with the number that it knows the layer by.
    fn of(&self, layer: usize) -> impl Iterator<Item = (&Encoding, usize)> {
        self.layers[layer].encodings.iter().map(|place| (&self.encodings[place.encoding], place.layer))
    }
}
