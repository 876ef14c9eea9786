//! An extension of ours as the `rope_parameters` with which transformers 5 reads every length the same way.

use super::{rope_type, translated};
use crate::extension::Lengths;
use crate::extensions::ExtensionConfig;
use crate::frequency::Frequencies;
use crate::layout::TextLayout;
use crate::reading::{LayerReading, Reading};
use longwave_core::{Error, Result};
use serde_json::{Map, Value as Json, json};
use toml::Value;

/// What a `config.json` says of a scaled model.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub parameters: Map<String, Json>,
    /// `max_position_embeddings`: the longest text in tokens. For `dynamic` it is L, from which that scaling counts.
    pub longest: usize,
}

/// When an extension is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// For the length of each text: a reading.
    ToEachText,
    /// Once, for `lengths.length`: a `[[stage]]`, whose model reads texts of every length so.
    Once,
}

/// The object for an extension of the model that `trained` reads, whose only encoding is `rope`. A scale that follows the length
/// is fixed at that of `lengths.length`, the longest text: `rope_parameters` know one scale.
///
/// `direct`, `linear`, `dynamic_ntk`, `yarn`, `llama3` and `longrope` have a `rope_type` each. Any other extension that changes
/// frequencies, and nothing else, is written as `longrope` with the factor of every band.
pub fn written(
    extend: &ExtensionConfig,
    trained: &Reading,
    lengths: Lengths,
    applied: Applied,
) -> Result<Written> {
    let fixed = with_fixed_scale(extend, lengths)?;
    let ours = Spectra::new(&fixed, trained, lengths, applied)?;
    for parameters in named(&fixed, trained, lengths).into_iter().chain(by_band(&ours, trained, lengths)) {
        let same = read_back(&parameters)
            .and_then(|theirs| Spectra::new(&theirs, trained, lengths, Applied::ToEachText));
        if ours.longest().is_some() && same.is_ok_and(|theirs| theirs.equal(&ours)) {
            let dynamic = rope_type(&parameters).is_some_and(|kind| kind == "dynamic");
            return Ok(Written { parameters, longest: if dynamic { lengths.train } else { lengths.length } });
        }
    }
    Err(Error::usage(format!("`{}` cannot be written as `rope_parameters`", extend.kind())).hint(
        "they scale the frequencies of all layers by one rule for every length; no windows, distances, log-n, temperatures, \
         rounded wavelengths or single layers",
    ))
}

/// The extension with the scale of the longest text in place of `"auto"`.
fn with_fixed_scale(extend: &ExtensionConfig, lengths: Lengths) -> Result<ExtensionConfig> {
    let mut keys = longwave_core::written::toml_table("an extension", extend)?;
    if keys.get("scale").and_then(Value::as_str) == Some("auto") {
        keys.insert("scale".to_owned(), lengths.scale().into());
    }
    ExtensionConfig::from_value(&Value::Table(keys), "extend")
}

/// The extension that other programs' object stands for.
fn read_back(parameters: &Map<String, Json>) -> Result<ExtensionConfig> {
    let text = Value::String(Json::Object(parameters.clone()).to_string());
    ExtensionConfig::from_value(&*translated(&text, "rope_parameters")?, "rope_parameters")
}

/// The frequencies of a model at several lengths, and everything else that a layer's reading has.
struct Spectra(Vec<(Vec<Frequencies>, Vec<LayerReading>, TextLayout)>);

impl Spectra {
    /// At one token, at L, just above it, at the longest text, and at twice that.
    fn new(extend: &ExtensionConfig, trained: &Reading, lengths: Lengths, applied: Applied) -> Result<Self> {
        let Lengths { train, length } = lengths;
        let read = |text| {
            let length = if applied == Applied::Once { length } else { text };
            let read = extend.apply(trained, Lengths { train, length })?;
            let frequencies = read.encodings().iter().filter_map(|encoding| encoding.frequencies().cloned());
            Ok((frequencies.collect(), read.layers().to_vec(), read.layout()))
        };
        [1, train, train + 1, length, 2 * length].into_iter().map(read).collect::<Result<_>>().map(Self)
    }

    fn longest(&self) -> Option<&Frequencies> {
        self.0[3].0.first()
    }

    /// Whether f32 cannot tell them apart.
    fn equal(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        let same = |a: &Frequencies, b: &Frequencies| {
            near(a.attention_factor, b.attention_factor)
                && a.start == b.start
                && a.resonance == b.resonance
                && a.inv_freq.len() == b.inv_freq.len()
                && a.inv_freq.iter().zip(&b.inv_freq).all(|(&a, &b)| near(a, b))
        };
        self.0.iter().zip(&other.0).all(|((ours, layers, layout), (theirs, others, of_theirs))| {
            (layers, layout) == (others, of_theirs)
                && ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        })
    }
}

/// The object whose `rope_type` has the extension's rule, if one has.
fn named(extend: &ExtensionConfig, trained: &Reading, lengths: Lengths) -> Option<Map<String, Json>> {
    let Ok(Json::Object(mut keys)) = serde_json::to_value(extend) else { return None };
    let mut key = |name: &str| keys.remove(name).unwrap_or_default();
    let (rope_type, more) = match extend.kind() {
        "direct" => ("default", json!({})),
        "linear" => ("linear", json!({ "factor": key("scale") })),
        "dynamic_ntk" => ("dynamic", json!({ "factor": key("factor") })),
        "yarn" => {
            let read = extend.apply(trained, lengths).ok()?;
            let factor =
                read.encodings().iter().find_map(|encoding| Some(encoding.frequencies()?.attention_factor));
            let more = json!({
                "factor": key("scale"), "attention_factor": factor, "beta_fast": key("beta"), "beta_slow": key("alpha"),
                "truncate": key("truncate"),
            });
            ("yarn", more)
        }
        "llama3" => {
            let [low, high] = ["low_freq_factor", "high_freq_factor"];
            ("llama3", json!({ "factor": key("scale"), low: key(low), high: key(high) }))
        }
        _ => return None,
    };
    Some(object(rope_type, more, trained, lengths))
}

/// `longrope` with a factor for every band, the same at every length.
fn by_band(ours: &Spectra, trained: &Reading, lengths: Lengths) -> Option<Map<String, Json>> {
    let before = trained.encodings().iter().find_map(|encoding| encoding.frequencies())?;
    let short = ours.0[1].0.first()?;
    let long = ours.longest()?;
    let factors = |changed: &Frequencies| {
        let pairs = before.inv_freq.iter().zip(&changed.inv_freq);
        pairs.map(|(before, changed)| before / changed).collect::<Vec<f64>>()
    };
    let more = json!({
        "factor": lengths.scale(), "long_factor": factors(long), "short_factor": factors(short),
        "attention_factor": long.attention_factor / before.attention_factor,
    });
    Some(object("longrope", more, trained, lengths))
}

fn object(rope_type: &str, more: Json, trained: &Reading, lengths: Lengths) -> Map<String, Json> {
    let base = trained.encodings().iter().find_map(|encoding| Some(encoding.frequencies()?.base));
    let mut object = Map::new();
    object.insert("rope_type".to_owned(), rope_type.into());
    object.insert("rope_theta".to_owned(), json!(base));
    if !matches!(rope_type, "default" | "linear") {
        object.insert("original_max_position_embeddings".to_owned(), lengths.train.into());
    }
    if let Json::Object(more) = more {
        object.extend(more);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::LogN;
    use crate::testing::{dimensions, extension, reading};

    const LENGTHS: Lengths = Lengths { train: 128, length: 512 };

    fn rope() -> Reading {
        let sizes = crate::Dimensions { head_dim: 16, train_length: 128, ..dimensions() };
        reading("'rope'", &sizes, LogN::Off).unwrap()
    }

    fn write(text: &str) -> Result<Written> {
        written(&extension(text).unwrap(), &rope(), LENGTHS, Applied::ToEachText)
    }

    #[test]
    fn every_rope_type_is_written_by_its_name() {
        for (ours, theirs, longest) in [
            ("'direct'", json!({ "rope_type": "default" }), 512),
            ("'linear'", json!({ "rope_type": "linear", "factor": 4.0 }), 512),
            ("{ kind = 'linear', scale = 8.0 }", json!({ "rope_type": "linear", "factor": 8.0 }), 512),
            ("{ kind = 'dynamic_ntk', factor = 2.0 }", json!({ "rope_type": "dynamic", "factor": 2.0 }), 128),
            (
                "{ kind = 'yarn', beta = 16.0, mscale_all_dim = 1.0 }",
                json!({ "rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0, "beta_fast": 16.0,
                        "beta_slow": 1.0, "truncate": true }),
                512,
            ),
            (
                "'llama3'",
                json!({ "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0 }),
                512,
            ),
        ] {
            let found = write(ours).unwrap_or_else(|error| panic!("{ours}: {error}"));
            let mut expected = theirs.as_object().unwrap().clone();
            expected.insert("rope_theta".to_owned(), json!(10000.0));
            if !["default", "linear"].contains(&theirs["rope_type"].as_str().unwrap()) {
                expected.insert("original_max_position_embeddings".to_owned(), json!(128));
            }
            assert_eq!((found.parameters, found.longest), (expected, longest), "{ours}");
        }
    }

    #[test]
    fn other_frequencies_are_written_band_by_band() {
        for ours in [
            "'ntk'",
            "'su_ntk_mixed'",
            "{ kind = 'yarn', ramp = 'paper' }",
            "{ kind = 'abf', new_base = 1e6 }",
            "{ kind = 'longrope', long_factor = [1.0, 1.0, 1.0, 1.5, 2.0, 2.0, 4.0, 4.0], attention_factor = 1.1 }",
        ] {
            let Written { parameters, longest } =
                write(ours).unwrap_or_else(|error| panic!("{ours}: {error}"));
            assert_eq!((&parameters["rope_type"], longest), (&json!("longrope"), 512), "{ours}");
            let read = extension(ours).unwrap().apply(&rope(), LENGTHS).unwrap();
            let frequencies = read.encodings()[0].frequencies().unwrap();
            let factors = parameters["long_factor"].as_array().unwrap();
            assert_eq!(factors.len(), 8);
            for (band, factor) in factors.iter().enumerate() {
                let theirs = 1e4f64.powf(-(band as f64) / 8.0) / factor.as_f64().unwrap();
                assert!((theirs / frequencies.inv_freq[band] - 1.0).abs() < 1e-9, "{ours}, band {band}");
            }
        }
    }

    #[test]
    fn what_is_no_scaling_of_frequencies_is_rejected() {
        for ours in [
            "{ kind = 'rerope', window = 'L/2' }",
            "{ kind = 'window', window = 'L' }",
            "{ kind = 'yarn', temperature = 0.8 }",
            "{ kind = 'linear', log_n = true }",
            "{ kind = 'linear', resonance = true }",
            "{ kind = 'linear', layers = [0] }",
            // The first positions are read otherwise.
            "{ kind = 'longrope', n_hat = 4, long_factor = [1.0, 1.0, 1.0, 1.5, 2.0, 2.0, 4.0, 4.0] }",
            // One rule below L and another above it.
            "'drop'",
            // Texts are laid out otherwise, with the same frequencies.
            "'segments'",
            "'randpos'",
            "{ kind = 'float' }",
        ] {
            let error = write(ours).expect_err(ours);
            assert!(
                error.message().contains("`rope_parameters`") && error.hint_text().is_some(),
                "{ours}: {error}"
            );
        }
    }

    /// A model that a stage trained at 4L reads every text as that stage left it.
    #[test]
    fn an_extension_that_a_stage_applied_is_written_as_it_stands() {
        for kind in ["'dynamic_ntk'", "{ kind = 'dynamic_ntk', factor = 4.0 }", "'ntk'"] {
            let found =
                written(&extension(kind).unwrap(), &rope(), LENGTHS, Applied::Once).unwrap().parameters;
            assert_eq!(found["rope_type"], "longrope", "{kind}");
            assert_eq!(found["short_factor"], found["long_factor"], "{kind}");
            let read = extension(kind).unwrap().apply(&rope(), LENGTHS).unwrap();
            let slowest = read.encodings()[0].frequencies().unwrap().inv_freq[7];
            let factor = found["long_factor"][7].as_f64().unwrap();
            assert!((1e4f64.powf(-7.0 / 8.0) / factor / slowest - 1.0).abs() < 1e-9, "{kind}: {factor}");
        }
        let found =
            written(&extension("'yarn'").unwrap(), &rope(), LENGTHS, Applied::Once).unwrap().parameters;
        assert_eq!(found["rope_type"], "yarn");
    }

    #[test]
    fn what_has_no_frequencies_is_not_written() {
        let table = reading("{ kind = 'learned', table_size = 512 }", &dimensions(), LogN::Off).unwrap();
        let linear = extension("'linear'").unwrap();
        let error = written(&linear, &table, LENGTHS, Applied::Once).unwrap_err();
        assert!(error.message().contains("`linear` cannot be written as `rope_parameters`"), "{error}");
    }
}
