//! Dropout with a mask that is drawn on the host.

use super::Share;
use burn::tensor::{Tensor, TensorData};
use longwave_core::random::{Stream, StreamKey};

pub(super) fn dropout<const D: usize>(x: Tensor<D>, share: Share, key: StreamKey) -> Tensor<D> {
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
