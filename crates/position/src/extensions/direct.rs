//! `direct`: reads a longer text as last trained.
//!
//! The identity on the reading: positions past the training length meet angles, vectors or biases
//! that training never showed. What every other extension is compared with.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// `direct` takes no keys.
    pub struct Direct {}
}

impl Extend for Direct {
    const KIND: &'static str = "direct";
    const DESCRIPTION: &'static str = "as last trained: plain extrapolation";
    const SOURCE: &'static str = "the identity";
    const FORMULA: &'static str = "m' = m, θ'_i = θ_i";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new(""),
            Example::new("temperature = 0.6").changes_short_texts(),
            Example::new("temperature_law = { kind = 'one_plus_log', c = 0.4 }"),
            Example::new("temperature_law = { kind = 'log_shift', a = 3.0 }").shifts(Shifts::None),
            Example::new("temperature_law = 'info'").shifts(Shifts::None),
            Example::new("temperature_law = 'entropy'").changes_short_texts(),
        ]
    }

    fn apply(&self, _reading: &mut Reading, _lengths: Lengths) -> Result<()> {
        Ok(())
    }
}
