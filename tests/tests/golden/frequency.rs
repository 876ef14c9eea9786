//! Kind `frequency`: angular frequencies after an extension, and the factor on cos and sin.

use crate::build::{applied, dimensions};
use crate::file::{Case, Outputs};
use burn::tensor::Device;
use longwave_position::extensions::clip::Clip;
use longwave_position::frequency::Frequencies;
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, Init, Lengths, PositionConfig, Reading};
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
    match name {
        "clip" => check_clip(case),
        "evq_cosh" => check_spacing(case),
        "rope_id" => check_both_ends(case),
        "rope_length_base" => check_length_as_base(case),
        name => check_reading(name, case, &[], &[]),
    }
}

/// `RoPE` with these keys, trained on texts of the case's L, where lengths in the keys are multiples of it.
fn rope(case: &Case, keys: toml::Table) -> Reading {
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let mut rope = toml::toml! { kind = "rope" };
    rope.extend(keys);
    let config = PositionConfig::for_length(&Value::Table(rope), "position", train);
    let sizes = Dimensions { train_length: train, ..dimensions(1, dim, dim) };
    config
        .and_then(|config| config.build("position", &sizes, &Init::new(0, &Device::flex()), LogN::Off))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Those of a case's keys that are given, under the names of ours.
fn given(case: &Case, keys: &[&str]) -> toml::Table {
    let given = keys.iter().filter(|key| !case.config[**key].is_null());
    given.map(|key| ((*key).to_owned(), Value::try_from(&case.config[*key]).unwrap())).collect()
}

/// Reads as an extension does, in a text of so many tokens.
fn extended(reading: &Reading, extension: impl Into<Value>, train: usize, length: usize) -> Reading {
    applied(extension, reading, Lengths { train, length }).unwrap()
}

fn frequencies(reading: &Reading) -> &Frequencies {
    reading.encodings()[0].frequencies().expect("frequencies")
}

/// Clipping comes last, on the frequencies that another extension left.
fn check_clip(case: &Case) {
    let train = case.usize("L");
    let of_clip = ["bands", "soft"];
    let before = {
        let rope = rope(case, given(case, &["base"]));
        extended(&rope, extension(case.text("extend"), case, &of_clip, &[]), train, train)
    };
    let keys = given(case, &of_clip);
    let clip: Clip = Value::Table(keys.clone()).try_into().unwrap();
    let mut clipping = toml::toml! { kind = "clip" };
    clipping.extend(keys);
    let after = extended(&before, clipping, train, train);
    let mut outputs = case.outputs();
    let (old, new) = (frequencies(&before), frequencies(&after));
    let weights: Vec<f64> = new.inv_freq.iter().zip(&old.inv_freq).map(|(new, old)| new / old).collect();
    outputs.compare_f64("weights", &weights);
    outputs.compare_f64("clipped", &[clip.clipped(old, train) as f64]);
    compare(case, &after, outputs, &[]);
}

/// A base that is a length, or that follows from how often the slowest band turns; longer texts are read by Su's first base conversion.
fn check_length_as_base(case: &Case) {
    let train = case.usize("L");
    let rope = rope(case, given(case, &["base", "slowest_turns"]));
    let scale = case.f64("scale");
    let read = extended(&rope, toml::toml! { kind = "su_ntk_old" scale = scale }, train, train);
    compare(case, &read, case.outputs(), &["base", "turns"]);
}

/// Bands between two ends; longer texts are read with `YaRN`'s factor on the logits.
fn check_both_ends(case: &Case) {
    let (train, scale) = (case.usize("L"), case.f64("scale"));
    let rope = rope(case, given(case, &["p", "fastest", "slowest_turns", "layout"]));
    let mut factor = toml::toml! { kind = "formula" inv_freq = "f" logit_scale = "(0.1 * log(s) + 1)^2" };
    if scale >= 1.0 {
        factor.insert("scale".to_owned(), Value::Float(scale));
    }
    let read = extended(&rope, factor, train, (scale * train as f64) as usize);
    compare(case, &read, case.outputs(), &["bands"]);
}

fn check_spacing(case: &Case) {
    let mut keys = given(case, &["base", "tau"]);
    keys.insert("spacing".to_owned(), "cosh".into());
    let mut outputs = case.outputs();
    let tau = outputs.take("tau").data[0];
    // What "auto" is, given as a number.
    let mut told = keys.clone();
    told.insert("tau".to_owned(), Value::Float(tau));
    let (read, told) = (rope(case, keys), rope(case, told));
    for (one, other) in frequencies(&read).inv_freq.iter().zip(&frequencies(&told).inv_freq) {
        assert!((one / other - 1.0).abs() < 1e-9, "tau: {one} and {other}");
    }
    compare(case, &read, outputs, &["phi"]);
}

/// The keys of a case as they stand in a `config.json` of another program.
fn check_rope_parameters(case: &Case) {
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
    let (rope, train) = (rope(case, given(case, &["base"])), case.usize("L"));
    compare(case, &extended(&rope, config.to_string(), train, train), case.outputs(), &[]);
}

/// The same, with keys of the model and of the extension that are true.
fn check_reading(name: &str, case: &Case, of_model: &[&str], of_extension: &[&str]) {
    let train = case.usize("L");
    let mut keys = given(case, &["base"]);
    keys.extend(of_model.iter().map(|key| ((*key).to_owned(), Value::Boolean(true))));
    let rope = rope(case, keys);
    let config = extension(name, case, &[], of_extension);
    let length = case.config.get("length").map_or(train, |_| case.usize("length"));
    compare(case, &extended(&rope, config, train, length), case.outputs(), &[]);
}

/// Compares what is left of a case's outputs with a reading's frequencies; it must list all of `must`.
fn compare(case: &Case, reading: &Reading, mut outputs: Outputs, must: &[&str]) {
    let (read, train) = (frequencies(reading), case.f64("L"));
    let theta = read.as_read();
    outputs.compare_f64("theta", &theta);
    // Where nothing is added to q.k, a temperature t is a factor 1 / sqrt(t) on cos and sin of q and k.
    let temperature = reading.layer(0).temperature.of_head(0);
    outputs.compare_f64("attention_factor", &[read.attention_factor / temperature.sqrt()]);
    let each = |of: &dyn Fn(f64) -> f64| theta.iter().map(|&f| of(f)).collect::<Vec<_>>();
    for (name, values) in [
        ("base", vec![read.base]),
        ("turns", each(&|f| train * f / TAU)),
        ("bands", vec![theta.iter().filter(|f| **f > 0.0).count() as f64]),
        ("wavelengths", each(&|f| TAU / f)),
        ("phi", each(&|f| -f.ln() / read.base.ln())),
    ] {
        if outputs.has(name) || must.contains(&name) {
            outputs.compare_f64(name, &values);
        }
    }
    if outputs.has("angles") {
        let angles: Vec<f64> = read.angles(&case.input("positions").data).collect();
        outputs.compare_f64("angles", &angles);
    }
    outputs.done();
}

/// The extension of a file's name, with the keys of a case but those of the model and `others`.
fn extension(name: &str, case: &Case, others: &[&str], flags: &[&str]) -> toml::Table {
    let (kind, key) = match name {
        "mrrope_pro" => ("mrrope", Some(("variant", "pro"))),
        "mrrope_uni" => ("mrrope", Some(("variant", "uni"))),
        "ntk_by_parts_code" => ("ntk_by_parts", Some(("ramp", "code"))),
        "ntk_by_parts_paper" => ("ntk_by_parts", Some(("ramp", "paper"))),
        "yarn_code" => ("yarn", Some(("ramp", "code"))),
        "yarn_paper" => ("yarn", Some(("ramp", "paper"))),
        name => (name, None),
    };
    let mut not_ours = [MODEL_KEYS.as_slice(), others].concat();
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
    for key in flags {
        config.insert((*key).to_owned(), Value::Boolean(true));
    }
    config
}
