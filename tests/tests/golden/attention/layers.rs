//! A stack of rotary layers with and without windows, of which an extension changes some.

use crate::build::{applied, dimensions, reading, rope, with_key};
use crate::file::Case;
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, Lengths, Reading};
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
    let reading = applied(keys, &stack, lengths).unwrap();
    // What every extension takes, by itself: `yarn` has a temperature of its own.
    let mut common = selected;
    common.insert("kind".to_owned(), "direct".into());
    common.insert("temperature".to_owned(), (1.0 / case.f64("logit_scale")).into());
    if case.text("log_n") == "posthoc"
        && let Ok(scaled) = applied(with_key(common.clone().into(), "log_n", true), &reading, lengths)
    {
        return scaled;
    }
    // An extension refuses log-n where none of its layers sees more than L tokens: the logits have no factor there.
    applied(common, &reading, lengths).unwrap()
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
        let rope = rope(case, case.f64("base"));
        if let Some(window) = window.as_i64() { with_key(rope, "window", window) } else { rope }
    };
    let layers: Vec<Value> = entries.iter().map(entry).collect();
    let position = toml::toml! { kind = "mixed" layers = layers pattern = pattern };
    let sizes = Dimensions {
        layers: windows.len(),
        train_length: case.usize("L"),
        ..dimensions(heads, dim, heads * dim)
    };
    reading(&position.into(), &sizes, LogN::Off)
}

fn toml_of(case: &Case, key: &str) -> Value {
    Value::try_from(&case.config[key]).unwrap()
}
