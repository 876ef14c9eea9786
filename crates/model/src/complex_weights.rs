//! The numbers that linear maps are over: real, or complex ones held as real and imaginary halves.
//!
//! A complex map A + iB of rows `[x_r | x_i]` is the real matrix `[[A, B], [-B, A]]`: `y_r = x_r A - x_i B`,
//! `y_i = x_i A + x_r B`. A parameter then holds `[A | B]`, half of the matrix, and the other half follows from it
//! (Wang et al. 2020, arXiv:1912.12333, section 3.2). Such a map commutes with the multiplication by i, which takes
//! `[x_r | x_i]` to `[-x_i | x_r]`.
//!
//! Where channels are split further (heads, gate and up), each group holds both halves of its own channels, so that
//! `q.k` of a head is the real part of the complex inner product. What is no linear map stays as it is: activations
//! read the halves one by one. The head needs no tying: its logits are the real part of a complex map, and any
//! real matrix is such a part.

use burn::tensor::Tensor;
use longwave_core::{Error, Result};

/// What the linear maps of a model are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightKind {
    /// Every number of a matrix is its own.
    #[default]
    Real,
    /// Matrices `[[A, B], [-B, A]]` of two halves.
    Complex,
}

/// How many groups of `[real | imag]` the inputs and the outputs of a map are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Groups of inputs.
    pub inputs: usize,
    /// Groups of outputs.
    pub outputs: usize,
}

/// One of the linear maps that a parameter holds side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedMap {
    /// Its outputs, and so its columns in the parameter.
    pub outputs: usize,
    /// How many groups of `[real | imag]` these are, where it is complex.
    pub groups: usize,
    pub weight_kind: WeightKind,
}

impl PackedMap {
    /// The matrix `[inputs, outputs]` of its stored columns `[stored_rows(inputs), outputs]`. These are its first rows: groups of inputs
    /// would order the rows otherwise.
    pub fn matrix(self, stored: Tensor<2>) -> Tensor<2> {
        self.weight_kind.matrix(stored, Groups { inputs: 1, outputs: self.groups })
    }
}

impl WeightKind {
    /// The field of a state that is complex, or not.
    pub fn of(complex: bool) -> Self {
        if complex { Self::Complex } else { Self::Real }
    }

    /// How many of `channels` inputs have numbers of their own.
    pub fn stored_rows(self, channels: usize) -> usize {
        match self {
            Self::Real => channels,
            Self::Complex => channels / 2,
        }
    }

    /// The matrix `[inputs, outputs]` of a parameter `[stored_rows(inputs), outputs]`.
    pub fn matrix(self, parameter: Tensor<2>, groups: Groups) -> Tensor<2> {
        if self == Self::Real {
            return parameter;
        }
        let [half, outputs] = parameter.dims();
        let part = outputs / groups.outputs / 2;
        // [A | B] -> [-B | A] in every group of outputs.
        let split = parameter.clone().reshape([half, groups.outputs, 2, part]);
        let (a, b) = (split.clone().slice_dim(2, 0..1), split.slice_dim(2, 1..2));
        let turned = Tensor::cat(vec![b.neg(), a], 2);
        // The rows of real inputs, then those of imaginary ones, in every group of inputs.
        let rows = [groups.inputs, half / groups.inputs, outputs];
        Tensor::cat(vec![parameter.reshape(rows), turned.reshape(rows)], 1).reshape([2 * half, outputs])
    }

    /// The gains `[channels]` of a parameter `[stored_rows(channels)]`: both parts of a channel share one.
    pub fn gain(self, parameter: Tensor<1>) -> Tensor<1> {
        match self {
            Self::Real => parameter,
            Self::Complex => Tensor::cat(vec![parameter.clone(), parameter], 0),
        }
    }

    /// A width that must hold two halves where the field is complex.
    pub fn check_width(self, key: &str, width: usize) -> Result<()> {
        if self == Self::Complex && width % 2 == 1 {
            return Err(Error::value(key, width, "half of it is real and half imaginary: it must be even")
                .hint(format!("use {}, or leave `position.complex` out", width + 1)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Rotations;
    use crate::config::{FeedForwardKind, NamedSize, NormKind, QkNorm};
    use crate::testing::position;
    use crate::{Gpt, ModelConfig};
    use burn::module::Module;
    use burn::tensor::Device;
    use longwave_position::encoding::Rows;
    use longwave_position::{Init, Positions};

    #[test]
    fn a_complex_map_is_what_its_definition_says() {
        // One complex input x = 2 + 3i through (5 + 7i): -11 + 29i.
        let parameter = Tensor::<2>::from_data([[5.0, 7.0]], &Device::flex());
        let matrix = WeightKind::Complex.matrix(parameter, Groups { inputs: 1, outputs: 1 });
        let x = Tensor::<2>::from_data([[2.0, 3.0]], &Device::flex());
        assert_eq!(x.matmul(matrix).into_data().try_to_vec::<f32>().unwrap(), [-11.0, 29.0]);
    }

    /// i x, where x `[rows, channels]` is made of so many groups.
    fn times_i(x: Tensor<2>, groups: usize) -> Tensor<2> {
        let [rows, channels] = x.dims();
        let split = x.reshape([rows, groups, 2, channels / groups / 2]);
        let (real, imaginary) = (split.clone().slice_dim(2, 0..1), split.slice_dim(2, 1..2));
        Tensor::cat(vec![imaginary.neg(), real], 2).reshape([rows, channels])
    }

    #[test]
    fn maps_commute_with_i_whatever_the_groups() {
        let init = Init::new(0, &Device::flex());
        for (inputs, outputs) in [(1, 1), (1, 6), (2, 1), (4, 2)] {
            let parameter = init.normal("w", [8, 24], 1.0).val();
            let x = init.normal("x", [3, 16], 1.0).val();
            let matrix = WeightKind::Complex.matrix(parameter, Groups { inputs, outputs });
            assert_eq!(matrix.dims(), [16, 24]);
            let after = times_i(x.clone().matmul(matrix.clone()), outputs);
            let before = times_i(x, inputs).matmul(matrix);
            let off: f32 = (after - before).abs().max().into_scalar();
            assert!(off < 1e-5, "{inputs} {outputs}: {off}");
        }
    }

    #[test]
    fn a_real_matrix_is_its_parameter() {
        let parameter = Init::new(0, &Device::flex()).normal("w", [4, 6], 1.0).val();
        let matrix = WeightKind::Real.matrix(parameter.clone(), Groups { inputs: 2, outputs: 3 });
        assert!((matrix - parameter).abs().max().into_scalar::<f32>() == 0.0);
        assert!(
            WeightKind::Real.check_width("w", 3).is_ok() && WeightKind::Complex.check_width("w", 3).is_err()
        );
    }

    fn complex(changes: impl Fn(&mut ModelConfig)) -> Result<Gpt> {
        let mut config = ModelConfig { size: NamedSize::Nano, ..ModelConfig::default() };
        changes(&mut config);
        let position = position("{ kind = 'complex_order', complex = true }");
        Gpt::new(&config.resolve(20, 8)?, &position, &Init::new(0, &Device::flex()))
    }

    #[test]
    fn every_linear_map_of_a_complex_model_commutes_with_i() {
        for feed_forward in [FeedForwardKind::Gelu, FeedForwardKind::Swiglu] {
            let model = complex(|config| {
                (config.feed_forward, config.kv_heads, config.qk_norm) = (feed_forward, Some(1), QkNorm::Rms);
            })
            .unwrap();
            let block = &model.blocks[1];
            let gates = if feed_forward == FeedForwardKind::Swiglu { 2 } else { 1 };
            let maps = [
                ("qkv", block.attention.qkv_matrix(), 1, 4),
                ("output", block.attention.output_matrix(), 2, 1),
                ("input", block.feed_forward.input_matrix(), 1, gates),
                ("inner", block.feed_forward.output_matrix(), 1, 1),
            ];
            let init = Init::new(1, &Device::flex());
            for (name, matrix, inputs, outputs) in maps {
                let x = init.normal(name, [3, matrix.dims()[0]], 1.0).val();
                let after = times_i(x.clone().matmul(matrix.clone()), outputs);
                let off: f32 = (after - times_i(x, inputs).matmul(matrix)).abs().max().into_scalar();
                assert!(off < 1e-6, "{name}: {off}");
            }
        }
    }

    #[test]
    fn attention_and_norm_of_a_complex_model_commute_with_i() {
        let model = complex(|config| config.qk_norm = QkNorm::Rms).unwrap();
        let block = &model.blocks[0];
        let x = Init::new(1, &Device::flex()).normal::<2>("x", [9, 64], 1.0).val();
        let (positions, tokens) = (Positions::range(0..9), Tensor::zeros([1, 9], &Device::flex()));
        let rows = Rows::new(0, &tokens, &positions);
        let run = |x: Tensor<2>| {
            let normalised = block.attention_norm.forward(x.unsqueeze::<3>());
            let reading = &model.position;
            block
                .attention
                .forward(normalised, None, rows, reading, &mut Rotations::default())
                .squeeze_dim::<2>(0)
        };
        // Scores are real parts of complex inner products, which a common factor of norm 1 leaves as they are.
        let out = run(x.clone());
        let off: f32 = (times_i(out.clone(), 1) - run(times_i(x, 1))).abs().max().into_scalar();
        assert!(off < 1e-6 && out.abs().max().into_scalar::<f32>() > 1e-3, "{off}");
    }

    #[test]
    fn a_complex_model_has_half_the_numbers_in_its_maps() {
        let [real, complex] = ["false", "true"].map(|complex| {
            let position = position(&format!("{{ kind = 'complex_order', complex = {complex} }}"));
            let config = ModelConfig { size: NamedSize::Nano, ..ModelConfig::default() };
            Gpt::new(&config.resolve(20, 8).unwrap(), &position, &Init::new(0, &Device::flex())).unwrap()
        });
        // Half of 2 blocks of 12 width^2, and of 5 norms of `width` gains.
        assert_eq!(real.num_params() - complex.num_params(), 2 * 12 * 64 * 32 + 5 * 32);
    }

    #[test]
    fn what_cannot_be_complex_is_rejected() {
        let rejected = |changes: fn(&mut ModelConfig)| complex(changes).unwrap_err().message().to_owned();
        assert!(rejected(|config| config.norm = NormKind::LayerNorm).starts_with("`model.norm"));
        assert!(
            rejected(|config| config.feed_forward_width = Some(33))
                .starts_with("`model.feed_forward_width = 33`")
        );
        assert!(rejected(|config| config.head_dim = Some(5)).starts_with("`position.complex = true`"));
    }
}
