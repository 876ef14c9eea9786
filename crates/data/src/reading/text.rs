//! A text file: one document, or several with a line between them.

use super::{Part, Sink, open, unreadable};
use crate::corpus::Source;
use longwave_core::Result;
use std::io::Read;

/// A document longer than this many bytes comes in pieces.
pub(crate) const PIECE: usize = 1 << 20;

/// A line of this alone ends a document: so `TinyStories` and others are written.
const END: &[u8] = b"<|endoftext|>";

pub(super) fn read(source: &Source, sink: &mut Sink<'_>) -> Result<()> {
    let (mut file, read) = open(source)?;
    let (mut buffer, mut number) = (Vec::new(), 1);
    sink(Part::Begin(number))?;
    loop {
        let missing = (PIECE - buffer.len()) as u64;
        file.by_ref().take(missing).read_to_end(&mut buffer).map_err(|error| unreadable(source, &error))?;
        let last = buffer.len() < PIECE;
        let end = if last { buffer.len() } else { piece_end(&buffer) };
        let mut start = 0;
        let mut at = 0;
        for line in buffer[..end].split_inclusive(|&byte| byte == b'\n') {
            if line.trim_ascii_end() == END {
                if at > start {
                    sink(Part::Text(&buffer[start..at]))?;
                }
                sink(Part::End)?;
                number += 1;
                sink(Part::Begin(number))?;
                start = at + line.len();
            }
            at += line.len();
        }
        if end > start {
            sink(Part::Text(&buffer[start..end]))?;
        }
        sink(Part::At(read.get()))?;
        if last {
            return sink(Part::End);
        }
        buffer.drain(..end);
    }
}

/// Where to end a piece of a longer document: after its last line end, for that is where tokenizers
/// split too, or else between two characters.
pub(crate) fn piece_end(bytes: &[u8]) -> usize {
    if let Some(at) = bytes.iter().rposition(|&byte| byte == b'\n') {
        return at + 1;
    }
    // The lead byte of a character that goes on past the end is among the last three.
    for back in 1..=bytes.len().saturating_sub(1).min(3) {
        let byte = bytes[bytes.len() - back];
        let needed = match byte {
            0xf0..=0xf7 => 4,
            0xe0..=0xef => 3,
            0xc0..=0xdf => 2,
            0x80..=0xbf => continue,
            _ => 1,
        };
        return if needed > back { bytes.len() - back } else { bytes.len() };
    }
    bytes.len()
}
