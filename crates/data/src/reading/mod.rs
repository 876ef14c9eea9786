//! The documents of one file, one after another, with bounded memory, however they are written and packed.

mod lines;
mod rows;
mod text;

use crate::corpus::{Format, Packing, Source, damaged};
use flate2::bufread::MultiGzDecoder;
use longwave_core::{Error, Result};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

pub(crate) use text::{PIECE, piece_end};

/// What comes next in a file.
pub(crate) enum Part<'a> {
    /// A document begins: its number in the file, from 1, which may leave some out.
    Begin(u64),
    /// The next bytes of the document.
    Text(&'a [u8]),
    /// The document is complete.
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

/// A file's bytes as they were before they were packed, and how many bytes of the file are read.
pub(crate) type Unpacked = (Box<dyn BufRead>, Rc<Cell<u64>>);

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

/// Unpacks a file.
pub(crate) fn unpacked(path: &Path, packing: Packing) -> Result<Unpacked> {
    let file = File::open(path).map_err(|error| Error::io("read", path, &error))?;
    let read = Rc::new(Cell::new(0));
    let file = BufReader::with_capacity(BUFFER, Counted { file, read: Rc::clone(&read) });
    let reader: Box<dyn BufRead> = match packing {
        Packing::None => Box::new(file),
        Packing::Gzip => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file))),
        Packing::Zstd => {
            Box::new(BufReader::with_capacity(BUFFER, Frames { file, frame: FrameDecoder::new() }))
        }
    };
    Ok((reader, read))
}

const BUFFER: usize = 1 << 16;

fn unreadable(source: &Source, error: &io::Error) -> Error {
    match source.packing {
        Packing::None => Error::io("read", &source.path, error),
        Packing::Gzip | Packing::Zstd => damaged(&source.path, error),
    }
}

/// A file, and how many bytes of it are read.
struct Counted {
    file: File,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// The frames of a `.zst` file, one after another.
struct Frames<R> {
    file: R,
    frame: FrameDecoder,
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.file.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.file) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.file.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Whether the frame that has ended is what its writer saw.
    fn check(&self) -> io::Result<()> {
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(written), Some(found)) if written != found => Err(io::Error::other("a checksum differs")),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 {
            if self.frame.is_finished() {
                self.check()?;
                if !self.begin()? {
                    return Ok(0);
                }
            } else {
                let next = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.file, next).map_err(io::Error::other)?;
            }
        }
        self.frame.read(buffer)
    }
}

#[cfg(test)]
mod tests;
