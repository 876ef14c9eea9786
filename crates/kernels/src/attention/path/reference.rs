//! Attention through reflections in plain tensor operations, a chunk of rows at a time: the algebra of [the module](super).
//!
//! All queries walk back from chunk to chunk. Operations are few and large, as a GPU likes them.

use super::{PathAttention, Reflections};
use crate::attention::normaliser::softmax::plain as plain_softmax;
use crate::attention::{Attention, repeat_heads};
use crate::machine::device::constant;
use burn::tensor::{Device, Tensor, TensorData};

/// Rows that act at once; a power of two.
const CHUNK: usize = 32;

/// Scores that are computed at once; more queries are read one block after the other.
const AT_ONCE: usize = 1 << 24;

/// The products of q, which belongs to the last of the rows, with the keys that the rows between them changed.
///
/// q `[batch, heads, queries, head_dim]`, k `[batch, heads, length, head_dim]`, reflections of as many or fewer heads
/// -> `[batch, heads, queries, length]`, not scaled; anything for keys after a query.
pub fn path_scores(q: Tensor<4>, k: Tensor<4>, reflections: &Reflections) -> Tensor<4> {
    let Reflections { directions, strengths } = reflections.clone();
    let times = q.dims()[1] / directions.dims()[1];
    let w = repeat_heads(directions, times);
    let beta = repeat_heads(strengths.unsqueeze_dim(3), times);
    Text { k, w, beta }.logits(q, CHUNK)
}

pub(super) fn path_attention(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    options: &PathAttention,
) -> Tensor<4> {
    let ([batch, heads, queries, _], [_, key_heads, keys, _]) = (q.dims(), k.dims());
    let device = q.device();
    let [k, v] = [k, v].map(|x| repeat_heads(x.clone(), heads / key_heads));
    let rows = (AT_ONCE / (batch * heads * keys * 3).max(1)).clamp(1, queries.max(1));
    let block = |start: usize| {
        let rows = start..queries.min(start + rows);
        let end = options.first + rows.end;
        let Reflections { directions, strengths } = &options.reflections;
        let reflections = Reflections {
            directions: directions.clone().slice_dim(2, 0..end),
            strengths: strengths.clone().slice_dim(2, 0..end),
        };
        let [k, v] = [&k, &v].map(|x| x.clone().slice_dim(2, 0..end));
        let scores = path_scores(q.clone().slice_dim(2, rows.clone()), k, &reflections);
        let mut logits = scores.mul_scalar(options.scale);
        if let Some([query, key]) = &options.gates {
            let query = query.clone().slice_dim(2, rows.clone()).unsqueeze_dim::<4>(3);
            logits = logits + query - key.clone().slice_dim(2, 0..end).unsqueeze_dim::<4>(2);
        }
        let causal = Attention { query_offset: options.first + rows.start, ..Attention::causal(1) };
        let hidden = causal.hidden(rows.len(), end, &device).unsqueeze::<4>().expand(logits.dims());
        plain_softmax(logits.mask_fill(hidden, f32::NEG_INFINITY)).matmul(v)
    };
    match queries {
        0 => Tensor::zeros([batch, heads, 0, v.dims()[3]], (&device, v.dtype())),
        _ => Tensor::cat((0..queries).step_by(rows).map(block).collect(), 2),
    }
}

/// The rows of a text up to the last query.
struct Text {
    /// `[batch, heads, length, head_dim]`.
    k: Tensor<4>,
    /// `[batch, heads, length, head_dim]`.
    w: Tensor<4>,
    /// `[batch, heads, length, 1]`.
    beta: Tensor<4>,
}

/// What the rows of each chunk do to a query, for a walk from the newest chunk to the oldest.
struct Chunks {
    /// w of the rows and then their keys, `[batch heads, chunks, 2 chunk, head_dim]`.
    read: Tensor<4>,
    /// What the products of q with each w take from its scores and from q itself,
    /// `[batch heads, chunks, chunk, chunk + head_dim]`.
    taken: Tensor<4>,
}

impl Text {
    /// The products of q, which are the last rows, with the keys that the rows between them changed:
    /// `[batch, heads, queries, length]`; anything for keys after a query.
    fn logits(&self, q: Tensor<4>, chunk: usize) -> Tensor<4> {
        let [batch, heads, length, dim] = self.k.dims();
        let queries = q.dims()[2];
        // A chunk begins with the first query, and rows of zeros fill up the first and the last chunk.
        let before = (length - queries).next_multiple_of(chunk) - (length - queries);
        let after = queries.next_multiple_of(chunk) - queries;
        let Chunks { read, taken } = self.chunks([before, after], chunk);
        let count = read.dims()[1];
        let first = count - (queries + after) / chunk;
        let q = filled(q, [0, after]).reshape([batch * heads, queries + after, dim]);
        // The queries of this and of newer chunks, as the rows after this chunk leave them.
        let mut walking: Option<Tensor<3>> = None;
        let mut columns = Vec::with_capacity(count);
        for index in (0..count).rev() {
            let of_chunk = |x: &Tensor<4>| x.clone().slice_dim(1, index..index + 1).squeeze_dim::<3>(1);
            let own = (index >= first).then(|| {
                let start = (index - first) * chunk;
                q.clone().slice_dim(1, start..start + chunk)
            });
            let has_own = own.is_some();
            let rows: Vec<_> = own.into_iter().chain(walking).collect();
            let rows = Tensor::cat(rows, 1); // [batch heads, rows, head_dim]
            let products = rows.clone().matmul(of_chunk(&read).swap_dims(1, 2)); // [batch heads, rows, 2 chunk]
            let along = products.clone().slice_dim(2, 0..chunk);
            // A row of the chunk itself has passed the rows up to its own.
            let along = if has_own { along.tril(0) } else { along };
            let taken = along.matmul(of_chunk(&taken)); // [batch heads, rows, chunk + head_dim]
            let column = products.slice_dim(2, chunk..2 * chunk) - taken.clone().slice_dim(2, 0..chunk);
            let earlier = queries + after - column.dims()[1];
            columns.push(if earlier == 0 {
                column
            } else {
                Tensor::cat(
                    vec![Tensor::zeros([batch * heads, earlier, chunk], (&q.device(), q.dtype())), column],
                    1,
                )
            });
            walking = Some(rows - taken.slice_dim(2, chunk..chunk + dim));
        }
        columns.reverse();
        let logits = Tensor::cat(columns, 2).slice_dim(1, 0..queries).slice_dim(2, before..before + length);
        logits.reshape([batch, heads, queries, length])
    }

    /// Every chunk, of rows between some rows of zeros.
    fn chunks(&self, zeros: [usize; 2], chunk: usize) -> Chunks {
        let [batch, heads, ..] = self.k.dims();
        let cut = |x: &Tensor<4>| {
            let x = filled(x.clone(), zeros);
            let [.., length, channels] = x.dims();
            x.reshape([batch * heads, length / chunk, chunk, channels])
        };
        let (k, w, beta) = (cut(&self.k), cut(&self.w), cut(&self.beta));
        let along = w.clone().matmul(Tensor::cat(vec![w.clone(), k.clone()], 2).swap_dims(2, 3));
        let own = along.clone().slice_dim(3, 0..chunk) * beta.clone();
        let of_keys = along.slice_dim(3, chunk..2 * chunk).tril(-1);
        let g = inverse(own.tril(-1)) * beta.swap_dims(2, 3);
        Chunks { taken: g.matmul(Tensor::cat(vec![of_keys, w.clone()], 3)), read: Tensor::cat(vec![w, k], 2) }
    }
}

/// Rows `[.., length, channels]` between some rows of zeros.
fn filled(x: Tensor<4>, zeros: [usize; 2]) -> Tensor<4> {
    if zeros == [0, 0] {
        return x;
    }
    let [batch, heads, _, channels] = x.dims();
    let rows = |rows: usize| {
        (rows > 0).then(|| Tensor::zeros([batch, heads, rows, channels], (&x.device(), x.dtype())))
    };
    let (before, after) = (rows(zeros[0]), rows(zeros[1]));
    Tensor::cat(before.into_iter().chain([x]).chain(after).collect(), 2)
}

/// `(1 + n)^-1` of strictly lower triangular n `[.., size, size]`, where the size is a power of two: the blocks on the
/// diagonal are inverted, two of them joined, and so on. A series in powers of n would cancel digits away.
fn inverse(n: Tensor<4>) -> Tensor<4> {
    let (size, device) = (n.dims()[3], n.device());
    let identity = Tensor::<2>::eye(size, &device).cast(n.dtype()).unsqueeze::<4>();
    let joining = |half: usize| n.clone() * between(half, size, &device).cast(n.dtype());
    let mut inverse = identity - joining(1);
    let mut half = 2;
    while half < size {
        let joins = joining(half);
        inverse = inverse.clone() - inverse.clone().matmul(joins).matmul(inverse);
        half *= 2;
    }
    inverse
}

/// 1 where the row is in the second and the column in the first half of the same block of `2 half`, `[1, 1, size, size]`.
fn between(half: usize, size: usize, device: &Device) -> Tensor<4> {
    let joins = |row: usize, column: usize| {
        row / (2 * half) == column / (2 * half) && row % (2 * half) >= half && column % (2 * half) < half
    };
    let entries: Vec<f32> =
        (0..size * size).map(|entry| f32::from(u8::from(joins(entry / size, entry % size)))).collect();
    constant(TensorData::new(entries, [1, 1, size, size]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tensor;
    use burn::tensor::activation::sigmoid;

    const HEADS: usize = 2;
    const DIM: usize = 4;

    /// Rows whose w have norm 1.
    fn text(length: usize, device: &Device) -> Text {
        let shape = [1, HEADS, length, DIM];
        let w = tensor::<4>(1, shape, device);
        let norms = w.clone().square().sum_dim(3).sqrt();
        let beta = sigmoid(tensor::<4>(2, [1, HEADS, length, 1], device)).mul_scalar(2.0);
        Text { k: tensor(3, shape, device), w: w / norms, beta }
    }

    fn numbers(tensor: &Tensor<4>) -> Vec<f64> {
        tensor.clone().into_data().try_to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
    }

    /// The definition: every key goes through one row after the other.
    fn one_by_one(text: &Text, q: &Tensor<4>) -> Vec<f64> {
        let (length, queries) = (text.k.dims()[2], q.dims()[2]);
        let [k, w, beta, q] = [&text.k, &text.w, &text.beta, q].map(numbers);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut logits = vec![0.0; HEADS * queries * length];
        for (head, j) in (0..HEADS).flat_map(|head| (0..length).map(move |j| (head, j))) {
            let row = |x: &[f64], t: usize| x[(head * length + t) * DIM..][..DIM].to_vec();
            let mut key = row(&k, j);
            for t in j..length {
                if t > j {
                    let w = row(&w, t);
                    let along = beta[head * length + t] * dot(&w, &key);
                    key.iter_mut().zip(&w).for_each(|(key, w)| *key -= along * w);
                }
                if let Some(query) = (t + queries).checked_sub(length) {
                    let at = head * queries + query;
                    logits[at * length + j] = dot(&q[at * DIM..][..DIM], &key);
                }
            }
        }
        logits
    }

    #[test]
    fn chunks_of_any_size_are_the_definition() {
        let device = Device::flex();
        for (length, queries, chunk) in
            [(11, 11, 4), (11, 5, 4), (13, 1, 4), (16, 8, 8), (9, 9, 32), (70, 70, 32)]
        {
            let text = text(length, &device);
            let q = tensor::<4>(4, [1, HEADS, queries, DIM], &device);
            let expected = one_by_one(&text, &q);
            let logits = numbers(&text.logits(q, chunk));
            for (index, (logit, expected)) in logits.iter().zip(&expected).enumerate() {
                let (query, key) = (index / length % queries + length - queries, index % length);
                assert!(
                    key > query || (logit - expected).abs() < 1e-4,
                    "{length} {queries} {chunk}: {logit} instead of {expected} at {query}, {key}"
                );
            }
        }
    }

    #[test]
    fn an_inverse_keeps_its_digits_where_all_rows_are_alike() {
        let device = Device::flex();
        // Powers of n reach 1e9 here; the inverse has entries of 2 at most.
        let n = Tensor::<4>::full([1, 1, 32, 32], 2.0, &device).tril(-1);
        let identity = Tensor::<2>::eye(32, &device).unsqueeze::<4>();
        let off = (inverse(n.clone()).matmul(n + identity.clone()) - identity).abs().max();
        assert!(off.into_scalar::<f32>() < 1e-5);
    }
}
