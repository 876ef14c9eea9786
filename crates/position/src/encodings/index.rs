//! `index`: the bare index, the baseline that every encoding improves on.
//!
//! `h_t = x_t + c weight`, c the position, or with `normalized` the position over `length - 1`, weight
//! `[width]` from N(0, `init_std`). Enters once, before the first block. Normalised, the same place reads
//! differently in a text of another length; bare, it grows without bound. Interpolated by s, the bare
//! index is divided by s.

use super::learned::INIT_STD;
use crate::prelude::*;

keys! {
    /// Keys of `kind = "index"`.
    pub struct Config {
        /// Divide the index by the length less one.
        pub normalized: bool = false,
        /// The length to normalise by, where `normalized` says so; that of the text that is read unless given.
        pub length: Option<usize> = None,
        /// Standard deviation of the weight at the start; unless given such that the vectors of a training text are as large
        /// as token embeddings, with a root mean square of 0.02.
        pub init_std: Option<f64> = None,
    }
}

/// The direction of the index.
#[derive(Module, Debug)]
pub struct Index {
    /// `[width]`.
    pub weight: Param<Tensor<1>>,
    #[module(skip)]
    config: Config,
    /// 1 over the largest number that training multiplies the weight by.
    #[module(skip)]
    unit: f64,
}

impl Configure for Config {
    type Encoding = Index;
    const KIND: &'static str = "index";
    const DESCRIPTION: &'static str = "the index itself, or its share of the length, times a learned vector";
    const SOURCE: &'static str = "the baseline of kexue.fm/archives/9675";
    const FORMULA: &'static str = "x'_m = x_m + m w, w learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("index.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: larger numbers than training showed; normalised, a denser grid");
    const LENGTHS: &'static [&'static str] = &["length"];
    const VARIANTS: &'static [&'static str] = &["normalized = true"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        self.init_std.map_or(Ok(()), |std| check_positive(section, "init_std", std))?;
        match self.length {
            Some(length) if self.normalized => check_at_least(section, "length", length, 2),
            _ => Ok(()),
        }
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Index {
        let last = dimensions.train_length.saturating_sub(1).max(1) as f64;
        let largest = if self.normalized { 1.0 } else { last };
        // The numbers 0 to `largest` have a root mean square of largest / sqrt(3).
        let std = self.init_std.unwrap_or(INIT_STD * 3.0f64.sqrt() / largest);
        let weight = init.normal("position.index.weight", [dimensions.width], std);
        Index { weight, config: self.clone(), unit: largest.recip() }
    }
}

impl Position for Index {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("weight", &["width"]).in_units_of(self.unit)]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { hidden_use: HiddenUse::Enters, ..Capabilities::default() }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let positions = rows.positions;
        let length = self.config.length.unwrap_or_else(|| positions.length());
        let divisor = if self.config.normalized { length.saturating_sub(1).max(1) as f64 } else { 1.0 };
        let places: Vec<f64> = positions.values().iter().map(|m| m / divisor).collect();
        let places = upload(&places, &hidden.device()).reshape([positions.rows(), positions.length(), 1]);
        hidden + places * self.weight.val().unsqueeze::<3>()
    }

    fn interpolates(&self) -> bool {
        !self.config.normalized
    }

    fn prepare(&mut self, text: &Positions) {
        self.config.length.get_or_insert(text.length());
    }
}
