//! `none`: no positional signal beyond the causal mask.
//!
//! A causal decoder of several layers can still tell positions apart, since each row sees a prefix
//! of another length (Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466).
//! No formula, no parameters.

use crate::prelude::*;

keys! {
    /// `kind = "none"` takes no keys.
    pub struct Config {}
}

/// No encoding: every hook keeps its default.
#[derive(Module, Debug)]
pub struct NoPosition {}

impl Configure for Config {
    type Encoding = NoPosition;
    const KIND: &'static str = "none";
    const DESCRIPTION: &'static str = "nothing beyond the causal mask (NoPE)";
    const SOURCE: &'static str = "arXiv:2305.19466";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d";
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: nothing depends on the length");

    fn build(&self, _dimensions: &Dimensions, _init: &Init) -> NoPosition {
        NoPosition {}
    }
}

impl Position for NoPosition {
    fn capabilities(&self) -> Capabilities {
        Capabilities { position_use: PositionUse::Order, ..Capabilities::default() }
    }
}
