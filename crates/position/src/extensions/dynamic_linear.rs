//! `dynamic_linear`: position interpolation by the length that is read.
//!
//! `inv_freq'_i = inv_freq_i L / max(length, L)` (the dynamic form of arXiv:2306.15595; baseline of
//! arXiv:2402.17463 and of the `YaRN` repository): `linear` whose scale is always the evaluated length over
//! L, never a given one. A cache of rotated keys would be wrong as soon as the text grows.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// `dynamic_linear` takes no keys of its own.
    pub struct DynamicLinear {}
}

impl Extend for DynamicLinear {
    const KIND: &'static str = "dynamic_linear";
    const DESCRIPTION: &'static str = "position interpolation by the length that is read (dynamic PI)";
    const SOURCE: &'static str = "arXiv:2306.15595, in the dynamic form of the YaRN repository";
    const FORMULA: &'static str = "m' = m L / max(L, T)\n\
        θ'_i = θ_i L / max(L, T), the same for waves and rotations";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").bands(Band::ByScale, Band::ByScale)]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        divide_positions(Self::KIND, reading, lengths.scale())
    }
}
