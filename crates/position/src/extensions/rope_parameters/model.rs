//! What a `config.json` says of the rotations of a model that is imported.

use super::{LONGEST, ORIGINAL, Source, without_nulls};
use crate::extensions::ExtensionConfig;
use longwave_core::Result;
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
