//! Dropout: numbers set to 0 at random, and the others enlarged in return (Srivastava et al. 2014).
//!
//! **Fused (on the GPU):** the draw of the mask and its product with x. The mask is drawn where x lies, by the generator
//! that draws it on the host, so that devices agree bit for bit.
//!
//! **Kept for the backward pass:** the key of the draw; the mask is drawn again. On the CPU, the mask.
//!
//! **Bytes:** `8 n` in each direction. On the CPU the mask, which is drawn on one thread, adds as much.
//!
//! `gpu/` says how it is done on the GPU.

#[cfg(feature = "gpu")]
mod gpu;

use crate::op::prelude::*;
use burn::tensor::{Tensor, TensorData};
use longwave_core::random::{Stream, StreamKey};

/// x with a share `rate` of its numbers set to 0 and the others times `1 / (1 - rate)`.
///
/// Number i is dropped where word i of the stream of `key` (32 bits each) is below `rate 2^32`. x of any shape, its numbers
/// counted row by row -> the same shape. A rate of 0 changes nothing.
///
/// # Panics
/// The rate is not in [0, 1).
pub fn dropout<const D: usize>(x: Tensor<D>, rate: f64, key: StreamKey) -> Tensor<D> {
    assert!((0.0..1.0).contains(&rate), "dropout: a rate of {rate}");
    if rate == 0.0 {
        return x;
    }
    let share = Share { threshold: (rate * f64::from(u32::MAX)) as u32, keep: (1.0 / (1.0 - rate)) as f32 };
    let [y] = run(Dropout::<D> { share, key }, [x.into()]);
    y.tensor()
}

/// In plain tensor operations, with a mask that is drawn on the host.
fn plain<const D: usize>(x: Tensor<D>, share: Share, key: StreamKey) -> Tensor<D> {
    let shape = x.dims();
    let mut stream = Stream::from(key);
    let count: usize = shape.iter().product();
    let mut mask = Vec::with_capacity(count + 1);
    while mask.len() < count {
        let bits = stream.bits();
        for word in [bits as u32, (bits >> 32) as u32] {
            mask.push(if word < share.threshold { 0.0 } else { share.keep });
        }
    }
    mask.truncate(count);
    let mask = Tensor::from_data(TensorData::new(mask, shape), (&x.device(), x.dtype()));
    x * mask
}

#[derive(Clone)]
struct Dropout<const D: usize> {
    share: Share,
    key: StreamKey,
}

impl<const D: usize> Op<1> for Dropout<D> {
    const NAME: &'static str = "dropout";
    const ON_CPU: bool = false;
    const ON_GPU: bool = true;

    fn reference(self, [x]: [Any; 1]) -> [Any; 1] {
        [plain::<D>(x.tensor(), self.share, self.key).into()]
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, [x]: [Primitive; 1], _: [bool; 1]) -> ([Primitive; 1], impl Gradient<Cube, 1>) {
        let dropped = move |x| gpu::dropped(x, self.share, self.key);
        // The gradient drops the same numbers.
        ([dropped(x)], move |output, _| [Some(dropped(only(output)))])
    }
}

/// What is dropped, and what is left.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Words below it drop their number.
    threshold: u32,
    /// What the others are multiplied by.
    keep: f32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn keeps_the_mean_and_repeats() {
        let x = Tensor::<3>::ones([2, 100, 101], &Device::flex());
        let drop = |place: &str| dropout(x.clone(), 0.25, StreamKey::new(1, place, 7));
        let y = drop("block 0");
        let mean = y.clone().mean().into_scalar::<f32>();
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((y.clone() - drop("block 0")).abs().max().into_scalar::<f32>() == 0.0);
        assert!((y - drop("block 1")).abs().max().into_scalar::<f32>() > 0.0);
    }

    #[test]
    #[should_panic(expected = "dropout: a rate of 1")]
    fn all_cannot_be_dropped() {
        dropout(Tensor::<1>::ones([1], &Device::flex()), 1.0, StreamKey::new(0, "", 0));
    }
}
