//! Strict reading of TOML tables.
//!
//! Every section of a config is a plain serde struct with `deny_unknown_fields`. [`read`] turns a
//! table into one and, where it cannot, says which key is wrong, what stands there, what is allowed
//! and, for a slip of the keyboard, what was probably meant.

mod explain;
mod kinds;
pub(crate) mod list;
mod set;

use crate::error::{Error, Result, nearest};
use explain::{explain, join};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub use explain::without_types;
pub use kinds::{check_keys_of_kind, missing_key_of_kind};
pub use set::set;

/// What to do about a backslash that TOML takes for the beginning of an escape.
pub const BACKSLASH: &str = "between double quotes `\\` begins an escape: write a path of Windows in single quotes, as in \
                             `corpus = 'C:\\Users\\me\\texts'`";

/// Checks that a path is one: between double quotes, `\t` and `\n` in a path of Windows are a tab and a line break.
///
/// # Errors
/// It holds a control character.
pub fn check_path(key: &str, path: &str) -> Result<()> {
    match path.chars().find(|character| character.is_control()) {
        Some(control) => {
            let name = match control {
                '\t' => "a tab, which is how `\\t` is read".to_owned(),
                '\n' => "a line break, which is how `\\n` is read".to_owned(),
                other => format!("the control character U+{:04X}", u32::from(other)),
            };
            Err(Error::value(key, format!("\"{path}\""), format!("a path cannot hold {name}"))
                .hint(BACKSLASH))
        }
        None => Ok(()),
    }
}

/// Reads one section.
///
/// `section` is the path of the table in the file (`train`, `evaluate[1]`), for the messages.
///
/// # Errors
/// An unknown key, a wrong type or a value out of range, with the key and a hint.
pub fn read<T: DeserializeOwned>(table: &Table, section: &str) -> Result<T> {
    serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        explain(table, section, &path, &error.into_inner().to_string())
    })
}

/// Takes the sub-table `key` out of `table`; a missing one reads as empty.
pub fn take_table(table: &mut Table, key: &str) -> Result<Table> {
    match table.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(section)) => Ok(section),
        Some(other) => Err(Error::value(key, &other, "it must be a table")
            .hint(format!("write a section `[{key}]` with its keys below it"))),
    }
}

/// Takes the list of tables `key` (`[[key]]`) out of `table`; a missing one reads as empty.
pub fn take_tables(table: &mut Table, key: &str) -> Result<Vec<Table>> {
    let wrong = |value: &Value| {
        Error::value(key, value, "it must be a list of tables")
            .hint(format!("write `[[{key}]]` (two brackets) with its keys below it"))
    };
    match table.remove(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::Table(section) => Ok(section),
                other => Err(wrong(&other)),
            })
            .collect(),
        Some(other) => Err(wrong(&other)),
    }
}

/// Splits a table tagged by `kind` into the kind and the rest. A bare string is a kind alone.
pub fn kind_and_rest(value: &Value, key: &str) -> Result<(String, Table)> {
    match value {
        Value::String(kind) => Ok((kind.clone(), Table::new())),
        Value::Table(table) => {
            let mut rest = table.clone();
            match rest.remove("kind") {
                Some(Value::String(kind)) => Ok((kind, rest)),
                Some(other) => Err(Error::value(&join(key, "kind"), &other, "it must be a string")),
                None => Err(Error::usage(format!("`{key}` has no `kind`"))
                    .hint(format!("name one: `{} = \"...\"`", join(key, "kind")))),
            }
        }
        other => Err(Error::value(key, other, "it must be a kind (a string) or a table with a `kind`")),
    }
}

/// The error for a `kind` that is none of `known`.
pub fn unknown_kind<'a>(key: &str, kind: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let error = Error::value(key, format!("\"{kind}\""), format!("it must be one of {}", listed(&known)));
    let place_in_list = key.strip_suffix(']').and_then(|key| key.rsplit_once('['));
    // Encodings that stand together are a list as well.
    let list = place_in_list.map(|(list, _)| list).or((key == "position").then_some(key));
    if let Some(hint) = list.and_then(|list| list::hint(list, kind)) {
        return error.hint(hint);
    }
    match nearest(kind, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`longwave schema` prints every key and what it allows"),
    }
}

/// The error for a key that is none of `allowed`; `field` is the last part of `key`.
pub fn unknown_key(key: &str, field: &str, allowed: &[&str]) -> Error {
    let error = Error::usage(match allowed {
        [] => format!("unknown key `{key}`: none are allowed here"),
        allowed => format!("unknown key `{key}`: allowed are {}", listed(allowed)),
    });
    match nearest(field, allowed.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("remove it, or see `longwave schema` for every key"),
    }
}

/// Whether a value is its type's default, which files leave out.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Names in backticks, separated by commas.
fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Section {
        #[expect(dead_code, reason = "only its presence is tested")]
        steps: usize,
        #[serde(default)]
        #[expect(dead_code, reason = "only its type is tested")]
        lengths: Vec<usize>,
    }

    #[test]
    fn errors_name_the_key_the_value_and_what_was_meant() {
        let message = |text: &str| read::<Section>(&text.parse().unwrap(), "train").unwrap_err().to_string();
        assert_eq!(
            message("step = 3"),
            "unknown key `train.step`: allowed are `steps`, `lengths`\n\nhint: did you mean `steps`?"
        );
        for (text, start) in [
            (
                "steps = 'many'",
                "`train.steps = \"many\"` is not allowed: it must be a whole number of at least 0\n",
            ),
            ("steps = 1\nlengths = [1, -2]", "`train.lengths[1] = -2` is not allowed"),
            ("", "`train.steps` is missing"),
        ] {
            assert!(message(text).starts_with(start), "{}", message(text));
        }
    }

    #[test]
    fn kinds() {
        let (kind, rest) = kind_and_rest(&Value::String("linear".into()), "extend").unwrap();
        assert_eq!((kind.as_str(), rest.len()), ("linear", 0));
        let error = unknown_kind("position.kind", "ropee", ["rope", "none"]);
        assert_eq!(error.hint_text(), Some("did you mean `rope`?"));
    }
}
