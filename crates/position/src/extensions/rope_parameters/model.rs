//! What a `config.json` says of the rotations of a model that is imported.

use super::{BASE, LONGEST, ORIGINAL, SHARE, Source, as_number, own_names, without_nulls};
use crate::extensions::ExtensionConfig;
use longwave_core::{Error, Result};
use serde_json::{Map, Value as Json};

#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the frequencies.
    pub base: Option<f64>,
    /// The share of rotated channels.
    pub share: Option<f64>,
    /// The length in tokens that the scaling counts from: the one before scaling, or else the longest text.
    pub counts_from: Option<usize>,
    /// The length in tokens after scaling: the longest text, or where that is no longer than the one before, `factor` times it.
    pub scaled_to: Option<usize>,
    pub scaling: Option<ExtensionConfig>,
}

/// Reads the [`FIELDS`](super::FIELDS) of a whole `config.json`.
pub fn of_model(config: &Map<String, Json>) -> Result<Rotary> {
    let source = Source::of_config(config, "")?.unwrap_or_else(|| Source {
        section: String::new(),
        keys: Map::new(),
        around: without_nulls(config),
        by_kind: false,
        own: own_names(config),
    });
    let (base, share) = (source.base()?, source.share()?);
    let (original, longest) = (source.tokens(&ORIGINAL)?, source.tokens(&LONGEST)?);
    let kind = source.kind()?;
    if kind == "default" {
        source.in_our_keys()?;
        return Ok(Rotary { base, share, counts_from: longest, scaled_to: longest, scaling: None });
    }
    let scaling = Some(source.extension()?.1);
    if kind == "dynamic" {
        return Ok(Rotary { base, share, counts_from: longest.or(original), scaled_to: longest, scaling });
    }
    let scaled_to = match original {
        Some(original) if longest.is_none_or(|longest| longest <= original) => {
            Some((source.factor(kind)? * original as f64).round() as usize)
        }
        _ => longest,
    };
    Ok(Rotary { base, share, counts_from: original.or(longest), scaled_to, scaling })
}

/// Checks that names of base and share which the architecture of a `config.json` does not read say what it reads.
pub fn check_names(config: &Map<String, Json>, base: f64, share: f64) -> Result<()> {
    let Some(own) = own_names(config) else { return Ok(()) };
    for (names, read) in [(BASE, base), (SHARE, share)] {
        let (own, other) = (names[own], names[1 - own]);
        let Some(value) = config.get(other).filter(|value| !value.is_null()) else { continue };
        if as_number(other, value)?.to_bits() != read.to_bits() {
            let kind = config.get("model_type").and_then(Json::as_str).unwrap_or_default();
            return Err(Error::value(
                other,
                value,
                format!("a `{kind}` reads `{own}` in its place, here {read}"),
            )
            .hint(format!(
                "write what the model was trained with as `{own}`, as its authors say, and take `{other}` out"
            )));
        }
    }
    Ok(())
}
