//! Linear attention: features of queries and keys in place of a softmax of their scores.
//!
//! `out_m = sum_n (R_m phi(q_m)) . (R_n phi(k_n)) v_n / sum_n phi(q_m) . phi(k_n)` over n up to m, with
//! `phi(x) = elu(x) + 1` (Katharopoulos et al. 2020, arXiv:2006.16236, sections 3.2 and 3.3) and the rotation R in the
//! numerator alone, since turned features are no longer positive and their sum could vanish (Su et al. 2021,
//! arXiv:2104.09864, equation 19). Queries and keys are not scaled first, as published.
//!
//! The sums run over chunks of queries: those before the chunk are one matrix `sum_n phi(k_n) v_n^T` and one vector
//! `sum_n phi(k_n)`, those in the chunk are products of pairs. Time and memory grow with the length.

use super::blocks::at_positions;
use super::rotations::Rotations;
use burn::tensor::Tensor;
use longwave_kernels::repeat_heads;
use longwave_position::Reading;
use longwave_position::encoding::{PositionMap, QueryBlock};

/// Queries read at once.
const CHUNK: usize = 128;

/// Queries or keys `[batch, heads, length, head_dim]` after the feature map.
#[derive(Clone)]
struct Features {
    plain: Tensor<4>,
    /// Turned by position; absent where nothing rotates.
    turned: Option<Tensor<4>>,
}

/// Attention of the queries at hand; shapes as in [`super::attend`].
pub(super) fn attention(
    [q, k, v]: [Tensor<4>; 3],
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    let groups = q.dims()[1] / k.dims()[1];
    let (q, k) = (feature(q), feature(k));
    let turned = reading.rotation(block.rows.layer).map(|_| {
        let plain = (PositionMap::Identity, PositionMap::Identity);
        at_positions([q.clone(), k.clone()], plain, block, reading, rotations)
    });
    let [turned_q, turned_k] = match turned {
        Some([q, k]) => [Some(q), Some(repeat_heads(k, groups))],
        None => [None, None],
    };
    let q = Features { plain: q, turned: turned_q };
    let k = Features { plain: repeat_heads(k, groups), turned: turned_k };
    causal(&q, &k, &repeat_heads(v, groups), block.queries.start, CHUNK)
}

/// `elu(x) + 1`: `x + 1` above 0, `exp(x)` below.
fn feature(x: Tensor<4>) -> Tensor<4> {
    x.clone().clamp_min(0.0) + x.clamp_max(0.0).exp()
}

impl Features {
    fn rows(&self, rows: std::ops::Range<usize>) -> Self {
        let of = |x: &Tensor<4>| x.clone().slice_dim(2, rows.clone());
        Self { plain: of(&self.plain), turned: self.turned.as_ref().map(of) }
    }

    /// What the numerator reads.
    fn numerator(&self) -> Tensor<4> {
        self.turned.as_ref().unwrap_or(&self.plain).clone()
    }
}

/// What has been summed over keys.
#[derive(Clone)]
struct Sums {
    /// `sum_n k_n v_n^T`, `[batch, heads, head_dim, head_dim]`.
    products: Tensor<4>,
    /// `sum_n k_n`, `[batch, heads, head_dim, 1]`.
    keys: Tensor<4>,
}

impl Sums {
    fn of(k: &Features, v: Tensor<4>) -> Self {
        Self {
            products: k.numerator().swap_dims(2, 3).matmul(v),
            keys: k.plain.clone().sum_dim(2).swap_dims(2, 3),
        }
    }

    fn and(self, other: Self) -> Self {
        Self { products: self.products + other.products, keys: self.keys + other.keys }
    }
}

/// The output for queries that begin at key `first`, `[batch, heads, queries, head_dim]`.
fn causal(q: &Features, k: &Features, v: &Tensor<4>, first: usize, chunk: usize) -> Tensor<4> {
    let count = q.plain.dims()[2];
    let values = |rows| v.clone().slice_dim(2, rows);
    let mut past = (first > 0).then(|| Sums::of(&k.rows(0..first), values(0..first)));
    let mut outputs = Vec::with_capacity(count.div_ceil(chunk));
    for start in (0..count).step_by(chunk) {
        let end = (start + chunk).min(count);
        let (q, rows) = (q.rows(start..end), first + start..first + end);
        let (k, v) = (k.rows(rows.clone()), values(rows));
        let pairs = |q: Tensor<4>, k: Tensor<4>| q.matmul(k.swap_dims(2, 3)).tril(0);
        let weights = pairs(q.numerator(), k.numerator());
        let sizes = match q.turned {
            Some(_) => pairs(q.plain.clone(), k.plain.clone()),
            None => weights.clone(),
        };
        let mut numerator = weights.matmul(v.clone());
        let mut denominator = sizes.sum_dim(3);
        if let Some(past) = &past {
            numerator = numerator + q.numerator().matmul(past.products.clone());
            denominator = denominator + q.plain.clone().matmul(past.keys.clone());
        }
        // Features are positive, but a product of small ones may be too small for f32.
        outputs.push(numerator / denominator.clamp_min(f32::MIN_POSITIVE));
        if end < count {
            let own = Sums::of(&k, v);
            past = Some(match past {
                Some(past) => past.and(own),
                None => own,
            });
        }
    }
    Tensor::cat(outputs, 2)
}

#[cfg(test)]
mod tests;
