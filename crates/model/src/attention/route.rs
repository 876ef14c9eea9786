//! Which way the attention of a layer goes, chosen here and nowhere else. What the layer's encodings describe is read by a fused
//! kernel, all queries at once; what must be computed from the scores is read one block of queries at a time, and takes
//! longer.

use super::described::{Pairs, options};
use super::reflected;
use super::sink::is_plain;
use burn::tensor::{Device, Int, Tensor};
use longwave_kernels::{Attention, Bias, PathAttention, TermsOf};
use longwave_position::encoding::{QueryBlock, Rows, ScoreForm};
use longwave_position::reading::{AttentionKind, LogN, Temperature};
use longwave_position::{Positions, Reading};
use std::sync::Arc;

/// The way, with what the kernel at its end is given.
#[expect(clippy::large_enum_variant, reason = "one is chosen for a call and read at once")]
pub(super) enum Route {
    /// Attention without a softmax, by sums over the keys.
    Linear,
    /// The fused attention with terms that are made of q and k.
    Added(Arc<dyn TermsOf>, Attention),
    /// The kernel for keys that the rows between reflect, and what multiplies the queries before it.
    Reflections(PathAttention, Option<Tensor<4>>),
    /// The fused attention, with one or two pairs of position maps.
    Fused(Pairs),
    /// One block of queries at a time, and why.
    Blocks(&'static str),
}

impl Route {
    /// The way of the queries at hand; `scale` multiplies `q.k`.
    pub(super) fn choose(scale: f64, block: QueryBlock<'_>, reading: &Reading, device: &Device) -> Self {
        let attention = reading.attention();
        if attention == AttentionKind::Linear {
            return Self::Linear;
        }
        let softmax = attention.normaliser().is_some_and(|normaliser| normaliser.is_softmax());
        // Last the form, which may read the whole input.
        if softmax
            && reading.needs_scores(block.rows.layer, block.rows.positions)
            && is_plain(reading, block, device)
        {
            let alone = || {
                let options = options(reading, scale, block, device);
                let alone = options.query_scale.is_none() && matches!(reading.bias(block), Bias::None);
                alone.then_some(options)
            };
            let route = match reading.score_form(block) {
                ScoreForm::Added(added) => alone().map(|options| Self::Added(added, options)),
                ScoreForm::Reflections(reflections) => {
                    reflected::described(reflections, scale, block, reading, device)
                        .map(|(options, factors)| Self::Reflections(options, factors))
                }
                _ => None,
            };
            if let Some(route) = route {
                return route;
            }
        }
        if let Some(why) = obstacle(reading, block.rows) {
            return Self::Blocks(why);
        }
        let layer = block.rows.layer;
        match Pairs::of(&reading.geometry(layer), block.rows.positions) {
            None => Self::Blocks("its position maps are not chosen by the distance of rows"),
            Some(pairs) if pairs.far.is_some() && reading.layer_capabilities(layer).adds_vectors() => {
                Self::Blocks("vectors by distance are read with one pair of position maps")
            }
            Some(pairs) => Self::Fused(pairs),
        }
    }
}

/// Whether the layer masks by index and describes what it adds: one pair of position maps can then be fused.
pub(super) fn is_described(reading: &Reading, rows: Rows<'_>) -> bool {
    obstacle(reading, rows).is_none()
}

/// Why the layer is read in blocks, whatever its geometry.
fn obstacle(reading: &Reading, rows: Rows<'_>) -> Option<&'static str> {
    let layer = reading.layer(rows.layer);
    let of_heads = matches!(layer.temperature, Temperature::Heads(_)) || layer.head_scale.is_some();
    if reading.scales_logits(rows.layer, rows.positions) {
        Some("learned log-n scales its biases too")
    } else if reading.needs_scores(rows.layer, rows.positions) {
        let itself = |place: &longwave_position::reading::LayerEncoding| {
            let encoding = &reading.encodings()[place.encoding];
            encoding.needs_scores(&encoding.reads(rows.positions))
        };
        Some(if layer.encodings.iter().any(itself) {
            "the encoding computes with the scores"
        } else {
            "several encodings add to the scores"
        })
    } else if layer.mask.by_index(rows.positions).is_none() {
        Some("its mask goes by positions that do not count up by one")
    } else if of_heads && reading.layer_capabilities(rows.layer).adds_vectors() {
        Some("vectors by distance are read at one temperature for all heads")
    } else if layer.log_n == LogN::ByEntropy {
        Some("the temperature of a row follows from its entropy")
    } else {
        None
    }
}

/// Whether a layer is read one block of queries at a time at consecutive positions, for a text of `width` channels.
pub(crate) fn is_in_blocks(reading: &Reading, layer: usize, width: usize) -> bool {
    let positions = Positions::range(0..2);
    of_any(reading, layer, &positions, width, |route| matches!(route, Route::Blocks(_)))
}

/// The way of a layer's attention in words, for a text of `width` channels at these positions: `fused`, or which other kernel it
/// has, or `in blocks of queries` and why.
pub fn route_in_words(reading: &Reading, layer: usize, positions: &Positions, width: usize) -> String {
    of_any(reading, layer, positions, width, |route| match route {
        Route::Fused(_) if reading.attention() == AttentionKind::Softmax => "fused".to_owned(),
        Route::Fused(_) => format!("fused, with the weights of {}", reading.attention().name()),
        Route::Added(added, _) => format!("fused, with {}", added.words()),
        Route::Reflections(..) => "fused, with the reflections of keys".to_owned(),
        Route::Linear => "fused, by sums over the keys".to_owned(),
        Route::Blocks(why) => format!("in blocks of queries, since {why}"),
    })
}

/// What to say of the way of a text of nothing at these positions.
fn of_any<T>(
    reading: &Reading,
    layer: usize,
    positions: &Positions,
    width: usize,
    say: impl FnOnce(&Route) -> T,
) -> T {
    let device = Device::flex();
    let length = positions.length();
    let tokens = Tensor::<2, Int>::zeros([1, length], &device);
    let input = Tensor::zeros([1, length, width], &device);
    let rows = Rows::new(layer, &tokens, positions);
    // What is described of the first query is described of all.
    let block = QueryBlock { rows, queries: &(0..1), input: &input };
    say(&Route::choose(1.0, block, reading, &device))
}
