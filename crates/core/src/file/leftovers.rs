//! Half-written files that killed processes left.

use std::fs::{self, DirEntry, File};
use std::path::Path;

/// Removes the half-written files of processes that are gone from a folder, not from those below it. A file that another
/// process is writing stays, and so does one that cannot be removed: neither hinders anything.
pub fn remove_leftovers(folder: &Path) {
    for entry in parts(folder) {
        let path = entry.path();
        // The lock is held until the file is gone, so that no process begins to write it meanwhile.
        if let Ok(file) = File::options().write(true).open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether a folder is missing, empty, or holds nothing but half-written files.
pub fn holds_leftovers_only(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).all(|entry| is_part(&entry)),
        Err(_) => !folder.exists(),
    }
}

/// The half-written files of a folder.
fn parts(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(Result::ok).filter(is_part)
}

/// Whether it has a name such as `.config.toml.1234.part`, and is a file; pictures end with their own ending after that.
fn is_part(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_str().map(|name| name.strip_suffix(".png").unwrap_or(name));
    let process = name.and_then(|name| name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.'));
    let is_named = process
        .is_some_and(|(_, process)| !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit()));
    is_named && entry.file_type().is_ok_and(|kind| kind.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{AtomicFile, write};
    use std::io::Write;

    #[test]
    fn what_is_being_written_stays_and_leftovers_go() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, left) = (folder.path(), folder.path().join(".config.toml.1.part"));
        fs::write(&left, "half").unwrap();
        assert!(holds_leftovers_only(folder) && holds_leftovers_only(&folder.join("none")));
        let mut open = AtomicFile::create(&folder.join("a.txt")).unwrap();
        open.write_all(b"a").unwrap();
        fs::write(folder.join(".hidden.part"), "not ours").unwrap();
        assert!(!holds_leftovers_only(folder));
        remove_leftovers(folder);
        assert!(!left.exists());
        open.finish().unwrap();
        assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"a");
        assert!(folder.join(".hidden.part").exists());
        // A second file at the same path does not hinder the first.
        write(&folder.join("a.txt"), b"b").unwrap();
    }
}
