//! A reading: the encoding of every layer, with its geometry, masks and scales.
//!
//! It is what the model is given for a forward pass. A fresh model reads as its config says; an
//! extension changes the reading, never other weights.

mod adaptive;
mod attention;
mod check;
mod head_scale;
mod hooks;
mod log_n;
mod mask;
mod part;
mod published;
mod temperature;

use crate::encoding::{Capabilities, Geometry, PositionUse};
use crate::encodings::Encoding;
use crate::encodings::abacus::Abacus;
use crate::init::Init;
use crate::layout::TextLayout;
use crate::parameter::{ParameterSpec, check_listed, shapes};
pub use adaptive::AdaptiveLogN;
pub use attention::{AttentionKind, EntmaxKeys, LssarKeys, Remainder, StickBreaking};
use burn::module::Module;
pub use head_scale::{HeadScale, LEAST_HEAD_SCALE};
pub use log_n::{LearnedKeys, LearnedLogN, LogN, LogNKind, entropy_factor};
use longwave_core::Result;
pub use mask::Mask;
use published::Kept;
pub use published::{Published, Rescale};
pub use temperature::Temperature;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerEncoding {
    /// Index into the encodings of the reading.
    pub encoding: usize,
    /// The layer's number among those that read this encoding: the one its hooks are given.
    pub layer: usize,
}

/// The factor `1 + c ln s` on q.k of a whole text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthFactor {
    pub c: f64,
    pub factor: f64,
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
    /// What of it follows from the length of the text, by a law.
    pub length_factor: Option<LengthFactor>,
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
    /// Where it is adaptive.
    adaptive_log_n: Option<AdaptiveLogN>,
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
    /// Channels of a head.
    #[module(skip)]
    head_dim: usize,
    /// What the model's file says of its positions, where it was imported.
    #[module(skip)]
    published: Option<Kept>,
    /// Makes the parameters that a stage adds.
    #[module(skip)]
    init: Init,
}

/// Parameters by name, each with its shape.
pub type Shapes = Vec<(String, Vec<usize>)>;

impl Reading {
    pub(crate) fn new(
        name: String,
        encodings: Vec<Encoding>,
        (log_n, adaptive_log_n): (Option<LearnedLogN>, Option<AdaptiveLogN>),
        layers: Vec<LayerReading>,
        [heads, head_dim]: [usize; 2],
        init: &Init,
    ) -> Self {
        let layout = TextLayout::Contiguous;
        let attention = AttentionKind::Softmax;
        Self {
            encodings,
            log_n,
            adaptive_log_n,
            head_scale: None,
            layers,
            name,
            attention,
            layout,
            heads,
            head_dim,
            published: None,
            init: init.clone(),
        }
    }

    /// The same for another attention.
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

    pub fn attention(&self) -> AttentionKind {
        self.attention
    }

    /// The capabilities of all encodings together, but for what those of one layer make of each other: see
    /// [`layer_capabilities`](Self::layer_capabilities).
    pub fn capabilities(&self) -> Capabilities {
        let all = self.encodings.iter().map(|encoding| encoding.capabilities());
        all.fold(Capabilities::NONE, Capabilities::and)
    }

    /// The capabilities of the encodings of a layer together.
    pub fn layer_capabilities(&self, layer: usize) -> Capabilities {
        let all: Vec<Capabilities> = self.of(layer).map(|(encoding, _)| encoding.capabilities()).collect();
        Capabilities::of_layer(&all)
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
    pub fn parameters(&self) -> Result<Vec<ParameterSpec>> {
        let mut all = Vec::new();
        for encoding in &self.encodings {
            let specs = encoding.parameters();
            check_listed(encoding.kind(), &specs, encoding)?;
            all.extend(specs);
        }
        all.extend(self.log_n.iter().flat_map(LearnedLogN::parameters));
        all.extend(self.adaptive_log_n.iter().flat_map(AdaptiveLogN::parameters));
        all.extend(self.head_scale.iter().flat_map(|_| HeadScale::parameters()));
        Ok(all)
    }

    /// What is learned beside the encodings, by the name of its field: names and shapes.
    pub fn factors(&self) -> Vec<(&'static str, Shapes)> {
        let log_n = self.log_n.as_ref().map(|log_n| ("log_n", shapes(log_n)));
        let head_scale = self.head_scale.as_ref().map(|scale| ("head_scale", shapes(scale)));
        log_n.into_iter().chain(head_scale).collect()
    }

    /// Tells the encodings that read digits which tokens these are, as `of_tokenizer` says; it is not called where none
    /// asks.
    pub fn set_digits(&mut self, of_tokenizer: impl Fn() -> Result<Vec<u32>>) -> Result<()> {
        for encoding in &mut self.encodings {
            if let Some(digits) = encoding.get_mut().and_then(Abacus::of_tokenizer) {
                *digits = of_tokenizer()?;
            }
        }
        Ok(())
    }

    /// Whether some layer reads an encoding where it acts: one that enters once acts at the first of its layers, which a
    /// [part](Self::part) may lack.
    pub(crate) fn acts(&self, encoding: usize) -> bool {
        let mut places = self.layers.iter().flat_map(|layer| &layer.encodings);
        let is_first = |place: &LayerEncoding| place.encoding == encoding && place.layer == 0;
        !self.encodings[encoding].capabilities().enters_once() || places.any(is_first)
    }

    /// Whether [each acts](Self::acts).
    pub(crate) fn all_act(&self) -> bool {
        (0..self.encodings.len()).all(|encoding| self.acts(encoding))
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

    /// The same with a factor for each head and layer that a stage trains, `start` at first; those of an earlier stage
    /// stay as they were trained.
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

    /// Query heads of a layer.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Channels of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
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
        let of_layer = |(index, layer): (usize, &LayerReading)| {
            let of_mask = match layer.mask {
                Mask { window: None, .. } => PositionUse::Order,
                Mask { sinks: 0, .. } => PositionUse::Distances,
                // Sinks are places of the text.
                Mask { .. } => PositionUse::Positions,
            };
            self.layer_capabilities(index).position_use.max(of_mask)
        };
        self.layers.iter().enumerate().map(of_layer).max().unwrap_or(PositionUse::Order)
    }

    /// Tokens of the previous segment that every layer also attends to.
    pub fn memory(&self) -> usize {
        match self.layout {
            TextLayout::Recurrent { memory, .. } => memory,
            _ => 0,
        }
    }

    /// The encodings of a layer, each with the number that it knows the layer by.
    fn of(&self, layer: usize) -> impl Iterator<Item = (&Encoding, usize)> {
        self.layers[layer].encodings.iter().map(|place| (&self.encodings[place.encoding], place.layer))
    }
}
