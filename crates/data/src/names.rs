//! The names of a corpus's documents: those of its files, or files and lines.

use crate::corpus::{Corpus, Format, Source};
use longwave_core::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Passes the name of every document to `each`.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn names(corpus: &Corpus, each: &mut dyn FnMut(&str)) -> Result<()> {
    for source in &corpus.sources {
        match source.format {
            Format::Text => each(&source.name),
            Format::JsonLines => lines(&source.path, &mut |number, line| {
                if !line.trim_ascii().is_empty() {
                    each(&line_name(source, number));
                }
                Ok(())
            })?,
        }
    }
    Ok(())
}

/// The name of the document on a line of JSON, counted from 1.
pub(crate) fn line_name(source: &Source, number: u64) -> String {
    format!("{}:{number}", source.name)
}

/// Passes each line with its number, counted from 1, to `each`.
pub(crate) fn lines(path: &Path, each: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    let (mut line, mut number) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        number += 1;
        each(number, &line)?;
        line.clear();
    }
    Ok(())
}
