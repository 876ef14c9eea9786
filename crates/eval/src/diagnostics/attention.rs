//! What attention of a trained model shows while it reads: spread, unseen angles, bands and ranks, head by head.

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

#[derive(Debug)]
pub(super) struct Watcher<'a> {
    model: &'a Gpt,
    reading: &'a Reading,
    /// The length that distances are held against: L.
    train_length: usize,
    shown: &'a [Option<ShownAngles>],
    /// The share of bands at unseen angles, `[queries, keys]`, by tokens of the text, layer, first query, first key and keys: alike for every
    /// text of that length; none where nothing turns.
    views: BTreeMap<[usize; 5], Option<Vec<f32>>>,
    rotations: Vec<Option<Rotation>>,
    geometries: Vec<Geometry>,
    /// Tokens that prefer each band, by layer and head.
    preferred: BTreeMap<(usize, usize), Vec<u64>>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(
        model: &'a Gpt,
        reading: &'a Reading,
        train_length: usize,
        shown: &'a [Option<ShownAngles>],
    ) -> Self {
        let layers = 0..model.blocks.len();
        Self {
            model,
            reading,
            train_length,
            shown,
            views: BTreeMap::new(),
            rotations: layers.clone().map(|layer| reading.rotation(layer)).collect(),
            geometries: layers.map(|layer| reading.geometry(layer)).collect(),
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
        let Self { model, reading, .. } = *self;
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
            None => self.unseen(layer, positions, shown.queries.clone(), first_key..first_key + keys),
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
                    beyond: (query + 1).saturating_sub(self.train_length + first_key).min(until_own),
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
            is_last: is_end(self.reading.layout(), shown.queries.end, positions.len()),
            has_ranks: self.geometries.iter().all(|geometry| geometry.maps.len() == 1),
            document,
        };
        let preferred = &mut self.preferred;
        block.add(ATTENTION, gathered, &mut |head, counts| {
            let so_far = preferred.entry((layer, head)).or_insert_with(|| vec![0; counts.len()]);
            so_far.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        })
    }

    /// The share of bands at unseen angles, `[queries, keys]`, from positions alone; none where nothing turns as it was trained.
    fn unseen(
        &self,
        layer: usize,
        positions: &[f64],
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Option<Vec<f32>> {
        let (rotation, geometry) = (self.rotations[layer].as_ref()?, &self.geometries[layer]);
        let seen = &self.shown[layer].as_ref()?.angles;
        let bands = seen.bands();
        if bands != rotation.frequencies.inv_freq.len() {
            return None;
        }
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
        Some(shares)
    }

    /// Adds what is no mean over documents.
    pub(super) fn finish(&self, gathered: &mut Gathered) {
        let preferred = self.preferred.iter().map(|(&(layer, head), counts)| {
            (Key::head(Diagnostic::PreferredBand, layer, head), bands::most_frequent(counts) as f64)
        });
        let predicted = self.shown.iter().enumerate().filter_map(|(layer, shown)| {
            Some((Key::layer(Diagnostic::PredictedBand, layer), shown.as_ref()?.predicted?))
        });
        for (diagnostic, found) in [
            (Diagnostic::PreferredBand, preferred.collect::<Vec<_>>()),
            (Diagnostic::PredictedBand, predicted.collect()),
        ] {
            let all: Vec<f64> = found.iter().map(|(_, band)| *band).collect();
            let whole = mean(&all).map(|mean| (Key::whole(diagnostic), mean));
            found.into_iter().chain(whole).for_each(|(key, value)| gathered.set(key, value));
        }
        let mut sinks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for key in gathered.heads(Diagnostic::FirstToken) {
            let is_sink = gathered.mean(key).is_some_and(|mean| mean > SINK);
            sinks.entry(key.layer.unwrap_or_default()).or_default().push(f64::from(u8::from(is_sink)));
        }
        let all: Vec<f64> = sinks.values().flatten().copied().collect();
        let of_layers = sinks.iter().map(|(layer, heads)| (Key::layer(Diagnostic::Sinks, *layer), heads));
        for (key, heads) in of_layers.chain([(Key::whole(Diagnostic::Sinks), &all)]) {
            if let Some(mean) = mean(heads) {
                gathered.set(key, mean);
            }
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
