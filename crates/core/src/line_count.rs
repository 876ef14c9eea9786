//! How many lines a finished file has, so that a reader notices whole lines that were cut off at its end.
//!
//! Checksums show what happened to a line that is there ([`crate::sealed_line`]). The count stands beside the file:
//! `results.jsonl` has `results.lines.json`, written when what fills the file has come to its end. Lines that are added later
//! may be more than it says, never fewer. A file without one is still being filled, or somebody took lines out on purpose.

use crate::error::{Error, Result};
use crate::file::{self, existing_folder};
use crate::{sealed_line, written};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Written {
    format: u32,
    lines: usize,
}

fn path_of(file: &Path) -> PathBuf {
    file.with_extension("lines.json")
}

pub fn record(file: &Path, lines: usize) -> Result<()> {
    let path = path_of(file);
    let text = written::json(format!("`{}`", path.display()), &Written { format: FORMAT, lines })?;
    let text = sealed_line::seal(&text) + "\n";
    // The same again would cost the disk something and change nothing.
    if path.is_file() && file::read_text(&path)? == text {
        Ok(())
    } else {
        existing_folder::write(&path, text.as_bytes())
    }
}

/// Forgets the count of a file that is about to lose lines on purpose.
pub fn forget(file: &Path) -> Result<()> {
    file::remove(&path_of(file))
}

/// Checks that a file with `found` lines has lost none. `again` says what brings lost ones back.
pub fn check(file: &Path, found: usize, again: &str) -> Result<()> {
    let path = path_of(file);
    if !path.exists() {
        return Ok(());
    }
    let text = file::read_text(&path)?;
    let damaged = |why: &dyn std::fmt::Display| {
        Error::failed(format!("`{}` is damaged: {why}", path.display()))
            .hint(format!("remove it, and see whether `{}` has all its lines", file.display()))
    };
    if !sealed_line::check(&text).map_err(|why| damaged(&why))? {
        return Err(damaged(&"it has no checksum"));
    }
    let written: Written = serde_json::from_str(&text).map_err(|error| damaged(&error))?;
    if written.format > FORMAT || found >= written.lines {
        return Ok(());
    }
    Err(Error::failed(format!(
        "`{}` has {found} of the {} lines that it had when it was finished: the others were cut off or taken out",
        file.display(),
        written.lines
    ))
    .hint(format!("{again}; or remove `{}` if you took them out on purpose", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_lines_are_named_and_more_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.jsonl");
        assert_eq!(check(&file, 0, "again"), Ok(()));
        record(&file, 3).unwrap();
        assert_eq!((check(&file, 3, "again"), check(&file, 4, "again")), (Ok(()), Ok(())));
        let error = check(&file, 2, "measure them again").unwrap_err();
        assert!(error.message().contains("results.jsonl` has 2 of the 3 lines"), "{error}");
        assert!(error.hint_text().unwrap().starts_with("measure them again; or remove `"), "{error}");
        forget(&file).unwrap();
        forget(&file).unwrap();
        assert_eq!(check(&file, 2, "again"), Ok(()));
    }

    #[test]
    fn every_flipped_bit_of_a_count_shows() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.jsonl");
        record(&file, 3).unwrap();
        let whole = std::fs::read(path_of(&file)).unwrap();
        for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << bit;
            std::fs::write(path_of(&file), &bytes).unwrap();
            // Only what a line ends with may change unseen.
            assert!(check(&file, 3, "again").is_err() || place + 1 == whole.len(), "{place} {bit}");
        }
    }
}
