//! `causal_conv`: a depthwise causal convolution, whose zero padding marks the start of the text.
//!
//! `h_t = x_t + b + sum_tap w[tap] * x_{t - tap}`, tap = 0..kernel-1, x before the first row taken as 0; no
//! activation (Islam et al. 2020, arXiv:2001.08248, on position through zero padding;
//! kexue.fm/archives/8130). w `[kernel, width]` from N(0, 0.02), b `[width]` starts at 0. Enters once, before
//! the first block. Positions do not enter: the order of the rows does.

use crate::convolution::{in_pieces, taps};
use crate::prelude::*;

keys! {
    /// Keys of `kind = "causal_conv"`.
    pub struct Config {
        /// Rows that each row sees, itself included.
        pub kernel: usize = 4,
    }
}

/// The convolution.
#[derive(Module, Debug)]
pub struct CausalConv {
    /// `[kernel, width]`; row 0 belongs to the current row.
    pub w: Param<Tensor<2>>,
    /// `[width]`.
    pub b: Param<Tensor<1>>,
}

impl Configure for Config {
    type Encoding = CausalConv;
    const KIND: &'static str = "causal_conv";
    const DESCRIPTION: &'static str = "a causal convolution; its zero padding marks the start";
    const SOURCE: &'static str = "arXiv:2001.08248, kexue.fm/archives/8130";
    const FORMULA: &'static str =
        "x'_m = x_m + Σ_{j=0}^{3} w_j ⊙ x_{m−j} + c, w and c learned, x_t = 0 for t < 0";
    const PYTORCH: Option<&'static str> = Some(include_str!("causal_conv.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: only the first rows see the padding");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "kernel", self.kernel, 1)
    }

    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        Some(("kernel", self.kernel.saturating_sub(1)))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> CausalConv {
        CausalConv {
            w: init.normal("position.causal_conv.w", [self.kernel, dimensions.width], 0.02),
            b: init.constant([dimensions.width], 0.0),
        }
    }
}

impl CausalConv {
    /// Every row with what it sees of those before it, `[batch, length, width]`.
    fn convolved(&self, hidden: &Tensor<3>) -> Tensor<3> {
        taps(hidden, &self.w.val()).fold(hidden.clone() + self.b.val().unsqueeze(), |sum, tap| sum + tap)
    }
}

impl Position for CausalConv {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::decayed("w", &["kernel", "width"]), ParameterSpec::undecayed("b", &["width"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hidden_use: HiddenUse::Enters,
            position_use: PositionUse::Order,
            ..Capabilities::default()
        }
    }

    /// Carries the last `kernel - 1` rows.
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        in_pieces(hidden, self.w.dims()[0], before, |seen| self.convolved(&seen))
    }
}
