//! Causal attention with a position bias.
//!
//! **Fused:** scores, scale, bias, masks, softmax and the weighted sum of values. Nothing of size queries x keys is
//! kept, forward or backward, but for a bias that comes as such a block.
//!
//! **Kept for the backward pass:** q, k, v, the tensors of the bias and the query scale, and one number for each query
//! row of a head: the log of its sum of exponentials. The probabilities are computed again.
//!
//! **Bytes:** with `Q = heads * queries` rows of queries and `K = key_heads * keys` rows of keys, at least
//! `4 * batch * (Q + K) * (head_dim + value_dim)` forward (q, k, v and the output, once each), and
//! `4 * batch * (Q * (2 head_dim + value_dim) + 2 K * (head_dim + value_dim))` backward (q, k, v and the
//! gradient of the output in; the gradients of q, k and v out). Time goes into the products: two forward and
//! five backward, each of a multiply-add for every visible pair and channel.
//!
//! **In place of the softmax** another [`Normaliser`] may stand; `normaliser/` has them. The number that is kept is then its own.
//!
//! **Vectors by distance** ([`RelativeVectors`]) are added to keys, to queries and to values; `relative/` says how.
//!
//! **Vectors by count** ([`CountedVectors`]) are added to keys, for a query that counts gates; `counted/` says how.
//!
//! **By distance:** [`attention_by_distance`] reads ranges of distances, each with its own q and k. On the CPU one call
//! reads all of them: the keys of every range stand side by side in a block's logits, under one softmax. Elsewhere
//! each range is a call of [`partial_attention`], and [`merge`] puts the parts together.
//!
//! **Tried on the CPU, without gain:** blocks of other heights than 32 rows (30 to 96 change the speed of the
//! products by 3%, and taller ones compute more hidden scores); products written out in lanes (those of the
//! `gemm` crate are as fast, also at 32 channels). Not built: an online softmax over tiles of keys, as the
//! GPU has it. At 16,384 keys the first product of a block runs 6% slower than on few keys and the second as
//! fast, so that little is to be won, and long rows would be added in another order.
//!
//! **In bf16** ([`Attention::precision`]), the factors of products are rounded on CPUs with dot products of it
//! (`Operands::multiply`): of all calls, with any bias, window and ranges of distances. Products with vectors by distance and by
//! count stay f32.
//!
//! `cpu.rs` says how it is done on the CPU, `gpu/` on the GPU.

mod backward;
mod bias;
mod block;
mod by_distance;
mod call;
pub(crate) mod causal;
mod counted;
mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod gradient;
mod keys;
pub(crate) mod linear;
mod logits;
mod merge;
pub(crate) mod normaliser;
mod op;
pub(crate) mod pair;
pub(crate) mod path;
pub(crate) mod pieces;
mod reference;
mod relative;
mod sums;
#[cfg(test)]
mod tests;

pub use by_distance::{attention_by_distance, partial_attention_by_distance};
pub use counted::CountedVectors;
pub use merge::merge;
pub use normaliser::{Lssar, Normaliser, Softmax, StickBreaking, entmax, normalise};
pub use reference::repeat_heads;
pub use relative::{RelativeVectors, VectorTable};

use crate::Precision;
use burn::tensor::{Bool, Device, Tensor};
use op::Attend;
use std::ops::Range;
use std::sync::Arc;

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

/// What attention does besides the product of q and k.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What turns logits into weights.
    pub normaliser: Arc<dyn Normaliser>,
    /// Multiplies q·k; usually `1 / sqrt(head_dim)`.
    pub scale: f64,
    /// What is added to the scaled q·k.
    pub bias: Bias,
    /// Vectors by distance that are added to keys, queries and values.
    pub relative: RelativeVectors,
    /// Vectors by count that are added to keys, without vectors by distance and at all distances.
    pub counted: Option<CountedVectors>,
    /// A key is visible only at a distance below this, in tokens (at least 1).
    pub window: Option<usize>,
    /// The number of first keys that stay visible outside the window.
    pub sinks: usize,
    /// `[1 or batch, queries]`: multiplies q·k row by row, before the bias (log-n scaling). A
    /// constant: it receives no gradient.
    pub query_scale: Option<Tensor<2>>,
    /// The position of the first query row among the keys: row r sees the keys `0..=query_offset + r`, of which the
    /// last is its own. So `query_offset` and the number of queries together are at most the number of keys.
    pub query_offset: usize,
    /// The distances, in tokens, at which keys are visible at all, sinks included.
    pub distances: Range<usize>,
    /// What the factors of products may be rounded to: q, k, v, the probabilities, and the gradients that meet them. Sums, the
    /// softmax, biases and everything else are f32. CPUs with dot products of bf16 make use of it, and GPUs whose matrix units
    /// multiply numbers of this precision; elsewhere all is f32.
    pub precision: Precision,
}

impl Attention {
    /// `map(i - j)` for every query and key, row by row.
    fn distances_of<T>(&self, queries: usize, keys: usize, map: impl Fn(isize) -> T) -> Vec<T> {
        (0..queries)
            .flat_map(|row| (0..keys).map(move |j| (self.query_offset + row).cast_signed() - j.cast_signed()))
            .map(map)
            .collect()
    }

    /// Plain causal attention with the usual scale.
    pub fn causal(head_dim: usize) -> Self {
        Self {
            normaliser: Arc::new(Softmax),
            scale: 1.0 / (head_dim as f64).sqrt(),
            bias: Bias::None,
            relative: RelativeVectors::default(),
            counted: None,
            window: None,
            sinks: 0,
            query_scale: None,
            query_offset: 0,
            distances: 0..usize::MAX,
            precision: Precision::F32,
        }
    }

    /// The bias as a tensor that broadcasts to `[batch, heads, queries, keys]`; `None` without one.
    ///
    /// For callers that work on the scores of one block of queries themselves.
    pub fn bias_block(&self, queries: usize, keys: usize, device: &Device) -> Option<Tensor<4>> {
        reference::bias_block(self, queries, keys, device)
    }

    /// `[queries, keys]`: true where the query may not see the key.
    pub fn hidden(&self, queries: usize, keys: usize, device: &Device) -> Tensor<2, Bool> {
        reference::hidden(self, queries, keys, device)
    }

    /// The keys that `rows` query rows from row `first` can see, as an upper end.
    fn keys_end(&self, first: usize, rows: usize, keys: usize) -> usize {
        keys.min(self.query_offset + first + rows)
    }

    /// Whether the kernels of the GPU compute all of this, where its tensors are there.
    #[cfg(feature = "gpu")]
    fn suits_gpu(&self) -> bool {
        self.relative.is_none() && self.counted.is_none() && self.normaliser.is_softmax()
    }

    fn check(&self, shape: &Shape) {
        let Shape { batch, heads, key_heads, queries, keys, .. } = *shape;
        assert!(
            key_heads > 0 && heads.is_multiple_of(key_heads),
            "attention: {heads} query heads for {key_heads} key heads"
        );
        assert!(self.window != Some(0), "attention: a window of 0 hides every key");
        assert!(
            self.query_offset.checked_add(queries).is_some_and(|end| end <= keys),
            "attention: {queries} queries from position {} on, for {keys} keys",
            self.query_offset
        );
        if let Some(scale) = &self.query_scale {
            let [rows, columns] = scale.dims();
            assert!(
                (rows == 1 || rows == batch) && columns == queries,
                "attention: a query scale [{rows}, {columns}] for batch {batch} and {queries} queries"
            );
        }
        self.relative.check(self, shape);
        if let Some(counted) = &self.counted {
            counted.check(self, shape);
        }
        match &self.bias {
            Bias::None => {}
            Bias::ByDistance(table) => {
                let [rows, distances] = table.dims();
                let all = self.distances.end.min(self.query_offset + queries);
                let needed = match self.window {
                    Some(window) if self.sinks == 0 => window.min(all),
                    _ => all,
                };
                assert!(
                    rows == heads && distances >= needed,
                    "attention: a bias table [{rows}, {distances}] for {heads} heads and {needed} distances"
                );
            }
            Bias::Slopes(slopes) => {
                assert_eq!(slopes.dims(), [heads], "attention: one slope per query head");
            }
            Bias::Pair { query, key } => {
                assert_eq!(query.dims(), [batch, heads, queries], "attention: the query part of the bias");
                assert_eq!(key.dims(), [batch, heads, keys], "attention: the key part of the bias");
            }
            Bias::Block(block) => {
                let dims = block.dims();
                assert!(
                    (dims[0] == 1 || dims[0] == batch) && dims[1..] == [heads, queries, keys],
                    "attention: a bias {dims:?} for [{batch}, {heads}, {queries}, {keys}]"
                );
            }
        }
    }
}

/// The q and k that are read at a range of distances.
#[derive(Clone, Debug)]
struct QkRange<T> {
    q: T,
    k: T,
    /// In tokens.
    distances: Range<usize>,
}

/// The most ranges of distances that one call reads: near and far.
const MOST_RANGES: usize = 2;

impl<T> QkRange<T> {
    fn map<U>(&self, map: impl Fn(&T) -> U) -> QkRange<U> {
        QkRange { q: map(&self.q), k: map(&self.k), distances: self.distances.clone() }
    }

    /// The keys within the range of a query at `position`.
    fn keys(&self, position: usize) -> Range<usize> {
        let before = |distance: usize| (position + 1).saturating_sub(distance);
        before(self.distances.end)..before(self.distances.start)
    }
}

/// The sizes of one attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
}

impl Shape {
    fn of(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Self {
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
}

/// The log sum of a row that sees no key: so low that the row has no weight beside any other, and finite, so that
/// differences of log sums are numbers.
const NOTHING_SEEN: f32 = -3.0e38;

/// Attention to some of the keys, in the form that [`merge`] puts together.
#[derive(Clone, Debug)]
pub struct PartialAttention {
    /// `[batch, heads, queries, value_dim]`: the output of these keys alone.
    pub output: Tensor<4>,
    /// `[batch, heads, queries]`: the log of each row's sum of exp(logits); -3e38 for a row that sees no key.
    pub log_sums: Tensor<3>,
}

/// Causal attention: `softmax(scale * query_scale * q·k + bias) v` over the visible keys, or with another normaliser in its place.
///
/// q `[batch, heads, queries, head_dim]`, k `[batch, key_heads, keys, head_dim]`, v
/// `[batch, key_heads, keys, value_dim]` -> `[batch, heads, queries, value_dim]`; `key_heads` divides
/// `heads`, and query head h reads key head `h / (heads / key_heads)`. The softmax is in f32. A row that sees no key,
/// since all its logits are minus infinity, gives zeros and takes part in no gradient.
///
/// The fused form keeps nothing of size queries x keys: it works on blocks of queries, and its
/// gradient recomputes the probabilities from one number per query row.
///
/// # Panics
/// The shapes do not agree, a query is past the last key, a distance is past the end of the bias table, or the
/// window is 0. No config leads there: a model's queries are rows of its keys, a window of 0 is an error when a config
/// is read, and encodings make their tables for the positions at hand.
pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &Attention) -> Tensor<4> {
    let shape = Shape::of(&q, &k, &v);
    options.check(&shape);
    alone(q, k, v, options, shape, false).output
}

/// [`attention`] with the log of each row's sum of exp(logits), which has a gradient too.
///
/// # Panics
/// As [`attention`], or the normaliser is not the softmax.
pub fn partial_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &Attention) -> PartialAttention {
    let shape = Shape::of(&q, &k, &v);
    options.check(&shape);
    assert!(options.normaliser.is_softmax(), "attention: parts of {:?}", options.normaliser);
    alone(q, k, v, options, shape, true)
}

/// Attention to one range of distances.
fn alone(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    options: &Attention,
    shape: Shape,
    partial: bool,
) -> PartialAttention {
    let distances = options.distances.clone();
    let op = Attend { options: options.clone(), ranges: vec![distances.clone()], shape, partial };
    op.run(vec![QkRange { q, k, distances }], v)
}
