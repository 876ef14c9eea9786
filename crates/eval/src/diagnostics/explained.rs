//! What was found out, as a run's folder keeps it.

use super::finding::Finding;
use super::gather::over_runs;
use super::notes::Notes;
use longwave_core::{Error, Result, file, written};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(super) const FORMAT: u32 = 1;

/// What was found out about a run, or about several that differ in their seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    pub format: u32,
    pub runs: Vec<String>,
    pub encoding: String,
    pub config_hash: String,
    pub step: u64,
    /// L in tokens.
    pub train_length: usize,
    pub lengths: Vec<usize>,
    /// How it is read, each extension by its [label](crate::label).
    pub extend: Vec<String>,
    pub measured_on: String,
    pub findings: Vec<Finding>,
    /// What was left out, and why, a sentence each.
    pub notes: Vec<String>,
}

impl Explained {
    pub const FILE: &str = "explained.json";

    /// What a folder keeps; none where nothing was explained.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(Self::FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let text = file::read_text(&path)?;
        let damaged = |error: &dyn std::fmt::Display| {
            Error::failed(format!("`{}` is damaged: {error}", path.display()))
                .hint("measure it again with `longwave explain`")
        };
        let read: Self = serde_json::from_str(&text).map_err(|error| damaged(&error))?;
        if read.format == FORMAT {
            Ok(Some(read))
        } else {
            Err(damaged(&format!("it has format {}", read.format)))
        }
    }

    /// Keeps it in a folder.
    pub fn keep(&self, folder: &Path) -> Result<PathBuf> {
        let text = written::json_lines("what was found", self)?;
        let path = folder.join(Self::FILE);
        file::write(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Several runs as one: each finding that all have, averaged, with its error over runs, and what was left out of any. That they differ in their seed alone is checked
    /// before any is read, by `Run::check_seeds`.
    ///
    /// # Errors
    /// A run is there twice, or they were read at other lengths: an average would mean nothing.
    pub fn over_runs(runs: &[Self]) -> Result<Self> {
        let Some((first, others)) = runs.split_first() else { return Ok(Self::default()) };
        for (place, other) in runs.iter().enumerate() {
            let is_twin = |it: &&Self| (&it.config_hash, it.step) == (&other.config_hash, other.step);
            if let Some(twin) = runs[..place].iter().find(is_twin) {
                let names = [twin, other].map(|run| run.runs.concat());
                return Err(Error::usage(format!("`{}` and `{}` are one run", names[0], names[1]))
                    .hint("name runs that differ in their seed alone"));
            }
        }
        if let Some(other) =
            others.iter().find(|it| (it.train_length, &it.lengths) != (first.train_length, &first.lengths))
        {
            let names = [first, other].map(|run| run.runs.concat());
            let lengths = [first, other].map(|run| run.train_length);
            return Err(Error::usage(format!(
                "`{}` and `{}` are no seeds of one run: L is {} and {}",
                names[0], names[1], lengths[0], lengths[1]
            ))
            .hint("name runs that differ in their seed alone, or explain each by itself"));
        }
        let findings: Vec<Vec<Finding>> = runs.iter().map(|run| run.findings.clone()).collect();
        let names = runs.iter().flat_map(|run| run.runs.clone()).collect();
        let mut notes = Notes::default();
        for run in runs {
            for note in &run.notes {
                notes.add(&run.runs.join(", "), note);
            }
        }
        let notes = notes.sentences(runs.len());
        Ok(Self { runs: names, findings: over_runs(&findings), notes, ..first.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_of_one_run_is_said_after_its_name() {
        let run = |name: &str, notes: &[&str]| Explained {
            runs: vec![name.to_owned()],
            config_hash: name.to_owned(),
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
            ..Explained::default()
        };
        let both = Explained::over_runs(&[run("a", &["of all"]), run("b", &["of all", "of one"])]).unwrap();
        assert_eq!(both.notes, ["of all", "b: of one"]);
    }
}
