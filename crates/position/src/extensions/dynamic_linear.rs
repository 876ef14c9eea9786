
use crate::extension::{Band, Example, Extend, Lengths, divide_positions};
use crate::reading::Reading;
use longwave_core::Result;

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
