//! The entries of `extend`: an extension, one whose hyper-parameters are lists, or one whose factors are searched for.
//!
//! A list in the place of a value stands for one reading with each; several lists for every combination. A key
//! that takes a list by itself (`long_factor`, `inv_freq`) is one value. Which of the readings is reported is decided
//! on the validation split, see [`choose()`](crate::choose()).

use crate::search::Search;
use longwave_core::config::kind_and_rest;
use longwave_core::{Error, Result};
use longwave_position::ExtensionConfig;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;
use std::borrow::Cow;
use toml::{Table, Value};

/// One entry of `extend`, checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// One extension.
    One(ExtensionConfig),
    /// One extension, and what the validation split decides of it.
    Among(Among),
}

/// What the validation split decides.
#[derive(Clone, Debug, PartialEq)]
pub enum Among {
    /// Which values a reading takes.
    Values {
        /// The keys given as lists, with their lists.
        given: serde_json::Value,
        /// Every combination, in the order of the lists, the last key fastest.
        candidates: Vec<ExtensionConfig>,
    },
    /// The factors of `longrope`.
    Search(Search),
}

impl Entry {
    /// Reads one entry; `section` is its place in the file, such as `evaluate[0].extend[1]`.
    ///
    /// # Errors
    /// An unknown kind or key, a wrong type, an empty list, or a value that is not allowed.
    pub fn from_value(value: &Value, section: &str) -> Result<Self> {
        let Value::Table(table) = value else {
            return Ok(Self::One(ExtensionConfig::from_value(value, section)?));
        };
        let (kind, _) = kind_and_rest(value, section)?;
        if let Some(search) = Search::take(&kind, table, section)? {
            return Ok(Self::Among(Among::Search(search)));
        }
        let lists: Vec<(&String, &Vec<Value>)> = table
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_array()?)))
            .filter(|(key, items)| !ExtensionConfig::takes_list(&kind, key) || nested(items))
            .collect();
        if lists.is_empty() {
            return Ok(Self::One(ExtensionConfig::from_value(value, section)?));
        }
        if let Some((key, _)) = lists.iter().find(|(_, items)| items.is_empty()) {
            return Err(Error::value(
                &format!("{section}.{key}"),
                "[]",
                "a list of values to try must hold one",
            )
            .hint("leave the key out for its default"));
        }
        let candidates = combinations(table, &lists)
            .into_iter()
            .map(|table| ExtensionConfig::from_value(&Value::Table(table), section))
            .collect::<Result<Vec<_>>>()?;
        let given = lists.iter().map(|(key, items)| Ok(((*key).clone(), as_json(&items[..])?)));
        let given = serde_json::Value::Object(given.collect::<Result<_>>()?);
        Ok(match <[ExtensionConfig; 1]>::try_from(candidates) {
            Ok([one]) => Self::One(one),
            Err(candidates) => Self::Among(Among::Values { given, candidates }),
        })
    }

    /// Every extension that may be read with; none where the factors are yet to be found.
    pub(crate) fn extensions(&self) -> &[ExtensionConfig] {
        match self {
            Self::One(extension) => std::slice::from_ref(extension),
            Self::Among(Among::Values { candidates, .. }) => candidates,
            Self::Among(Among::Search(_)) => &[],
        }
    }
}

/// Whether every item is a list itself: then the outer list holds values to try.
fn nested(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(Value::is_array)
}

/// The table with every combination of the lists' items.
fn combinations(table: &Table, lists: &[(&String, &Vec<Value>)]) -> Vec<Table> {
    let mut tables = vec![table.clone()];
    for (key, items) in lists {
        let with = |table: &Table, item: &Value| {
            let mut table = table.clone();
            table.insert((*key).clone(), item.clone());
            table
        };
        tables = tables.iter().flat_map(|table| items.iter().map(move |item| with(table, item))).collect();
    }
    tables
}

/// A value as JSON, for rows.
pub(crate) fn as_json(value: &(impl serde::Serialize + ?Sized)) -> Result<serde_json::Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::failed(format!("an extension cannot be written as JSON: {error}")))
}

impl JsonSchema for Entry {
    fn schema_name() -> Cow<'static, str> {
        "ExtendEntry".into()
    }

    /// The schema of an extension, where every key that takes no list by itself may be a list of its values.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<ExtensionConfig>();
        let mut search = generator.subschema_for::<crate::search::SearchConfig>();
        search.insert("description".to_owned(), "How the factors are searched for.".into());
        let mut listed = ExtensionConfig::json_schema(generator);
        let variants = listed.pointer_mut("/anyOf/1/oneOf").and_then(serde_json::Value::as_array_mut);
        for variant in variants.into_iter().flatten() {
            let kind = variant["properties"]["kind"]["const"].as_str().unwrap_or_default().to_owned();
            for (key, property) in variant["properties"].as_object_mut().into_iter().flatten() {
                if key != "kind" && !ExtensionConfig::takes_list(&kind, key) {
                    let mut value = property.take();
                    // What is said of the key stands at the key.
                    let told = ["description", "default"]
                        .map(|name| Some((name, value.as_object_mut()?.remove(name)?)));
                    *property =
                        json!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] });
                    for (name, told) in told.into_iter().flatten() {
                        property[name] = told;
                    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Entry> {
        let mut table: Table = format!("x = {text}").parse().unwrap();
        Entry::from_value(&table.remove("x").unwrap(), "extend[0]")
    }

    fn candidates(text: &str) -> (serde_json::Value, Vec<serde_json::Value>) {
        match read(text).unwrap() {
            Entry::Among(Among::Values { given, candidates }) => {
                (given, candidates.iter().map(|one| as_json(one).unwrap()).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lists_become_every_combination() {
        let (given, windows) = candidates("{ kind = 'rerope', window = ['L/4', 'L/2'] }");
        assert_eq!(given, json!({ "window": ["L/4", "L/2"] }));
        assert_eq!(windows.iter().map(|one| &one["window"]).collect::<Vec<_>>(), ["L/4", "L/2"]);
        let (_, both) =
            candidates("{ kind = 'yarn', beta = [16, 32], ramp = ['code', 'paper'], log_n = true }");
        let told: Vec<_> =
            both.iter().map(|one| (one["beta"].as_f64().unwrap(), one["ramp"].clone())).collect();
        assert_eq!(
            told,
            [(16.0, "code"), (16.0, "paper"), (32.0, "code"), (32.0, "paper")].map(|(b, r)| (b, json!(r)))
        );
        assert!(both.iter().all(|one| one["log_n"] == true));
    }

    #[test]
    fn a_key_that_takes_a_list_is_one_value() {
        for text in [
            "{ kind = 'longrope', long_factor = [1.0, 2.0], short_factor = [1.0, 1.0] }",
            "{ kind = 'frequencies', inv_freq = [1.0, 0.5] }",
            "{ kind = 'rerope', window = ['L/4'] }",
            "'linear'",
        ] {
            assert!(matches!(read(text).unwrap(), Entry::One(_)), "{text}");
        }
        let (given, factors) = candidates("{ kind = 'longrope', long_factor = [[1.0, 2.0], [1.0, 3.0]] }");
        assert_eq!((given["long_factor"][1][1].as_f64(), factors.len()), (Some(3.0), 2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("{ kind = 'rerope', window = [] }").starts_with("`extend[0].window = []`"));
        assert!(message("{ kind = 'yarn', beta = [32, -1] }").contains("beta"));
        assert!(message("{ kind = ['linear', 'ntk'] }").contains("`extend[0].kind"));
        assert!(message("{ kind = 'linear', search = {} }").contains("extend[0].search"));
    }

    #[test]
    fn the_schema_allows_lists_where_they_are_tried() {
        let schema = schemars::schema_for!(Entry).to_value();
        let variants = schema["anyOf"][1]["oneOf"].as_array().unwrap();
        let of = |kind: &str| {
            variants.iter().find(|variant| variant["properties"]["kind"]["const"] == kind).unwrap()
        };
        let window = &of("rerope")["properties"]["window"];
        assert_eq!(window["anyOf"][1]["type"], "array");
        assert_eq!(window["default"], "L/2", "the key's own, not that of a list's items");
        assert!(window["description"].is_string() && window["anyOf"][1]["items"]["description"].is_null());
        assert_eq!(of("longrope")["properties"]["long_factor"]["type"], "array");
    }
}
