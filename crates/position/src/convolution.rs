//! Depthwise causal convolutions over rows.

use burn::tensor::Tensor;

/// The terms `w[tap] * x_{t - tap}` of a convolution of `[batch, length, channels]`, tap after tap; rows before the first
/// are 0. `weights` are `[kernel, channels]`, and row 0 belongs to the current row.
pub(crate) fn taps(x: &Tensor<3>, weights: &Tensor<2>) -> impl Iterator<Item = Tensor<3>> {
    let [batch, length, channels] = x.dims();
    let before = weights.dims()[0].min(length).saturating_sub(1);
    let padded = if before == 0 {
        x.clone()
    } else {
        Tensor::cat(vec![Tensor::zeros([batch, before, channels], &x.device()), x.clone()], 1)
    };
    (0..=before).map(move |tap| {
        let weight = weights.clone().slice_dim(0, tap..tap + 1).unsqueeze::<3>();
        padded.clone().slice_dim(1, before - tap..before - tap + length) * weight // [batch, length, channels]
    })
}

/// The sum of the taps of a kernel.
pub fn causal(x: &Tensor<3>, weights: &Tensor<2>) -> Tensor<3> {
    taps(x, weights).reduce(|sum, tap| sum + tap).unwrap_or_else(|| x.zeros_like())
}

/// What `convolve` gives for a piece `[batch, rows, channels]` of a text, of which a row reads `kernel` rows. `before` has the last
/// `kernel - 1` rows before the piece, or all where there are fewer, and then those before the next.
pub fn in_pieces(
    piece: Tensor<3>,
    kernel: usize,
    before: &mut Option<Tensor<3>>,
    convolve: impl FnOnce(Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    let count = piece.dims()[1];
    let seen = match before.take() {
        Some(before) => Tensor::cat(vec![before, piece], 1),
        None => piece,
    };
    let length = seen.dims()[1];
    let kept = length.min(kernel - 1);
    *before = (kept > 0).then(|| seen.clone().slice_dim(1, length - kept..length));
    convolve(seen).slice_dim(1, length - count..length)
}
