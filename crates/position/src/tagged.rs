//! Configurations that are chosen by `kind`: how they are written into resolved configs, and their schemas.

use crate::encoding::Configure;
use crate::tokens::Tokens;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

/// One kind of a list of encodings or extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Its name in a config.
    pub kind: &'static str,
    pub description: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// What it computes with its default keys, in the notation of [`Configure::FORMULA`].
    pub formula: &'static str,
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
        // A key without a value is not written.
        for property in properties.values_mut().filter_map(Json::as_object_mut) {
            property.retain(|name, value| !(name == "default" && value.is_null()));
        }
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
pub(crate) fn with_aliases(mut schema: Schema, kind: &str, aliases: &[&str]) -> Schema {
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    if let (Some(properties), false) = (properties, aliases.is_empty()) {
        let kinds = [&[kind][..], aliases].concat();
        properties.insert("kind".to_owned(), serde_json::json!({ "enum": kinds }));
    }
    schema
}

/// The schema of a configuration whose lengths may be multiples of L.
pub(crate) fn with_lengths<C: Configure>(mut schema: Schema) -> Schema {
    let length = Tokens::json_schema(&mut SchemaGenerator::default()).to_value();
    for key in C::LENGTHS {
        let property = schema.pointer_mut(&format!("/properties/{key}")).and_then(Json::as_object_mut);
        if let Some(property) = property {
            let is_number = property.get("type").is_some_and(|kind| kind == "number");
            let may_be_none = property.get("default").is_some_and(|default| *default == 0);
            property.retain(|name, _| matches!(name.as_str(), "description" | "default"));
            let mut forms = length["anyOf"].clone();
            if is_number {
                // What may be a length and need not be one.
                forms[0] = json!({ "type": "number" });
            } else if may_be_none {
                forms[0]["minimum"] = json!(0);
            }
            property.insert("anyOf".to_owned(), forms);
        }
    }
    schema
}
