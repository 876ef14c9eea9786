//! How fast the device copies, the roof of whatever only moves numbers.

use crate::clock::{Subject, subject};
use crate::numbers;
use burn::tensor::Device;
use rayon::prelude::*;

/// A copy of `elements` f32 numbers: as many are read as are written.
///
/// On the CPU all threads copy their share into memory that is there already, which is the most that the
/// memory gives. Elsewhere a kernel that changes nothing writes a new tensor.
pub fn copy(elements: usize, device: &Device) -> Subject<'_> {
    if *device == Device::flex() {
        let from = numbers::values("copy", elements);
        let mut to = vec![0.0_f32; elements];
        let share = elements.div_ceil(rayon::current_num_threads()).max(1);
        return subject(
            device,
            || (),
            move |()| {
                let parts = to.par_chunks_mut(share).zip(from.par_chunks(share));
                parts.for_each(|(to, from)| to.copy_from_slice(from));
                std::hint::black_box(&mut to);
            },
        );
    }
    let from = numbers::tensor("copy", [elements], device);
    subject(device, move || from.clone(), |from| from.mul_scalar(1.0))
}
