//! Kind `frequency`: angular frequencies after an extension, and the factor on cos and sin.

use crate::build::{dimensions, reading};
use crate::file::Case;
use longwave_position::reading::LogN;
use longwave_position::{ExtensionConfig, Lengths, Position};

/// Keys of the file that are the model's, not the extension's.
const MODEL_KEYS: [&str; 3] = ["d", "base", "L"];

/// Checks one case of a file; the file's name is the extension's kind.
pub fn check(name: &str, case: &Case) {
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let rope = toml::toml! { kind = "rope" };
    let mut rope = rope.clone();
    rope.insert("base".to_owned(), toml::Value::Float(case.f64("base")));
    let rope = reading(&toml::Value::Table(rope), &dimensions(1, dim, dim), LogN::Off);
    let mut not_ours = MODEL_KEYS.to_vec();
    if name == "direct" {
        // The scale is what `direct` ignores.
        not_ours.push("scale");
    }
    let config = crate::build::config(name, &case.config, &not_ours);
    let extension = ExtensionConfig::from_value(&config, "extend").unwrap_or_else(|error| panic!("{error}"));
    let length =
        case.config.get("length").and_then(serde_json::Value::as_u64).unwrap_or(train as u64) as usize;
    let reading = extension.apply(&rope, Lengths { train, length }).unwrap_or_else(|error| panic!("{error}"));
    let frequencies = reading.encodings()[0].frequencies().expect("frequencies");
    let mut outputs = case.outputs();
    outputs.compare_f64("theta", &frequencies.inv_freq);
    outputs.compare_f64("attention_factor", &[frequencies.attention_factor]);
    if outputs.has("base") {
        outputs.compare_f64("base", &[frequencies.base]);
    }
    outputs.done();
}
