//! Fused attention on the CPU, a block of queries at a time.

mod backward;
mod call;
mod forward;
mod gradient;
mod split;
mod sums;

pub(super) use backward::backward;
pub(super) use call::{Call, INPUTS};

use burn_flex::FlexTensor;

/// The output, and of each row the number that the backward pass needs.
pub(super) fn forward(call: &Call) -> [FlexTensor; 2] {
    let engine = call.engine();
    match split::ranges(call, &engine) {
        Some(ranges) => split::forward(&engine, &ranges),
        None => forward::forward(&engine),
    }
}
