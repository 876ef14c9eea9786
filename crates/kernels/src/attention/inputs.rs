//! The tensors that a call is differentiated by, whose number depends on the ranges of distances and the bias.

use super::{Attention, Bias, PartialAttention, QkRange};
use crate::autodiff::{self, FusedBackend, JointGradient, OpTensor};
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

/// What a call is differentiated by: q and k of each range, v, the tensors of the bias and those of vectors by
/// distance or by count if there are any.
pub(super) fn inputs<B: FusedBackend>(
    ranges: &[QkRange<Tensor<4>>],
    v: &Tensor<4>,
    options: &Attention,
) -> Vec<OpTensor<B>> {
    let qkv = ranges.iter().flat_map(|range| [&range.q, &range.k]).chain([v]);
    let mut inputs: Vec<OpTensor<B>> = qkv.cloned().map(OpTensor::new).collect();
    inputs.extend(of_bias(&options.bias));
    inputs.extend(options.relative.inputs());
    inputs.extend(options.counted.iter().map(|counted| OpTensor::new(counted.vectors.clone())));
    inputs
}

/// The tensors of a bias: two at most.
pub(super) fn of_bias<B: FusedBackend>(bias: &Bias) -> Vec<OpTensor<B>> {
    match bias {
        Bias::None => vec![],
        Bias::ByDistance(table) => vec![OpTensor::new(table.clone())],
        Bias::Slopes(slopes) => vec![OpTensor::new(slopes.clone())],
        Bias::Pair { query, key } => [query, key].map(|x| OpTensor::new(x.clone())).into(),
        Bias::Block(block) => vec![OpTensor::new(block.clone())],
    }
}

/// The gradient of a call with any number of [`inputs`]: q, k and v, up to two tensors of a bias, and a second q and
/// k or up to four tensors of vectors by distance.
pub(super) trait AnyInputs<B: FusedBackend>:
    JointGradient<3, 2, B>
    + JointGradient<4, 2, B>
    + JointGradient<5, 2, B>
    + JointGradient<6, 2, B>
    + JointGradient<7, 2, B>
    + JointGradient<8, 2, B>
    + JointGradient<9, 2, B>
{
}

impl<B: FusedBackend, G> AnyInputs<B> for G where
    G: JointGradient<3, 2, B>
        + JointGradient<4, 2, B>
        + JointGradient<5, 2, B>
        + JointGradient<6, 2, B>
        + JointGradient<7, 2, B>
        + JointGradient<8, 2, B>
        + JointGradient<9, 2, B>
{
}

/// Records the output and the log sums of a call with as many [`inputs`] as there are.
pub(super) fn record<B: FusedBackend, G: AnyInputs<B>>(
    inputs: &[OpTensor<B>],
    outputs: [FloatTensor<B>; 2],
    state: impl FnOnce() -> G,
) -> PartialAttention {
    fn of<B: FusedBackend, G: JointGradient<N, 2, B>, const N: usize>(
        inputs: &[OpTensor<B>],
        outputs: [FloatTensor<B>; 2],
        state: impl FnOnce() -> G,
    ) -> [OpTensor<B>; 2] {
        let inputs = inputs.try_into().expect("as many as were counted");
        autodiff::record_joint::<B, G, N, 2>(inputs, outputs, state)
    }
    let [output, log_sums] = match inputs.len() {
        3 => of::<B, G, 3>(inputs, outputs, state),
        4 => of::<B, G, 4>(inputs, outputs, state),
        5 => of::<B, G, 5>(inputs, outputs, state),
        6 => of::<B, G, 6>(inputs, outputs, state),
        7 => of::<B, G, 7>(inputs, outputs, state),
        8 => of::<B, G, 8>(inputs, outputs, state),
        _ => of::<B, G, 9>(inputs, outputs, state),
    };
    PartialAttention { output: output.into_tensor(), log_sums: log_sums.into_tensor() }
}
