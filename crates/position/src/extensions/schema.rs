//! The schema of extensions, and what it says of keys that take lists.

use super::{ExtensionConfig, kinds};
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
        json_schema!({
            "description": "A context extension: its kind, or a table with its keys.",
            "anyOf": [{ "enum": kinds }, { "oneOf": schemas }]
        })
    }
}
