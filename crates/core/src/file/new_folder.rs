//! Folders that a command makes: they begin empty, or with what the same command wrote before it was stopped.
//!
//! Nothing in such a folder is ever replaced. A file that is there already must have the very bytes that it would be
//! given, so the same command goes on after a full disk or a kill, and a folder of somebody else stays as it is.

use super::leftovers::name_of;
use super::{read, write};
use crate::error::{Error, Result};
use std::fs;
use std::path::Path;

/// Characters of a `name`: a name in a folder has 255 bytes at most, and a seed and the ends of files come after this one.
const LONGEST_NAME: usize = 200;

fn is_plain(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.')
}

/// The text with `_` for what the `name` of a run or a study cannot have, and no longer than that.
pub fn folder_name(text: &str) -> String {
    let allowed =
        |(place, sign): (usize, char)| if is_plain(sign) && (place, sign) != (0, '.') { sign } else { '_' };
    let name: String = text.chars().take(LONGEST_NAME).enumerate().map(allowed).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Checks that the `name` of a run or a study can be that of a folder.
///
/// # Errors
/// It is empty, hidden or too long, or has other characters.
pub fn check_folder_name(name: &str) -> Result<()> {
    if name.is_empty() || !name.chars().all(is_plain) || name.starts_with('.') {
        let allowed = "it names a folder: letters, digits, `-`, `_` and `.`";
        return Err(Error::value("name", format!("\"{name}\""), allowed)
            .hint("leave out what is none of these, as in `name = \"rope-long\"`"));
    }
    // All of it is ASCII: a byte is a character.
    if name.len() > LONGEST_NAME {
        let allowed =
            format!("it has {} characters, and at most {LONGEST_NAME} can name a folder", name.len());
        return Err(Error::value("name", format!("\"{}...\"", &name[..20]), allowed)
            .hint("write a shorter one, as in `name = \"rope-long\"`"));
    }
    Ok(())
}

/// Checks that a folder is missing, empty, or holds nothing but files of these names; a name may have folders in it, as
/// `checkpoints/last.safetensors`. `hint` says what to do where it does not.
///
/// # Errors
/// It holds something else, or cannot be listed.
pub fn check_new_folder(folder: &Path, names: &[&str], hint: &str) -> Result<()> {
    let is_new = if folder.is_dir() { holds_only(folder, "", names)? } else { !folder.exists() };
    if is_new {
        return Ok(());
    }
    Err(Error::usage(format!("`{}` is not empty", folder.display())).hint(hint))
}

/// Writes files into a new folder in this order; the last one makes it complete. Those that are there already with the same
/// bytes stay.
///
/// # Errors
/// As [`check_new_folder`], a file is there with other bytes, or one cannot be written.
pub fn write_new_folder(folder: &Path, files: &[(&str, &[u8])], hint: &str) -> Result<()> {
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    check_new_folder(folder, &names, hint)?;
    let mut missing = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        if !path.exists() {
            missing.push((path, bytes));
        } else if read(&path)? != **bytes {
            return Err(Error::usage(format!(
                "`{}` is not empty: `{}` is there with another content",
                folder.display(),
                path.display()
            ))
            .hint(format!("{hint}, or remove this one")));
        }
    }
    missing.into_iter().try_for_each(|(path, bytes)| write(&path, bytes))
}

/// Whether what is below `folder`, which is called `at` from the top, has these names or is half-written.
fn holds_only(folder: &Path, at: &str, names: &[&str]) -> Result<bool> {
    let failed = |error: std::io::Error| Error::io("list", folder, &error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let name = format!("{at}{}", entry.file_name().to_string_lossy());
        let is_known = if kind.is_dir() {
            let inside = format!("{name}/");
            names.iter().any(|name| name.starts_with(&inside)) && holds_only(&entry.path(), &inside, names)?
        } else {
            kind.is_file() && (names.contains(&name.as_str()) || name_of(&entry).is_some())
        };
        if !is_known {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leaves_room_for_what_comes_after_it() {
        let name = |length: usize| "a".repeat(length);
        check_folder_name(&name(200)).unwrap();
        for length in [201, 254] {
            let error = check_folder_name(&name(length)).unwrap_err();
            let allowed = format!("it has {length} characters, and at most 200");
            assert!(error.message().starts_with("`name = \"aaa"), "{error}");
            assert!(error.message().contains(&allowed) && error.hint_text().is_some(), "{error}");
        }
        for wrong in ["", ".", "..", ".a", "a/b", "\u{e9}"] {
            assert!(check_folder_name(wrong).is_err(), "{wrong}");
            check_folder_name(&folder_name(wrong)).unwrap();
        }
        check_folder_name(&folder_name(&name(254))).unwrap();
        assert_eq!(["rope-1.5", ".hid", "my run"].map(folder_name), ["rope-1.5", "_hid", "my_run"]);
    }

    const FILES: [(&str, &[u8]); 2] = [("deep/a.txt", b"one"), ("b.txt", b"two")];

    #[test]
    fn what_was_begun_is_completed() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("new");
        for left in [None, Some("deep/a.txt"), Some("b.txt"), Some("deep/.a.txt.1.part")] {
            if let Some(left) = left {
                fs::remove_file(folder.join("deep/a.txt")).unwrap();
                fs::remove_file(folder.join("b.txt")).unwrap();
                let bytes =
                    FILES.iter().find(|(name, _)| *name == left).map_or(&b"o"[..], |(_, bytes)| bytes);
                fs::write(folder.join(left), bytes).unwrap();
            }
            write_new_folder(&folder, &FILES, "another").unwrap();
            assert_eq!(fs::read(folder.join("deep/a.txt")).unwrap(), b"one");
            assert_eq!(fs::read(folder.join("b.txt")).unwrap(), b"two");
            assert_eq!(fs::read_dir(folder.join("deep")).unwrap().count(), 1);
        }
    }

    #[test]
    fn nothing_is_replaced() {
        for (name, message) in [
            ("c.txt", "is not empty"),
            ("deep/c.txt", "is not empty"),
            ("more/a.txt", "is not empty"),
            ("b.txt", "b.txt` is there with another content"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "mine").unwrap();
            let error = write_new_folder(folder.path(), &FILES, "name another").unwrap_err();
            assert!(error.message().contains(message), "{error}");
            assert!(error.hint_text().unwrap().starts_with("name another"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"mine");
            assert!(!folder.path().join("deep/a.txt").exists(), "nothing is written beside it");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(check_new_folder(file.path(), &[], "another").is_err());
    }
}
