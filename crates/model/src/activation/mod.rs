//! The activations of the feed-forward layer, one file each. Adding one is one new file and one line here.

use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// What stands between the two matrices.
pub trait Activate {
    /// Whether the first matrix makes a gate too, side by side with what goes on: `[.., 2 inner]`.
    fn is_gated(&self) -> bool {
        false
    }

    /// `[batch, length, inner]`, or `[batch, length, 2 inner]` with a gate -> `[batch, length, inner]`, in the precision of what it
    /// is given.
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;
}

macro_rules! activations {
    ($($(#[$about:meta])* $Name:ident in $module:ident,)*) => {
        $(mod $module;)*

        /// The feed-forward layer.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum FeedForwardKind {
            $($(#[$about])* $Name,)*
        }

        impl Deref for FeedForwardKind {
            type Target = dyn Activate;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$Name => &$module::$Name,)*
                }
            }
        }
    };
}

activations! {
    /// `GELU(x W_1) W_2`, exact GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415).
    #[default]
    Gelu in gelu,
    /// `(SiLU(x W_g) * x W_u) W_2` (Shazeer 2020, arXiv:2002.05202).
    Swiglu in swiglu,
    /// `max(0, x W_1)^2 W_2` (So et al. 2021, arXiv:2109.08668).
    ReluSquared in relu_squared,
}
