//! Depthwise causal convolutions over rows.

use burn::tensor::Tensor;

/// The terms `w[tap] * x_{t - tap}` of a convolution of `[batch, length, channels]`, tap after tap; rows before the first
/// are 0. `weights` are `[kernel, channels]`, and row 0 belongs to the current row.
pub(crate) fn taps(x: &Tensor<3>, weights: &Tensor<2>) -> impl Iterator<Item = Tensor<3>> {
    let [batch, length, channels] = x.dims();
    (0..weights.dims()[0].min(length)).map(move |tap| {
        let weight = weights.clone().slice_dim(0, tap..tap + 1).unsqueeze::<3>();
        let before = x.clone().slice_dim(1, 0..length - tap);
        let shifted = if tap == 0 {
            before
        } else {
            Tensor::cat(vec![Tensor::zeros([batch, tap, channels], &x.device()), before], 1)
        };
        shifted * weight // [batch, length, channels]
    })
}

/// The sum of the [`taps`].
pub(crate) fn causal(x: &Tensor<3>, weights: &Tensor<2>) -> Tensor<3> {
    taps(x, weights).reduce(|sum, tap| sum + tap).unwrap_or_else(|| x.zeros_like())
}
