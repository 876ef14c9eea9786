//! Files that are compressed as a whole, and their bytes as they were before.

use flate2::bufread::MultiGzDecoder;
use longwave_core::{Error, Result};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

/// A file's bytes as they were before they were packed, and how many bytes of the file are read.
pub(crate) type Unpacked = (Box<dyn BufRead>, Rc<Cell<u64>>);

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

pub(crate) fn damaged(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::failed(format!("`{}` is damaged or cut off: {error}", path.display())).hint("bring the file again")
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
