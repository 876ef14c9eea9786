//! What burn's fusion may merge.
//!
//! In burn 0.22.1 (cubek-reduce 0.3.1), a sum along an axis is wrong on a GPU where the innermost axis in memory is not the
//! last one of the tensor and lies inside of the summed one: `x.swap_dims(2, 3).sum_dim(0)` for one. It is read as a
//! vector along one axis and written along the other. Without fusion, most sums read the result of
//! another operation, which lies in order, and are right. With it, the sum reads the transposed tensor itself: `PoPE`'s
//! gradient by plain operations was off by its own size. Sums are therefore kept out of the fusion, and computed as without it.
//! `selfcheck` says whether a device has the fault, and checks every encoding for its effects.

use burn_cubecl::fusion;
use std::sync::Once;

/// Burn's names of the merged operations that end in a sum.
const SUMS: [&str; 2] = ["Reduce", "ReduceBroadcasted"];

/// Keeps them out. Burn allows it before the first operation on a GPU.
///
/// # Panics
/// A tensor was on a GPU before any was opened here.
pub(super) fn keep_sums_out() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for name in SUMS {
            assert!(fusion::BUILTIN_NAMES.contains(&name), "burn has another name for {name}");
            fusion::remove(name).expect("no operation has run on a GPU");
        }
    });
}
