//! Files that appear whole or not at all.
//!
//! A file is written beside its place, flushed to the disk and renamed over it, so that a reader,
//! or a run that is killed, never sees half of one. What a killed run has left beside is removed when the file is written
//! again, or by [`remove_leftovers`]: a file that is being written is locked, so no other is taken for it.

pub mod existing_folder;
#[doc(hidden)]
pub mod fault;
mod leftovers;
mod new_folder;

pub use leftovers::{holds_leftovers_only, holds_leftovers_only_beside, remove_leftovers};
pub use new_folder::{check_folder_name, check_new_folder, folder_name, write_new_folder};

use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Writes a file through `fill`, then moves it into place.
///
/// # Errors
/// The folder cannot be made, or the file cannot be written; nothing is left at `path` then.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    fill(&mut file).map_err(|error| Error::io("write", path, &error))?;
    file.finish()
}

/// A file that is written little by little and appears when it is [finished](Self::finish); dropped
/// before, it leaves nothing.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    beside: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Opens a file beside `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| Error::io("write", path, &error);
        fault::pass("make the folder of", path).map_err(failed)?;
        make_folders(folder_of(path)).map_err(failed)?;
        Self::beside(path).map_err(failed)
    }

    fn beside(path: &Path) -> io::Result<Self> {
        let beside = beside(path);
        let writer = BufWriter::new(create_locked(&beside)?);
        leftovers::remove_of(path);
        Ok(Self { path: path.to_owned(), beside, writer: Some(writer) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Brings everything to the disk and moves the file into place.
    ///
    /// # Errors
    /// The file cannot be written; nothing is left at its path then.
    pub fn finish(mut self) -> Result<()> {
        self.complete().map_err(|error| Error::io("write", &self.path, &error))
    }

    fn complete(&mut self) -> io::Result<()> {
        if let Some(mut writer) = self.writer.take() {
            // A failure leaves the half-written file worth nothing; the first error is the one to report.
            let written = fault::pass("write", &self.path).and_then(|()| writer.flush());
            let synced = written
                .and_then(|()| fault::pass("sync", &self.path))
                .and_then(|()| writer.get_ref().sync_all())
                .and_then(|()| fault::synced(&self.beside));
            let moved = synced
                .and_then(|()| fault::pass("rename", &self.path))
                .and_then(|()| fs::rename(&self.beside, &self.path));
            if moved.is_err() {
                let _ = fs::remove_file(&self.beside);
            }
            moved?;
        }
        fault::pass("sync the folder of", &self.path)?;
        sync_folder(folder_of(&self.path))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// The folder that a file lies in; `.` where its path names none.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes `bytes` as the whole content of `path`.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |writer| writer.write_all(bytes))
}

/// Adds bytes to the end of a file, which need not exist in a folder that must, and brings them to the disk. Of a failure, part of them may stay.
///
/// # Errors
/// The folder is gone, or the file cannot be written.
pub fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    let appended = || -> io::Result<()> {
        fault::pass("open", path)?;
        let is_new = !path.exists();
        let mut file = File::options().append(true).create(true).open(path)?;
        // A disk that is full, or a kill, may take a part.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        fault::pass("append to", path)?;
        file.write_all(second)?;
        fault::pass("sync", path)?;
        file.sync_data()?;
        fault::synced(path)?;
        // A new file lasts once its folder knows its name.
        if is_new { sync_folder(folder_of(path)) } else { Ok(()) }
    };
    appended().map_err(|error| existing_folder::failure(folder_of(path), "write", path, &error))
}

/// Gives a file a second name in its folder or another of the same file system: later changes of one that appear whole, as
/// all here do, leave the other as it is. Where the system knows no second names, it is a copy.
pub fn link(from: &Path, to: &Path) -> Result<()> {
    let named = match fault::pass("remove", to).and_then(|()| fs::remove_file(to)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fault::pass("link", to).and_then(|()| fs::hard_link(from, to)),
    };
    named.or_else(|_| copy(from, to))
}

/// Copies a file, whole or not at all.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut file = File::open(from).map_err(|error| Error::io("read", from, &error))?;
    write_with(to, |writer| io::copy(&mut file, writer).map(|_| ()))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<()> {
    match fault::pass("remove", path).and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, &error)),
        _ => Ok(()),
    }
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io("read", path, &error))
}

/// Whether something is at a path that is neither a file nor a folder, such as a pipe or a device. To read it may never end.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Reads a whole text file.
pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))
}

/// SHA-256 of a file's content, in lower-case hexadecimal, read in pieces.
pub fn sha256(path: &Path) -> Result<String> {
    let failed = |error: io::Error| Error::io("read", path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut hash = Sha256::new();
    // Most files of a run are small, and clearing a larger buffer would take longer than reading them.
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..count]);
    }
}

/// SHA-256 of bytes, in lower-case hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A name in the same folder that no other process uses, and this one not twice: its second writer of a file would wait for the
/// first one's lock, which it may hold itself.
fn beside(path: &Path) -> PathBuf {
    static WRITERS: AtomicUsize = AtomicUsize::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.{}{writer:06}.part", std::process::id()))
}

/// A new file, locked as long as it is open where the system can, which shows that it is no leftover.
fn create_locked(path: &Path) -> io::Result<File> {
    fault::pass("create", path)?;
    let mut file = File::create(path)?;
    // Where nothing can be locked, nothing is taken for a leftover either. Another process may just be removing it as one.
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !path.exists() {
        thread::sleep(Duration::from_millis(1));
        file = File::create(path)?;
    }
    Ok(file)
}

/// A path with the home folder in the place of a `~` that it begins with. A shell does the same, but not in a file or within quotes.
pub fn in_home(path: &str) -> String {
    let home = std::env::var(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).unwrap_or_default();
    in_folder_for_tilde(path, &home)
}

fn in_folder_for_tilde(path: &str, home: &str) -> String {
    match path.strip_prefix('~') {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("{}{rest}", home.trim_end_matches('/'))
        }
        _ => path.to_owned(),
    }
}

/// Makes the names in a folder last through a power cut, where the system can: new files, renames and removals.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    fault::synced_folder(folder)
}

/// Makes a folder and those above it that are missing, and lets them last through a power cut.
pub fn make_folders(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.is_dir());
    let missing: Vec<&Path> = missing.collect();
    fs::create_dir_all(path)?;
    missing.into_iter().try_for_each(|made| sync_folder(folder_of(made)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_whole_and_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/a.txt");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read_text(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write(&path, b"old").unwrap();
        let failed = write_with(&path, |writer| {
            writer.write_all(b"ne")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.unwrap_err().to_string().contains("disk full"));
        assert_eq!(read_text(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_writers_of_one_file_do_not_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let mut first = AtomicFile::create(&path).unwrap();
        write(&path, b"second").unwrap();
        first.write_all(b"first").unwrap();
        first.finish().unwrap();
        assert_eq!(read_text(&path).unwrap(), "first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_tilde_is_the_home_folder_where_it_begins_a_path() {
        for (path, expected) in [
            ("~/run", "/home/me/run"),
            ("~", "/home/me"),
            ("~you/run", "~you/run"),
            ("a/~/b", "a/~/b"),
            ("run~", "run~"),
            ("", ""),
        ] {
            assert_eq!(in_folder_for_tilde(path, "/home/me"), expected);
        }
        assert_eq!(in_folder_for_tilde("~/run", ""), "~/run");
    }

    #[test]
    fn hashes_as_published() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(b"abc"), abc);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, "abc").unwrap();
        assert_eq!(sha256(&path).unwrap(), abc);
    }
}
