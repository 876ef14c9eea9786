//! Fused attention on the CPU, a block of queries at a time.

mod backward;
mod call;
mod forward;
mod gradient;
mod split;
mod sums;

pub(super) use backward::backward;
pub(super) use call::{Call, INPUTS};
pub(super) use forward::forward;
