//! `linear`: position interpolation (PI).
//!
//! Every position is divided by the scale s, so that a text of length s L is read at positions the
//! training knows, closer together: `inv_freq'_i = inv_freq_i / s` for waves and rotations (Chen et
//! al. 2023, arXiv:2306.15595, equation 4). A learned table is read between its rows.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `linear`.
    pub struct Linear {
        /// s: positions are divided by it.
        pub scale: Scale = Scale::Auto,
    }
}

impl Extend for Linear {
    const KIND: &'static str = "linear";
    const DESCRIPTION: &'static str = "divides every position by the scale (position interpolation, PI)";
    const SOURCE: &'static str = "arXiv:2306.15595";
    const FORMULA: &'static str = "m' = m / s\n\
        θ'_i = θ_i / s, the same for waves and rotations";

    fn validate(&self, section: &str) -> Result<()> {
        self.scale.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        let plain = Example::new("").bands(Band::ByScale, Band::ByScale);
        let keys = "log_n = true, temperature = 0.8".to_owned();
        vec![plain.clone(), Example { keys, ..plain }.changes_short_texts().shifts(Shifts::None)]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        divide_positions(Self::KIND, reading, self.scale.at(lengths))
    }
}
