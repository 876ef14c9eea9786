//! The types of the inputs and results of attention: sizes, masks, biases. All other files of the folder build on these.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use std::ops::Range;

/// What is added to the logit of query position i and key position j, for `j <= i`.
///
/// Positions count the keys from 0; query row r is at position `query_offset + r`.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one per attention call; its tensors are handles")]
pub enum Bias {
    /// Nothing.
    None,
    /// `[heads, distances]`: entry n where `i - j = n`.
    ByDistance(Tensor<2>),
    /// `[heads]`: `-slope * (i - j)` (`ALiBi`, Press et al. 2022).
    Slopes(Tensor<1>),
    /// `query_i - key_j` (the cumulative log forget gates of `FoX`, Lin et al. 2025).
    Pair {
        /// `[batch, heads, queries]`.
        query: Tensor<3>,
        /// `[batch, heads, keys]`.
        key: Tensor<3>,
    },
    /// `[1 or batch, heads, queries, keys]`, computed by the caller for the queries at hand.
    Block(Tensor<4>),
}

/// Attention to some of the keys, in the form that [`merge`](super::merge()) puts together.
#[derive(Clone, Debug)]
pub struct PartialAttention {
    /// `[batch, heads, queries, value_dim]`: the output of these keys alone.
    pub output: Tensor<4>,
    /// `[batch, heads, queries]`: the log of each row's sum of exp(logits); -3e38 for a row that sees no key.
    pub log_sums: Tensor<3>,
}

/// The log sum of a row that sees no key: so low that the row has no weight beside any other, and finite, so that
/// differences of log sums are numbers.
pub(super) const NOTHING_SEEN: f32 = -3.0e38;

/// Which keys queries see.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) window: Option<usize>,
    pub(super) sinks: usize,
    /// The position of the first query row among the keys.
    pub(super) offset: usize,
    /// In tokens.
    pub(super) distances: Range<usize>,
}

impl Sight {
    /// `map(i - j)` for every query and key, row by row.
    pub(super) fn distances_of<T>(&self, queries: usize, keys: usize, map: impl Fn(isize) -> T) -> TensorData
    where
        T: burn::tensor::Element,
    {
        let of_row = |row: usize| (0..keys).map(move |j| (self.offset + row).cast_signed() - j.cast_signed());
        let numbers: Vec<T> = (0..queries).flat_map(of_row).map(map).collect();
        TensorData::new(numbers, [1, 1, queries, keys])
    }

    /// `[queries, keys]`: true where the query may not see the key.
    pub(super) fn hidden(&self, queries: usize, keys: usize, device: &Device) -> Tensor<2, Bool> {
        let hidden: Vec<bool> = (0..queries)
            .flat_map(|row| {
                let position = self.offset + row;
                (0..keys).map(move |j| {
                    let distance = position.saturating_sub(j);
                    let outside = self.window.is_some_and(|window| distance >= window) && j >= self.sinks;
                    j > position || outside || !self.distances.contains(&distance)
                })
            })
            .collect();
        Tensor::from_data(TensorData::new(hidden, [queries, keys]), device)
    }
}

/// The q and k that are read at a range of distances.
#[derive(Clone, Debug)]
pub(super) struct QkRange<T> {
    pub(super) q: T,
    pub(super) k: T,
    /// In tokens.
    pub(super) distances: Range<usize>,
}

/// The most ranges of distances that one call reads: near and far.
pub(super) const MOST_RANGES: usize = 2;

impl<T> QkRange<T> {
    /// The keys within the range of a query at `position`.
    pub(super) fn keys(&self, position: usize) -> Range<usize> {
        let before = |distance: usize| (position + 1).saturating_sub(distance);
        before(self.distances.end)..before(self.distances.start)
    }
}

/// The sizes of one attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) head_dim: usize,
    pub(super) value_dim: usize,
}

impl Shape {
    pub(super) fn of(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Self {
        let [batch, heads, queries, head_dim] = q.dims();
        let [k_batch, key_heads, keys, k_dim] = k.dims();
        let [v_batch, v_heads, values, value_dim] = v.dims();
        assert!(k_batch == batch && k_dim == head_dim, "attention: q {:?} and k {:?}", q.dims(), k.dims());
        assert!(
            v_batch == batch && v_heads == key_heads && values == keys,
            "attention: k {:?} and v {:?}",
            k.dims(),
            v.dims()
        );
        Self { batch, heads, key_heads, queries, keys, head_dim, value_dim }
    }

    /// Query heads of a key head.
    pub(super) fn group(&self) -> usize {
        self.heads / self.key_heads
    }
}
