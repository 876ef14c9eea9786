//! Labels of extensions: the kind, and what tells one from others of its kind.

use longwave_position::ExtensionConfig;
use serde_json::{Map, Value};

/// The keys in which some of the configs differ, in their order.
pub fn differing_keys(configs: &[Value]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for config in configs {
        for key in config.as_object().into_iter().flat_map(Map::keys) {
            if !keys.contains(key) && configs.iter().any(|other| other.get(key) != config.get(key)) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

pub fn assigned(key: &str, value: &Value) -> String {
    format!("{key} = {}", shown(value))
}

/// A value in a label; a long list by its ends.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.len() > 4 => {
            format!("[{}, .., {}]", items[0], items[items.len() - 1])
        }
        other => other.to_string(),
    }
}

/// The label of a kind: the keys that are given, with their values, stand in parentheses.
pub fn labelled(kind: &str, assigned: &[String]) -> String {
    if assigned.is_empty() { kind.to_owned() } else { format!("{kind} ({})", assigned.join(", ")) }
}

/// A label for each of some extensions: its kind, with the keys in which it differs from others of that kind.
pub fn labels(extensions: &[ExtensionConfig]) -> Vec<String> {
    // An extension without a JSON form is an error when it is measured.
    let configs = |kind: &str| -> Vec<Value> {
        let alike = extensions.iter().filter(|other| other.kind() == kind);
        alike.map(|one| serde_json::to_value(one).unwrap_or_default()).collect()
    };
    let label = |one: &ExtensionConfig| {
        let config = serde_json::to_value(one).unwrap_or_default();
        let differing = differing_keys(&configs(one.kind()));
        let given = differing.iter().filter_map(|key| Some(assigned(key, config.get(key)?)));
        labelled(one.kind(), &given.collect::<Vec<_>>())
    };
    extensions.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn extensions_of_one_kind_are_told_apart() {
        let bands = |keep: f64| {
            let keys =
                toml::Table::from_iter([("kind".into(), "bands".into()), ("keep".into(), keep.into())]);
            ExtensionConfig::from_value(&toml::Value::Table(keys), "extend").unwrap()
        };
        let direct = ExtensionConfig::from_value(&"direct".into(), "extend").unwrap();
        let extensions = [bands(0.25), direct, bands(0.5)];
        assert_eq!(labels(&extensions), ["bands (keep = 0.25)", "direct", "bands (keep = 0.5)"]);
        assert_eq!(labels(&extensions[..2]), ["bands", "direct"]);
    }

    #[test]
    fn a_key_that_one_leaves_out_differs() {
        assert_eq!(differing_keys(&[json!({ "a": 1, "b": 2 }), json!({ "a": 1 })]), ["b"]);
    }
}
