//! The negative log-likelihood of targets under logits.
//!
//! **Fused:** log-softmax and the pick of the target; backward, `gradient * (softmax - one-hot)`. Neither the
//! probabilities nor a one-hot matrix is ever written. On the GPU alone: on the CPU what trains and evaluates takes
//! [`head_loss`](crate::head_loss()) and its kin, and here plain operations serve.
//!
//! **Kept for the backward pass:** the logits and the targets.
//!
//! **Bytes:** for n logits at least `4 n` forward (logits in; a row's loss is one number) and `12 n` backward (logits in
//! twice, their gradient out).
//!
//! `gpu/` says how it is done.

#[cfg(feature = "gpu")]
pub(crate) mod gpu;

use crate::op::prelude::*;
use crate::ops::precision::widened;
#[cfg(feature = "gpu")]
use burn::tensor::IntDType;
use burn::tensor::{Int, Tensor};

/// The negative log-likelihood of each target in nats: `log(sum(exp(logits))) - logits[target]`.
///
/// logits `[rows, classes]`, targets `[rows]` (each in `0..classes`) -> `[rows]`. On the GPU neither the softmax
/// nor a one-hot matrix is kept; the gradient is computed from the logits, in their place where nobody else holds them. Logits of
/// half precision are made f32 first, and receive a gradient of their own type.
///
/// # Panics
/// The numbers of rows differ, there are no classes, or (on the CPU) a target is not in `0..classes`; on the GPU its loss is
/// NaN.
pub fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let [rows, classes] = logits.dims();
    assert_eq!(rows, targets.dims()[0], "cross_entropy: logits and targets differ in rows");
    assert!(classes > 0, "cross_entropy: no classes");
    let [losses] = run(CrossEntropy { targets }, [widened(logits).into()]);
    losses.tensor()
}

/// In plain tensor operations.
fn plain(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    // The maximum only keeps exp in range; the value does not depend on it, so neither does the gradient.
    let largest = logits.clone().detach().max_dim(1);
    let sum = (logits.clone() - largest.clone()).exp().sum_dim(1);
    let picked = logits.gather(1, targets.unsqueeze_dim(1));
    (sum.log() + largest - picked).squeeze_dim(1)
}

#[derive(Clone)]
struct CrossEntropy {
    targets: Tensor<1, Int>,
}

impl Op<1> for CrossEntropy {
    const NAME: &'static str = "cross-entropy";
    const ON_CPU: bool = false;
    const ON_GPU: bool = true;

    fn reference(self, [logits]: [Any; 1]) -> [Any; 1] {
        [plain(logits.tensor(), self.targets).into()]
    }

    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, [logits]: &[Any; 1]) -> bool {
        gpu::supports(logits)
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, [logits]: [Primitive; 1], _: [bool; 1]) -> ([Primitive; 1], impl Gradient<Cube, 1>) {
        let targets = self.targets.without_autodiff().cast(IntDType::I32);
        let targets = targets.try_into_primitive::<Cube>().expect("logits and targets are on one device");
        let (losses, _) = gpu::losses(logits.clone(), targets.clone(), 1.0, None, false);
        ([losses], move |output, _| [Some(gpu::losses(logits, targets, 1.0, Some(only(output)), true).1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{list, on_devices};
    use burn::tensor::Device;

    on_devices! {
        "the loss":
        large_logits_do_not_overflow => large_logits,
        a_nan_is_not_hidden => nan_is_shown,
    }

    fn large_logits(device: &Device) {
        let logits = Tensor::<2>::from_floats([[1e4, -1e4, 0.0], [-3e38, 3e38, 0.0]], device);
        let targets = Tensor::<1, Int>::from_ints([0, 1], device);
        assert_eq!(list(cross_entropy(logits, targets)), [0.0, 0.0]);
    }

    fn nan_is_shown(device: &Device) {
        for place in 0..3 {
            let mut logits = [[0.0; 3]];
            logits[0][place] = f32::NAN;
            let logits = Tensor::<2>::from_floats(logits, device);
            assert!(list(cross_entropy(logits, Tensor::from_ints([0], device)))[0].is_nan(), "{place}");
        }
    }

    #[test]
    #[should_panic(expected = "index 3 out of bounds")]
    fn a_target_out_of_range_is_rejected() {
        let device = Device::flex();
        cross_entropy(Tensor::zeros([1, 3], &device), Tensor::from_ints([3], &device));
    }
}
