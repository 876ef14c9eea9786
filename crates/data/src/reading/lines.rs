//! JSON lines: one object with one document each.

use super::{Part, Sink, open, unreadable, whole};
use crate::corpus::Source;
use longwave_core::{Error, Result};
use serde_json::Value;
use std::io::{BufRead, Read};
use std::path::Path;

/// The most MiB of a line, which is in memory as a whole: the longest books have a few. A small packed file can hold a line that fills any
/// memory.
const MOST_MIB: u64 = 256;

pub(super) fn read(source: &Source, field: &str, sink: &mut Sink<'_>) -> Result<()> {
    read_up_to(MOST_MIB << 20, source, field, sink)
}

/// The same with `most` bytes for a line.
pub(super) fn read_up_to(most: u64, source: &Source, field: &str, sink: &mut Sink<'_>) -> Result<()> {
    let (mut file, read) = open(source)?;
    let (mut line, mut number) = (Vec::new(), 0);
    // One byte more is the end of the line, or too much.
    let mut next = |line: &mut Vec<u8>| {
        file.by_ref().take(most + 1).read_until(b'\n', line).map_err(|error| unreadable(source, &error))
    };
    while next(&mut line)? > 0 {
        number += 1;
        if line.len() as u64 > most && !line.ends_with(b"\n") {
            return Err(too_long(&source.path, number));
        }
        if !line.trim_ascii().is_empty() {
            match text_of(&source.path, number, &line, field) {
                Ok(text) => whole(number, text.as_bytes(), sink)?,
                Err(error) => sink(Part::Bad(error))?,
            }
        }
        sink(Part::At(read.get()))?;
        line.clear();
    }
    Ok(())
}

fn too_long(path: &Path, number: u64) -> Error {
    Error::failed(format!("`{}` line {number} is longer than {MOST_MIB} MiB", path.display()))
        .hint("a .jsonl file holds one object per line: is it a JSON array?")
}

/// The text field of one JSON line.
fn text_of(path: &Path, number: u64, line: &[u8], field: &str) -> Result<String> {
    const SKIP: &str = "`--set data.skip_bad_lines=true` goes on without such lines";
    let at = format!("`{}` line {number}", path.display());
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        // The library counts lines and columns within the line.
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or(&what);
        Error::failed(format!("{at} is not valid JSON: {what}"))
            .hint(format!("a .jsonl file holds one complete JSON object per line, in UTF-8; {SKIP}"))
    })?;
    let Value::Object(mut object) = value else {
        return Err(Error::failed(format!("{at} is not a JSON object"))
            .hint(format!("write each document as `{{\"{field}\": \"...\"}}`; {SKIP}")));
    };
    match object.remove(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Error::failed(format!("{at}: the field `{field}` is not a string"))
            .hint(format!("`data.text_field` names the field that holds the text; {SKIP}"))),
        None => {
            let found: Vec<_> = object.keys().map(|key| format!("`{key}`")).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            Err(Error::failed(format!("{at} has no field `{field}`; its fields: {found}"))
                .hint(format!("set `data.text_field` to the field that holds the text; {SKIP}")))
        }
    }
}
