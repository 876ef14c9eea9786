//! What stands before attention, feed-forward and head, one file each. Adding one is one new file and one line here.

use crate::complex_weights::WeightKind;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_position::Init;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// What a normalisation has and does, row by row of `[batch, length, width]`.
pub trait Normalize {
    /// Whether it adds a bias, `[width]`, that begins at 0.
    fn has_bias(&self) -> bool {
        true
    }

    /// Where a factor of the whole row begins, of a normalisation that learns one.
    fn first_factor(&self) -> Option<f64> {
        None
    }

    /// Whether it commutes with a common phase of complex rows, `[real | imaginary]`; if not, why.
    fn complex(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// The rows normalised.
    fn forward(&self, x: Tensor<3>, with: Learned) -> Tensor<3>;

    /// The same of the residual stream, and the stream to go on from: a kernel may add its gradient and that of the branch in one
    /// pass.
    fn forward_residual(&self, x: Tensor<3>, with: Learned) -> [Tensor<3>; 2] {
        [self.forward(x.clone(), with), x]
    }
}

/// What a normalisation has learned.
#[derive(Clone, Debug)]
pub struct Learned {
    /// `[width]`.
    pub gain: Tensor<1>,
    /// `[width]`.
    pub bias: Option<Tensor<1>>,
    /// `[1]`.
    pub factor: Option<Tensor<1>>,
    /// Added to what is divided by.
    pub eps: f64,
}

macro_rules! norms {
    ($($(#[$about:meta])* $Name:ident in $module:ident,)*) => {
        $(mod $module;)*

        /// What stands before attention, feed-forward and head.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum NormKind {
            $($(#[$about])* $Name,)*
        }

        impl NormKind {
            /// As a config has it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Name => stringify!($module),)*
                }
            }
        }

        impl Deref for NormKind {
            type Target = dyn Normalize;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$Name => &$module::$Name,)*
                }
            }
        }
    };
}

norms! {
    /// Root mean square with a gain (Zhang and Sennrich 2019, arXiv:1910.07467).
    #[default]
    RmsNorm in rms_norm,
    /// Mean and variance with gain and bias (Ba et al. 2016, arXiv:1607.06450).
    LayerNorm in layer_norm,
    /// No normalisation: `tanh(a x)` with gain and bias, a learned (Zhu et al. 2025, arXiv:2503.10622).
    Dyt in dyt,
}

/// A normalisation over the channels of `[batch, length, width]`, with what it learns.
#[derive(Module, Debug)]
pub struct Norm {
    /// `[width]`, initially 1; half of it where the maps are complex.
    pub gain: Param<Tensor<1>>,
    /// `[width]`, initially 0.
    pub bias: Option<Param<Tensor<1>>>,
    /// `[1]`.
    pub factor: Option<Param<Tensor<1>>>,
    #[module(skip)]
    kind: NormKind,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    weight_kind: WeightKind,
}

impl Norm {
    /// A fresh normalisation of so many channels.
    pub fn new(kind: NormKind, eps: f64, width: usize, weight_kind: WeightKind, init: &Init) -> Self {
        Self {
            gain: init.constant([weight_kind.stored_rows(width)], 1.0),
            bias: kind.has_bias().then(|| init.constant([width], 0.0)),
            factor: kind.first_factor().map(|factor| init.constant([1], factor)),
            kind,
            eps,
            weight_kind,
        }
    }

    fn learned(&self) -> Learned {
        Learned {
            gain: self.weight_kind.gain(self.gain.val()),
            bias: self.bias.as_ref().map(Param::val),
            factor: self.factor.as_ref().map(Param::val),
            eps: self.eps,
        }
    }

    /// Normalises `[batch, length, width]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.kind.forward(x, self.learned())
    }

    /// The same of the residual stream `[batch, length, width]`, and the stream to go on from.
    pub fn forward_residual(&self, x: Tensor<3>) -> [Tensor<3>; 2] {
        self.kind.forward_residual(x, self.learned())
    }
}
