//! Kind `frequency`: angular frequencies after an extension, and the factor on cos and sin.

use crate::build::{dimensions, reading};
use crate::file::Case;
use longwave_position::reading::LogN;
use longwave_position::{ExtensionConfig, Lengths};
use std::f64::consts::TAU;
use toml::Value;

/// Keys of the file that are the model's, not the extension's.
const MODEL_KEYS: [&str; 5] = ["d", "base", "L", "length", "extend"];

/// Checks one case of a file; the file's name is the extension's kind, with a key's value behind it where
/// one kind has several files.
pub fn check(name: &str, case: &Case) {
    if name == "resonance" {
        // Trained with rounded wavelengths, and rounded by the extension alone.
        check_reading(case.text("extend"), case, &["resonance"], &[]);
        return check_reading(case.text("extend"), case, &[], &["resonance"]);
    }
    if name == "yarn_rope_parameters" {
        return check_rope_parameters(case);
    }
    check_reading(name, case, &[], &[]);
}

/// The keys of a case as they stand in a `config.json` of another program.
fn check_rope_parameters(case: &Case) {
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let key = |name: &str| case.config[name].clone();
    let config = serde_json::json!({
        "max_position_embeddings": key("max_position_embeddings"),
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": key("base"), "original_max_position_embeddings": key("L"),
            "factor": key("scale"), "attention_factor": key("attention_factor"), "mscale": key("mscale"),
            "mscale_all_dim": key("mscale_all_dim"), "beta_slow": key("alpha"), "beta_fast": key("beta"),
            "truncate": key("truncate"),
        },
    });
    let mut rope = toml::toml! { kind = "rope" };
    rope.insert("base".to_owned(), Value::Float(case.f64("base")));
    let rope = reading(&Value::Table(rope), &dimensions(1, dim, dim), LogN::Off);
    let extension = ExtensionConfig::from_value(&Value::String(config.to_string()), "extend");
    let reading = extension.and_then(|extension| extension.apply(&rope, Lengths { train, length: train }));
    let reading = reading.unwrap_or_else(|error| panic!("{error}"));
    let frequencies = reading.encodings()[0].frequencies().expect("frequencies");
    let mut outputs = case.outputs();
    outputs.compare_f64("theta", &frequencies.inv_freq);
    outputs.compare_f64("attention_factor", &[frequencies.attention_factor]);
    outputs.done();
}

/// The same, with keys of the model and of the extension that are true.
fn check_reading(name: &str, case: &Case, of_model: &[&str], of_extension: &[&str]) {
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let mut rope = toml::toml! { kind = "rope" };
    rope.insert("base".to_owned(), Value::Float(case.f64("base")));
    for key in of_model {
        rope.insert((*key).to_owned(), Value::Boolean(true));
    }
    let rope = reading(&Value::Table(rope), &dimensions(1, dim, dim), LogN::Off);
    let (kind, key) = match name {
        "mrrope_pro" => ("mrrope", Some(("variant", "pro"))),
        "mrrope_uni" => ("mrrope", Some(("variant", "uni"))),
        "ntk_by_parts_code" => ("ntk_by_parts", Some(("ramp", "code"))),
        "ntk_by_parts_paper" => ("ntk_by_parts", Some(("ramp", "paper"))),
        "yarn_code" => ("yarn", Some(("ramp", "code"))),
        "yarn_paper" => ("yarn", Some(("ramp", "paper"))),
        name => (name, None),
    };
    let mut not_ours = MODEL_KEYS.to_vec();
    if matches!(kind, "direct" | "abf") {
        // The scale is what these ignore.
        not_ours.push("scale");
    }
    let Value::Table(mut config) = crate::build::config(kind, &case.config, &not_ours) else {
        unreachable!()
    };
    if let Some((key, value)) = key {
        config.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    for key in of_extension {
        config.insert((*key).to_owned(), Value::Boolean(true));
    }
    let extension = ExtensionConfig::from_value(&Value::Table(config), "extend")
        .unwrap_or_else(|error| panic!("{error}"));
    let length = case.config.get("length").map_or(train, |_| case.usize("length"));
    let reading = extension.apply(&rope, Lengths { train, length }).unwrap_or_else(|error| panic!("{error}"));
    let frequencies = reading.encodings()[0].frequencies().expect("frequencies");
    let mut outputs = case.outputs();
    outputs.compare_f64("theta", &frequencies.as_read());
    // Where nothing is added to q.k, a temperature t is a factor 1 / sqrt(t) on cos and sin of q and k.
    let temperature = reading.layer(0).temperature.of_head(0);
    outputs.compare_f64("attention_factor", &[frequencies.attention_factor / temperature.sqrt()]);
    if outputs.has("base") {
        outputs.compare_f64("base", &[frequencies.base]);
    }
    if outputs.has("wavelengths") {
        let wavelengths: Vec<f64> = frequencies.as_read().iter().map(|f| TAU / f).collect();
        outputs.compare_f64("wavelengths", &wavelengths);
    }
    if outputs.has("angles") {
        let angles: Vec<f64> = frequencies.angles(&case.input("positions").data).collect();
        outputs.compare_f64("angles", &angles);
    }
    outputs.done();
}
