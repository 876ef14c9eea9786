//! The documents of one file, one after another, with bounded memory, however they are written and packed.

mod lines;
mod rows;
mod text;

use crate::corpus::{Format, Source};
use crate::packing::{Packing, Unpacked, damaged, unpacked};
use longwave_core::{Error, Result};
use std::io;

pub(crate) use text::{PIECE, piece_end};

/// What comes next in a file.
pub(crate) enum Part<'a> {
    /// A document begins: its number in the file, from 1, which may leave some out.
    Begin(u64),
    /// The next bytes of the document.
    Text(&'a [u8]),
    End,
    /// A line holds no document, for this reason.
    Bad(Error),
    /// So many bytes of the file are read.
    At(u64),
}

/// Receives the parts of a file.
pub(crate) type Sink<'a> = dyn FnMut(Part<'_>) -> Result<()> + 'a;

/// Passes the documents of a file to `sink`; `field` holds the text of a line or row.
pub(crate) fn read(source: &Source, field: &str, sink: &mut Sink<'_>) -> Result<()> {
    match source.format {
        Format::Text => text::read(source, sink),
        Format::JsonLines => lines::read(source, field, sink),
        Format::Parquet => rows::read(source, field, sink),
    }
}

/// A document that is in memory.
fn whole(number: u64, text: &[u8], sink: &mut Sink<'_>) -> Result<()> {
    sink(Part::Begin(number))?;
    let mut rest = text.strip_prefix(MARK).unwrap_or(text);
    while !rest.is_empty() {
        let end = if rest.len() <= PIECE { rest.len() } else { piece_end(&rest[..PIECE]) };
        sink(Part::Text(&rest[..end]))?;
        rest = &rest[end..];
    }
    sink(Part::End)
}

/// The byte-order mark of UTF-8, which is no part of the text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Unpacks a file. A byte-order mark is left out.
fn open(source: &Source) -> Result<Unpacked> {
    let (mut reader, read) = unpacked(&source.path, source.packing)?;
    // A full buffer begins with all of it: the reader has read nothing yet.
    let begins = reader.fill_buf().map_err(|error| unreadable(source, &error))?.starts_with(MARK);
    if begins {
        reader.consume(MARK.len());
    }
    Ok((reader, read))
}

fn unreadable(source: &Source, error: &io::Error) -> Error {
    match source.packing {
        Packing::None => Error::io("read", &source.path, error),
        Packing::Gzip | Packing::Zstd => damaged(&source.path, error),
    }
}

#[cfg(test)]
mod tests;
