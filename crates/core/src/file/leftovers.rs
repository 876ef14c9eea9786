//! Half-written files that killed processes left.

use std::fs::{self, DirEntry, File};
use std::path::Path;

/// Removes the half-written files of processes that are gone from a folder, not from those below it. A file that another
/// process is writing stays, and so does one that cannot be removed: neither hinders anything.
pub fn remove_leftovers(folder: &Path) {
    parts(folder).for_each(|entry| remove(&entry));
}

/// Removes what processes that are gone have left of one file.
pub(super) fn remove_of(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let folder = super::folder_of(path);
    parts(folder).filter(|entry| name_of(entry).as_deref() == Some(name)).for_each(|entry| remove(&entry));
}

fn remove(entry: &DirEntry) {
    let path = entry.path();
    // The lock is held until the file is gone, so that no process begins to write it meanwhile.
    if let Ok(file) = File::options().write(true).open(&path)
        && file.try_lock().is_ok()
    {
        let _ = fs::remove_file(&path);
    }
}

/// Whether a folder is missing, empty, or holds nothing but half-written files.
pub fn holds_leftovers_only(folder: &Path) -> bool {
    all_are(folder, |entry| name_of(entry).is_some())
}

/// The same, where an empty folder of this name may lie beside them.
pub fn holds_leftovers_only_beside(folder: &Path, name: &str) -> bool {
    let is_empty = |path: &Path| path.is_dir() && all_are(path, |_| false);
    all_are(folder, |entry| name_of(entry).is_some() || entry.file_name() == name && is_empty(&entry.path()))
}

fn all_are(folder: &Path, is_so: impl Fn(&DirEntry) -> bool) -> bool {
    match fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).all(|entry| is_so(&entry)),
        Err(_) => !folder.exists(),
    }
}

fn parts(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(Result::ok).filter(|entry| name_of(entry).is_some())
}

/// The name of the file that a half-written one, such as `.config.toml.1234.part`, was to become; `None` for all else.
pub(super) fn name_of(entry: &DirEntry) -> Option<String> {
    let name = entry.file_name();
    let name = name.to_str()?;
    let (name, process) = name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && entry.file_type().is_ok_and(|kind| kind.is_file())).then(|| name.to_owned())
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
        fs::create_dir(folder.join("empty")).unwrap();
        assert!(!holds_leftovers_only(folder) && holds_leftovers_only_beside(folder, "empty"));
        fs::write(folder.join("empty/a.txt"), "not empty").unwrap();
        assert!(!holds_leftovers_only_beside(folder, "empty"));
        fs::remove_dir_all(folder.join("empty")).unwrap();
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

    #[test]
    fn a_file_that_is_written_again_leaves_nothing_of_earlier_tries() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in [".a.txt.1.part", ".a.png.2.part", ".b.txt.1.part"] {
            fs::write(folder.join(name), "half").unwrap();
        }
        for name in ["a.txt", "a.png"] {
            write(&folder.join(name), b"whole").unwrap();
        }
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, [".b.txt.1.part", "a.png", "a.txt"]);
    }
}
