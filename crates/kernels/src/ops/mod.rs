//! The fused operations but attention, a file or folder each. Each opens with what is fused, what is kept for the backward
//! pass, how many bytes move at least, and which attempts were not faster.

pub(crate) mod gelu;
pub(crate) mod polar;
pub(crate) mod softmax;
pub(crate) mod stick_breaking;
pub(crate) mod swiglu;
