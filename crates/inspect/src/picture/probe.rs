//! Asks one encoding of a reading what it does, with inputs that carry no content.

use super::{Matrix, Row, spread};
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_kernels::Attention;
use longwave_model::attention::{Rotations, attend};
use longwave_position::encoding::{PositionUse, QueryBlock, Rows};
use longwave_position::parameter::LAYERS;
use longwave_position::reading::AttentionKind;
use longwave_position::{Dimensions, Encoding, Init, Positions, Reading};
use std::ops::Range;

/// The most rows whose logits are computed where those between are needed: the scores of all pairs are held at once.
const MOST_ROWS: usize = 4096;

/// One encoding of a reading, and the text it is asked about.
pub(super) struct Probe<'a> {
    /// The reading with this encoding alone in every layer.
    reading: Reading,
    index: usize,
    /// The first layer that has the encoding.
    layer: usize,
    length: usize,
    dimensions: &'a Dimensions,
}

impl<'a> Probe<'a> {
    pub(super) fn new(reading: &Reading, index: usize, length: usize, dimensions: &'a Dimensions) -> Self {
        let mut reading = reading.clone();
        for layer in reading.layers_mut() {
            layer.encodings.retain(|place| place.encoding == index);
        }
        let has_it = |layer: &usize| !reading.layer(*layer).encodings.is_empty();
        let layer = (0..dimensions.layers).find(has_it).unwrap_or_default();
        Self { reading, index, layer, length, dimensions }
    }

    /// The layer that is asked, where others have parameters of their own.
    pub(super) fn layer_of_parameters(&self) -> Option<usize> {
        let layers = self.reading.layers().iter().filter(|layer| !layer.encodings.is_empty()).count();
        let is_own = self.encoding().parameters().iter().any(|spec| spec.axes.first() == Some(&LAYERS));
        (is_own && layers > 1).then_some(self.layer)
    }

    fn encoding(&self) -> &Encoding {
        &self.reading.encodings()[self.index]
    }

    /// The hooks' view of some rows, all of token 0 and of an empty input, with some of them as queries.
    fn with_block<T>(
        &self,
        positions: &Positions,
        queries: Range<usize>,
        then: impl FnOnce(QueryBlock<'_>) -> T,
    ) -> T {
        let device = Device::flex();
        let tokens = Tensor::<2, Int>::zeros([1, positions.length()], &device);
        let input = Tensor::<3>::zeros([1, positions.length(), self.dimensions.width], &device);
        // A fresh projection of keys stands for the block's, where the encoding reads it.
        let Dimensions { width, kv_heads, head_dim, .. } = *self.dimensions;
        let key_matrix = self.reading.layer_capabilities(self.layer).reads_key_matrix.then(|| {
            Init::new(0, &device).normal::<2>("picture.key_matrix", [width, kv_heads * head_dim], 0.02).val()
        });
        let rows = Rows { key_matrix: key_matrix.as_ref(), ..Rows::new(self.layer, &tokens, positions) };
        then(QueryBlock { rows, queries: &queries, input: &input })
    }

    /// What divides the logits of each head in the layer.
    fn temperatures(&self) -> Vec<f64> {
        let layer = self.reading.layer(self.layer);
        let trained =
            self.reading.head_factors(self.layer, &Device::flex()).filter(|_| layer.head_scale.is_some());
        let factors = trained.and_then(|factors| factors.into_data_as::<f32>().try_to_vec::<f32>().ok());
        let heads = 0..self.dimensions.heads;
        match factors {
            Some(factors) => {
                heads.map(|head| layer.temperature.shared() / f64::from(factors[head])).collect()
            }
            None => heads.map(|head| layer.temperature.of_head(head)).collect(),
        }
    }

    /// What multiplies q.k in the layer besides the factor on frequencies, on average over its heads.
    pub(super) fn logit_scale(&self) -> f64 {
        let all = self.temperatures();
        let inverse = if all.iter().all(|one| one.to_bits() == all[0].to_bits()) {
            1.0 / all[0]
        } else {
            all.iter().map(|one| 1.0 / one).sum::<f64>() / all.len() as f64
        };
        self.reading.layer(self.layer).logit_scale * inverse
    }

    /// What is added to the logits of the last query at some distances, over the temperature: a row per head.
    pub(super) fn bias(&self, distances: &[usize]) -> Option<Vec<Row>> {
        if !self.encoding().capabilities().adds_bias() {
            return None;
        }
        let last = self.length - 1;
        let device = Device::flex();
        let positions = Positions::range(0..self.length);
        let bias = self.with_block(&positions, last..self.length, |block| self.reading.bias(block));
        let options = Attention { bias, query_offset: last, ..Attention::causal(self.dimensions.head_dim) };
        let values = numbers(options.bias_block(1, self.length, &device)?);
        // Minus infinity hides the key, as a mask does; what is no number is shown.
        let temperatures = self.temperatures();
        let added = |bias: f64, temperature: f64| (bias != f64::NEG_INFINITY).then_some(bias / temperature);
        let of_head = |(row, temperature): (&[f64], &f64)| {
            distances.iter().map(|&n| added(row[last - n], *temperature)).collect()
        };
        Some(values.chunks(self.length).zip(&temperatures).map(of_head).collect())
    }

    /// The mean of `zeta^(n / scale_base) cos(angle)` over the bands, times the factor on q.k, where the last query
    /// reads the key at some distances: one row.
    pub(super) fn decay(&self, distances: &[usize]) -> Option<Vec<Row>> {
        let encoding = self.encoding();
        let frequencies = encoding.frequencies()?;
        let decay = self.reading.rotation(self.layer).and_then(|rotation| rotation.decay);
        let geometry = self.reading.geometry(self.layer);
        let mask = self.reading.layer(self.layer).mask;
        let query = (self.length - 1) as f64;
        let factor = frequencies.attention_factor.powi(2) * self.logit_scale();
        let at = |distance: usize| {
            let key = query - distance as f64;
            if mask.hides(query, key) {
                return None;
            }
            let (query_map, key_map) = geometry.maps_of(query, key);
            let (query, key) = (query_map.at(query), key_map.at(key));
            let (queries, keys) = ([query], [key]);
            let angles = frequencies.angles(&queries).zip(frequencies.angles(&keys));
            let sum: f64 = angles
                .enumerate()
                .map(|(band, (query_angle, key_angle))| {
                    let faded = decay
                        .as_ref()
                        .map_or(1.0, |decay| decay.zeta[band].powf((query - key) / decay.scale_base));
                    faded * (query_angle - key_angle).cos()
                })
                .sum();
            Some(factor * sum / frequencies.inv_freq.len() as f64)
        };
        Some(vec![distances.iter().map(|&distance| at(distance)).collect()])
    }

    /// The vectors that enter at some positions, ascending, where any do, else the logits.
    pub(super) fn matrix(&self, mut positions: Vec<usize>) -> Matrix {
        // What counts or carries on from row to row needs those between too.
        let is_of_order = self.reading.layer_capabilities(self.layer).position_use == PositionUse::Order;
        let (rows, places) = if is_of_order {
            if positions.last().is_some_and(|last| *last >= MOST_ROWS) {
                positions = spread(MOST_ROWS, positions.len());
            }
            (Positions::range(0..positions.last().map_or(0, |last| last + 1)), positions.clone())
        } else {
            let at: Vec<f64> = positions.iter().map(|&position| position as f64).collect();
            (Positions::explicit(1, at), (0..positions.len()).collect())
        };
        match self.vectors(&rows) {
            Some(values) => Matrix::Vectors {
                positions,
                values: places.iter().map(|place| values[*place].clone()).collect(),
            },
            None => Matrix::Logits { positions, values: self.logits(&rows, &places) },
        }
    }

    /// What the hidden state 0 becomes; where it stays 0, how much the state 1 changes; nothing where that stays
    /// too.
    fn vectors(&self, positions: &Positions) -> Option<Vec<Vec<f64>>> {
        let count = positions.length();
        let width = self.dimensions.width;
        let changed = |start: f64| {
            let hidden = Tensor::<3>::full([1, count, width], start, &Device::flex());
            let changed = self
                .with_block(positions, 0..count, |block| self.reading.embed(hidden.clone(), block.rows))
                - hidden;
            let values = numbers(changed);
            values.iter().any(|&value| value != 0.0).then_some(values)
        };
        let values = changed(0.0).or_else(|| changed(1.0))?;
        Some(values.chunks(width).map(<[f64]>::to_vec).collect())
    }

    /// The logits of tokens that are all alike, less that of the query's own key, of some places as queries and keys,
    /// `[heads, places, places]`: the attention paid to values that are columns of the identity, taken back to logits.
    fn logits(&self, positions: &Positions, places: &[usize]) -> Vec<Vec<Row>> {
        let device = Device::flex();
        let Dimensions { heads, kv_heads, head_dim, .. } = *self.dimensions;
        // The weights of another normaliser cannot be taken back to logits, which do not depend on it.
        let reading = self.reading.clone().with_attention(AttentionKind::Softmax);
        let reading = reading.unwrap_or_else(|_| self.reading.clone());
        let count = positions.length();
        let padded = places.len().next_multiple_of(head_dim);
        let mut chosen = vec![0f32; count * padded];
        places.iter().enumerate().for_each(|(column, place)| chosen[place * padded + column] = 1.0);
        let identity =
            Tensor::<2>::from_data(TensorData::new(chosen, [count, padded]), &device).unsqueeze::<4>();
        let ones = |heads| Tensor::<4>::ones([1, heads, count, head_dim], &device);
        let scale = 1.0 / (head_dim as f64).sqrt();
        // Some encodings add to any output (Shaw): what values of 0 give is taken off.
        let run = |v: Tensor<4>| {
            self.with_block(positions, 0..count, |block| {
                attend([ones(heads), ones(kv_heads), v], scale, block, &reading, &mut Rotations::default())
            })
        };
        let nothing = run(Tensor::zeros([1, kv_heads, count, head_dim], &device));
        let columns = (0..padded).step_by(head_dim).map(|first| {
            let v = identity.clone().slice_dim(3, first..first + head_dim);
            run(v.expand([1, kv_heads, count, head_dim])) - nothing.clone()
        });
        let paid = numbers(Tensor::cat(columns.collect(), 3)); // [heads, rows, padded]
        let of_head = |paid: &[f64]| {
            let row = |query: usize| {
                let paid = &paid[places[query] * padded..];
                let logit = |key: usize| {
                    (key <= query && paid[key] > 0.0 && paid[query] > 0.0)
                        .then(|| (paid[key] / paid[query]).ln())
                };
                (0..places.len()).map(logit).collect()
            };
            (0..places.len()).map(row).collect()
        };
        paid.chunks(count * padded).map(of_head).collect()
    }
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let values = tensor.into_data_as::<f32>().try_to_vec::<f32>().unwrap_or_default();
    values.into_iter().map(f64::from).collect()
}
