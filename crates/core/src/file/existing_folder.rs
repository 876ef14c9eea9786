//! Files in a folder that must be there, such as a run's.
//!
//! A run whose folder is removed or renamed while the program works on it must not appear again with a part of its files: it
//! would look like a run and be none. So nothing here makes the folder of a file.

use super::{AtomicFile, fault, folder_of, sync_folder};
use crate::error::{Error, Result};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes `bytes` as the whole content of `path`, whole or not at all.
///
/// # Errors
/// The folder is gone, or the file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |writer| writer.write_all(bytes))
}

/// Writes a file through `fill`, then moves it into place.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let written = || -> io::Result<()> {
        fault::pass("open a file beside", path)?;
        let mut file = AtomicFile::beside(path)?;
        fill(&mut file)?;
        file.complete()
    };
    written().map_err(|error| failure(folder_of(path), "write", path, &error))
}

/// Checks that a file could be written, before the work whose result it is to hold.
pub fn check_writable(path: &Path) -> Result<()> {
    let begun = fault::pass("open a file beside", path).and_then(|()| AtomicFile::beside(path));
    begun.map(drop).map_err(|error| failure(folder_of(path), "write", path, &error))
}

/// Makes the missing folders between `root`, which must be there, and `folder` below it.
///
/// # Errors
/// `root` is gone, or a folder cannot be made.
pub fn make_below(root: &Path, folder: &Path) -> Result<()> {
    let mut path = root.to_owned();
    for part in folder.strip_prefix(root).unwrap_or(folder).components() {
        path.push(part);
        match fault::pass("make", &path).and_then(|()| fs::create_dir(&path)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists || !path.is_dir() => {
                return Err(failure(root, "make", &path, &error));
            }
            Err(_) => {}
            Ok(()) => {
                sync_folder(folder_of(&path)).map_err(|error| failure(root, "make", &path, &error))?;
            }
        }
    }
    Ok(())
}

/// An error of work in `folder`.
pub(super) fn failure(folder: &Path, doing: &str, path: &Path, error: &io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound && !folder.is_dir() {
        Error::gone(folder)
    } else {
        Error::io(doing, path, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_gone_is_named_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let named = format!("`{}` is gone", run.display());
        for failed in [
            write(&run.join("a.txt"), b"one"),
            crate::file::append(&run.join("a.txt"), b"one"),
            make_below(&run, &run.join("below/it")),
        ] {
            assert!(failed.unwrap_err().to_string().contains(&named));
        }
        assert!(!run.exists());
    }

    #[test]
    fn a_folder_that_goes_while_a_file_is_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        let failed = write_with(&run.join("a.txt"), |writer| {
            fs::rename(&run, folder.path().join("away"))?;
            writer.write_all(b"one")
        });
        assert!(failed.unwrap_err().to_string().contains("is gone"));
        assert!(!run.exists());
    }

    #[test]
    fn folders_below_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        make_below(folder.path(), &below).unwrap();
        make_below(folder.path(), &below).unwrap();
        write(&below.join("c.txt"), b"one").unwrap();
        let stands = make_below(folder.path(), &below.join("c.txt")).unwrap_err().to_string();
        assert!(stands.contains("a file stands where the folder should be"), "{stands}");
    }
}
