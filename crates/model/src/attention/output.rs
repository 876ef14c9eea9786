//! What follows the heads: their gates, the projection, and a norm of what it gives.

use super::Attention;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;

impl Attention {
    /// The heads' outputs `[batch, heads, length, head_dim]` for rows whose normalised input is `[batch, length, width]`: gated,
    /// side by side and projected, `[batch, length, width]`, added to `onto` if it is given.
    pub(crate) fn joined(&self, heads: Tensor<4>, input: Tensor<3>, onto: Option<Tensor<3>>) -> Tensor<3> {
        let [batch, count, length, head_dim] = heads.dims();
        let heads = self.gated(heads, input).reshape([batch, length, count * head_dim]);
        let Some(norm) = &self.output_norm else {
            return self.precision.into_stream(heads, self.output_matrix(), onto);
        };
        let output = norm.forward(self.precision.into_stream(heads, self.output_matrix(), None));
        match onto {
            Some(x) => x + output,
            None => output,
        }
    }

    /// The heads' outputs times their gates, `[batch, length, heads, head_dim]`.
    pub fn gated(&self, heads: Tensor<4>, input: Tensor<3>) -> Tensor<4> {
        let heads = heads.swap_dims(1, 2);
        match self.gates(input) {
            Some(gates) => heads * gates,
            None => heads,
        }
    }

    /// The gates of rows by their normalised input, `[batch, length, heads, head_dim]` or `[batch, length, heads, 1]`.
    pub fn gates(&self, input: Tensor<3>) -> Option<Tensor<4>> {
        let gate = self.gate.as_ref()?;
        // In f32, as the heads and the bias are.
        let logits = self.precision.into_stream(input, gate.val(), None);
        let logits = match &self.gate_bias {
            Some(bias) => logits + bias.val().reshape([1, 1, -1]),
            None => logits,
        };
        let [batch, length, columns] = logits.dims();
        Some(sigmoid(logits).reshape([batch, length, self.heads.query, columns / self.heads.query]))
    }
}
