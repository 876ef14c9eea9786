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
//! **What is added to the logits** is a score term, a file each in `terms/`: the kinds of [`Bias`], vectors by distance
//! ([`RelativeVectors`](crate::RelativeVectors), added to keys, to queries and to values), vectors by count
//! ([`CountedVectors`](crate::CountedVectors), added to keys, for a query that counts gates), slopes that queries and keys decide
//! ([`SlopeGates`](crate::SlopeGates)), and a network of the logits of all heads ([`PairTerms`](crate::PairTerms)). Another one is a
//! file there, and a line that exports what makes [`Terms`](crate::Terms) of it; [`TermsOf`](crate::TermsOf) makes them of q and k.
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
//! `cpu/forward.rs` says how it is done on the CPU, `gpu/` on the GPU.

mod block;
mod by_distance;
mod cpu;
#[cfg(test)]
mod edges;
#[cfg(feature = "gpu")]
mod gpu;
pub(crate) mod linear;
mod merge;
pub(crate) mod normaliser;
mod op;
mod options;
pub(crate) mod path;
mod reference;
mod spec;
pub(crate) mod terms;
#[cfg(test)]
mod tests;

pub use by_distance::{attention_by_distance, partial_attention_by_distance};
pub use merge::merge;
pub use normaliser::{Lssar, Normaliser, Softmax, StickBreaking, entmax, normalise};
pub use op::{attention, partial_attention};
pub use options::Attention;
pub use reference::repeat_heads;
pub use spec::{Bias, PartialAttention};
