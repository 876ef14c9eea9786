//! `radix`: the position as digits of a number.
//!
//! `digit_j(m, B) = floor(m / B^j) mod B`, j = 0 the lowest of D = `digits` digits in base `beta`
//! (kexue.fm/archives/9675: rotary embeddings are the same idea with cos and sin for digits). Read as
//! `digits_as = "rows"`, `h = x + sum_j table[j, digit_j]`, table `[digits, beta, width]`; as `"numbers"`,
//! `h = x + (digits / (beta - 1)) weights`, weights `[digits, width]`; both from N(0, 0.02). Enters once,
//! before the first block. Positions of `beta^digits` and more are rejected.
//!
//! Read directly past the training length, a digit shows values that training did not: one that was reserved, and
//! always 0 in training, is read from rows or weights that were never trained. The default of 4 digits keeps one
//! for training lengths up to 1,000. Two readings reach further with the same trained parameters, from the start or as
//! the extensions `linear` and `convert`. `variant = "interpolate"` reads u = m / s: whole
//! higher digits and a fractional lowest one; a row between the last digit and its successor lies between
//! the rows of the last digit and of 0, so that a carry is continuous. `variant = "convert"` writes m in base
//! `beta_new`; rows, and numbers with `reading = "rescaled"`, take each digit d' to the centre of its cell,
//! `clamp((d' + 1/2) beta / beta_new - 1/2, 0, beta - 1)`; `reading = "raw"` takes the number as it is.

use super::learned::INIT_STD;
use crate::prelude::*;
use crate::table::{Between, read};

/// How a position is written as digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// In the trained base.
    #[default]
    Direct,
    /// Divided by s first.
    Interpolate,
    /// In a larger base.
    Convert,
}

/// What a digit becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DigitsAs {
    /// A row of a table.
    #[default]
    Rows,
    /// A number.
    Numbers,
}

/// How the digits of a larger base are read as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DigitReading {
    /// As they are; they may pass `beta - 1`.
    Raw,
    /// Scaled into the trained range.
    #[default]
    Rescaled,
}

keys! {
    /// Keys of `kind = "radix"`.
    pub struct Config {
        /// How a position is written as digits.
        pub variant: Variant = Variant::Direct,
        /// What a digit becomes.
        pub digits_as: DigitsAs = DigitsAs::Rows,
        /// The trained base.
        pub beta: usize = 10,
        /// The number of digits; those that training lengths do not need are reserved for longer texts.
        pub digits: usize = 4,
        /// `interpolate`: positions are divided by it; at least 1.
        pub s: f64 = 1.0,
        /// `convert`: the base positions are written in, at least `beta`.
        pub beta_new: Option<usize> = None,
        /// `convert` of numbers: how the digits of the larger base are read.
        pub reading: DigitReading = DigitReading::Rescaled,
        /// Standard deviation of the rows or weights at the start; 0.02 over the root of `digits` unless given, so that
        /// their sum is as large as a token embedding.
        pub init_std: Option<f64> = None,
    }
}

/// `base^exponent`, exact where it fits f64.
fn power(base: f64, exponent: usize) -> f64 {
    std::iter::repeat_n(base, exponent).product()
}

impl Config {
    /// The base positions are written in.
    fn base(&self) -> usize {
        if self.variant == Variant::Convert { self.beta_new.unwrap_or(self.beta) } else { self.beta }
    }

    /// The least base, at least `beta`, in which a text of L' tokens needs no value of the highest digit that
    /// one of L tokens did not; where that has a single digit, the base in which L' has one.
    fn larger_base(&self, lengths: Lengths) -> usize {
        let mut top = lengths.train.saturating_sub(1);
        let mut above = 0;
        while top >= self.beta {
            top /= self.beta;
            above += 1;
        }
        if above == 0 {
            return if lengths.length > lengths.train { self.beta.max(lengths.length) } else { self.beta };
        }
        let mut base = self.beta;
        while power(base as f64, above) * (top as f64 + 1.0) < lengths.length as f64 {
            base += 1;
        }
        base
    }

    /// The first position that has no digits.
    fn reach(&self) -> f64 {
        power(self.base() as f64, self.digits)
            * if self.variant == Variant::Interpolate { self.s } else { 1.0 }
    }

    /// The digits of a position, lowest first, as they are read: fractional where interpolated.
    pub fn coordinates(&self, position: f64) -> Vec<f64> {
        let base = self.base() as f64;
        let at = if self.variant == Variant::Interpolate { position / self.s } else { position };
        let whole = at.floor();
        let digit = |j: usize| (whole / power(base, j)).floor().rem_euclid(base);
        let mut digits: Vec<f64> = (0..self.digits).map(digit).collect();
        match self.variant {
            Variant::Direct | Variant::Interpolate => digits[0] += at - whole,
            Variant::Convert if self.digits_as == DigitsAs::Numbers && self.reading == DigitReading::Raw => {}
            Variant::Convert => {
                let beta = self.beta as f64;
                for digit in &mut digits {
                    *digit = ((*digit + 0.5) * beta / base - 0.5).clamp(0.0, beta - 1.0);
                }
            }
        }
        digits
    }
}

/// The parameters of the digits.
#[derive(Module, Debug)]
pub struct Radix {
    /// `[digits, beta, width]`, for rows.
    pub table: Option<Param<Tensor<3>>>,
    /// `[digits, width]`, for numbers.
    pub weights: Option<Param<Tensor<2>>>,
    #[module(skip)]
    config: Config,
}

impl Configure for Config {
    type Encoding = Radix;
    const KIND: &'static str = "radix";
    const DESCRIPTION: &'static str = "the digits of the position, as rows of tables or as numbers";
    const SOURCE: &'static str = "kexue.fm/archives/9675";
    const FORMULA: &'static str = "x'_m = x_m + Σ_{j=0}^{3} e_{j,δ_j(m)}, e learned\n\
        δ_j(m) = ⌊m / b^j⌋ mod b, b = 10";
    const PYTORCH: Option<&'static str> = Some(include_str!("radix.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported(
        "defined up to `beta^digits`, with digits that training saw only as 0; `convert` needs none",
    );
    const VARIANTS: &'static [&'static str] = &["digits_as = 'numbers'\nbeta = 3"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "beta", self.beta, 2)?;
        check_at_least(section, "digits", self.digits, 1)?;
        self.init_std.map_or(Ok(()), |std| check_positive(section, "init_std", std))?;
        if !(self.s.is_finite() && self.s >= 1.0) {
            return Err(Error::value(&format!("{section}.s"), self.s, "it must be a number of at least 1"));
        }
        let interpolates = self.variant == Variant::Interpolate;
        let unread = (!interpolates && self.s > 1.0).then(|| self.s.to_string());
        check_without(section, "s", unread, "variant = \"interpolate\"")?;
        let convert = "variant = \"convert\"";
        if self.variant != Variant::Convert {
            check_without(section, "beta_new", self.beta_new.map(|base| base.to_string()), convert)?;
            let raw = self.reading == DigitReading::Raw;
            check_without(section, "reading", raw.then(|| "\"raw\"".to_owned()), convert)?;
        }
        match (self.variant, self.beta_new) {
            (Variant::Convert, None) => {
                return Err(Error::usage(format!("`{section}.beta_new` is missing"))
                    .hint("`variant = \"convert\"` writes positions in a base of at least `beta`"));
            }
            (_, Some(base)) => check_at_least(section, "beta_new", base, self.beta)?,
            _ => {}
        }
        let raw = self.variant == Variant::Convert && self.reading == DigitReading::Raw;
        if raw && self.digits_as == DigitsAs::Rows {
            return Err(raw_rows(&format!("{section}.reading"), self.beta));
        }
        if self.reach() < dimensions.train_length as f64 {
            return Err(Error::value(
                &format!("{section}.digits"),
                self.digits,
                format!(
                    "base {} with so many digits ends at {}, before `train.length = {}`",
                    self.base(),
                    self.reach(),
                    dimensions.train_length
                ),
            )
            .hint("use more digits, or a larger base"));
        }
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Radix {
        let (digits, width) = (self.digits, dimensions.width);
        let rows = self.digits_as == DigitsAs::Rows;
        let std = self.init_std.unwrap_or(INIT_STD / (digits as f64).sqrt());
        Radix {
            table: rows.then(|| init.normal("position.radix.table", [digits, self.beta, width], std)),
            weights: (!rows).then(|| init.normal("position.radix.weights", [digits, width], std)),
            config: self.clone(),
        }
    }
}

/// Digits of a larger base have no rows of their own.
fn raw_rows(key: &str, beta: usize) -> Error {
    Error::value(
        key,
        "\"raw\"",
        format!("digits are rows of tables here, and there are none for {beta} and above"),
    )
    .hint("take \"rescaled\", or train with `position.digits_as = \"numbers\"`")
}

impl Radix {
    /// Reads positions in a larger base with the trained rows or weights; see
    /// [`convert`](crate::extensions::convert).
    pub fn convert(
        &mut self,
        base: Option<usize>,
        reading: DigitReading,
        divided: bool,
        lengths: Lengths,
    ) -> Result<()> {
        let Config { variant, digits_as, beta, .. } = self.config;
        if divided {
            return Err(Error::usage(
                "`convert` reads whole positions, and a stage of the training has divided them",
            )
            .hint("leave `convert` out of `extend`: `direct` reads as last trained"));
        }
        if variant != Variant::Direct {
            return Err(Error::usage("`radix` was trained with positions that are not read directly")
                .hint("convert models with `position.variant = \"direct\"`"));
        }
        if digits_as == DigitsAs::Rows && reading == DigitReading::Raw {
            return Err(raw_rows("reading", beta));
        }
        let base = base.unwrap_or_else(|| self.config.larger_base(lengths));
        if base < beta {
            return Err(Error::value(
                "beta_new",
                base,
                format!("it must be at least the trained base, {beta}"),
            )
            .hint("leave it out for the least base that the length needs"));
        }
        if base > beta {
            self.config.variant = Variant::Convert;
            self.config.beta_new = Some(base);
            self.config.reading = reading;
        }
        Ok(())
    }

    /// The keys as it is read, which extensions change.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The digits of every position as they are read, `[positions, digits]` row-major.
    pub fn coordinates(&self, positions: &Positions) -> Vec<f64> {
        positions.values().iter().flat_map(|&m| self.config.coordinates(m)).collect()
    }

    /// The vectors of all positions, `[positions, width]`.
    fn vectors(&self, positions: &Positions) -> Option<Tensor<2>> {
        let Config { beta, digits, .. } = self.config;
        let read_at = self.coordinates(positions);
        if let Some(weights) = &self.weights {
            let shares: Vec<f64> = read_at.iter().map(|digit| digit / (beta as f64 - 1.0)).collect();
            let shares = upload(&shares, &weights.device()).reshape([positions.values().len(), digits]);
            return Some(shares.matmul(weights.val()));
        }
        let table = self.table.as_ref()?;
        let width = table.dims()[2];
        // A digit past the last lies on the way back to 0.
        let place = |j: usize, digit: f64| {
            let low = digit.floor() as usize;
            Between { low: j * beta + low, high: j * beta + (low + 1) % beta, share: digit.fract() }
        };
        let places: Vec<Between> = read_at
            .chunks(digits)
            .flat_map(|row| row.iter().enumerate().map(|(j, &d)| place(j, d)))
            .collect();
        let rows = read(table.val().reshape([digits * beta, width]), &places);
        Some(rows.reshape([positions.values().len(), digits, width]).sum_dim(1).squeeze_dim::<2>(1))
    }
}

impl Position for Radix {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let table =
            self.table.as_ref().map(|_| ParameterSpec::decayed("table", &["digits", "beta", "width"]));
        let weights = self.weights.as_ref().map(|_| ParameterSpec::decayed("weights", &["digits", "width"]));
        table.into_iter().chain(weights).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { hidden_use: HiddenUse::Enters, ..Capabilities::default() }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let [_, _, width] = hidden.dims();
        match self.vectors(rows.positions) {
            Some(vectors) => {
                hidden + vectors.reshape([rows.positions.rows(), rows.positions.length(), width])
            }
            None => hidden,
        }
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        let reach = self.config.reach() * positions.scale();
        if let Some(largest) = positions.largest().filter(|&largest| largest >= reach) {
            return Err(Error::usage(format!(
                "`radix` has no digits for position {largest}: {} of base {} end at {reach}",
                self.config.digits,
                self.config.base()
            ))
            .hint(
                "evaluate shorter lengths, read it interpolated or in a larger base (`extend = [\"linear\", \
                 \"convert\"]`), or train with more digits",
            ));
        }
        let fractional = positions.in_text().iter().find(|m| m.fract() != 0.0);
        let divides = self.config.variant == Variant::Interpolate || positions.scale() > 1.0;
        match fractional.filter(|_| !divides) {
            Some(position) => {
                Err(Error::usage(format!("`radix` has no digits for the fractional position {position}"))
                    .hint("use whole positions, or `variant = \"interpolate\"`"))
            }
            None => Ok(()),
        }
    }

    /// Only from the trained base: a converted position has no interpolation.
    fn interpolates(&self) -> bool {
        self.config.variant != Variant::Convert
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        let pairs = positions.in_text().iter().zip(positions.values());
        let rows = pairs.map(|(&m, &read)| [vec![m], self.config.coordinates(read)].concat());
        // The lowest digit comes first.
        let names: Vec<String> = (0..self.config.digits).map(|j| format!("digit {j}")).collect();
        let columns: Vec<&str> =
            std::iter::once("position").chain(names.iter().map(String::as_str)).collect();
        vec![Summary::new("digits as they are read, the lowest first", &columns, rows.collect())]
    }
}

#[cfg(test)]
mod tests;
