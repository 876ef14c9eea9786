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
    // What transformers takes for the length before scaling where the file leaves it out. `linear` has none.
    let before = original.or_else(|| longest.filter(|_| kind != "linear"));
    let scaled_to = match before {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rotary(holder: &str, object: &Json) -> Result<Rotary> {
        let config = json!({ "max_position_embeddings": 128, "rope_theta": 1e4, holder: object });
        of_model(config.as_object().unwrap())
    }

    /// transformers 5 takes `max_position_embeddings` for `original_max_position_embeddings` where the file leaves that out.
    #[test]
    fn the_longest_text_is_that_before_scaling_where_no_other_is_said() {
        let bands = [2.0; 16];
        for object in [
            json!({ "rope_type": "yarn", "factor": 4.0 }),
            json!({ "rope_type": "longrope", "factor": 4.0, "long_factor": bands, "short_factor": bands }),
            json!({ "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0 }),
        ] {
            for (original, lengths) in [(None, (128, 512)), (Some(128), (128, 512)), (Some(32), (32, 128))] {
                let mut object = object.clone();
                if let Some(original) = original {
                    object["original_max_position_embeddings"] = json!(original);
                }
                let read = rotary("rope_scaling", &object).unwrap();
                assert_eq!(
                    (read.counts_from, read.scaled_to),
                    (Some(lengths.0), Some(lengths.1)),
                    "{object}"
                );
            }
        }
        let linear = rotary("rope_scaling", &json!({ "rope_type": "linear", "factor": 4.0 })).unwrap();
        assert_eq!((linear.counts_from, linear.scaled_to), (Some(128), Some(128)));
    }

    #[test]
    fn a_ramp_by_kind_of_layer_is_rounded() {
        let yarn = |truncate: bool| json!({ "rope_type": "yarn", "factor": 4.0, "truncate": truncate });
        let by_kind =
            |truncate: bool| rotary("rope_parameters", &json!({ "full_attention": yarn(truncate) }));
        assert!(by_kind(true).is_ok() && rotary("rope_parameters", &yarn(false)).is_ok());
        let error = by_kind(false).unwrap_err();
        assert!(error.message().contains("truncate = false") && error.hint_text().is_some(), "{error}");
    }
}
