//! What attention of a trained model shows while it reads: spread, unseen angles, bands and ranks, head by head.

use super::angles::SeenAngles;
use super::bands;
use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use super::head::{HeadSums, Query};
use super::shown::ShownAngles;
use super::turned::Block;
use crate::statistics::mean;
use longwave_core::Result;
use longwave_model::attention::watched::Probabilities;
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_position::encoding::{Geometry, PositionMap};
use longwave_position::frequency::Rotation;
use longwave_position::layout::TextLayout;
use longwave_train::parameters::numbers;
use std::collections::BTreeMap;
use std::ops::Range;

/// A head that gives the first token more than this has a sink (Gu et al. 2024, arXiv:2410.10781).
const SINK: f64 = 0.3;

/// What is read back, for an error.
const ATTENTION: &str = "the attention";

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched<'a> {
    pub(crate) model: &'a Gpt,
    /// How texts are read now.
    pub(crate) reading: &'a Reading,
    /// The length that distances are held against: L.
    pub(crate) train_length: usize,
    /// What training showed to each layer.
    pub(crate) shown: &'a [Option<ShownAngles>],
}

/// Watches texts.
#[derive(Debug)]
pub(crate) struct Watcher<'a> {
    of: Watched<'a>,
    /// The share of bands at unseen angles, `[queries, keys]`, by tokens of the text, layer, first query, first key and keys: alike for every
    /// text of that length; none where nothing turns.
    views: BTreeMap<[usize; 5], Option<Vec<f32>>>,
    rotations: Vec<Option<Rotation>>,
    geometries: Vec<Geometry>,
    /// Tokens that prefer each band, by layer and head.
    preferred: BTreeMap<(usize, usize), Vec<u64>>,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(of: Watched<'a>) -> Self {
        let layers = 0..of.model.blocks.len();
        Self {
            of,
            views: BTreeMap::new(),
            rotations: layers.clone().map(|layer| of.reading.rotation(layer)).collect(),
            geometries: layers.map(|layer| of.reading.geometry(layer)).collect(),
            preferred: BTreeMap::new(),
        }
    }

    /// Adds what the queries from `first` on of a text give to its keys.
    pub(super) fn text(
        &mut self,
        tokens: &[u32],
        first: usize,
        document: usize,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let Watched { model, reading, .. } = self.of;
        let positions = reading.layout().positions(tokens.len());
        let device = model.embedding.device();
        let tokens = upload(tokens, [1, tokens.len()], &device);
        let pass = Pass { tokens, positions: &positions, reading, dropout: None };
        model.watch_attention(&pass, first, &mut |shown| {
            self.add(shown, positions.values(), document, gathered)
        })
    }

    fn add(
        &mut self,
        shown: &Probabilities<'_>,
        positions: &[f64],
        document: usize,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let (layer, first_key) = (shown.layer, shown.first_key);
        let [_, heads, _, keys] = shown.values.dims();
        let place = [positions.len(), layer, shown.queries.start, first_key, keys];
        let view = match self.views.remove(&place) {
            Some(view) => view,
            None => self.view(layer, positions, shown.queries.clone(), first_key..first_key + keys),
        };
        let values = numbers(ATTENTION, shown.values.clone())?;
        let logits = numbers(ATTENTION, shown.logits.clone())?;
        let mut sums = HeadSums::default();
        for head in 0..heads {
            for (row, query) in shown.queries.clone().enumerate() {
                let until_own = (query + 1 - first_key).min(keys);
                let begin = (head * shown.queries.len() + row) * keys;
                sums.add(&Query {
                    given: &values[begin..][..until_own],
                    logits: &logits[begin..][..until_own],
                    beyond: (query + 1).saturating_sub(self.of.train_length + first_key).min(until_own),
                    is_from_start: first_key == 0,
                    unseen: view.as_ref().map(|unseen| &unseen[row * keys..][..until_own]),
                });
            }
            std::mem::take(&mut sums).put(layer, head, document, gathered);
        }
        self.views.insert(place, view);
        let block = Block {
            shown,
            positions,
            logits: &logits,
            geometry: &self.geometries[layer],
            rotation: self.rotations[layer].as_ref(),
            is_last: is_end(self.of.reading.layout(), shown.queries.end, positions.len()),
            has_ranks: self.geometries.iter().all(|geometry| geometry.maps.len() == 1),
            document,
        };
        let preferred = &mut self.preferred;
        block.add(ATTENTION, gathered, &mut |head, counts| {
            let so_far = preferred.entry((layer, head)).or_insert_with(|| vec![0; counts.len()]);
            so_far.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        })
    }

    /// The share of bands at unseen angles, from positions alone.
    fn view(
        &self,
        layer: usize,
        positions: &[f64],
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Option<Vec<f32>> {
        let (rotation, shown) = (self.rotations[layer].as_ref()?, self.of.shown[layer].as_ref()?);
        let is_alike = shown.angles.bands() == rotation.frequencies.inv_freq.len();
        is_alike.then(|| self.unseen(layer, (rotation, &shown.angles), positions, queries, keys))
    }

    /// The share of bands at unseen angles, `[queries, keys]`.
    fn unseen(
        &self,
        layer: usize,
        (rotation, seen): (&Rotation, &SeenAngles),
        positions: &[f64],
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Vec<f32> {
        let geometry = &self.geometries[layer];
        let bands = seen.bands();
        let entries: Vec<[Vec<f64>; 2]> = geometry
            .maps
            .iter()
            .map(|(query_map, key_map)| {
                let angles = |places: Range<usize>, map: &PositionMap| {
                    let positions: Vec<f64> = positions[places].iter().map(|&at| map.at(at)).collect();
                    rotation.frequencies.angles(&positions).collect::<Vec<f64>>()
                };
                [angles(queries.clone(), query_map), angles(keys.clone(), key_map)]
            })
            .collect();
        let mut shares = Vec::with_capacity(queries.len() * keys.len());
        for (row, query) in queries.enumerate() {
            for (column, key) in keys.clone().enumerate() {
                let [of_query, of_key] = &entries[geometry.entry(positions[query], positions[key])];
                let pairs = of_query[row * bands..][..bands].iter().zip(&of_key[column * bands..][..bands]);
                let share = if key > query { 0.0 } else { seen.unseen_share(pairs.map(|(a, b)| a - b)) };
                shares.push(share as f32);
            }
        }
        shares
    }

    /// Adds what is no mean over documents.
    pub(super) fn finish(&self, gathered: &mut Gathered) {
        let mut others = Vec::new();
        for (&(layer, head), counts) in &self.preferred {
            let band = bands::most_frequent(counts) as f64;
            others.push((Key::head(Diagnostic::PreferredBand, layer, head), band));
        }
        let all: Vec<f64> = others.iter().map(|(_, band)| *band).collect();
        others.extend(mean(&all).map(|mean| (Key::whole(Diagnostic::PreferredBand), mean)));
        let of_layer =
            |(layer, shown): (usize, &Option<ShownAngles>)| Some((layer, shown.as_ref()?.predicted?));
        let predicted: Vec<(usize, f64)> = self.of.shown.iter().enumerate().filter_map(of_layer).collect();
        let key = |layer| Key { layer: Some(layer), ..Key::whole(Diagnostic::PredictedBand) };
        others.extend(predicted.iter().map(|&(layer, band)| (key(layer), band)));
        let all: Vec<f64> = predicted.iter().map(|(_, band)| *band).collect();
        others.extend(mean(&all).map(|mean| (Key::whole(Diagnostic::PredictedBand), mean)));
        let mut sinks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for key in gathered.heads(Diagnostic::FirstToken) {
            let is_sink = gathered.mean(key).is_some_and(|mean| mean > SINK);
            sinks.entry(key.layer.unwrap_or_default()).or_default().push(f64::from(u8::from(is_sink)));
        }
        let all: Vec<f64> = sinks.values().flatten().copied().collect();
        others.extend(mean(&all).map(|mean| (Key::whole(Diagnostic::Sinks), mean)));
        for (layer, of_heads) in sinks {
            let key = Key { layer: Some(layer), ..Key::whole(Diagnostic::Sinks) };
            others.extend(mean(&of_heads).map(|mean| (key, mean)));
        }
        for (key, value) in others {
            gathered.set(key, value, None);
        }
    }
}

/// Whether queries up to a place of a text are its last, or those of a segment.
fn is_end(layout: TextLayout, end: usize, length: usize) -> bool {
    let ends_segment = match layout {
        TextLayout::Segments { length } | TextLayout::Recurrent { length, .. } => end.is_multiple_of(length),
        TextLayout::Contiguous | TextLayout::Drawn { .. } | TextLayout::Cells { .. } => false,
    };
    end == length || ends_segment
}
