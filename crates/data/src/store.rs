//! The bytes that a cache entry is made of: a file of it, memory-mapped, or numbers of the program.

use longwave_core::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// Bytes of a file or of the program.
pub(crate) enum Store {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for Store {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Store {
    #[expect(unsafe_code, reason = "only whoever maps a file knows that nothing writes to it")]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("read", path, &error);
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() == 0 {
            return Ok(Self::Owned(Vec::new())); // an empty file cannot be mapped everywhere
        }
        // SAFETY: nothing writes to the files of a cache entry once its folder has its name; an entry
        // that is replaced is unlinked, which leaves the mapped content as it was.
        unsafe { Mmap::map(&file) }.map(Self::Mapped).map_err(failed)
    }
}
