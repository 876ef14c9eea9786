//! One text for one JSON value, whatever the order its keys were written in.
//!
//! Hashes and identities are made from it: a run's, and a result row's.

use serde_json::{Map, Value};

/// The value as compact JSON with the keys of every object in order.
pub fn text(value: Value) -> String {
    sorted(value).to_string()
}

/// The canonical [`text`] of an object before and after the value of one of its keys, for many texts that differ in that value.
/// An object without the key gets it.
pub fn around(object: Value, key: &str) -> (String, String) {
    let Value::Object(fields) = sorted(object) else { return (String::new(), String::new()) };
    let text = |(name, value): (&String, &Value)| format!("{}:{value}", Value::from(name.as_str()));
    let before = fields.iter().filter(|(name, _)| name.as_str() < key).map(|field| text(field) + ",");
    let after =
        fields.iter().filter(|(name, _)| name.as_str() > key).map(|field| ",".to_owned() + &text(field));
    (
        format!("{{{}{}:", before.collect::<String>(), Value::from(key)),
        format!("{}}}", after.collect::<String>()),
    )
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(Map::from_iter(fields))
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_keys_does_not_show_and_that_of_items_does() {
        let object = json!({ "b": { "d": 1, "c": [2, 1] }, "a": null });
        assert_eq!(text(object), r#"{"a":null,"b":{"c":[2,1],"d":1}}"#);
        assert_ne!(text(json!([1, 2])), text(json!([2, 1])));
    }

    #[test]
    fn the_text_around_a_value_is_that_of_the_whole() {
        for object in [
            json!({ "z": [1.5, null], "seed": 7, "a": { "d": "\"", "c": 1 } }),
            json!({ "seed": 7 }),
            json!({ "a": 1, "seed": 7 }),
            json!({ "seed": 7, "t": 1 }),
        ] {
            let (before, after) = around(object.clone(), "seed");
            assert_eq!(format!("{before}7{after}"), text(object));
        }
    }
}
