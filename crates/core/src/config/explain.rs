//! What serde found wrong, in the words of a config.

use super::{kinds, list, unknown_key};
use crate::error::{Error, nearest, slips};
use toml::{Table, Value};

pub(super) fn join(section: &str, path: &str) -> String {
    match (section.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => section.to_owned(),
        _ => format!("{section}.{path}"),
    }
}

/// Turns serde's message into ours: key, value, what is allowed, a hint. A type may give the hint itself, in a line of
/// its message that begins with `hint: `.
pub(super) fn explain(table: &Table, section: &str, path: &str, message: &str) -> Error {
    let hint = message.lines().find_map(|line| line.strip_prefix("hint: "));
    let takes_list = message.lines().any(|line| line == list::TAKEN);
    // Further lines repeat the key.
    let message = message.lines().next().unwrap_or_default();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("unknown field")
        && let Some((field, allowed)) = quoted.split_first()
    {
        let parent = path.strip_suffix(field).unwrap_or(path).trim_end_matches('.');
        let key = join(section, &join(parent, field));
        return unknown_key(&key, field, allowed);
    }
    if message.starts_with("missing field")
        && let Some(field) = quoted.first()
    {
        let error = Error::usage(format!("`{}` is missing", join(section, &join(path, field))));
        return error.hint(hint.map_or_else(|| hint_of_missing(table, path, field), str::to_owned));
    }
    let key = join(section, path);
    let wanted = wanted(message);
    let value = lookup(table, path);
    let error = match value {
        // TOML has no such number, so that a `--set` of one is taken for a string.
        Some(Value::String(digits))
            if wanted.starts_with("it must be a whole number") && is_number(digits) =>
        {
            Error::value(&key, digits, format!("it must be at most {}", i64::MAX))
        }
        Some(value) => Error::value(&key, value, &wanted),
        None => Error::usage(format!("`{key}`: {wanted}")),
    };
    let near = quoted.split_first().filter(|_| message.starts_with("unknown variant"));
    let near = near.and_then(|(word, allowed)| nearest(word, allowed.iter().copied()));
    let text = value.and_then(Value::as_str).filter(|_| takes_list || wanted.contains("a list"));
    let hint = text
        .and_then(|text| list::hint(&key, text))
        .or_else(|| hint.map(str::to_owned))
        .or_else(|| kinds::hint(&key, value?, &wanted))
        .or_else(|| near.map(|near| format!("did you mean `{near}`?")));
    error.hint(hint.unwrap_or_else(|| "`longwave schema` prints every key and what it allows".to_owned()))
}

/// What to do about a key that is missing from the table at `path`.
fn hint_of_missing(table: &Table, path: &str, field: &str) -> String {
    let there = if path.is_empty() { Some(table) } else { lookup(table, path).and_then(Value::as_table) };
    let slip = there.and_then(|there| there.keys().find(|key| slips(field, key) <= 1));
    let what = match slip {
        Some(slip) => format!("write `{field}` in the place of `{slip}`, or add it:"),
        None => format!("add `{field} = ...`;"),
    };
    format!("{what} `longwave schema` says what it takes")
}

fn is_number(text: &str) -> bool {
    text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What serde expected, in the words of a config rather than those of the program.
fn wanted(message: &str) -> String {
    if let Some((_, expected)) = message.rsplit_once("expected ") {
        return format!("it must be {}", expected_in_words(expected));
    }
    // What a type says it expects, in words of its own.
    if message.starts_with("a ") || message.starts_with("an ") {
        return format!("it must be {message}");
    }
    let words = if message.starts_with("data did not match") {
        "it has none of the forms that are allowed here"
    } else if message.starts_with("duplicate field") {
        "it is given twice"
    } else if message.starts_with("wanted ") {
        "it must be a string"
    } else if message.ends_with("value was too large") {
        "it is too large a number"
    } else {
        message
    };
    words.to_owned()
}

/// What serde expects without the names of the program's types.
fn expected_in_words(expected: &str) -> String {
    let words = match expected {
        "u64" | "usize" | "u32" | "u16" | "u8" => "a whole number of at least 0",
        "i64" | "i32" | "isize" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a map" => "a table",
        "a sequence" => "a list",
        "a string" | "a borrowed string" | "a character" | "variant identifier" | "field identifier"
        // A choice without keys of its own, written as something else than its name.
        | "string only" | "empty array" | "empty table" | "enum" => "a string",
        "string or table" | "map with a single key" => "a string or a table",
        "fewer elements in array" => "a shorter list",
        "fewer elements in map" => "a table with fewer keys",
        other => return composed_in_words(other),
    };
    words.to_owned()
}

fn composed_in_words(expected: &str) -> String {
    const TABLES: [&str; 5] =
        ["struct ", "internally tagged enum ", "adjacently tagged enum ", "struct variant ", "table, found "];
    const LISTS: [&str; 2] = ["tuple struct ", "tuple variant "];
    const NAMES: [&str; 4] = ["enum ", "unit struct ", "unit variant ", "newtype variant "];
    let begins = |words: &[&str]| words.iter().any(|word| expected.starts_with(word));
    let count = ["an array of length ", "a tuple of size ", "tuple with length "];
    if let Some(count) = count.iter().find_map(|words| expected.strip_prefix(words)) {
        format!("a list of {count}")
    } else if begins(&TABLES) {
        "a table".to_owned()
    } else if begins(&LISTS) {
        "a list".to_owned()
    } else if begins(&NAMES) {
        "a string".to_owned()
    } else {
        expected.to_owned()
    }
}

/// The message of a reader of another format, such as JSON, without the names of the program's types.
pub fn without_types(message: &str) -> String {
    let Some((before, rest)) = message.split_once("expected ") else { return message.to_owned() };
    let (expected, place) = rest
        .split_once(" at line ")
        .map_or((rest, String::new()), |(expected, place)| (expected, format!(" at line {place}")));
    format!("{before}expected {}{place}", expected_in_words(expected))
}

/// The value at a path such as `lengths[2]` or `tokenizer.kind`.
fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut parts = path.split(['.', '[']).map(|part| part.trim_end_matches(']'));
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = match value {
            Value::Table(inner) => inner.get(part)?,
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Counted {
        #[expect(dead_code, reason = "only its type is tested")]
        count: Option<u32>,
    }

    #[test]
    fn a_number_that_is_too_large_is_called_so() {
        let error = |text: &str| read::<Counted>(&text.parse().unwrap(), "").unwrap_err();
        let large = error("count = '99999999999999999999'");
        assert!(large.message().ends_with("it must be at most 9223372036854775807"), "{large}");
        assert!(error("count = '12'").message().ends_with("it must be a whole number of at least 0"));
    }

    /// Those of the real configs are in `tests/tests/workspace/wrong_values.rs`.
    #[test]
    fn what_is_expected_has_no_name_of_a_type() {
        let json = without_types("invalid type: integer `1`, expected struct Entry at line 1 column 2");
        assert_eq!(json, "invalid type: integer `1`, expected a table at line 1 column 2");
        for (expected, words) in [
            ("a tuple of size 2", "a list of 2"),
            ("an array of length 3", "a list of 3"),
            ("fewer elements in array", "a shorter list"),
            ("internally tagged enum Tagged", "a table"),
        ] {
            assert_eq!(expected_in_words(expected), words);
        }
    }
}
