//! Where a `config.json` says how positions are read: an object of today's name or of its older one, and fields beside it.

use super::KINDS;
use longwave_core::{Error, Result};
use serde_json::{Map, Value as Json, json};

/// The fields that hold the object, newest first.
const HOLDERS: [&str; 2] = ["rope_parameters", "rope_scaling"];

/// Keys of the object that say something of the model itself. One of the two holders may leave them out.
const OF_MODEL: [&str; 3] = ["rope_theta", "original_max_position_embeddings", "partial_rotary_factor"];

/// Whether an object is a whole `config.json`, or a part of one with the object in it.
pub(super) fn is_whole(object: &Map<String, Json>) -> bool {
    object.contains_key("model_type") || HOLDERS.iter().any(|key| object.contains_key(*key))
}

/// The names of the rule, newest first.
const RULE: [&str; 2] = ["rope_type", "type"];

/// Whether a TOML table is written in these keys.
pub(super) fn is_theirs(table: &toml::Table) -> bool {
    HOLDERS.iter().chain(&RULE).any(|key| table.contains_key(*key))
}

/// The schemas of what may stand for an extension: a table in these keys, JSON text, and a path.
pub(in crate::extensions) fn schemas() -> [Json; 2] {
    let any: Vec<Json> = HOLDERS.iter().chain(&RULE).map(|key| json!({ "required": [key] })).collect();
    // `su` is the first name of `longrope`.
    let kinds: Vec<&str> = KINDS.into_iter().chain(["su"]).collect();
    let kind = json!({ "description": "The rule by which positions are scaled.", "enum": kinds });
    [
        json!({
            "description": "`rope_parameters` of a `config.json`, or all of that file.",
            "type": "object",
            "properties": { "rope_type": kind, "type": kind },
            "anyOf": any,
            "not": { "required": ["kind"] }
        }),
        json!({
            "description": "The path of a `config.json`, or such an object as JSON text.",
            "type": "string",
            "pattern": r"^\s*\{|\.[jJ][sS][oO][nN]$"
        }),
    ]
}

/// The object of a `config.json`, without what is null, with `type` under its newer name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    /// The field that holds it.
    pub(super) name: &'static str,
    pub(super) keys: Map<String, Json>,
    /// Whether it is that of a kind of layer.
    pub(super) by_kind: bool,
}

/// The object of a config; `None` where it has none.
pub(super) fn held(config: &Map<String, Json>, section: &str) -> Result<Option<Held>> {
    let path = |name: &str| if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    let mut found = Vec::new();
    for name in HOLDERS {
        match config.get(name) {
            None | Some(Json::Null) => {}
            Some(Json::Object(keys)) => {
                let by_kind = keys.values().any(Json::is_object);
                let keys = of_all_layers(keys, config.get("layer_types"), &path(name))?;
                check_kind(&keys, &path(name))?;
                found.push(Held { name, keys: plain(keys), by_kind });
            }
            Some(other) => {
                return Err(Error::value(&path(name), other, "it must be an object").hint("check the file"));
            }
        }
    }
    let mut found = found.into_iter();
    let (Some(mut first), second) = (found.next(), found.next()) else { return Ok(None) };
    if let Some(second) = second {
        if let Some(key) = different(&first.keys, &second.keys) {
            let said = |held: &Held| held.keys.get(key).map_or("nothing".to_owned(), Json::to_string);
            return Err(Error::usage(format!(
                "`{}` and `{}` disagree: `{key}` is {} in the first and {} in the second",
                path(first.name),
                path(second.name),
                said(&first),
                said(&second)
            ))
            .hint(
                "they are the newer and the older name of one object: write in both what the model was trained with, \
                 as its authors say",
            ));
        }
        for (key, value) in second.keys {
            first.keys.entry(key).or_insert(value);
        }
    }
    Ok(Some(first))
}

/// The first key that two objects say differently. One of them may leave out what is said of the model.
fn different<'a>(a: &'a Map<String, Json>, b: &'a Map<String, Json>) -> Option<&'a str> {
    let same = |a: &Json, b: &Json| a == b || a.as_f64().is_some_and(|number| Some(number) == b.as_f64());
    let kind = |keys: &Map<String, Json>| keys.get("rope_type").cloned().unwrap_or_else(|| "default".into());
    if kind(a) != kind(b) {
        return Some("rope_type");
    }
    let differs = |key: &str| match (a.get(key), b.get(key)) {
        (Some(a), Some(b)) => !same(a, b),
        _ => key != "rope_type" && !OF_MODEL.contains(&key),
    };
    a.keys().chain(b.keys()).map(String::as_str).find(|key| differs(key))
}

/// Checks that the older name of the kind says what the newer one does.
pub(super) fn check_kind(keys: &Map<String, Json>, path: &str) -> Result<()> {
    let said = |key: &str| keys.get(key).filter(|value| !value.is_null());
    match (said("rope_type"), said("type")) {
        (Some(new), Some(old)) if new != old => {
            Err(Error::usage(format!("`{path}` disagrees with itself: `rope_type` is {new} and `type` is {old}")).hint(
                "they are the newer and the older name of one key: write in both what the model was trained with, as its authors say",
            ))
        }
        _ => Ok(()),
    }
}

/// Nothing that is null, and one name for the kind.
pub(super) fn plain(mut keys: Map<String, Json>) -> Map<String, Json> {
    keys.retain(|_, value| !value.is_null());
    if let Some(kind) = keys.remove("type") {
        keys.entry("rope_type").or_insert(kind);
    }
    keys
}

/// The object of all layers, where there may be one for each kind of layer.
pub(super) fn of_all_layers(
    keys: &Map<String, Json>,
    layer_types: Option<&Json>,
    path: &str,
) -> Result<Map<String, Json>> {
    let of_kinds: Vec<(&String, &Map<String, Json>)> =
        keys.iter().filter_map(|(kind, value)| Some((kind, value.as_object()?))).collect();
    let Some((_, first)) = of_kinds.first() else { return Ok(keys.clone()) };
    let used = |kind: &str| match layer_types {
        Some(Json::Array(types)) => types.iter().any(|layer| layer == kind),
        _ => true,
    };
    let mut used = of_kinds.iter().filter(|(kind, _)| used(kind)).map(|(_, keys)| *keys);
    let one = used.next().unwrap_or(first);
    let rest = keys.values().any(|value| !value.is_object() && !value.is_null());
    if !rest && used.all(|other| other == one) {
        return Ok(one.clone());
    }
    let kinds: Vec<String> = of_kinds.iter().map(|(kind, _)| format!("`{kind}`")).collect();
    Err(Error::usage(format!("`{path}` differs between kinds of layers: {}", kinds.join(", "))).hint(
        "write the object of one kind, with the layers that it is for: `layers = \"full\"` or `\"windowed\"`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(config: &Json) -> Result<Option<Held>> {
        held(config.as_object().unwrap(), "")
    }

    #[test]
    fn two_names_of_the_kind_say_the_same() {
        let of = |object: Json| read(&json!({ "rope_scaling": object }));
        let error = of(json!({ "rope_type": "yarn", "type": "linear", "factor": 4.0 })).unwrap_err();
        assert!(error.message().contains("`rope_type` is \"yarn\" and `type` is \"linear\""), "{error}");
        assert!(error.hint_text().is_some());
        for object in
            [json!({ "rope_type": "yarn", "type": "yarn" }), json!({ "rope_type": "yarn", "type": null })]
        {
            assert_eq!(of(object).unwrap().unwrap().keys["rope_type"], "yarn");
        }
    }

    #[test]
    fn one_of_two_names_holds_it_or_both_say_the_same() {
        let yarn = json!({ "rope_type": "yarn", "factor": 4.0 });
        for config in [
            json!({ "rope_parameters": yarn }),
            json!({ "rope_scaling": { "type": "yarn", "factor": 4, "beta_fast": null } }),
            json!({ "rope_parameters": null, "rope_scaling": yarn }),
            json!({ "rope_parameters": yarn, "rope_scaling": { "type": "yarn", "factor": 4 } }),
            json!({ "rope_parameters": { "full_attention": yarn } }),
            json!({ "rope_parameters": { "full_attention": yarn, "sliding_attention": { "rope_type": "default" } },
                    "layer_types": ["full_attention", "full_attention"] }),
        ] {
            let held = read(&config).unwrap().unwrap();
            assert_eq!(held.keys["rope_type"], "yarn", "{config}");
            assert_eq!(held.keys["factor"].as_f64(), Some(4.0), "{config}");
            assert_eq!(held.keys.len(), 2, "{config}");
        }
        // What is said of the model may stand in one of them.
        let apart = json!({
            "rope_parameters": { "rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5 },
            "rope_scaling": { "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64 },
        });
        assert_eq!(read(&apart).unwrap().unwrap().keys.len(), 4);
        assert_eq!(read(&json!({ "rope_scaling": null })).unwrap(), None);
    }

    #[test]
    fn holders_that_disagree_are_named() {
        for (newer, older, key) in [
            (
                json!({ "rope_type": "yarn", "factor": 4.0 }),
                json!({ "type": "linear", "factor": 4.0 }),
                "rope_type",
            ),
            (
                json!({ "rope_type": "linear", "factor": 2.0 }),
                json!({ "type": "linear", "factor": 4.0 }),
                "factor",
            ),
            (json!({ "rope_theta": 1e4 }), json!({ "type": "linear", "factor": 4.0 }), "rope_type"),
            (json!({ "rope_theta": 1e4 }), json!({ "rope_theta": 5e5 }), "rope_theta"),
        ] {
            let error = read(&json!({ "rope_parameters": newer, "rope_scaling": older })).unwrap_err();
            for part in ["`rope_parameters`", "`rope_scaling`", &format!("`{key}`")] {
                assert!(error.message().contains(part), "{error}");
            }
        }
    }

    #[test]
    fn kinds_of_layers_must_agree() {
        let config = json!({
            "rope_parameters": { "full_attention": { "rope_type": "default" }, "sliding_attention": { "rope_type": "yarn" } },
            "layer_types": ["full_attention", "sliding_attention"],
        });
        assert!(read(&config).unwrap_err().message().contains("`full_attention`, `sliding_attention`"));
    }
}
