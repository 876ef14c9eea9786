//! Tables with a `kind` that decides which other keys they take.

use super::listed;
use super::set::assigned;
use toml::Value;

/// What the types of such tables say they expect, with serde's `expecting`.
const EXPECTED: &str = "a table with a `kind`";
const NO_OTHER: &str = "no other key; ";

/// Refuses the keys that a kind does not take; each of `keys` with whether it is given.
///
/// # Errors
/// One that is not among `takes` is given.
pub fn check_keys_of_kind<E: serde::de::Error>(
    kind: &str,
    takes: &[&str],
    keys: &[(&str, bool)],
) -> Result<(), E> {
    let strangers: Vec<&str> =
        keys.iter().filter(|(key, given)| *given && !takes.contains(key)).map(|(key, _)| *key).collect();
    if strangers.is_empty() {
        return Ok(());
    }
    let takes = if takes.is_empty() { String::new() } else { format!("{} and ", listed(takes)) };
    let have = if strangers.len() == 1 { "has" } else { "have" };
    let strangers = listed(&strangers);
    Err(E::custom(format!("kind \"{kind}\" takes {takes}{NO_OTHER}{strangers} {have} no meaning for it")))
}

/// The error for a key that a kind cannot do without; `whole` is a table that has it.
pub fn missing_key_of_kind<E: serde::de::Error>(key: &str, whole: &str) -> E {
    E::custom(format!("missing field `{key}`\nhint: write the whole table, as `{whole}`"))
}

/// How the table is written that a value was meant as; `key` is its place in the file.
pub(super) fn hint(key: &str, value: &Value, wanted: &str) -> Option<String> {
    match value {
        Value::String(kind) if wanted.ends_with(EXPECTED) && is_word(kind) => {
            Some(format!("write `{{ kind = \"{kind}\" }}`"))
        }
        Value::Table(table) => {
            let (_, strangers) = wanted.split_once(NO_OTHER)?;
            let mut rest = table.clone();
            for stranger in strangers.split('`').skip(1).step_by(2) {
                rest.remove(stranger);
            }
            // A change of the kind alone leaves the other keys as they were, and `--set` removes none.
            let (assigned, rest) = (assigned(key), Value::Table(rest));
            Some(format!("leave it out; `--set '{assigned}={rest}'` replaces the whole table"))
        }
        _ => None,
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
