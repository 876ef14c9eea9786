//! `--set KEY=VALUE`: changes one key of a document.

use super::BACKSLASH;
use crate::error::{Error, Result};
use toml::{Table, Value};

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
    let value = match format!("value = {text}").parse::<Table>() {
        Ok(parsed) if parsed.len() > 1 => {
            let others: Vec<String> =
                parsed.keys().filter(|key| *key != "value").map(|key| format!("`{key}`")).collect();
            return Err(Error::usage(format!(
                "`--set {key}` holds more than one assignment: {}",
                others.join(", ")
            ))
            .hint("give each key a `--set` of its own"));
        }
        Ok(mut parsed) => parsed.remove("value"),
        Err(_) if text.starts_with('"') && text.contains('\\') => {
            return Err(Error::usage(format!("`--set {key}`: {text} is no TOML")).hint(BACKSLASH));
        }
        Err(_) => None,
    };
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
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

/// How `--set` names a key that messages name by its place in the file.
pub(super) fn assigned(key: &str) -> String {
    // Behind `eval`, which messages take for the place, `--set` is about the one evaluation at hand.
    let key = key.strip_prefix("eval.").unwrap_or(key);
    key.replace(&format!("{BLOCKS}[0]"), BLOCKS).replace('[', ".").replace(']', "")
}

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

#[cfg(test)]
mod tests {
    use super::*;

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
        let two = set(&mut document, "train.steps=5\ntrain.length=32").unwrap_err();
        assert!(
            two.message().contains("`--set train.steps` holds more than one assignment: `train`"),
            "{two}"
        );
        assert_eq!(document["train"]["steps"].as_integer(), Some(200), "nothing is taken");
        assert!(set(&mut document, "train.steps.x=1").is_err());
        assert!(set(&mut document, "train.steps").is_err());
    }
}
