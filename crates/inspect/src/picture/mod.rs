//! Pictures of encodings: what `longwave inspect` shows, as numbers and as text.
//!
//! A [`Picture`] is made by asking the encoding, as trained and as an extension reads it: its frequencies, its
//! bias by distance, how the inner product of a rotated vector with itself falls with the distance, its own
//! tables ([`Summary`]), and a matrix: the vectors that enter the hidden state, or the logits of tokens that are
//! all alike.

mod memory;
mod model_part;
mod probe;
mod text;

use crate::attention::Attention;
use crate::catalog::{self, EncodingInfo, HookPoint};
use longwave_core::{Error, Result};
use longwave_model::attention::route_in_words;
use longwave_position::frequency::Frequencies;
use longwave_position::layout::TextLayout;
use longwave_position::parameter;
use longwave_position::reading::{LayerReading, LogN, Mask};
use longwave_position::summary::Summary;
use longwave_position::{Dimensions, Encoding, ExtensionConfig, Lengths, Positions, Reading, extensions};
use serde::Serialize;
use std::f64::consts::TAU;

pub use model_part::ModelPart;
use probe::Probe;

/// Positions that an encoding's own tables show: two less than this many at most.
const ROWS: usize = 32;

/// Logits further below are shown like this one.
pub(crate) const LOWEST_LOGIT: f64 = -8.0;

/// What is looked at, and how closely.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// L, and the length that is read.
    pub lengths: Lengths,
    /// The model's sizes.
    pub dimensions: &'a Dimensions,
    /// How closely.
    pub detail: Detail,
}

/// How closely an encoding is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What fits a terminal: 32 rows of a matrix, and some distances.
    Text,
    /// What a picture shows: 128 rows, and every distance of texts up to 4,096 tokens.
    Drawing,
}

impl Detail {
    /// Rows of a matrix: positions spread over the length.
    fn rows(self) -> usize {
        match self {
            Self::Text => ROWS,
            Self::Drawing => 128,
        }
    }

    fn distances(self, length: usize) -> Vec<usize> {
        match self {
            Self::Drawing if length <= 4096 => (0..length).collect(),
            _ => distances(length),
        }
    }
}

/// What is shown of one encoding.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// `position.kind`.
    pub encoding: &'static str,
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// What it computes with its default keys, in the notation of [`typeset`](crate::typeset).
    pub formula: &'static str,
    pub acts: Vec<HookPoint>,
    /// What happens past the training length.
    pub past: String,
    /// Name and shape of each parameter.
    pub parameters: Vec<(String, Vec<usize>)>,
    /// The layer whose numbers are shown; absent where all layers have the same parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_layer: Option<usize>,
    /// L in tokens.
    pub train_length: usize,
    /// The length that is read, in tokens.
    pub length: usize,
    pub extend: ExtensionConfig,
    /// What that extension changes with its default keys, in the same notation.
    pub extend_formula: &'static str,
    /// The layers that read the encoding, as the extension leaves them.
    pub layers: Vec<Layer>,
    /// What the model does to attention besides the encodings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<ModelPart>,
    /// Whether all layers are alike and see everything, which goes without saying.
    #[serde(skip)]
    pub alike: bool,
    /// Bases and factors as trained and as read; absent where the encoding has no frequencies.
    pub spectrum: Option<Spectrum>,
    /// What is added to logits; absent where the encoding adds nothing that is known without scores.
    pub bias: Option<ByDistance>,
    /// The mean over the bands of the cosine of the angle between two positions, times what decays: what is
    /// left of the inner product of a vector with itself. Absent where the encoding has no frequencies.
    pub decay: Option<ByDistance>,
    /// The share of steps from a distance to the next at which the decay as read rises instead of falls. Absent where there
    /// is no decay, or one distance alone.
    pub rising_share: Option<f64>,
    /// Numbers of the encoding's own.
    pub details: Vec<Summary>,
    /// The encoding at a glance.
    pub matrix: Matrix,
    /// Where the layers attend that read the encoding. Absent where no trained model was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Attention>,
}

impl Picture {
    /// Adds where a trained model attends.
    pub fn add_attention(&mut self, of_model: &Attention) {
        let layers: Vec<usize> = self.layers.iter().map(|layer| layer.index).collect();
        self.attention = Some(of_model.of_layers(&layers));
    }
}

/// What a layer sees besides the causal mask, and whether its queries are scaled by a logarithm.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// From 0.
    pub index: usize,
    /// Keys at a distance below this; all of them without it.
    pub window: Option<usize>,
    /// Keys at positions below this stay visible past the window.
    pub sinks: usize,
    /// Whether queries are scaled by a number that grows along the text.
    pub log_n: bool,
    /// Whether that number is of the keys that a window leaves, and not of all tokens so far.
    #[serde(skip)]
    pub log_n_of_seen: bool,
    /// How its attention is computed, and why where that takes longer than a fused kernel.
    pub route: String,
}

/// Frequencies.
#[derive(Clone, Debug, Serialize)]
pub struct Spectrum {
    /// The base as trained.
    pub base: f64,
    pub base_read: f64,
    /// Multiplier on cos and sin as read; a temperature t counts as `1 / sqrt(t)`, which divides q.k as it does.
    pub attention_factor: f64,
    /// Fastest first.
    pub bands: Vec<Band>,
}

/// One frequency, in radians per position, as trained and as read.
#[derive(Clone, Debug, Serialize)]
pub struct Band {
    /// The frequency as trained, in radians per position.
    pub inv_freq: f64,
    /// Positions a turn takes; infinite, and so absent in JSON, where nothing turns.
    pub wavelength: f64,
    /// Turns within the training length.
    pub turns: f64,
    /// The frequency as read, in radians per position.
    pub inv_freq_read: f64,
}

/// A row of numbers; none where the key is hidden. What is no number is NaN, in JSON null as well.
pub type Row = Vec<Option<f64>>;

/// Numbers by the distance of a key from the query at the end of the text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByDistance {
    /// Tokens back.
    pub distances: Vec<usize>,
    /// As trained: for each head, or once for all of them, a number a distance; none where the key is hidden.
    pub trained: Vec<Row>,
    pub read: Vec<Row>,
}

/// The encoding at a glance, as read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Matrix {
    /// What the hidden state becomes, in the first block: one row a position, one column a channel.
    Vectors {
        /// The positions of the rows.
        positions: Vec<usize>,
        /// `[positions, width]`.
        values: Vec<Vec<f64>>,
    },
    /// The logits of tokens that are all alike, less that of the query's own key, in the first layer that has the
    /// encoding: one row a query, one column a key. None where the key is hidden, or too far below.
    Logits {
        /// The positions of rows and columns.
        positions: Vec<usize>,
        /// `[heads, positions, positions]`.
        values: Vec<Vec<Row>>,
    },
}

/// The pictures of all encodings of a model.
pub fn pictures(
    trained: &Reading,
    read: &Reading,
    extend: &ExtensionConfig,
    view: &View<'_>,
) -> Result<Vec<Picture>> {
    if let TextLayout::Drawn { .. } | TextLayout::Cells { .. } | TextLayout::Segments { .. } = read.layout() {
        return Err(Error::usage(format!(
            "`{}` changes where the tokens of a text lie, and a picture shows what the encoding makes of positions",
            extend.kind()
        ))
        .hint("leave `--extend` out: the encoding itself is read as trained"));
    }
    memory::check(view.lengths.length, view.dimensions.width, longwave_core::memory_check::available())?;
    read.check(&Positions::range(0..view.lengths.length))?;
    let facts = catalog::encodings()?;
    let mut pictures = Vec::new();
    for (index, encoding) in read.encodings().iter().enumerate() {
        if let Some(facts) = facts.iter().find(|facts| facts.kind == encoding.kind()) {
            let indices = [trained_index(trained, read, index), index];
            pictures.push(picture(facts, [trained, read], indices, extend, view));
        }
    }
    Ok(pictures)
}

/// Which of the trained encodings the layers read as `index`: another where an extension changed some of them alone.
fn trained_index(trained: &Reading, read: &Reading, index: usize) -> usize {
    let mut places = trained.layers().iter().zip(read.layers()).flat_map(|(trained, read)| {
        trained.encodings.iter().zip(&read.encodings).map(|(trained, read)| (trained.encoding, read.encoding))
    });
    places.find(|&(_, read)| read == index).map_or(index, |(trained, _)| trained)
}

fn picture(
    facts: &EncodingInfo,
    [trained, read]: [&Reading; 2],
    indices: [usize; 2],
    extend: &ExtensionConfig,
    view: &View<'_>,
) -> Picture {
    let View { lengths, dimensions, detail } = *view;
    let both = [(trained, indices[0]), (read, indices[1])];
    let probes = both.map(|(reading, index)| Probe::new(reading, index, lengths.length, dimensions));
    let encodings = both.map(|(reading, index)| &reading.encodings()[index]);
    let distances = detail.distances(lengths.length);
    let by_distance = |of: &dyn Fn(&Probe<'_>) -> Option<Vec<Row>>| {
        let [trained, read] = probes.each_ref().map(of);
        Some(ByDistance { distances: distances.clone(), trained: trained?, read: read? })
    };
    // Some positions and the last one.
    let mut sampled = spread(lengths.length, ROWS / 2);
    sampled.extend(sampled.last().filter(|&&at| at + 1 < lengths.length).map(|_| lengths.length - 1));
    let sampled: Vec<f64> = sampled.into_iter().map(|at| at as f64).collect();
    let sampled = Positions::explicit(1, sampled);
    Picture {
        encoding: facts.kind,
        summary: facts.summary,
        source: facts.source,
        formula: facts.formula,
        acts: catalog::acts(encodings[0], dimensions),
        past: past(facts, encodings[0], lengths.train),
        parameters: parameter::shapes(encodings[0]),
        shown_layer: probes[1].layer_of_parameters(),
        train_length: lengths.train,
        length: lengths.length,
        extend: extend.clone(),
        extend_formula: extensions::kinds()
            .iter()
            .find(|entry| entry.kind == extend.kind())
            .map_or("", |entry| entry.formula),
        layers: layers(read, indices[1], lengths.length, dimensions.width),
        model: Vec::new(),
        alike: alike(read),
        spectrum: encodings[0]
            .frequencies()
            .zip(encodings[1].frequencies())
            .map(|(trained, read)| spectrum(trained, read, probes[1].logit_scale(), lengths.train)),
        bias: by_distance(&|probe| probe.bias(&distances)),
        decay: by_distance(&|probe| probe.decay(&distances)),
        rising_share: rising_share(&probes[1], lengths.length),
        details: encodings[1].summaries(&encodings[1].reads(&sampled)),
        matrix: probes[1].matrix(spread(lengths.length, detail.rows())),
        attention: None,
    }
}

/// The share of steps from a distance to the next at which the decay rises.
fn rising_share(probe: &Probe<'_>, length: usize) -> Option<f64> {
    let distances: Vec<usize> = (0..length).collect();
    let decay: Vec<f64> = probe.decay(&distances)?.first()?.iter().map_while(|value| *value).collect();
    let steps = decay.len().checked_sub(1).filter(|&steps| steps > 0)?;
    let rising = decay.windows(2).filter(|pair| pair[1] > pair[0]).count();
    Some(rising as f64 / steps as f64)
}

/// What happens past the training length, with the rows of a larger table.
fn past(facts: &EncodingInfo, trained: &Encoding, train_length: usize) -> String {
    match trained.capabilities().table_rows() {
        Some(rows) if rows > train_length => format!(
            "rows {train_length} to {} of the table, which texts of {train_length} tokens never train; past those: {}",
            rows - 1,
            facts.past
        ),
        _ => facts.past.to_owned(),
    }
}

fn layers(read: &Reading, encoding: usize, length: usize, width: usize) -> Vec<Layer> {
    let positions = Positions::range(0..length);
    let layers = read.layers().iter().enumerate();
    layers
        .filter(|(_, layer)| layer.encodings.iter().any(|place| place.encoding == encoding))
        .map(|(index, layer)| Layer {
            index,
            window: layer.mask.window,
            sinks: layer.mask.sinks,
            log_n: !matches!(layer.log_n, LogN::Off | LogN::ByEntropy),
            log_n_of_seen: matches!(layer.log_n, LogN::Learned { .. }),
            route: route_in_words(read, index, &positions, width),
        })
        .collect()
}

fn alike(read: &Reading) -> bool {
    let encodings =
        |layer: &LayerReading| -> Vec<usize> { layer.encodings.iter().map(|place| place.encoding).collect() };
    let first = encodings(read.layer(0));
    read.layers()
        .iter()
        .all(|layer| layer.mask == Mask::default() && layer.log_n == LogN::Off && encodings(layer) == first)
}

fn spectrum(trained: &Frequencies, read: &Frequencies, logit_scale: f64, train_length: usize) -> Spectrum {
    let (trained_at, read_at) = (trained.as_read(), read.as_read());
    let bands = trained_at.iter().zip(read_at.iter());
    Spectrum {
        base: trained.base,
        base_read: read.base,
        attention_factor: read.attention_factor * logit_scale.sqrt(),
        bands: bands
            .map(|(&inv_freq, &inv_freq_read)| Band {
                inv_freq,
                wavelength: TAU / inv_freq,
                turns: inv_freq * train_length as f64 / TAU,
                inv_freq_read,
            })
            .collect(),
    }
}

/// Distances in a text: the first ones singly, then two for each doubling, and the last.
fn distances(length: usize) -> Vec<usize> {
    let growing = (2..usize::BITS - 2).flat_map(|bit| [1 << bit, 3 << (bit - 1)]);
    let mut distances: Vec<usize> = (0..4).chain(growing).take_while(|&n| n + 1 < length).collect();
    distances.push(length - 1);
    distances.dedup();
    distances
}

/// At most `count` positions spread evenly over a length, from the first on.
fn spread(length: usize, count: usize) -> Vec<usize> {
    let step = ((length - 1) / (count - 1)).max(1);
    (0..length).step_by(step).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_positions_are_spread() {
        assert_eq!(distances(1), [0]);
        assert_eq!(distances(5), [0, 1, 2, 3, 4]);
        assert_eq!(distances(33), [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
        assert_eq!(distances(20), [0, 1, 2, 3, 4, 6, 8, 12, 16, 19]);
        assert_eq!(spread(1, 4), [0]);
        assert_eq!(spread(3, 4), [0, 1, 2]);
        assert_eq!(spread(100, 4), [0, 33, 66, 99]);
        assert_eq!(spread(128, 4), [0, 42, 84, 126]);
    }
}
