//! The configuration of an encoding as it is written into resolved configs, and its schema.

use super::EncodingConfig;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

impl Serialize for EncodingConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_tagged(self.kind(), self.keys(), serializer)
    }
}

impl JsonSchema for EncodingConfig {
    fn schema_name() -> Cow<'static, str> {
        "EncodingConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let schemas = Self::schemas(generator);
        json_schema!({ "description": "A positional encoding, chosen by `kind`.", "oneOf": schemas })
    }
}

/// Writes the keys of a configuration behind its kind.
pub(crate) fn serialize_tagged<S: Serializer>(
    kind: &str,
    keys: serde_json::Result<serde_json::Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut tagged = serde_json::Map::from_iter([("kind".to_owned(), kind.into())]);
    if let serde_json::Value::Object(keys) = keys.map_err(serde::ser::Error::custom)? {
        tagged.extend(keys);
    }
    tagged.serialize(serializer)
}

/// The schema of a configuration with its kind among the properties.
pub(crate) fn tagged<T: JsonSchema>(kind: &str, summary: &str, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| serde_json::json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("kind".to_owned(), serde_json::json!({ "const": kind }));
    }
    schema.insert("description".to_owned(), summary.into());
    let required = schema.ensure_object().entry("required").or_insert_with(|| serde_json::json!([]));
    if let Some(required) = required.as_array_mut() {
        required.insert(0, "kind".into());
    }
    schema
}

/// The schema of a configuration whose kind has other names too.
pub(super) fn with_aliases(mut schema: Schema, kind: &str, aliases: &[&str]) -> Schema {
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    if let (Some(properties), false) = (properties, aliases.is_empty()) {
        let kinds = [&[kind][..], aliases].concat();
        properties.insert("kind".to_owned(), serde_json::json!({ "enum": kinds }));
    }
    schema
}
