//! The configuration of an encoding: its keys, its validation and what its documentation says.

use super::Dimensions;
use crate::init::Init;
use longwave_core::{Error, Result};

/// The configuration of one encoding: what its file must say.
pub trait Configure: Sized {
    /// The encoding it builds.
    type Encoding;
    /// `position.kind` in a config.
    const KIND: &'static str;
    /// One line for the list of encodings.
    const DESCRIPTION: &'static str;
    /// Where it was published.
    const SOURCE: &'static str;
    /// What it computes with its default keys, as plain text in Unicode: at most four lines, each at most about 100
    /// characters. `_x` and `^x` are a subscript and a superscript of one character, `_{..}` and `^{..}` longer ones, which
    /// may nest. `'` marks what the encoding makes of something, or how an extension reads it. The symbols that all formulas
    /// share are listed in `longwave_inspect::typeset`; a line explains any other behind a comma, as in `c_h learned`.
    const FORMULA: &'static str;
    /// What happens past the training length, with the default keys.
    const EXTRAPOLATION: Extrapolation;
    /// Other names that `position.kind` may have; a resolved config has `KIND`.
    const ALIASES: &'static [&'static str] = &[];
    /// Keys that are lengths: in a config they may be multiples of the training length, such as `"2L"`.
    const LENGTHS: &'static [&'static str] = &[];
    /// Keys that change the formula, each in TOML: tests cover each of them.
    const VARIANTS: &'static [&'static str] = &[];
    /// What `longwave export RUN torch` writes of it: a Python class named as [`Encoding`](Self::Encoding), with the hooks of the class
    /// `Encoding` of `model.py`. None where a rotation, slopes or numbers by position or distance say all of it.
    const PYTORCH: Option<&'static str> = None;

    /// Checks the values against the model's sizes.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key below `section`.
    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        let _ = (section, dimensions);
        Ok(())
    }

    /// Builds the encoding with its initial parameters; the config is valid.
    fn build(&self, dimensions: &Dimensions, init: &Init) -> Self::Encoding;

    /// Tokens of the previous segment whose hidden states every layer also attends to. Their positions lie just before
    /// those of the segment.
    fn memory(&self) -> usize {
        0
    }

    /// The least distance at which the farthest entry of a table of distances, of their buckets or of counts of tokens is read, with
    /// the key that says so. A training whose texts do not reach it leaves entries as they were drawn.
    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        None
    }
}

/// What happens past the training length, in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extrapolation {
    /// The encoding is defined there.
    Supported(&'static str),
    /// The encoding has no value there: reading the text is an error.
    Rejected(&'static str),
}

/// A base of geometric frequencies must exceed 1.
pub(crate) fn check_base(section: &str, base: f64) -> Result<()> {
    check_above(section, "base", base, 1.0).map_err(|error| error.hint("the usual one is 10000.0"))
}

/// The width must be even; `why` goes on behind "an even width".
pub(crate) fn check_even_width(kind: &str, why: &str, dimensions: &Dimensions) -> Result<()> {
    let width = dimensions.width;
    if width.is_multiple_of(2) {
        return Ok(());
    }
    let allowed = format!("`{kind}` needs an even width{why}");
    Err(Error::value("model.width", width, allowed).hint(format!("use {}", width + 1)))
}

/// A key is given (`value`, as in TOML) that says nothing here: it needs `other`.
pub(crate) fn check_without(section: &str, key: &str, value: Option<String>, other: &str) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let allowed = format!("it has no meaning without `{other}`");
    Err(Error::value(&format!("{section}.{key}"), value, allowed)
        .hint(format!("leave it out, or give `{other}` too")))
}

/// A size must be at least `least`.
pub(crate) fn check_at_least(section: &str, key: &str, value: usize, least: usize) -> Result<()> {
    if value >= least {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.{key}"), value, format!("it must be at least {least}")))
}

/// The widest hidden layer of an encoding's network, far above the 32 units of the published ones: what a pair of
/// positions takes grows with it, where a table of as many numbers costs only memory.
const WIDEST: usize = 1 << 14;

/// The width of a network's hidden layers must be sensible.
pub(crate) fn check_hidden(section: &str, hidden: usize) -> Result<()> {
    check_at_least(section, "hidden", hidden, 1)?;
    check_at_most(section, "hidden", hidden, WIDEST)
        .map_err(|error| error.hint("published networks have 32 hidden units"))
}

/// A size must be at most `most`.
pub(crate) fn check_at_most(section: &str, key: &str, value: usize, most: usize) -> Result<()> {
    if value <= most {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.{key}"), value, format!("it must be at most {most}")))
}

/// The largest whole number among the keys at `section`, with its key; the first of several.
pub(crate) fn largest(section: &str, keys: &serde_json::Value) -> Option<(String, u64)> {
    match keys {
        serde_json::Value::Object(keys) => {
            let inner = |(key, value): (&String, _)| largest(&format!("{section}.{key}"), value);
            keys.iter().filter_map(inner).rev().max_by_key(|(_, value)| *value)
        }
        value => Some((section.to_owned(), value.as_u64()?)),
    }
}

/// A number must be above 0.
pub(crate) fn check_positive(section: &str, key: &str, value: f64) -> Result<()> {
    check_above(section, key, value, 0.0)
}

/// A number must be above `least`.
pub(crate) fn check_above(section: &str, key: &str, value: f64, least: f64) -> Result<()> {
    check_number(section, key, value, value > least, format!("above {least}"))
}

/// A number must be `least` or above.
pub(crate) fn check_not_below(section: &str, key: &str, value: f64, least: f64) -> Result<()> {
    check_number(section, key, value, value >= least, format!("of at least {least}"))
}

fn check_number(section: &str, key: &str, value: f64, holds: bool, allowed: String) -> Result<()> {
    if value.is_finite() && holds {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.{key}"), value, format!("it must be a number {allowed}")))
}
