//! The schema of extensions, and what it says of keys that take lists.

use super::{ExtensionConfig, kinds, rope_parameters};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

impl ExtensionConfig {
    /// Whether a key of an extension takes a list by itself, so that a list there is one value.
    pub fn takes_list(kind: &str, key: &str) -> bool {
        Self::takes(kind, key, 1)
    }

    /// Whether a key of an extension takes a list of lists by itself, so that such a list there is one value.
    pub fn takes_rows(kind: &str, key: &str) -> bool {
        Self::takes(kind, key, 2)
    }

    /// Whether a key takes a list of so many dimensions.
    fn takes(kind: &str, key: &str, dimensions: usize) -> bool {
        let mut generator = SchemaGenerator::default();
        let schemas = Self::schemas(&mut generator);
        let of_kind = |schema: &&Schema| {
            schema.pointer("/properties/kind/const").and_then(serde_json::Value::as_str) == Some(kind)
        };
        let property = schemas.iter().find(of_kind).and_then(|schema| schema.get("properties")?.get(key));
        property.is_some_and(|property| is_list(property, dimensions, generator.definitions()))
    }
}

/// Whether a schema has a list of so many dimensions, at least 1; `definitions` resolves references.
fn is_list(
    schema: &serde_json::Value,
    dimensions: usize,
    definitions: &serde_json::Map<String, serde_json::Value>,
) -> bool {
    let any = |key: &str| {
        let variants = schema.get(key).and_then(serde_json::Value::as_array);
        variants.into_iter().flatten().any(|variant| is_list(variant, dimensions, definitions))
    };
    let referred = schema.get("$ref").and_then(serde_json::Value::as_str);
    let referred = referred.and_then(|path| definitions.get(path.rsplit('/').next()?));
    let named = match schema.get("type") {
        Some(serde_json::Value::Array(types)) => types.iter().any(|name| name == "array"),
        Some(name) => name == "array",
        None => false,
    };
    let items = schema.get("items").is_some_and(|items| match dimensions {
        1 => !(1..3).any(|dimensions| is_list(items, dimensions, definitions)),
        more => is_list(items, more - 1, definitions),
    });
    named && items
        || any("anyOf")
        || any("oneOf")
        || referred.is_some_and(|schema| is_list(schema, dimensions, definitions))
}

impl JsonSchema for ExtensionConfig {
    fn schema_name() -> Cow<'static, str> {
        "ExtensionConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<_> = kinds().iter().map(|entry| entry.kind).collect();
        let schemas = Self::schemas(generator);
        let [theirs, named] = rope_parameters::schemas();
        json_schema!({
            "description": "A context extension: its kind, a table with its keys, or `rope_parameters` of a `config.json`.",
            "anyOf": [{ "enum": kinds }, { "oneOf": schemas }, theirs, named]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_schema_knows_the_keys_of_other_programs() {
        let schema = schemars::schema_for!(ExtensionConfig).to_value();
        let [kinds, tables, theirs, named] = schema["anyOf"].as_array().unwrap().as_slice() else {
            panic!("{schema}")
        };
        assert!(kinds["enum"].as_array().unwrap().contains(&json!("yarn")) && tables["oneOf"].is_array());
        for form in [
            "{ rope_type = 'linear', factor = 4.0 }",
            "{ type = 'linear', factor = 4.0 }",
            "{ rope_parameters = { rope_type = 'linear', factor = 4.0 } }",
            "{ rope_scaling = { type = 'linear', factor = 4.0 } }",
        ] {
            let table: toml::Table = format!("extend = {form}").parse().unwrap();
            ExtensionConfig::from_value(&table["extend"], "extend").unwrap();
            let key = table["extend"].as_table().unwrap().keys().find(|key| *key != "factor").unwrap();
            assert!(theirs["anyOf"].as_array().unwrap().contains(&json!({ "required": [key] })), "{theirs}");
        }
        assert_eq!((&theirs["type"], &named["type"]), (&json!("object"), &json!("string")));
        assert!(theirs.get("additionalProperties").is_none());
    }
}
