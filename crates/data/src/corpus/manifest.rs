//! `MANIFEST.json`: what the files of a corpus are.

use super::{Corpus, Source, layout};
use crate::split::Split;
use longwave_core::config::without_types;
use longwave_core::{Error, Result, file};
use serde::Deserialize;
use std::collections::HashMap;
use std::ffi::OsStr;
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

    /// The path of a file below the corpus, with `/` between folders.
    fn below(&self, source: &Source) -> String {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let path = source.path.strip_prefix(folder).unwrap_or(&source.path);
        path.iter().map(OsStr::to_string_lossy).collect::<Vec<_>>().join("/")
    }

    fn mismatch(&self, what: &str, name: &str, why: &str) -> Error {
        Error::failed(format!("`{name}` {what} (checked against `{}`)", self.path.display())).hint(why)
    }
}

const RESTORE: &str = "restore it (e.g. `git checkout` the folder), or copy the corpus without its \
                       MANIFEST.json to change it";

impl Corpus {
    /// What the manifest says of each of the `sources`. It calls a file by its path below the corpus, or by what follows the folder that
    /// says its split, and not by the split that `data.split` makes of it.
    fn entries<'a>(&self, manifest: &'a Manifest) -> Result<Vec<&'a ManifestFile>> {
        let read = self.sources.iter().map(|source| manifest.below(source));
        // A file that is there and belongs to no split is not missing.
        let paths: Vec<String> = read.chain(self.left_out.iter().cloned()).collect();
        let mut places: HashMap<(Option<Split>, &str), usize> = HashMap::new();
        for (place, path) in paths.iter().enumerate() {
            places.insert((None, path.as_str()), place);
            let Some((splits, rest)) = layout::in_folder(path) else { continue };
            for split in splits {
                let known = places.entry((Some(*split), rest)).or_insert(place);
                // A folder such as `eval` may be either held-out split: one that says the split goes first.
                if splits.len() == 1 {
                    *known = place;
                }
            }
        }
        let mut entries = vec![None; paths.len()];
        for entry in &manifest.entries {
            let file = entry.file.as_str();
            let place = places.get(&(Some(entry.split), file)).or_else(|| places.get(&(None, file)));
            let Some(place) = place else {
                let name = format!("{}/{file}", entry.split);
                return Err(manifest.mismatch("is missing", &name, RESTORE));
            };
            entries[*place] = Some(entry);
        }
        let listed = self.sources.iter().zip(entries).map(|(source, entry)| {
            entry.ok_or_else(|| {
                let name = source.path.display().to_string();
                manifest.mismatch("is not in the manifest", &name, "move the file out of the corpus")
            })
        });
        listed.collect()
    }

    /// Whether the files are those of the manifest, by name and size; cheap, so done before hashing.
    pub(super) fn check_presence(&self) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        for (source, entry) in self.sources.iter().zip(self.entries(manifest)?) {
            if source.bytes != entry.bytes {
                let what = format!("has changed: {} bytes instead of {}", source.bytes, entry.bytes);
                return Err(manifest.mismatch(&what, &format!("{}/{}", entry.split, entry.file), RESTORE));
            }
        }
        Ok(())
    }

    /// Whether the files' content is what the manifest says; `hashes` go with `sources`.
    pub(crate) fn check_content(&self, hashes: &[String]) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        for ((source, hash), entry) in self.sources.iter().zip(hashes).zip(self.entries(manifest)?) {
            if entry.sha256 != *hash {
                let name = source.path.display().to_string();
                return Err(manifest.mismatch("has changed: its SHA-256 differs", &name, RESTORE));
            }
        }
        Ok(())
    }
}
