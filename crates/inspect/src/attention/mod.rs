//! Where a trained model attends: the mean attention probability by distance, of every layer and head, on some text.
//!
//! Measured on the queries in the second half of each window: each of them has many keys, while the first tokens of a text
//! can only attend to themselves.

mod text;

use longwave_core::Result;
use longwave_eval::Sample;
use longwave_model::attention::watched::{self, Probabilities};
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_train::parameters::numbers;
use serde::Serialize;

/// Distances up to this one stand alone; further ones are averaged in bins.
pub const SINGLE: usize = 64;
/// Bins for each doubling of the distance.
pub const BINS_A_DOUBLING: f64 = 16.0;
/// The last tokens, whose share is shown.
pub const NEAREST: usize = 8;

/// Where a trained model attends, or why that is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Attention {
    /// What was measured.
    ByDistance(AttentionByDistance),
    /// Nothing was.
    None {
        /// Why, in a sentence.
        why_not: String,
    },
}

/// The mean attention probability by distance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttentionByDistance {
    pub split: String,
    pub windows: usize,
    /// Tokens of the shortest and of the longest of them.
    pub tokens: [usize; 2],
    /// The documents that they lie in, or the sequences of a task.
    pub documents: usize,
    /// Which of both.
    pub unit: &'static str,
    /// L in tokens.
    pub train_length: usize,
    /// The first and the last distance of each bin, in tokens back: the same up to [`SINGLE`].
    pub distances: Vec<[usize; 2]>,
    pub layers: Vec<LayerAttention>,
}

/// Where a layer attends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerAttention {
    /// From 0.
    pub index: usize,
    /// The mean over its heads.
    pub mean: Profile,
    pub heads: Vec<Profile>,
}

/// Where a head attends. Shares are of the attention of a query, on average over the queries that were measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The mean probability of one key in each bin of distances, over the queries that have keys there.
    pub probability: Vec<f64>,
    /// The mean distance of what is given to keys.
    pub mean_distance: f64,
    /// The share of the first token of the text.
    pub first_token: f64,
    /// The share of the last [`NEAREST`] tokens, the query's own among them.
    pub nearest: f64,
    /// The share of the keys at distances below L.
    pub within_train_length: f64,
    /// The share of the keys at L and beyond.
    pub beyond_train_length: f64,
    /// What is given to no key: the share of a sink's logit, or the rest of a stick.
    pub to_no_key: f64,
}

impl Attention {
    /// Measures where a model attends that was trained on texts of `train_length` tokens; where it has no probabilities, says
    /// so.
    pub fn measure(model: &Gpt, reading: &Reading, train_length: usize, sample: &Sample) -> Result<Self> {
        if let Err(error) = watched::check(reading) {
            return Ok(Self::None { why_not: error.message().to_owned() });
        }
        let device = model.embedding.device();
        let mut sums = WindowSums::default();
        for window in &sample.windows {
            let positions = reading.layout().positions(window.len());
            reading.check(&positions)?;
            let tokens = upload(window, [1, window.len()], &device);
            let pass = Pass { tokens, positions: &positions, reading, dropout: None };
            sums.begin(window.len());
            model.watch_attention(&pass, sums.first_query, &mut |shown| sums.add(shown))?;
        }
        Ok(Self::ByDistance(sums.finish(sample, train_length)))
    }

    /// What was measured of some layers.
    #[must_use]
    pub fn of_layers(&self, layers: &[usize]) -> Self {
        let mut part = self.clone();
        if let Self::ByDistance(measured) = &mut part {
            measured.layers.retain(|layer| layers.contains(&layer.index));
        }
        part
    }
}

/// What is summed over windows.
#[derive(Debug, Default)]
struct WindowSums {
    /// The first query of the window that is measured.
    first_query: usize,
    queries: usize,
    /// Pairs of a query and a key at each distance.
    pairs: Vec<usize>,
    /// `[layers, heads]`.
    layers: Vec<Vec<HeadSums>>,
}

/// What is summed of a head.
#[derive(Clone, Debug, Default)]
struct HeadSums {
    by_distance: Vec<f64>,
    first_token: f64,
}

impl WindowSums {
    /// A window of so many tokens comes next.
    fn begin(&mut self, length: usize) {
        self.first_query = length / 2;
        self.queries += length - self.first_query;
        self.pairs.resize(self.pairs.len().max(length), 0);
        for (distance, pairs) in self.pairs[..length].iter_mut().enumerate() {
            *pairs += length - self.first_query.max(distance);
        }
    }

    fn add(&mut self, shown: &Probabilities<'_>) -> Result<()> {
        let Probabilities { layer, ref queries, first_key, values, .. } = *shown;
        let [_, heads, count, keys] = values.dims();
        if self.layers.len() <= layer {
            self.layers.resize(layer + 1, Vec::new());
        }
        self.layers[layer].resize(heads, HeadSums::default());
        for (row, given) in numbers("the attention", values.clone())?.chunks(keys).enumerate() {
            let query = queries.start + row % count;
            let sums = &mut self.layers[layer][row / count];
            sums.by_distance.resize(self.pairs.len(), 0.0);
            let seen = query - first_key + 1;
            for (sum, &given) in sums.by_distance[..seen].iter_mut().rev().zip(given) {
                *sum += f64::from(given);
            }
            if first_key == 0 {
                sums.first_token += f64::from(given[0]);
            }
        }
        Ok(())
    }

    fn finish(&self, sample: &Sample, train_length: usize) -> AttentionByDistance {
        let distances = bins(self.pairs.len());
        let lengths = || sample.windows.iter().map(Vec::len);
        let profile = |sums: &HeadSums| self.profile(sums, &distances, train_length);
        let layer = |(index, heads): (usize, &Vec<HeadSums>)| LayerAttention {
            index,
            mean: profile(&mean(heads)),
            heads: heads.iter().map(profile).collect(),
        };
        AttentionByDistance {
            split: sample.split.to_string(),
            windows: sample.windows.len(),
            tokens: [lengths().min().unwrap_or_default(), lengths().max().unwrap_or_default()],
            documents: sample.documents,
            unit: sample.unit,
            train_length,
            layers: self.layers.iter().enumerate().map(layer).collect(),
            distances,
        }
    }

    fn profile(&self, sums: &HeadSums, bins: &[[usize; 2]], train_length: usize) -> Profile {
        let all = &sums.by_distance;
        let queries = self.queries.max(1) as f64;
        // The sum of nothing has a sign, which would be shown.
        let share = |distances: &[f64]| distances.iter().fold(0.0, |sum, next| sum + next) / queries;
        let to_keys = share(all);
        let weighed: f64 = all.iter().enumerate().map(|(distance, sum)| distance as f64 * sum).sum();
        let (within, beyond) = all.split_at(train_length.min(all.len()));
        let probability = |&[first, last]: &[usize; 2]| {
            let pairs = self.pairs[first..=last].iter().sum::<usize>().max(1);
            all[first..=last].iter().sum::<f64>() / pairs as f64
        };
        Profile {
            probability: bins.iter().map(probability).collect(),
            mean_distance: if to_keys > 0.0 { weighed / (to_keys * queries) } else { 0.0 },
            first_token: sums.first_token / queries,
            nearest: share(&all[..NEAREST.min(all.len())]),
            within_train_length: share(within),
            beyond_train_length: share(beyond),
            to_no_key: (1.0 - to_keys).max(0.0),
        }
    }
}

fn mean(heads: &[HeadSums]) -> HeadSums {
    let count = heads.len().max(1) as f64;
    let mut mean = HeadSums::default();
    for head in heads {
        mean.by_distance.resize(head.by_distance.len(), 0.0);
        mean.first_token += head.first_token / count;
        for (mean, sum) in mean.by_distance.iter_mut().zip(&head.by_distance) {
            *mean += sum / count;
        }
    }
    mean
}

/// The first and the last distance of each bin of the distances below `length`.
fn bins(length: usize) -> Vec<[usize; 2]> {
    let mut bins: Vec<[usize; 2]> = (0..length.min(SINGLE + 1)).map(|distance| [distance; 2]).collect();
    let mut first = SINGLE + 1;
    while first < length {
        let next = (first as f64 * (1.0 / BINS_A_DOUBLING).exp2()).round() as usize;
        let next = next.clamp(first + 1, length.max(first + 1));
        bins.push([first, next - 1]);
        first = next;
    }
    bins
}

#[cfg(test)]
pub(crate) mod tests;
