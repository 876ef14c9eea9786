//! The schemas of `evaluate.extend` and `evaluate.against`, whose values are read as TOML.

use crate::plan::WINDOW_BASELINE;
use crate::search::config::SearchConfig;
use longwave_position::ExtensionConfig;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct ExtendSchema;

impl JsonSchema for ExtendSchema {
    fn schema_name() -> Cow<'static, str> {
        "ExtendEntry".into()
    }

    /// The schema of an extension, where every key that takes no list by itself may be a list of its values.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<ExtensionConfig>();
        let mut search = generator.subschema_for::<SearchConfig>();
        search.insert("description".to_owned(), "How the factors are searched for.".into());
        let mut listed = ExtensionConfig::json_schema(generator);
        let variants = listed.pointer_mut("/anyOf/1/oneOf").and_then(serde_json::Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            let kind = variant["properties"]["kind"]["const"].as_str().unwrap_or_default().to_owned();
            for (key, property) in variant["properties"].as_object_mut().into_iter().flatten() {
                if key != "kind" && !ExtensionConfig::takes_list(&kind, key) {
                    let mut value = property.take();
                    // The number of a law may be a list itself.
                    for number in ["/anyOf/1/properties/c", "/anyOf/2/properties/a"] {
                        if let (true, Some(number)) = (key == "temperature_law", value.pointer_mut(number)) {
                            *number = or_a_list(number.take());
                        }
                    }
                    *property = or_a_list(value);
                }
            }
        }
        let lists = listed.pointer("/anyOf/1").cloned().unwrap_or_default();
        json_schema!({
            "description": "An extension; one with lists of hyper-parameters to try on the validation split; or \
                            `longrope` with a search for its factors.",
            "anyOf": [
                one,
                lists,
                {
                    "type": "object",
                    "description": "`longrope` with factors that are searched for on the validation split.",
                    "properties": { "kind": { "const": "longrope" }, "search": search },
                    "required": ["kind", "search"]
                }
            ]
        })
    }
}

/// `evaluate.against`, for the schema: `window_baseline`, a kind, or a table.
#[derive(Debug)]
pub(crate) struct ReferenceSchema;

impl JsonSchema for ReferenceSchema {
    fn schema_name() -> Cow<'static, str> {
        "Against".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let extension = generator.subschema_for::<ExtensionConfig>();
        json_schema!({
            "description": "The window baseline, or one of the readings by its kind or with its keys.",
            "anyOf": [{ "const": WINDOW_BASELINE }, extension]
        })
    }
}

/// The schema of a value, or a list of such. The description and the default stay at the key itself.
fn or_a_list(mut value: serde_json::Value) -> serde_json::Value {
    let moved = ["description", "default"].map(|name| Some((name, value.as_object_mut()?.remove(name)?)));
    let mut either = json!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] });
    for (name, text) in moved.into_iter().flatten() {
        either[name] = text;
    }
    either
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_allows_lists_where_they_are_tried() {
        let schema = schemars::schema_for!(ExtendSchema).to_value();
        let variants = schema["anyOf"][1]["oneOf"].as_array().unwrap();
        let of = |kind: &str| {
            variants.iter().find(|variant| variant["properties"]["kind"]["const"] == kind).unwrap()
        };
        let window = &of("rerope")["properties"]["window"];
        assert_eq!(window["anyOf"][1]["type"], "array");
        assert_eq!(window["default"], "L/2", "the key's own, not that of a list's items");
        assert!(window["description"].is_string() && window["anyOf"][1]["items"]["description"].is_null());
        let law = &of("direct")["properties"]["temperature_law"]["anyOf"][0]["anyOf"][1];
        assert_eq!(law["properties"]["c"]["anyOf"][1]["type"], "array");
        assert_eq!(of("longrope")["properties"]["long_factor"]["type"], "array");
    }
}
