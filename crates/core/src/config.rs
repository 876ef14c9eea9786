//! Strict reading of TOML tables.
//!
//! Every section of a config is a plain serde struct with `deny_unknown_fields`. [`read`] turns a
//! table into one and, where it cannot, says which key is wrong, what stands there, what is allowed
//! and, for a slip of the keyboard, what was probably meant.

use crate::error::{Error, Result, nearest};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

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
///
/// # Errors
/// The key holds something that is not a table.
pub fn take_table(table: &mut Table, key: &str) -> Result<Table> {
    match table.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(section)) => Ok(section),
        Some(other) => Err(Error::value(key, &other, "it must be a table")
            .hint(format!("write a section `[{key}]` with its keys below it"))),
    }
}

/// Takes the list of tables `key` (`[[key]]`) out of `table`; a missing one reads as empty.
///
/// # Errors
/// The key holds something that is not a list of tables.
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
///
/// # Errors
/// No `kind`, or one that is not a string.
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

/// Whether a key has its default. A key that came later is left out of resolved configs there, so that the hashes
/// of runs that are older than the key stay what they were.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Sets the dotted `key` of a document to a value written as TOML; a bare word reads as a string. A number in the key
/// is a place in a list, counted from 0: `evaluate.1.lengths`. Without one, `evaluate.lengths` means the first block, and
/// a warning is given where there are several.
///
/// # Errors
/// The assignment has no `=`, or the path leads to nothing.
pub fn set(document: &mut Table, assignment: &str) -> Result<Option<String>> {
    let (key, text) = assignment.split_once('=').ok_or_else(|| {
        Error::usage(format!("`--set {assignment}` has no `=`")).hint("write `--set train.steps=200`")
    })?;
    let (key, text) = (key.trim(), text.trim());
    let value = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let parts: Vec<&str> = key.split('.').collect();
    let several = unnumbered(document, key, &parts);
    let (last, path) = parts.split_last().unwrap_or((&"", &[]));
    let mut table = document;
    let mut path = path.iter();
    while let Some(part) = path.next() {
        let missing = || if *part == BLOCKS { first_block() } else { Value::Table(Table::new()) };
        let next = table.entry(*part).or_insert_with(missing);
        let not_a_table = || {
            Error::usage(format!("`--set {key}`: `{part}` is not a table"))
                .hint("give the whole list or value in TOML, or edit the config")
        };
        table = match next {
            Value::Table(inner) => inner,
            Value::Array(items) => {
                let index = path.as_slice().first().and_then(|index| index.parse::<usize>().ok());
                let last_index = last.parse::<usize>().ok().filter(|_| path.as_slice().is_empty());
                if let Some(index) = last_index {
                    *place(items, key, part, index)? = value;
                    return Ok(None);
                }
                let item = match index {
                    Some(index) => {
                        path.next();
                        place(items, key, part, index)?
                    }
                    None if *part == BLOCKS => items.first_mut().ok_or_else(not_a_table)?,
                    None => return Err(not_a_table()),
                };
                item.as_table_mut().ok_or_else(not_a_table)?
            }
            _ => return Err(not_a_table()),
        };
    }
    table.insert((*last).to_owned(), value);
    Ok(several)
}

/// The blocks of which one may be addressed without its number.
const BLOCKS: &str = "evaluate";

/// A list with one empty block.
fn first_block() -> Value {
    Value::Array(vec![Value::Table(Table::new())])
}

/// The entry of a list that a key names by its number.
fn place<'a>(items: &'a mut [Value], key: &str, part: &str, index: usize) -> Result<&'a mut Value> {
    let count = items.len();
    items.get_mut(index).ok_or_else(|| {
        let has = match count {
            0 => "no entry".to_owned(),
            1 => "one entry, `0`".to_owned(),
            _ => format!("{count} entries, `0` to `{}`", count - 1),
        };
        Error::usage(format!("`--set {key}`: `{part}` has {has}"))
            .hint("name one of them, or give the whole list in TOML")
    })
}

/// The warning for a key that names the first of several blocks by naming none.
fn unnumbered(document: &Table, key: &str, parts: &[&str]) -> Option<String> {
    let [BLOCKS, next, ..] = parts else { return None };
    let blocks = document.get(BLOCKS)?.as_array()?.len();
    let rest = &key[BLOCKS.len()..];
    (blocks > 1 && next.parse::<usize>().is_err()).then(|| {
        format!(
            "`--set {key}` changes the first of {blocks} `[[{BLOCKS}]]` blocks: `{BLOCKS}.0{rest}` says so, and \
             `{BLOCKS}.1{rest}` changes the next"
        )
    })
}

/// Names in backticks, separated by commas.
fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn join(section: &str, path: &str) -> String {
    match (section.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => section.to_owned(),
        _ => format!("{section}.{path}"),
    }
}

/// Turns serde's message into ours: key, value, what is allowed, a hint. A type may give the hint itself, in a line of
/// its message that begins with `hint: `.
fn explain(table: &Table, section: &str, path: &str, message: &str) -> Error {
    let hint = message.lines().find_map(|line| line.strip_prefix("hint: "));
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
        return Error::usage(format!("`{}` is missing", join(section, &join(path, field))))
            .hint(format!("add `{field} = ...`; `longwave schema` says what it takes"));
    }
    let key = join(section, path);
    let wanted = wanted(message);
    let error = match lookup(table, path) {
        Some(value) => Error::value(&key, value, wanted),
        None => Error::usage(format!("`{key}`: {wanted}")),
    };
    error.hint(hint.unwrap_or("`longwave schema` prints every key and what it allows"))
}

/// What serde expected, in the words of a config rather than those of the program.
fn wanted(message: &str) -> String {
    if let Some((_, expected)) = message.rsplit_once("expected ") {
        return format!("it must be {}", expected_in_words(expected));
    }
    if message.starts_with("data did not match") {
        return "it has none of the forms that are allowed here".to_owned();
    }
    if message.starts_with("duplicate field") {
        return "it is given twice".to_owned();
    }
    if message.starts_with("wanted ") {
        return "it must be a string".to_owned();
    }
    if message.ends_with("value was too large") {
        return "it is too large a number".to_owned();
    }
    // What a type says it expects, in words of its own.
    if message.starts_with("a ") || message.starts_with("an ") {
        return format!("it must be {message}");
    }
    message.to_owned()
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

    fn message(text: &str) -> String {
        read::<Section>(&text.parse().unwrap(), "train").unwrap_err().to_string()
    }

    #[test]
    fn unknown_key_names_the_nearest() {
        assert_eq!(
            message("step = 3"),
            "unknown key `train.step`: allowed are `steps`, `lengths`\n\nhint: did you mean `steps`?"
        );
    }

    #[test]
    fn wrong_type_shows_the_value() {
        let text = message("steps = \"many\"");
        assert!(
            text.starts_with(
                "`train.steps = \"many\"` is not allowed: it must be a whole number of at least 0\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn path_into_a_list() {
        let text = message("steps = 1\nlengths = [1, -2]");
        assert!(text.starts_with("`train.lengths[1] = -2` is not allowed"), "{text}");
    }

    #[test]
    fn missing_key() {
        assert!(message("").starts_with("`train.steps` is missing"));
    }

    #[test]
    fn set_makes_tables_and_reads_toml() {
        let mut document: Table = "[train]\nsteps = 1\n[[evaluate]]\nlengths = [1]".parse().unwrap();
        set(&mut document, "train.steps=200").unwrap();
        set(&mut document, "position.kind=rope").unwrap();
        set(&mut document, "evaluate.lengths=[2, 3]").unwrap();
        assert_eq!(document["train"]["steps"].as_integer(), Some(200));
        assert_eq!(document["position"]["kind"].as_str(), Some("rope"));
        assert_eq!(document["evaluate"][0]["lengths"].as_array().map(Vec::len), Some(2));
        assert_eq!(set(&mut document, "evaluate.0.lengths.1=7").unwrap(), None);
        assert_eq!(document["evaluate"][0]["lengths"][1].as_integer(), Some(7));
        let wrong = set(&mut document, "evaluate.1.lengths=[3]").unwrap_err();
        assert!(wrong.message().contains("`evaluate` has one entry, `0`"), "{wrong}");
        let mut several: Table = "[[evaluate]]\n[[evaluate]]\n[position]\nlayers = [{}, {}]".parse().unwrap();
        assert_eq!(set(&mut several, "evaluate.1.lengths=[3]").unwrap(), None);
        assert_eq!(set(&mut several, "position.layers.1.window=3").unwrap(), None);
        assert_eq!(several["position"]["layers"][1]["window"].as_integer(), Some(3));
        let warning = set(&mut several, "evaluate.lengths=[2]").unwrap().unwrap();
        assert!(warning.contains("the first of 2") && warning.contains("`evaluate.1.lengths`"), "{warning}");
        assert_eq!(several["evaluate"][0]["lengths"].as_array().map(Vec::len), Some(1));
        let mut none = Table::new();
        assert_eq!(set(&mut none, "evaluate.lengths=[2]").unwrap(), None);
        assert_eq!(none["evaluate"].as_array().map(Vec::len), Some(1));
        assert!(set(&mut document, "train.steps.x=1").is_err());
        assert!(set(&mut document, "train.steps").is_err());
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        Plain,
        Other,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Tagged {
        One {
            #[expect(dead_code, reason = "only its type is tested")]
            width: f64,
        },
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        #[expect(dead_code, reason = "only its type is tested")]
        Number(u64),
        #[expect(dead_code, reason = "only its type is tested")]
        Names(Vec<String>),
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Kinds {
        flag: bool,
        count: Option<u32>,
        share: f64,
        name: String,
        pair: (f64, f64),
        triple: [i64; 3],
        list: Vec<usize>,
        choice: Option<Choice>,
        tagged: Option<Tagged>,
        untagged: Option<Untagged>,
        inner: Option<Box<Kinds>>,
        table: std::collections::BTreeMap<String, u8>,
        several: Option<crate::OneOrMany<Choice>>,
    }

    #[test]
    fn wrong_values_are_explained_without_the_names_of_types() {
        let values = [
            "3",
            "-1",
            "1.5",
            "true",
            "'word'",
            "[]",
            "[1, 'x']",
            "[1, 2, 3, 4]",
            "{}",
            "{ x = 1 }",
            "{ kind = 3 }",
        ];
        let keys = "flag count share name pair triple list choice tagged untagged inner table several table.x inner.pair";
        let mut rejected = 0;
        for key in keys.split_whitespace() {
            for value in values {
                let document: Table = format!("{key} = {value}").parse().unwrap();
                let Err(error) = read::<Kinds>(&document, "section") else { continue };
                rejected += 1;
                let text = error.to_string();
                assert!(text.contains("`section."), "{text}");
                for word in [
                    "Kinds", "Choice", "Tagged", "Untagged", "struct", "enum", "variant", "expected",
                    "invalid",
                ] {
                    assert!(!text.contains(word), "{key} = {value}: {text}");
                }
                for word in
                    ["u32", "u64", "usize", "f64", "i64", "u8", "sequence", "map", "array", "tuple", "option"]
                {
                    assert!(
                        !text.split(|c: char| !c.is_alphanumeric()).any(|it| it == word),
                        "{key} = {value}: {text}"
                    );
                }
            }
        }
        assert!(rejected > 100, "{rejected}");
        let json = without_types("invalid type: integer `1`, expected struct Entry at line 1 column 2");
        assert_eq!(json, "invalid type: integer `1`, expected a table at line 1 column 2");
    }

    #[test]
    fn kinds() {
        let (kind, rest) = kind_and_rest(&Value::String("linear".into()), "extend").unwrap();
        assert_eq!((kind.as_str(), rest.len()), ("linear", 0));
        let error = unknown_kind("position.kind", "ropee", ["rope", "none"]);
        assert_eq!(error.hint_text(), Some("did you mean `rope`?"));
    }
}
