//! The catalog as the two Markdown tables of the reference in `docs`.

use crate::catalog::{self, EncodingInfo, ExtensionInfo, HookPoint};
use longwave_core::Result;
use longwave_position::encodings;
use longwave_report::grid::{Grid, Header};

pub fn encodings() -> Result<String> {
    let row = |info: EncodingInfo| {
        let acts: Vec<&str> = info.acts.into_iter().map(HookPoint::name).collect();
        let cells = [acts.join(", "), code(&info.parameters)].map(or_nothing);
        [code(&[info.kind]), info.summary.to_owned(), info.source.to_owned()]
            .into_iter()
            .chain(cells)
            .chain([info.past.to_string()])
    };
    let names = ["encoding", "what it is", "from", "acts on", "parameters", "past the training length"];
    Ok(Grid::of(names.map(Header::words), catalog::encodings()?.into_iter().map(row)).markdown_lines())
}

pub fn extensions() -> Result<String> {
    let row = |info: ExtensionInfo| {
        let cells = [applies(&info.applies_to), code(&info.keys)].map(or_nothing);
        let first = [code(&[info.kind]), info.summary.to_owned(), info.source.to_owned()];
        first.into_iter().chain(cells)
    };
    let names = ["extension", "what it does", "from", "applies to", "keys"];
    Ok(Grid::of(names.map(Header::words), catalog::extensions()?.into_iter().map(row)).markdown_lines())
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

fn or_nothing(cell: String) -> String {
    if cell.is_empty() { "-".to_owned() } else { cell }
}
