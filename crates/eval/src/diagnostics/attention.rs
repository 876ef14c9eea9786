//! What attention of a trained model shows while it reads: spread, unseen angles, bands and ranks, head by head.

use super::angles::SeenAngles;
use super::bands;
use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use super::query::Spread;
use super::rank::stable_rank;
use crate::statistics::mean;
use longwave_core::Result;
use longwave_model::attention::watched::Probabilities;
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_position::frequency::Rotation;
use longwave_position::layout::TextLayout;
use longwave_train::parameters::numbers;
use std::collections::BTreeMap;
use std::ops::Range;

/// Queries of a block whose logits are taken apart by band.
const QUERIES_BY_BAND: usize = 16;
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
    /// Tokens of the texts that the weights were trained on last.
    pub(crate) shown_length: usize,
}

/// The share of bands at unseen angles, and the keys that are seen, for some queries of a layer.
#[derive(Debug)]
struct View {
    /// `[queries, keys]`; none where nothing turns.
    unseen: Option<Vec<f32>>,
    /// Keys that each query sees, `[queries]`.
    visible: Vec<usize>,
}

/// Watches texts.
#[derive(Debug)]
pub(crate) struct Watcher<'a> {
    of: Watched<'a>,
    /// By tokens of the text, layer, first query, first key and keys: alike for every text of that length.
    views: BTreeMap<[usize; 5], View>,
    rotations: Vec<Option<Rotation>>,
    seen_angles: Vec<Option<SeenAngles>>,
    /// Tokens that prefer each band, by layer and head.
    preferred: BTreeMap<(usize, usize), Vec<u64>>,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(of: Watched<'a>) -> Self {
        let layers = of.model.blocks.len();
        let trained = &of.model.position;
        // Random positions show distances up to their range.
        let shown = match trained.layout() {
            TextLayout::Drawn { max_position, .. } => max_position,
            TextLayout::Cells { span, .. } => span as usize,
            _ => of.shown_length,
        };
        let seen =
            |layer| trained.rotation(layer).map(|it| SeenAngles::new(&it.frequencies.as_read(), shown));
        Self {
            of,
            views: BTreeMap::new(),
            rotations: (0..layers).map(|layer| of.reading.rotation(layer)).collect(),
            seen_angles: (0..layers).map(seen).collect(),
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
        let (values, train) = (numbers(ATTENTION, shown.values.clone())?, self.of.train_length);
        let mut sums = HeadSums::default();
        for head in 0..heads {
            for (row, query) in shown.queries.clone().enumerate() {
                let seen = (query + 1 - first_key).min(keys);
                let begin = (head * shown.queries.len() + row) * keys;
                let given = &values[begin..begin + seen];
                let unseen = view.unseen.as_ref().map(|unseen| &unseen[row * keys..row * keys + seen]);
                let beyond = (query + 1).saturating_sub(train + first_key).min(seen);
                sums.add(given, view.visible[row], beyond, first_key == 0, unseen);
            }
            std::mem::take(&mut sums).put(layer, head, document, gathered);
        }
        self.views.insert(place, view);
        self.add_bands(shown, document, gathered)
    }

    /// What the bands of the layer's rotation do, and the rank of its keys.
    fn add_bands(
        &mut self,
        shown: &Probabilities<'_>,
        document: usize,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let (layer, [q, k]) = (shown.layer, shown.mapped);
        let [_, heads, queries, width] = q.dims();
        let keys = k.dims()[2];
        let (q, k) = (numbers(ATTENTION, q.clone())?, numbers(ATTENTION, k.clone())?);
        for head in 0..heads {
            let (q, k) =
                (&q[head * queries * width..][..queries * width], &k[head * keys * width..][..keys * width]);
            let key = |diagnostic| Key::head(diagnostic, layer, head);
            if let Some(rank) = stable_rank(k, width) {
                gathered.add(document, key(Diagnostic::StableRank), rank, 1.0);
            }
            let Some(rotation) = &self.rotations[layer] else { continue };
            let (layout, count) = (rotation.layout, rotation.frequencies.inv_freq.len());
            if 2 * count > width {
                continue;
            }
            let preferred = self.preferred.entry((layer, head)).or_insert_with(|| vec![0; count]);
            for (diagnostic, vectors) in [(Diagnostic::QueryNorm, q), (Diagnostic::KeyNorm, k)] {
                let mut sums = vec![0.0; count];
                for vector in vectors.chunks_exact(width) {
                    let norms: Vec<f64> = bands::norms(vector, layout, count).collect();
                    sums.iter_mut().zip(&norms).for_each(|(sum, norm)| *sum += norm);
                    if diagnostic == Diagnostic::KeyNorm {
                        preferred[bands::largest(norms.into_iter())] += 1;
                    }
                }
                let rows = (vectors.len() / width) as f64;
                for (band, sum) in sums.into_iter().enumerate() {
                    gathered.add(document, key(diagnostic).bin(band), sum, rows);
                }
            }
            let step = queries.div_ceil(QUERIES_BY_BAND).max(1);
            for (row, query) in q.chunks_exact(width).enumerate().step_by(step) {
                let seen = (shown.queries.start + row + 1 - shown.first_key).min(keys);
                let parts = bands::deviations(query, &k[..seen * width], layout, count);
                let total: f64 = parts.iter().sum();
                for (band, part) in parts.into_iter().enumerate() {
                    gathered.add(document, key(Diagnostic::BandShare).bin(band), part, total);
                }
            }
        }
        Ok(())
    }

    /// What queries of a layer meet, from positions and masks alone.
    fn view(&self, layer: usize, positions: &[f64], queries: Range<usize>, keys: Range<usize>) -> View {
        let at = |place: usize| positions[place];
        let mask = self.of.reading.layer(layer).mask;
        let visible = queries.clone().map(|query| {
            let keys = keys.start..keys.end.min(query + 1);
            keys.filter(|&key| !mask.hides(at(query), at(key))).count()
        });
        let unseen = self.rotations[layer].as_ref().zip(self.seen_angles[layer].as_ref());
        let unseen = unseen.filter(|(rotation, seen)| seen.bands() == rotation.frequencies.inv_freq.len());
        View {
            visible: visible.collect(),
            unseen: unseen
                .map(|(rotation, seen)| self.unseen(layer, (rotation, seen), positions, queries, keys)),
        }
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
        let geometry = self.of.reading.geometry(layer);
        let bands = seen.bands();
        let entries: Vec<[Vec<f64>; 2]> = geometry
            .maps
            .iter()
            .map(|(query_map, key_map)| {
                let angles = |places: Range<usize>, map: &longwave_position::encoding::PositionMap| {
                    let positions: Vec<f64> = positions[places].iter().map(|&at| map.at(at)).collect();
                    rotation.frequencies.angles(&positions).collect::<Vec<f64>>()
                };
                [angles(queries.clone(), query_map), angles(keys.clone(), key_map)]
            })
            .collect();
        let mut shares = Vec::with_capacity(queries.len() * keys.len());
        for (row, query) in queries.enumerate() {
            for (column, key) in keys.clone().enumerate() {
                let several = entries.len() > 1;
                let entry =
                    if several { geometry.selector.entry(positions[query], positions[key]) } else { 0 };
                let [of_query, of_key] = &entries[entry];
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
        let geometric = self.of.model.position.rotation(0).filter(|it| it.frequencies.is_geometric());
        if let Some(Rotation { frequencies, .. }) = geometric {
            let bands = frequencies.inv_freq.len();
            let predicted = bands::predicted(bands, frequencies.base, self.of.shown_length);
            others.push((Key::whole(Diagnostic::PredictedBand), predicted));
        }
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

/// What is summed of a head over queries.
#[derive(Debug, Default)]
struct HeadSums {
    queries: f64,
    first_token: f64,
    /// Whether the queries see the first token of the text.
    sees_first: bool,
    beyond: f64,
    effective_keys: f64,
    /// Of the queries with more than one key.
    ratio: (f64, f64),
    /// Weighted by attention, and what attention there is.
    unseen: Option<(f64, f64)>,
    /// Each key alike.
    pairs: (f64, f64),
}

impl HeadSums {
    fn add(
        &mut self,
        given: &[f32],
        visible: usize,
        beyond: usize,
        sees_first: bool,
        unseen: Option<&[f32]>,
    ) {
        let spread = Spread::of(given.iter().map(|&p| f64::from(p)), visible);
        self.queries += 1.0;
        self.effective_keys += spread.effective_keys;
        if let Some(ratio) = spread.ratio {
            self.ratio.0 += ratio;
            self.ratio.1 += 1.0;
        }
        self.sees_first |= sees_first;
        if sees_first {
            self.first_token += f64::from(given[0]);
        }
        let sum = |given: &[f32]| given.iter().map(|&p| f64::from(p)).sum::<f64>();
        self.beyond += sum(&given[..beyond]);
        if let Some(unseen) = unseen {
            let weighted: f64 =
                given.iter().zip(unseen).map(|(&p, &share)| f64::from(p) * f64::from(share)).sum();
            let (so_far, total) = self.unseen.unwrap_or_default();
            self.unseen = Some((so_far + weighted, total + sum(given)));
            self.pairs.0 += sum(unseen);
            self.pairs.1 += unseen.len() as f64;
        }
    }

    fn put(self, layer: usize, head: usize, document: usize, gathered: &mut Gathered) {
        let mut add = |diagnostic, (sum, weight)| {
            gathered.add(document, Key::head(diagnostic, layer, head), sum, weight);
        };
        if self.sees_first {
            add(Diagnostic::FirstToken, (self.first_token, self.queries));
        }
        add(Diagnostic::BeyondLength, (self.beyond, self.queries));
        add(Diagnostic::EffectiveKeys, (self.effective_keys, self.queries));
        add(Diagnostic::Entropy, self.ratio);
        if let Some(unseen) = self.unseen {
            add(Diagnostic::UnseenAngles, unseen);
            add(Diagnostic::UnseenPairs, self.pairs);
        }
    }
}
