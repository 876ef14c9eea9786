//! The JSON schema of a config, as `longwave schema` prints it and editors show it.

use crate::config::Config;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::{Value, json};

/// The schema of a config file: every key of every table with what it means and allows.
pub fn schema() -> Schema {
    let mut schema = SchemaSettings::default()
        .with_transform(RecursiveTransform(describe_kind))
        .into_generator()
        .into_root_schema_for::<Config>();
    // What is derived tells how a config is written, with every default filled in. A file needs less, and may hold no more.
    schema.insert("description".to_owned(), "A config file.".into());
    schema.insert("required".to_owned(), json!(["name", "position", "data"]));
    schema.insert("additionalProperties".to_owned(), false.into());
    if let Some(Value::Object(seed)) = schema.pointer_mut("/properties/seed") {
        seed.insert("default".to_owned(), 0.into());
    }
    schema
}

/// A `kind` means what its table is.
fn describe_kind(schema: &mut Schema) {
    let Some(summary) = schema.get("description").and_then(Value::as_str).map(str::to_owned) else { return };
    if let Some(Value::Object(kind)) = schema.pointer_mut("/properties/kind") {
        kind.entry("description").or_insert(Value::String(summary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longwave_position::encodings;
    use longwave_position::extensions;

    fn described(schema: &Value) -> bool {
        schema.get("description").and_then(Value::as_str).is_some_and(|text| text.trim().len() >= 3)
    }

    /// The paths of keys, and of named types, that nothing is said of; all keys are gathered in `keys`.
    fn silent(schema: &Value, path: &str, keys: &mut Vec<String>) -> Vec<String> {
        let mut found = Vec::new();
        match schema {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    let named = match name.as_str() {
                        "properties" | "$defs" => inner.as_object(),
                        // Values, in which anything may stand.
                        "default" | "examples" | "const" | "enum" => continue,
                        _ => None,
                    };
                    for (key, inner) in named.into_iter().flatten() {
                        let path = format!("{path}.{key}");
                        if !described(inner) {
                            found.push(path.clone());
                        }
                        keys.push(path.clone());
                        found.extend(silent(inner, &path, keys));
                    }
                    if named.is_none() {
                        found.extend(silent(inner, path, keys));
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    let kind = item.pointer("/properties/kind/const").and_then(Value::as_str);
                    let path = kind.map_or_else(|| path.to_owned(), |kind| format!("{path}[{kind}]"));
                    found.extend(silent(item, &path, keys));
                }
            }
            _ => {}
        }
        found
    }

    #[test]
    fn every_key_says_what_it_means() {
        let schema = schema().to_value();
        let mut keys = Vec::new();
        assert_eq!(silent(&schema, "", &mut keys), [""; 0]);
        // The walk has been everywhere.
        for key in [".evaluate", ".ModelConfig.width", ".TrainConfig.steps", ".EncodingConfig[t5].buckets"] {
            assert!(keys.iter().any(|known| known == key), "{key} is not among the keys");
        }
        for kind in encodings::kinds().iter().map(|entry| entry.kind).filter(|kind| *kind != "transformer_xl")
        {
            assert!(keys.contains(&format!(".EncodingConfig[{kind}].kind")), "{kind}");
            assert!(keys.contains(&format!(".PositionConfig[mixed].layers[{kind}].window")), "{kind}");
        }
        for kind in extensions::kinds().iter().map(|entry| entry.kind) {
            assert!(keys.contains(&format!(".ExtensionConfig[{kind}].log_n")), "{kind}");
            assert!(keys.contains(&format!(".ExtendEntry[{kind}].temperature")), "{kind}");
        }
    }

    #[test]
    fn a_file_needs_what_its_reader_needs_and_may_name_kinds() {
        let schema = schema().to_value();
        let required = |path: &str| schema.pointer(&format!("{path}/required")).cloned();
        assert_eq!(required(""), Some(json!(["name", "position", "data"])));
        assert_eq!(required("/$defs/StageConfig"), Some(json!(["length", "steps"])));
        for closed in ["", "/$defs/StageConfig", "/$defs/TrainConfig", "/$defs/ModelConfig"] {
            assert_eq!(
                schema.pointer(&format!("{closed}/additionalProperties")),
                Some(&false.into()),
                "{closed}"
            );
        }
        let optimizers = json!({ "enum": ["adamw", "muon"] });
        let forms = &schema["$defs"]["TrainConfig"]["properties"]["optimizer"]["anyOf"];
        assert!(forms.as_array().unwrap().contains(&optimizers), "{forms}");
        let names = encodings::names();
        assert!(names.contains(&"rope") && names.contains(&"xlnet"), "{names:?}");
        let position = &schema["$defs"]["PositionConfig"]["anyOf"];
        assert!(position.as_array().unwrap().contains(&json!({ "enum": names })), "{position}");
        let list = position.as_array().unwrap().iter().find(|form| form["type"] == "array").unwrap();
        assert!(list["items"]["anyOf"].as_array().unwrap().contains(&json!({ "enum": names })), "{list}");
    }

    #[test]
    fn what_is_not_said_is_found() {
        let schema = json!({
            "properties": {
                "told": { "description": "Said.", "properties": { "kind": { "const": "a" } } },
                "listed": { "description": "Said.", "oneOf": [{ "properties": { "inner": {} } }] },
                "blank": { "description": " " }
            },
            "$defs": { "Type": { "type": "string" } }
        });
        let mut found = silent(&schema, "", &mut Vec::new());
        found.sort();
        assert_eq!(found, [".Type", ".blank", ".listed.inner", ".told.kind"]);
    }

    #[test]
    fn a_kind_is_described_by_its_table() {
        let schema = schema().to_value();
        let encodings = schema["$defs"]["EncodingConfig"]["oneOf"].as_array().unwrap();
        assert_eq!(encodings.len(), encodings::kinds().len());
        for (encoding, entry) in encodings.iter().zip(encodings::kinds()) {
            assert_eq!(encoding["properties"]["kind"]["description"], entry.description);
        }
    }
}
