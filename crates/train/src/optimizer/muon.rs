//! `muon`: the matrices of the blocks move by an orthogonal matrix near the momentum of their gradients.
//!
//! With the momentum `m <- mu m + (1 - mu) g` and `u = mu m + (1 - mu) g` (Nesterov's; `u = m` without), five steps of a Newton-Schulz
//! iteration bring the singular values of `X = u / (|u| + 1e-7)` near 1: `A = X X^T`, `X <- a X + (b A + c A A) X` with
//! a = 3.4445, b = -4.7750, c = 2.0315. Then `p <- p (1 - r w) - r sqrt(max(1, outputs / inputs)) X`, r its learning rate and w
//! `train.weight_decay` (Jordan et al. 2024, kellerjordan.github.io/posts/muon, and its code). Queries, keys and values are a matrix
//! each, and so are gate and up of `SwiGLU`. The matrix of a complex map is the whole one, of which half the rows are stored. All other parameters move by [`adamw`](super::adamw): embeddings, head, gains, biases and what
//! encodings learn. The code computes the iteration in bf16; here it is f32. The learning rate falls as that of `[train]` does.

use super::adamw::Adamw;
use super::{GradientScale, Moved, Step, Update};
use crate::parameters::Parameter;
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use longwave_kernels::sums_of_squares;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The coefficients of the iteration: a large slope at 0, and a wide range of singular values that ends between 0.7 and 1.2.
const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// Keys of `muon`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Muon {
    /// Peak learning rate of the matrices; that of all other parameters is `train.learning_rate`.
    pub learning_rate: f64,
    /// mu: the decay of the momentum.
    pub momentum: f64,
    /// Whether the gradient is mixed into the momentum once more.
    pub nesterov: bool,
    /// Steps of the Newton-Schulz iteration.
    pub newton_schulz_steps: usize,
}

impl Default for Muon {
    fn default() -> Self {
        Self { learning_rate: 0.02, momentum: 0.95, nesterov: true, newton_schulz_steps: 5 }
    }
}

impl Update for Muon {
    fn validate(&self, section: &str) -> Result<()> {
        for (key, value, is_allowed, allowed) in [
            ("learning_rate", self.learning_rate, self.learning_rate > 0.0, "it must be above 0"),
            (
                "momentum",
                self.momentum,
                (0.0..1.0).contains(&self.momentum),
                "it must be at least 0 and below 1",
            ),
        ] {
            if !(is_allowed && value.is_finite()) {
                let default = serde_json::to_value(Self::default()).unwrap_or_default();
                return Err(Error::value(&format!("{section}.{key}"), value, allowed)
                    .hint(format!("the published one is {}", default[key])));
            }
        }
        if (1..=100).contains(&self.newton_schulz_steps) {
            return Ok(());
        }
        let key = format!("{section}.newton_schulz_steps");
        Err(Error::value(&key, self.newton_schulz_steps, "it must lie between 1 and 100")
            .hint("the published one is 5"))
    }

    fn state(&self, parameter: &Parameter) -> &'static [&'static str] {
        if parameter.maps.is_some() { &["momentum"] } else { Adamw {}.state(parameter) }
    }

    fn update(&self, moved: Vec<Moved<'_>>, step: &Step) -> Vec<(Tensor<1>, Vec<Tensor<1>>)> {
        let places: Vec<bool> = moved.iter().map(|moved| moved.parameter.maps.is_some()).collect();
        let (matrices, others): (Vec<_>, Vec<_>) =
            moved.into_iter().partition(|moved| moved.parameter.maps.is_some());
        let mut matrices = matrices.into_iter().map(|matrix| self.moved(matrix, step));
        let mut others = Adamw {}.update(others, step).into_iter();
        places
            .into_iter()
            .filter_map(|is_matrix| if is_matrix { matrices.next() } else { others.next() })
            .collect()
    }
}

impl Muon {
    /// A parameter that is one matrix, or several side by side.
    fn moved(&self, moved: Moved<'_>, step: &Step) -> (Tensor<1>, Vec<Tensor<1>>) {
        let Moved { parameter, value, gradient, state, .. } = moved;
        let gradient = match &step.scale {
            GradientScale::Known(factor) => gradient.mul_scalar(*factor),
            GradientScale::OnDevice(factor) => gradient * (**factor).clone(),
        };
        let mix = |momentum: Tensor<1>| {
            momentum.mul_scalar(self.momentum) + gradient.clone().mul_scalar(1.0 - self.momentum)
        };
        let momentum = state.into_iter().fold(gradient.zeros_like(), |_, kept| kept);
        let momentum = mix(momentum);
        let direction = if self.nesterov { mix(momentum.clone()) } else { momentum.clone() };
        let rows = parameter.shape[0];
        let direction = direction.reshape([rows, parameter.shape[1]]);
        let mut first = 0;
        let parts = parameter.maps.iter().flatten().map(|map| {
            let matrix = map.matrix(direction.clone().slice_dim(1, first..first + map.outputs)); // [inputs, outputs]
            first += map.outputs;
            let factor = (map.outputs as f64 / matrix.dims()[0] as f64).max(1.0).sqrt();
            orthogonalized(matrix, self.newton_schulz_steps).slice_dim(0, 0..rows).mul_scalar(factor)
        });
        let parts = Tensor::cat(parts.collect(), 1).reshape([-1]);
        let learning_rate = self.learning_rate * step.share;
        let kept = 1.0 - learning_rate * step.weight_decay;
        (value.mul_scalar(kept) - parts.mul_scalar(learning_rate), vec![momentum])
    }
}

/// A matrix with the singular vectors of `matrix` and singular values near 1.
fn orthogonalized(matrix: Tensor<2>, steps: usize) -> Tensor<2> {
    let [rows, columns] = matrix.dims();
    let norm = sums_of_squares(&[matrix.clone().reshape([-1])]).sqrt().add_scalar(1e-7); // [1]
    // The product with the transpose is smallest where the rows are the short side.
    let wide = if rows > columns { matrix.transpose() } else { matrix };
    let [a, b, c] = COEFFICIENTS;
    let mut x = wide / norm.reshape([1, 1]);
    for _ in 0..steps {
        let square = x.clone().matmul(x.clone().transpose()); // [short, short]
        let polynomial = square.clone().mul_scalar(b) + square.clone().matmul(square).mul_scalar(c);
        x = x.clone().mul_scalar(a) + polynomial.matmul(x);
    }
    if rows > columns { x.transpose() } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};
    use longwave_model::complex_weights::{PackedMap, WeightKind};

    fn matrix(rows: usize, columns: usize) -> Tensor<2> {
        let numbers: Vec<f32> = (0..rows * columns).map(|i| ((i * 37 % 101) as f32 - 50.0) / 17.0).collect();
        Tensor::from_data(TensorData::new(numbers, [rows, columns]), &Device::flex())
    }

    fn map(outputs: usize, weight_kind: WeightKind) -> PackedMap {
        PackedMap { outputs, groups: 1, weight_kind }
    }

    fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
        tensor.into_data().iter::<f64>().collect()
    }

    /// The iteration acts on singular values alone, as the polynomial says: of a diagonal matrix they stand on the diagonal.
    #[test]
    fn singular_values_follow_the_polynomial() {
        let diagonal = [3.0f64, 1.0, 0.25];
        let mut expected =
            diagonal.map(|value| value / (diagonal.iter().map(|v| v * v).sum::<f64>().sqrt() + 1e-7));
        for _ in 0..5 {
            expected = expected.map(|s| 3.4445 * s - 4.7750 * s.powi(3) + 2.0315 * s.powi(5));
        }
        let mut given = [0.0f32; 12];
        for (i, value) in diagonal.iter().enumerate() {
            given[i * 4 + i] = *value as f32;
        }
        let wide = Tensor::<2>::from_data(TensorData::new(given.to_vec(), [3, 4]), &Device::flex());
        for (found, is_wide) in
            [(orthogonalized(wide.clone(), 5), true), (orthogonalized(wide.transpose(), 5), false)]
        {
            let columns = if is_wide { 4 } else { 3 };
            let found = numbers(found);
            for (i, expected) in expected.iter().enumerate() {
                assert!((found[i * columns + i] - expected).abs() < 1e-5, "{found:?} {expected}");
            }
            assert!(
                (found.iter().map(|x| x * x).sum::<f64>() - expected.iter().map(|x| x * x).sum::<f64>())
                    .abs()
                    < 1e-4
            );
        }
        assert!(expected.iter().all(|value| (0.6..1.3).contains(value)), "{expected:?}");
    }

    #[test]
    fn the_size_of_a_gradient_does_not_count_and_its_sign_does() {
        let plain = numbers(orthogonalized(matrix(5, 8), 5));
        let large = numbers(orthogonalized(matrix(5, 8).mul_scalar(1000.0), 5));
        let other = numbers(orthogonalized(matrix(5, 8).neg(), 5));
        for ((a, b), c) in plain.iter().zip(&large).zip(&other) {
            assert!((a - b).abs() < 1e-4 && (a + c).abs() < 1e-6, "{a} {b} {c}");
        }
    }

    /// The rows `[A | B]` stand for the map `[[A, B], [-B, A]]`, whose singular values are those that come near 1.
    #[test]
    fn a_complex_map_moves_by_an_orthogonal_matrix() {
        let parameter = Parameter {
            name: "blocks.0.attention.output".into(),
            shape: vec![4, 12],
            decays: true,
            bounds: None,
            unit: 1.0,
            maps: Some(vec![map(12, WeightKind::Complex)]),
        };
        let moved = Moved {
            parameter: &parameter,
            value: matrix(4, 12).zeros_like().reshape([-1]),
            gradient: matrix(4, 12).reshape([-1]),
            state: Vec::new(),
            number: 1,
        };
        let step = Step {
            betas: [0.9, 0.95],
            eps: 1e-8,
            weight_decay: 0.0,
            learning_rate: 1e-3,
            share: 1.0,
            scale: GradientScale::Known(1.0),
        };
        let (found, _) = Muon::default().update(vec![moved], &step).remove(0);
        let found = numbers(found.div_scalar(-0.02 * 1.5f64.sqrt()));
        let row = |r: usize| -> Vec<f64> {
            let stored = &found[r % 4 * 12..][..12];
            if r < 4 {
                stored.to_vec()
            } else {
                stored[6..].iter().map(|b| -b).chain(stored[..6].to_vec()).collect()
            }
        };
        let product = |a: usize, b: usize| row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum::<f64>();
        let from_identity = |a: usize, b: usize| (product(a, b) - f64::from(u8::from(a == b))).powi(2);
        let off: f64 = (0..8).flat_map(|a| (0..8).map(move |b| from_identity(a, b))).sum();
        let of_least = (0.7f64 * 0.7 - 1.0).powi(2);
        assert!(off / 8.0 < of_least, "the mean of (s^2 - 1)^2 over singular values s is {}", off / 8.0);
    }

    /// Momentum, Nesterov's step, the parts, the factor of the shape and the decay, written out.
    #[test]
    fn a_packed_parameter_moves_part_by_part() {
        let parameter = Parameter {
            name: "blocks.0.attention.qkv".into(),
            shape: vec![4, 12],
            decays: true,
            bounds: None,
            unit: 1.0,
            maps: Some([8, 2, 2].map(|outputs| map(outputs, WeightKind::Real)).to_vec()),
        };
        let muon = Muon::default();
        let flat = |tensor: Tensor<2>| tensor.reshape([-1]);
        let (value, gradient, kept) =
            (matrix(4, 12), matrix(12, 4).transpose(), matrix(4, 12).mul_scalar(0.1));
        let moved = Moved {
            parameter: &parameter,
            value: flat(value.clone()),
            gradient: flat(gradient.clone()),
            state: vec![flat(kept.clone())],
            number: 3,
        };
        let scale = GradientScale::Known(0.5);
        let (betas, learning_rate) = ([0.9, 0.95], 1e-3);
        let step = Step { betas, eps: 1e-8, weight_decay: 0.5, learning_rate, share: 0.25, scale };
        let (found, state) = muon.update(vec![moved], &step).remove(0);
        let gradient = gradient.mul_scalar(0.5);
        let momentum = kept.mul_scalar(0.95) + gradient.clone().mul_scalar(0.05);
        let direction = momentum.clone().mul_scalar(0.95) + gradient.mul_scalar(0.05);
        let rate = 0.02 * 0.25;
        let part = |from: usize, to: usize, factor: f64| {
            orthogonalized(direction.clone().slice_dim(1, from..to), 5).mul_scalar(factor * rate)
        };
        let parts = Tensor::cat(vec![part(0, 8, 2f64.sqrt()), part(8, 10, 1.0), part(10, 12, 1.0)], 1);
        let expected = numbers(value.mul_scalar(1.0 - rate * 0.5) - parts);
        let off = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off(&numbers(found), &expected) < 1e-5);
        assert!(off(&numbers(state[0].clone()), &numbers(momentum)) < 1e-6);
    }
}
