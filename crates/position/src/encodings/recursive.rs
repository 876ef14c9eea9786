//! `recursive`: each position's vector is a learned function of the one before.
//!
//! `h_t = x_t + p_{position_t}`, `p_0 = p0`, `p_{k+1} = f(p_k)` from position 0 on, whatever the first row's
//! position (kexue.fm/archives/8130, recursive encoding). `variant = "linear"`: `f(p) = p w + b`, w
//! `[width, width]`; it starts as the rotations of a sinusoidal encoding, so that nothing grows at first.
//! `"mlp"`: `f(p) = p + tanh(p w1 + b1) w2 + b2`, w1 `[width, hidden]`, w2 `[hidden, width]`. p0 from
//! N(0, 0.02). Enters once, before the first block; sequential in the position. Whole positions only.

use super::{Configure, Past, check_at_least};
use crate::encoding::{Dimensions, Position, Rows};
use crate::frequency::Frequencies;
use crate::init::Init;
use crate::positions::Positions;
use crate::table::indices;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of f.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// A linear map.
    #[default]
    Linear,
    /// A residual network with one hidden layer.
    Mlp,
}

/// The nonlinearity of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
}

/// Keys of `kind = "recursive"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The form of f.
    pub variant: Variant,
    /// `mlp`: width of the hidden layer.
    pub hidden: usize,
    /// `mlp`: its nonlinearity.
    pub activation: Activation,
}

impl Default for Config {
    fn default() -> Self {
        Self { variant: Variant::Linear, hidden: 64, activation: Activation::Tanh }
    }
}

/// The start and the step.
#[derive(Module, Debug)]
pub struct Recursive {
    /// `[width]`.
    pub p0: Param<Tensor<1>>,
    /// `linear`: `[width, width]`.
    pub w: Option<Param<Tensor<2>>>,
    /// `linear`: `[width]`.
    pub b: Option<Param<Tensor<1>>>,
    /// `mlp`: `[width, hidden]`.
    pub w1: Option<Param<Tensor<2>>>,
    /// `mlp`: `[hidden]`.
    pub b1: Option<Param<Tensor<1>>>,
    /// `mlp`: `[hidden, width]`.
    pub w2: Option<Param<Tensor<2>>>,
    /// `mlp`: `[width]`.
    pub b2: Option<Param<Tensor<1>>>,
    /// The vectors of the first positions, where they are computed once for many readings.
    #[module(skip)]
    made: Option<Tensor<2>>,
}

/// `[width, width]`: turns channels 2i and 2i + 1 by the sinusoidal frequency of band i.
fn rotations(width: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; width * width];
    for (band, angle) in Frequencies::geometric(1e4, width).inv_freq.into_iter().enumerate() {
        let (sin, cos) = angle.sin_cos();
        let first = 2 * band * width + 2 * band;
        (matrix[first], matrix[first + 1]) = (cos, sin);
        (matrix[first + width], matrix[first + width + 1]) = (-sin, cos);
    }
    if width % 2 == 1 {
        matrix[width * width - 1] = 1.0;
    }
    matrix
}

impl Configure for Config {
    type Encoding = Recursive;
    const KIND: &'static str = "recursive";
    const SUMMARY: &'static str = "each position's vector is a learned function of the one before";
    const SOURCE: &'static str = "kexue.fm/archives/8130";
    const PAST: Past = Past::Reads("defined: the recursion goes on");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "hidden", self.hidden, 1)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Recursive {
        let (width, hidden) = (dimensions.width, self.hidden);
        let linear = self.variant == Variant::Linear;
        let mlp = !linear;
        Recursive {
            p0: init.normal("position.recursive.p0", [width], 0.02),
            w: linear.then(|| init.values([width, width], &rotations(width))),
            b: linear.then(|| init.constant([width], 0.0)),
            w1: mlp.then(|| init.normal("position.recursive.w1", [width, hidden], 0.02)),
            b1: mlp.then(|| init.constant([hidden], 0.0)),
            w2: mlp.then(|| init.normal("position.recursive.w2", [hidden, width], 0.02)),
            b2: mlp.then(|| init.constant([width], 0.0)),
            made: None,
        }
    }
}

impl Recursive {
    /// f of `[1, width]`.
    fn step(&self, p: Tensor<2>) -> Tensor<2> {
        if let (Some(w), Some(b)) = (&self.w, &self.b) {
            return p.matmul(w.val()) + b.val().unsqueeze();
        }
        let (Some(w1), Some(b1), Some(w2), Some(b2)) = (&self.w1, &self.b1, &self.w2, &self.b2) else {
            return p;
        };
        let hidden = (p.clone().matmul(w1.val()) + b1.val().unsqueeze()).tanh();
        p + hidden.matmul(w2.val()) + b2.val().unsqueeze()
    }

    /// The vectors of positions 0 to `last` or further, `[positions, width]`.
    fn vectors(&self, last: usize) -> Tensor<2> {
        if let Some(made) = self.made.as_ref().filter(|made| made.dims()[0] > last) {
            return made.clone();
        }
        let mut all = vec![self.p0.val().unsqueeze::<2>()];
        for k in 0..last {
            all.push(self.step(all[k].clone()));
        }
        Tensor::cat(all, 0)
    }
}

impl Position for Recursive {
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let positions = rows.positions;
        let last = positions.largest().unwrap_or_default() as usize;
        let at = indices(positions.values().iter().map(|&m| m as usize), &hidden.device());
        let vectors = self.vectors(last).select(0, at);
        let width = hidden.dims()[2];
        hidden + vectors.reshape([positions.rows(), positions.length(), width])
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        whole_positions("recursive", positions)
    }

    fn prepare(&mut self, length: usize) {
        self.made = Some(self.vectors(length.saturating_sub(1)));
    }
}

/// An encoding that steps from position to position has none in between.
pub(super) fn whole_positions(kind: &str, positions: &Positions) -> Result<()> {
    match positions.values().iter().find(|&&m| m.fract() != 0.0 || m < 0.0) {
        Some(position) => Err(Error::usage(format!(
            "`{kind}` has no vector for position {position}: it steps through whole positions from 0"
        ))
        .hint("use whole positions, or an encoding that is defined between them, such as `sinusoidal`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn starts_as_rotations_that_keep_the_norm() {
        let dimensions = crate::testing::dimensions();
        let encoding = Config::default().build(&dimensions, &Init::new(0, &Device::flex()));
        let norms = encoding.vectors(200).square().sum_dim(1).into_data().try_to_vec::<f32>().unwrap();
        assert!(norms.iter().all(|norm| (norm / norms[0] - 1.0).abs() < 1e-4), "{norms:?}");
        assert!(encoding.check(&Positions::explicit(1, vec![0.5])).is_err());
    }
}
