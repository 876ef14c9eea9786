//! The fused operations but attention, a file or folder each. Each opens with what is fused, what is kept for the backward
//! pass, how many bytes move at least, and which attempts were not faster.

pub(crate) mod adamw;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod fading;
pub(crate) mod gelu;
pub(crate) mod head;
pub(crate) mod linear;
pub(crate) mod norm;
pub(crate) mod pair_network;
pub(crate) mod polar;
pub(crate) mod precision;
pub(crate) mod reduce;
pub(crate) mod rotary;
pub(crate) mod swiglu;
