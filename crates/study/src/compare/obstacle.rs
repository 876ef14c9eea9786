//! What keeps two measurements from being compared, by the key in which they differ.

use crate::extensions::Extension;
use crate::words::listed;
use longwave_eval::protocols::{self, MAX_LENGTH, Unit};
use longwave_eval::{ResultRow, Settings};
use serde_json::{Map, Value};
use std::fmt::Display;

/// A key in which two rows differ, and both values; `-` where a row does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Differing {
    key: String,
    a: String,
    b: String,
}

/// The keys in which two rows were measured differently: protocol, split and lengths, and where asked the extension and
/// the checkpoint.
pub(super) fn differing(
    a: &ResultRow,
    b: &ResultRow,
    by_extension: bool,
    by_checkpoint: bool,
) -> Vec<Differing> {
    // One run may have been trained on the text that the other was given.
    let one_text = a.text_hash.is_some() && b.text_hash.is_some() && a.same_text(b);
    let settings = |row: &ResultRow| {
        let corpus_hash = row.settings.corpus_hash.clone().filter(|_| !one_text);
        Settings { corpus_hash, ..row.settings.clone() }
    };
    let (x, y) = (&settings(a), &settings(b));
    let mut differing = if by_extension {
        let mut keys = compared("", &fields(x), &fields(y));
        if a.extend == b.extend {
            let [a, b] = [a, b].map(|row| object(Extension::of_row(row).config()));
            keys.extend(compared("extend.", &a, &b));
        } else {
            keys.push(Differing { key: "extend".to_owned(), a: a.extend.clone(), b: b.extend.clone() });
        }
        keys
    } else {
        // How the window baseline reads is part of one reading, not of both.
        let inexact = |settings: &Settings| fields(&Settings { exact: None, ..settings.clone() });
        compared("", &inexact(x), &inexact(y))
    };
    if by_checkpoint && a.checkpoint != b.checkpoint {
        let (a, b) = (a.checkpoint.clone(), b.checkpoint.clone());
        differing.push(Differing { key: "checkpoint".to_owned(), a, b });
    }
    differing
}

/// A value as a message has it; `-` for none.
pub(super) fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn compared(section: &str, a: &Map<String, Value>, b: &Map<String, Value>) -> Vec<Differing> {
    let more = b.keys().filter(|key| !a.contains_key(*key));
    a.keys()
        .chain(more)
        .filter(|key| a.get(*key) != b.get(*key))
        .map(|key| Differing { key: format!("{section}{key}"), a: shown(a.get(key)), b: shown(b.get(key)) })
        .collect()
}

/// What tells measurements apart; models may have been trained at other lengths.
pub(super) fn fields(settings: &Settings) -> Map<String, Value> {
    let mut fields = object(&serde_json::to_value(settings).unwrap_or_default());
    fields.remove("train_length");
    fields
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// "`length` (128 and 64) and `protocol` (`task` and `sliding`)", without the inner quotes.
pub(super) fn in_words(differing: &[Differing]) -> String {
    let parts: Vec<String> =
        differing.iter().map(|it| format!("`{}` ({} and {})", it.key, it.a, it.b)).collect();
    listed(&parts)
}

/// Options of `eval` that give two measurements the values in which they differ, of keys that follow from the training length: the
/// smaller of both values, which the other run can be read with too.
pub(super) fn in_common(differing: &[Differing]) -> String {
    // These two follow from the lengths that are read.
    let follows = |name: &str| [MAX_LENGTH.name, "window_stride"].contains(&name);
    let keys = protocols::keys().into_iter().filter(|key| key.unit == Unit::Tokens && !follows(key.name));
    let options = keys.filter_map(|key| {
        let it = differing.iter().find(|it| it.key == key.name)?;
        let [a, b] = [&it.a, &it.b].map(|value| value.parse::<usize>().ok());
        Some(format!(" --set {}={}", key.name, a?.min(b?)))
    });
    options.collect::<Vec<_>>().concat()
}

/// "`length` and `protocol`".
pub(super) fn keys(differing: &[Differing]) -> String {
    listed(&differing.iter().map(|it| format!("`{}`", it.key)).collect::<Vec<_>>())
}

pub(super) fn numbers(numbers: &[impl Display]) -> String {
    listed(&numbers.iter().map(ToString::to_string).collect::<Vec<_>>())
}
