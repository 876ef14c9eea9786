//! Causal linear attention in plain tensor operations.

use crate::ops::rotary::{RotationTable, rotate};
use burn::tensor::Tensor;
use std::ops::Range;

/// Queries read at once.
const CHUNK: usize = 128;

/// Queries or keys `[batch, heads, length, head_dim]` after the feature map.
#[derive(Clone)]
struct Features {
    plain: Tensor<4>,
    /// Turned by position; absent where nothing rotates.
    turned: Option<Tensor<4>>,
}

impl Features {
    fn new(x: Tensor<4>, table: Option<&RotationTable>) -> Self {
        let plain = feature(x);
        let turned = table.map(|table| rotate(plain.clone(), table));
        Self { plain, turned }
    }

    fn rows(&self, rows: Range<usize>) -> Self {
        let of = |x: &Tensor<4>| x.clone().slice_dim(2, rows.clone());
        Self { plain: of(&self.plain), turned: self.turned.as_ref().map(of) }
    }

    fn numerator(&self) -> Tensor<4> {
        self.turned.as_ref().unwrap_or(&self.plain).clone()
    }
}

/// `elu(x) + 1`: `x + 1` above 0, `exp(x)` below.
pub(super) fn feature(x: Tensor<4>) -> Tensor<4> {
    x.clone().clamp_min(0.0) + x.clamp_max(0.0).exp()
}

/// What has been summed over keys.
#[derive(Clone)]
struct KeyState {
    /// `sum_n k_n v_n^T`, `[batch, heads, head_dim, value_dim]`.
    products: Tensor<4>,
    /// `sum_n k_n`, `[batch, heads, head_dim, 1]`.
    keys: Tensor<4>,
}

impl KeyState {
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

/// As [`linear_attention`](super::linear_attention).
pub(super) fn linear_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: &Tensor<4>,
    tables: Option<&[RotationTable; 2]>,
    first: usize,
) -> Tensor<4> {
    let [batch, heads, count, _] = q.dims();
    let q = Features::new(q, tables.map(|[q, _]| q));
    let k = Features::new(k, tables.map(|[_, k]| k));
    let values = |rows| v.clone().slice_dim(2, rows);
    let mut past = (first > 0).then(|| KeyState::of(&k.rows(0..first), values(0..first)));
    let mut outputs = Vec::with_capacity(count.div_ceil(CHUNK));
    for start in (0..count).step_by(CHUNK) {
        let end = (start + CHUNK).min(count);
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
            let own = KeyState::of(&k, v);
            past = Some(match past {
                Some(past) => past.and(own),
                None => own,
            });
        }
    }
    if outputs.is_empty() {
        return Tensor::zeros([batch, heads, count, v.dims()[3]], (&v.device(), v.dtype()));
    }
    Tensor::cat(outputs, 2)
}
