//! What attention computes, in plain tensor operations.

use super::normaliser::softmax::plain as plain_softmax;
use super::options::Attention;
use super::spec::{NOTHING_SEEN, PartialAttention, Shape};
use super::terms::{ScoreTerm, Scores};
use burn::tensor::Tensor;
use std::ops::Range;
use std::sync::Arc;

/// Logits computed at once where no gradient needs them all: 64 MiB in f32.
const LOGITS_AT_ONCE: usize = 1 << 24;

/// Some queries and the keys that they see: their options, and the terms for these.
struct QueryRange<'a> {
    options: &'a Attention,
    terms: Vec<Arc<dyn ScoreTerm>>,
}

impl QueryRange<'_> {
    fn all(options: &Attention) -> QueryRange<'_> {
        QueryRange { options, terms: options.score_terms() }
    }

    /// The output from the weights of the keys.
    fn output(&self, weights: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
        let (output, sight) = (weights.clone().matmul(v), self.options.sight());
        self.terms.iter().fold(output, |output, term| term.plain_to_output(&sight, weights.clone(), output))
    }
}

pub(super) fn attention(qkv: [Tensor<4>; 3], options: &Attention, shape: &Shape) -> Tensor<4> {
    let outputs = in_blocks(qkv, options, shape, |[q, k, v], rows| {
        let logits = logits_of(q, k, rows); // [batch, heads, queries, keys]
        rows.output(options.normaliser.plain(logits, rows.options.query_offset), v)
    });
    Tensor::cat(outputs, 2)
}

/// Attention by another normaliser than the softmax, whose parts cannot be merged: all logits at once, each pair's from the q and
/// k of its range of distances.
pub(super) fn attention_in_two(
    [q, k, v]: [Tensor<4>; 3],
    [other_q, other_k]: [Tensor<4>; 2],
    [options, other]: [Attention; 2],
    shape: &Shape,
) -> Tensor<4> {
    let group = shape.heads / shape.key_heads;
    let [k, v, other_k] = [k, v, other_k].map(|x| repeat_heads(x, group));
    let device = q.device();
    let hidden = options.hidden(shape.queries, shape.keys, &device).unsqueeze::<4>();
    let logits = logits(q, k, &options);
    let hidden = hidden.expand(logits.dims());
    let logits = logits.mask_where(hidden, self::logits(other_q, other_k, &other));
    options.normaliser.plain(logits, options.query_offset).matmul(v)
}

pub(super) fn partial_attention(qkv: [Tensor<4>; 3], options: &Attention, shape: &Shape) -> PartialAttention {
    let parts = in_blocks(qkv, options, shape, |[q, k, v], rows| {
        let logits = logits_of(q, k, rows);
        (rows.output(plain_softmax(logits.clone()), v), log_sums(logits))
    });
    let (outputs, log_sums) = parts.into_iter().unzip();
    PartialAttention { output: Tensor::cat(outputs, 2), log_sums: Tensor::cat(log_sums, 2) }
}

/// What `read` makes of each block of queries, with equal head counts: all queries are one block if a gradient needs
/// the logits.
fn in_blocks<T>(
    [q, k, v]: [Tensor<4>; 3],
    options: &Attention,
    shape: &Shape,
    read: impl Fn([Tensor<4>; 3], &QueryRange<'_>) -> T,
) -> Vec<T> {
    let Shape { batch, heads, key_heads, queries, keys, .. } = *shape;
    let all = QueryRange::all(options);
    let numbers = all.terms.iter().map(|term| term.numbers_per_logit()).max().unwrap_or(1);
    let rows = (LOGITS_AT_ONCE / (batch * heads * keys * numbers).max(1)).max(1);
    let tracked = [&q, &k, &v].into_iter().any(Tensor::is_tracked)
        || all.terms.iter().flat_map(|term| term.inputs()).any(|input| input.is_tracked());
    let (k, v) = (repeat_heads(k, heads / key_heads), repeat_heads(v, heads / key_heads));
    if tracked || rows >= queries {
        return vec![read([q, k, v], &all)];
    }
    let block = |first: usize| {
        let range = first..queries.min(first + rows);
        let end = keys.min(options.query_offset + range.end);
        let q = q.clone().slice_dim(2, range.clone());
        let [k, v] = [&k, &v].map(|x| x.clone().slice_dim(2, 0..end));
        let options = of_rows(options, range.clone());
        let term = |term: &Arc<dyn ScoreTerm>| term.of_rows(range.clone(), end).unwrap_or(Arc::clone(term));
        read([q, k, v], &QueryRange { options: &options, terms: all.terms.iter().map(term).collect() })
    };
    (0..queries).step_by(rows).map(block).collect()
}

/// The same options for some query rows, but for their terms.
fn of_rows(options: &Attention, rows: Range<usize>) -> Attention {
    Attention {
        query_offset: options.query_offset + rows.start,
        query_scale: options.query_scale.clone().map(|scale| scale.slice_dim(1, rows)),
        ..options.clone()
    }
}

/// `[batch, heads, ..]` -> `[batch, heads * times, ..]`, each head `times` times in a row.
pub fn repeat_heads(x: Tensor<4>, times: usize) -> Tensor<4> {
    if times == 1 {
        return x;
    }
    let [batch, heads, length, width] = x.dims();
    x.unsqueeze_dim::<5>(2).repeat_dim(2, times).reshape([batch, heads * times, length, width])
}

/// `[batch, heads, queries, keys]`: minus infinity where a key is hidden.
fn logits(q: Tensor<4>, k: Tensor<4>, options: &Attention) -> Tensor<4> {
    logits_of(q, k, &QueryRange::all(options))
}

fn logits_of(q: Tensor<4>, k: Tensor<4>, QueryRange { options, terms }: &QueryRange<'_>) -> Tensor<4> {
    let query_scale = options.query_scale.as_ref().map(|scale| {
        let [rows, columns] = scale.dims();
        scale.clone().reshape([rows, 1, columns, 1])
    });
    let (scale, sight) = (options.scale, options.sight());
    let scores = Scores { q: &q, k: &k, scale, query_scale: query_scale.as_ref(), sight: &sight };
    let products = q.clone().matmul(k.clone().swap_dims(2, 3)).mul_scalar(scale);
    let mut logits = terms.iter().fold(products, |logits, term| term.plain_to_scores(&scores, logits));
    if let Some(scale) = &query_scale {
        logits = logits * scale.clone();
    }
    let logits = terms.iter().fold(logits, |logits, term| term.plain_to_logits(&scores, logits));
    let hidden = sight.hidden(q.dims()[2], k.dims()[2], &q.device());
    logits.mask_fill(hidden.unsqueeze(), f32::NEG_INFINITY)
}

/// The log of each row's sum of exp(logits), `[batch, heads, queries]`.
fn log_sums(logits: Tensor<4>) -> Tensor<3> {
    let largest = logits.clone().detach().max_dim(3);
    let none = largest.clone().lower_elem(f32::MIN);
    let largest = largest.mask_fill(none.clone(), 0.0);
    let sums = (logits - largest.clone()).exp().sum_dim(3).mask_fill(none.clone(), 1.0);
    (sums.log() + largest).mask_fill(none, NOTHING_SEEN).squeeze_dim(3)
}
