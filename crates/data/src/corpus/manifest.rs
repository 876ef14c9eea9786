//! `MANIFEST.json`: what the files of a corpus are.

use super::{Corpus, Source};
use crate::split::Split;
use longwave_core::config::without_types;
use longwave_core::{Error, Result, file};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

pub(super) const MANIFEST: &str = "MANIFEST.json";

#[derive(Debug)]
pub(super) struct Manifest {
    path: PathBuf,
    entries: Vec<ManifestFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestFile {
    split: Split,
    file: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MANIFEST);
        if !path.is_file() {
            return Ok(None);
        }
        let entries = serde_json::from_str(&file::read_text(&path)?).map_err(|error| {
            Error::failed(format!(
                "`{}` is no manifest: {}",
                path.display(),
                without_types(&error.to_string())
            ))
            .hint(
                "it must list objects with `split`, `file`, `bytes` and `sha256`; remove it to read the \
                 folder unchecked",
            )
        })?;
        Ok(Some(Self { path, entries }))
    }

    fn mismatch(&self, what: &str, name: &str, why: &str) -> Error {
        Error::failed(format!("`{name}` {what} (checked against `{}`)", self.path.display())).hint(why)
    }
}

const RESTORE: &str = "restore it (e.g. `git checkout` the folder), or copy the corpus without its \
                       MANIFEST.json to change it";

impl Corpus {
    /// Whether the files are those of the manifest, by name and size; cheap, so done before hashing.
    pub(super) fn check_presence(&self) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let sources: BTreeMap<_, &Source> =
            self.sources.iter().map(|source| ((source.split, source.name.as_str()), source)).collect();
        let mut listed = HashSet::new();
        for entry in &manifest.entries {
            let name = format!("{}/{}", entry.split, entry.file);
            let Some(source) = sources.get(&(Some(entry.split), entry.file.as_str())) else {
                return Err(manifest.mismatch("is missing", &name, RESTORE));
            };
            if source.bytes != entry.bytes {
                let what = format!("has changed: {} bytes instead of {}", source.bytes, entry.bytes);
                return Err(manifest.mismatch(&what, &name, RESTORE));
            }
            listed.insert((source.split, source.name.as_str()));
        }
        match sources.iter().find(|(key, _)| !listed.contains(*key)) {
            None => Ok(()),
            Some((_, source)) => {
                let name = source.path.display().to_string();
                Err(manifest.mismatch("is not in the manifest", &name, "move the file out of the corpus"))
            }
        }
    }

    /// Whether the files' content is what the manifest says; `hashes` go with `sources`.
    pub(crate) fn check_content(&self, hashes: &[String]) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let expected: BTreeMap<_, _> = manifest
            .entries
            .iter()
            .map(|entry| ((Some(entry.split), entry.file.as_str()), entry.sha256.as_str()))
            .collect();
        for (source, hash) in self.sources.iter().zip(hashes) {
            if expected.get(&(source.split, source.name.as_str())).is_none_or(|expected| expected != hash) {
                let name = source.path.display().to_string();
                return Err(manifest.mismatch("has changed: its SHA-256 differs", &name, RESTORE));
            }
        }
        Ok(())
    }
}
