//! How fast the device copies: what operations that only move numbers are measured against.
//!
//! It is no upper bound: several streams at once can be faster than one.

#![expect(
    unsafe_code,
    reason = "a copy into fresh memory writes it once, as those do that are compared with it"
)]

use longwave::burn::tensor::Device;
use longwave_bench::clock::{Subject, subject};
use longwave_bench::numbers;
use rayon::prelude::*;

/// A copy of `elements` f32 numbers: as many are read as are written.
///
/// On the CPU all threads copy their share, by the system's own `memcpy`, into a new buffer: the copy gets
/// its output as every operation does, from an allocator that holds the buffer of the run before. Elsewhere a
/// kernel that changes nothing writes a new tensor.
pub(crate) fn copy(elements: usize, device: &Device) -> Subject<'_> {
    if *device == Device::flex() {
        let from = numbers::values("copy", elements);
        let share = elements.div_ceil(rayon::current_num_threads()).max(1);
        return subject(
            device,
            || (),
            move |()| {
                let mut to = Vec::<f32>::with_capacity(elements);
                let parts =
                    to.spare_capacity_mut()[..elements].par_chunks_mut(share).zip(from.par_chunks(share));
                parts.for_each(|(to, from)| {
                    to.write_copy_of_slice(from);
                });
                // SAFETY: the shares cover the first `elements` numbers, and each was written.
                unsafe { to.set_len(elements) };
                to
            },
        );
    }
    let from = numbers::tensor("copy", [elements], device);
    subject(device, move || from.clone(), |from| from.mul_scalar(1.0))
}
