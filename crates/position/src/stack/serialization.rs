//! `[position]` as it is written into resolved configs, and its schema.

use super::PositionConfig;
use super::entry::{StackEntry, StackEntryKeys};
use crate::encodings::MIXED;
use crate::encodings::{self, EncodingConfig};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

impl Serialize for PositionConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(pattern) = &self.pattern else {
            return match self.entries[0].encodings.as_slice() {
                [one] => one.serialize(serializer),
                list => list.serialize(serializer),
            };
        };
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", MIXED)?;
        map.serialize_entry("pattern", pattern)?;
        map.serialize_entry("layers", &self.entries)?;
        map.end()
    }
}

impl Serialize for StackEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let encodings = match self.encodings.as_slice() {
            [one] => serde_json::to_value(one),
            list => serde_json::to_value(list).map(|list| serde_json::json!({ "encodings": list })),
        };
        let mut table = encodings.map_err(serde::ser::Error::custom)?;
        let keys = serde_json::to_value(&self.keys).map_err(serde::ser::Error::custom)?;
        if let (Some(table), serde_json::Value::Object(keys)) = (table.as_object_mut(), keys) {
            table.extend(keys);
        }
        table.serialize(serializer)
    }
}

impl JsonSchema for PositionConfig {
    fn schema_name() -> Cow<'static, str> {
        "PositionConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<EncodingConfig>();
        let kinds = json_schema!({ "enum": encodings::names() });
        let several = json_schema!({
            "description": "Encodings whose hooks compose in order.",
            "type": "array",
            "items": { "anyOf": [one, kinds] },
            "minItems": 1
        });
        let own = StackEntryKeys::json_schema(generator).get("properties").cloned().unwrap_or_default();
        let mut entries = EncodingConfig::schemas(generator);
        entries.push(json_schema!({
            "type": "object",
            "description": "Several encodings whose hooks compose in order.",
            "properties": { "encodings": several },
            "required": ["encodings"],
            "additionalProperties": false
        }));
        for entry in &mut entries {
            let properties = entry.get_mut("properties").and_then(serde_json::Value::as_object_mut);
            if let (Some(properties), Some(own)) = (properties, own.as_object()) {
                properties.extend(own.clone());
            }
        }
        entries.push(kinds.clone());
        json_schema!({
            "description": "The positional encoding, a list of encodings whose hooks compose in order, or a mixed stack.",
            "anyOf": [one, kinds, several, {
                "type": "object",
                "description": "A mixed stack: layers that read different encodings.",
                "properties": {
                    "kind": { "const": MIXED },
                    "layers": {
                        "type": "array",
                        "minItems": 1,
                        "description": "What a layer may read, and how far.",
                        "items": { "anyOf": entries }
                    },
                    "pattern": {
                        "type": "array",
                        "minItems": 1,
                        "items": { "type": "integer", "minimum": 0 },
                        "description": "The entry of each layer, repeated over the depth; all in turn unless given."
                    }
                },
                "required": ["kind", "layers"],
                "additionalProperties": false
            }]
        })
    }
}
