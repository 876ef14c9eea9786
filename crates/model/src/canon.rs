//! `model.canon`: a causal convolution before a half of a block (Canon layers A and C; Allen-Zhu 2025, arXiv:2512.17351).
//!
//! `y_t = h_t + sum_tap w[tap] * h_{t - tap}` for tap = 0..3, channel by channel, h the half's normalised input and 0 before the
//! first row; no bias, no activation. w is drawn as in the published code, uniformly within `sqrt(1/4)`, and decays like any
//! matrix. A complex model has one number for both parts of a channel.

use crate::complex_weights::WeightKind;
use crate::config::CanonPlace;
use crate::resolved::Resolved;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_position::Init;
use longwave_position::convolution::{causal, in_pieces};

/// Rows that the convolution reads: a row and those before it.
const KERNEL: usize = 4;

/// See the module.
#[derive(Module, Debug)]
pub struct Canon {
    /// `[4, width]`; row 0 belongs to the current row. Half of the columns where the maps are complex.
    pub w: Param<Tensor<2>>,
    #[module(skip)]
    weight_kind: WeightKind,
}

impl Canon {
    /// That before a half of a block, where the model has one there.
    pub fn new(
        place: CanonPlace,
        resolved: &Resolved,
        weight_kind: WeightKind,
        name: &str,
        init: &Init,
    ) -> Option<Self> {
        let bound = (1.0 / KERNEL as f64).sqrt();
        let shape = [KERNEL, weight_kind.stored_rows(resolved.dimensions.width)];
        let w = || init.uniform(&format!("{name}.canon"), shape, [-bound, bound]);
        resolved.config.canon.contains(&place).then(|| Self { w: w(), weight_kind })
    }

    /// `[batch, length, width]` -> the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let w = match self.weight_kind {
            WeightKind::Real => self.w.val(),
            WeightKind::Complex => self.w.val().repeat_dim(1, 2),
        };
        causal(&x, &w) + x
    }

    /// The same for a piece of a text: `before` has the last rows before it, and then those before the next.
    pub fn forward_piece(&self, piece: Tensor<3>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        in_pieces(piece, KERNEL, before, |seen| self.forward(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::position;
    use crate::{Gpt, ModelConfig};
    use burn::tensor::Device;

    #[test]
    fn a_row_is_itself_and_four_rows_of_its_channel() {
        let init = Init::new(0, &Device::flex());
        let places = vec![CanonPlace::FeedForward];
        let config = ModelConfig { width: Some(4), heads: Some(1), canon: places, ..ModelConfig::default() };
        let resolved = config.resolve(8, 8).unwrap();
        let canon = |place| Canon::new(place, &resolved, WeightKind::Real, "test", &init);
        assert!(canon(CanonPlace::Attention).is_none());
        let canon = canon(CanonPlace::FeedForward).unwrap();
        let w = canon.w.val().into_data().try_to_vec::<f32>().unwrap();
        assert!(w.len() == 16 && w.iter().all(|w| w.abs() <= 0.5) && w.iter().any(|w| w.abs() > 0.25));
        // A one in row 1 and channel 2 reaches rows 1 to 4 of this channel.
        let mut x = [0.0; 6 * 4];
        x[4 + 2] = 1.0;
        let x = Tensor::<1>::from_floats(x, &Device::flex()).reshape([1, 6, 4]);
        let found = canon.forward(x).into_data().try_to_vec::<f32>().unwrap();
        for (at, found) in found.into_iter().enumerate() {
            let expected = match (at / 4, at % 4) {
                (row @ 1..=4, 2) => w[(row - 1) * 4 + 2] + if row == 1 { 1.0 } else { 0.0 },
                _ => 0.0,
            };
            assert!((found - expected).abs() < 1e-6, "{at}: {found} {expected}");
        }
        let memory = position("{ kind = 'transformer_xl', memory = 4 }");
        let error = Gpt::new(&resolved, &memory, &init).unwrap_err();
        assert!(error.message().starts_with("`model.canon` reads the rows before"), "{error}");
    }
}
