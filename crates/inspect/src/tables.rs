//! The catalog as the two Markdown tables of the reference in `docs`.

use crate::catalog::{self, EncodingInfo, ExtensionInfo, HookPoint};
use longwave_core::Result;
use longwave_position::encodings;
use std::fmt::Write as _;

/// The table of encodings.
///
/// # Errors
/// An encoding cannot be built from its kind alone.
pub fn encodings() -> Result<String> {
    let mut table = "| encoding | what it is | from | acts on | parameters | past the training length |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for EncodingInfo { kind, summary, source, acts, parameters, past, .. } in catalog::encodings()? {
        let acts: Vec<&str> = acts.into_iter().map(HookPoint::name).collect();
        let cells = [acts.join(", "), code(&parameters)].map(|cell| or_nothing(&cell));
        // Writing into a string cannot fail.
        let _ = writeln!(table, "| `{kind}` | {summary} | {source} | {} | {} | {past} |", cells[0], cells[1]);
    }
    Ok(table)
}

/// The table of extensions.
///
/// # Errors
/// An encoding cannot be built from its kind alone.
pub fn extensions() -> Result<String> {
    let mut table =
        "| extension | what it does | from | applies to | keys |\n|---|---|---|---|---|\n".to_owned();
    for ExtensionInfo { kind, summary, source, applies_to, keys, .. } in catalog::extensions()? {
        let cells = [applies(&applies_to), code(&keys)].map(|cell| or_nothing(&cell));
        let _ = writeln!(table, "| `{kind}` | {summary} | {source} | {} | {} |", cells[0], cells[1]);
    }
    Ok(table)
}

/// A set of encodings; those that are missing where they are fewer.
fn applies(kinds: &[&str]) -> String {
    let missing: Vec<&str> =
        encodings::kinds().iter().map(|entry| entry.kind).filter(|kind| !kinds.contains(kind)).collect();
    match missing.len() {
        0 => "every encoding".to_owned(),
        few if few < kinds.len() => format!("all but {}", code(&missing)),
        _ => code(kinds),
    }
}

/// Words in code style, a comma between them.
fn code(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|word| format!("`{}`", word.as_ref())).collect::<Vec<_>>().join(", ")
}

fn or_nothing(cell: &str) -> String {
    if cell.is_empty() { "-".to_owned() } else { cell.to_owned() }
}
