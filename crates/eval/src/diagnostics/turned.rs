//! What the bands of a head do in a block of queries: norms, the band that keys prefer, shares of the logits; and the rank of its keys.

use super::bands;
use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use super::head::is_seen;
use super::rank::stable_rank;
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_model::attention::watched::Probabilities;
use longwave_position::encoding::Geometry;
use longwave_position::frequency::Rotation;
use longwave_train::parameters::numbers;

/// Queries of a block whose logits are taken apart by band.
const QUERIES_BY_BAND: usize = 16;

/// Vectors of queries and keys on the host, head by head.
struct Vectors {
    /// Of queries and keys, each `[heads, rows, width]`.
    sides: [Vec<f32>; 2],
    rows: [usize; 2],
    width: usize,
}

impl Vectors {
    fn read(what: &str, of: &[Tensor<4>; 2]) -> Result<Self> {
        let [_, _, queries, width] = of[0].dims();
        let keys = of[1].dims()[2];
        let [q, k] = of;
        let sides = [numbers(what, q.clone())?, numbers(what, k.clone())?];
        Ok(Self { sides, rows: [queries, keys], width })
    }

    /// The vectors of a head, of queries (side 0) or keys (side 1).
    fn of(&self, side: usize, head: usize) -> &[f32] {
        let size = self.rows[side] * self.width;
        &self.sides[side][head * size..][..size]
    }

    fn row(&self, side: usize, head: usize, row: usize) -> &[f32] {
        &self.of(side, head)[row * self.width..][..self.width]
    }
}

pub(super) struct Block<'a> {
    pub(super) shown: &'a Probabilities<'a>,
    /// Of the whole text.
    pub(super) positions: &'a [f64],
    /// `[heads, queries, keys]`.
    pub(super) logits: &'a [f32],
    pub(super) geometry: &'a Geometry,
    pub(super) rotation: Option<&'a Rotation>,
    /// Whether its keys are all that the text, or the segment, has: they are counted once.
    pub(super) is_last: bool,
    /// Whether every layer turns a key in one way, so that keys have a rank and layers the same mean at every reading.
    pub(super) has_ranks: bool,
    pub(super) document: usize,
}

impl Block<'_> {
    /// Adds what its heads do, and gives `prefer` each head with the number of its keys that prefer each band.
    pub(super) fn add(
        &self,
        what: &str,
        gathered: &mut Gathered,
        prefer: &mut dyn FnMut(usize, Vec<u64>),
    ) -> Result<()> {
        let heads = self.shown.values.dims()[1];
        let read = self.shown.mapped.iter().map(|of| Vectors::read(what, of));
        let read = read.collect::<Result<Vec<Vectors>>>()?;
        let projected = Vectors::read(what, self.shown.projected)?;
        for head in 0..heads {
            if let (true, [turned]) = (self.is_last && self.has_ranks, read.as_slice())
                && let Some(rank) = stable_rank(turned.of(1, head), turned.width)
            {
                gathered.add(self.document, self.key(Diagnostic::StableRank, head), rank, 1.0);
            }
            let Some(rotation) = self.rotation else { continue };
            let count = rotation.frequencies.inv_freq.len();
            if read.iter().chain([&projected]).any(|of| 2 * count > of.width) {
                continue;
            }
            self.add_norms(head, rotation, &projected, gathered, prefer);
            self.add_shares(head, rotation, &read, gathered);
        }
        Ok(())
    }

    fn key(&self, diagnostic: Diagnostic, head: usize) -> Key {
        Key::head(diagnostic, self.shown.layer, head)
    }

    /// Norms by band, before q and k are turned: a factor on cos and sin, as of `YaRN`, is none of their own.
    fn add_norms(
        &self,
        head: usize,
        rotation: &Rotation,
        projected: &Vectors,
        gathered: &mut Gathered,
        prefer: &mut dyn FnMut(usize, Vec<u64>),
    ) {
        let (layout, count) = (rotation.layout, rotation.frequencies.inv_freq.len());
        for (side, diagnostic) in [Diagnostic::QueryNorm, Diagnostic::KeyNorm].into_iter().enumerate() {
            if diagnostic == Diagnostic::KeyNorm && !self.is_last {
                continue;
            }
            let (mut sums, mut preferred) = (vec![0.0; count], vec![0; count]);
            for vector in projected.of(side, head).chunks_exact(projected.width) {
                let norms: Vec<f64> = bands::norms(vector, layout, count).collect();
                sums.iter_mut().zip(&norms).for_each(|(sum, norm)| *sum += norm);
                preferred[bands::largest(norms.into_iter())] += 1;
            }
            for (band, sum) in sums.into_iter().enumerate() {
                let rows = projected.rows[side] as f64;
                gathered.add(self.document, self.key(diagnostic, head).bin(band), sum, rows);
            }
            if diagnostic == Diagnostic::KeyNorm {
                prefer(head, preferred);
            }
        }
    }

    /// Shares of the logits, over the keys that a query sees, each as its pair is read.
    fn add_shares(&self, head: usize, rotation: &Rotation, read: &[Vectors], gathered: &mut Gathered) {
        let (layout, count) = (rotation.layout, rotation.frequencies.inv_freq.len());
        let [queries, keys] = read[0].rows;
        let step = queries.div_ceil(QUERIES_BY_BAND).max(1);
        for row in (0..queries).step_by(step) {
            let query = self.positions[self.shown.queries.start + row];
            let logits = &self.logits[(head * queries + row) * keys..][..keys];
            let seen = (0..keys).filter(|&key| is_seen(logits[key]));
            let pairs = seen.map(|key| {
                let entry = self.geometry.entry(query, self.positions[self.shown.first_key + key]);
                (read[entry].row(0, head, row), read[entry].row(1, head, key))
            });
            let parts = bands::deviations(pairs, layout, count);
            let total: f64 = parts.iter().sum();
            for (band, part) in parts.into_iter().enumerate() {
                gathered.add(self.document, self.key(Diagnostic::BandShare, head).bin(band), part, total);
            }
        }
    }
}
