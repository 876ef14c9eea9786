//! A stack of rotary layers with and without windows, of which an extension changes some.

use crate::build::dimensions;
use crate::file::Case;
use burn::tensor::Device;
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, ExtensionConfig, Init, Lengths, PositionConfig, Reading};
use toml::{Table, Value};

/// Keys of the extension at hand, beside those of every extension.
const OWN: [(&str, &str); 2] = [("scale", "scale"), ("rerope_window", "window")];

/// The stack of a case, extended.
pub(super) fn extended(case: &Case) -> Reading {
    let stack = stack(case);
    let lengths = Lengths { train: case.usize("L"), length: case.input("k").shape[1] };
    let selected = Table::from_iter([("layers".to_owned(), toml_of(case, "layers"))]);
    let mut keys = selected.clone();
    let kind = case.text("extend");
    keys.insert("kind".to_owned(), kind.into());
    for (name, key) in OWN {
        let taken = match kind {
            "linear" | "yarn" => key == "scale",
            "rerope" => key == "window",
            _ => false,
        };
        if taken {
            keys.insert(key.to_owned(), toml_of(case, name));
        }
    }
    if kind == "rerope" {
        // A file states formulas, also where they read distances past L.
        keys.insert("allow_untrained".to_owned(), Value::Boolean(true));
    }
    let apply = |keys: Table, reading: &Reading| {
        ExtensionConfig::from_value(&Value::Table(keys), "extend")
            .and_then(|extension| extension.apply(reading, lengths))
    };
    let mut reading = apply(keys, &stack).unwrap_or_else(|error| panic!("{error}"));
    // What every extension takes, by itself: `yarn` has a temperature of its own.
    let mut common = selected;
    common.insert("kind".to_owned(), "direct".into());
    common.insert("temperature".to_owned(), (1.0 / case.f64("logit_scale")).into());
    let with_log_n = |mut keys: Table| {
        keys.insert("log_n".to_owned(), Value::Boolean(true));
        keys
    };
    if case.text("log_n") == "posthoc" {
        // It is refused where no selected layer sees further than L: nothing is scaled there.
        let scaled = apply(with_log_n(common.clone()), &reading);
        reading = scaled.or_else(|_| apply(common, &reading)).unwrap_or_else(|error| panic!("{error}"));
    } else {
        reading = apply(common, &reading).unwrap_or_else(|error| panic!("{error}"));
    }
    reading
}

/// `rope` in every layer, with the windows of the case; layers with one window share an encoding.
fn stack(case: &Case) -> Reading {
    let [heads, _, dim] = case.input("q").shape[..] else { panic!("q") };
    let windows = case.config["windows"].as_array().unwrap();
    let mut entries: Vec<&serde_json::Value> = Vec::new();
    let mut pattern = Vec::new();
    for window in windows {
        let entry = entries.iter().position(|other| *other == window).unwrap_or_else(|| {
            entries.push(window);
            entries.len() - 1
        });
        pattern.push(Value::Integer(entry as i64));
    }
    let entry = |window: &&serde_json::Value| {
        let mut entry = toml::toml! { kind = "rope" };
        entry.insert("layout".to_owned(), case.text("layout").into());
        entry.insert("base".to_owned(), case.f64("base").into());
        if let Some(window) = window.as_u64() {
            entry.insert("window".to_owned(), Value::Integer(window as i64));
        }
        Value::Table(entry)
    };
    let mut position = toml::toml! { kind = "mixed" };
    position.insert("layers".to_owned(), entries.iter().map(entry).collect::<Vec<_>>().into());
    position.insert("pattern".to_owned(), pattern.into());
    let sizes = Dimensions {
        layers: windows.len(),
        train_length: case.usize("L"),
        ..dimensions(heads, dim, heads * dim)
    };
    PositionConfig::from_value(&Value::Table(position), "position")
        .and_then(|config| config.build("position", &sizes, &Init::new(0, &Device::flex()), LogN::Off))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn toml_of(case: &Case, key: &str) -> Value {
    Value::try_from(&case.config[key]).unwrap()
}
