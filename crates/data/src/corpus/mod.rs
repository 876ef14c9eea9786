//! Which files a corpus is made of, and whether they are what its manifest says.

use crate::cache;
use crate::config::DataConfig;
use crate::embedded;
use crate::split::Split;
use longwave_core::config::without_types;
use longwave_core::{Error, Result, file};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "MANIFEST.json";
const EXTENSIONS: [&str; 3] = ["txt", "text", "jsonl"];

/// How a file holds documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The file is one document.
    Text,
    /// Every line is a JSON object with one document.
    JsonLines,
}

/// One file of a corpus.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The path below the corpus, with `/` between folders: the same wherever the corpus lies.
    pub(crate) name: String,
    pub(crate) format: Format,
    /// The split its folder names, if the corpus has such folders.
    pub(crate) split: Option<Split>,
    pub(crate) bytes: u64,
}

/// The files of a corpus, in the order of their names.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) sources: Vec<Source>,
    /// Whether the folders `train`, `valid` and `test` say what belongs to which split.
    pub(crate) split_by_folder: bool,
    manifest: Option<Manifest>,
}

#[derive(Debug)]
struct Manifest {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    split: Split,
    file: String,
    bytes: u64,
    sha256: String,
}

/// Finds the files of a config's corpus, which may be the one that the program carries; `key` is what it is called in
/// messages.
///
/// # Errors
/// As [`find`], or the program's own corpus cannot be written into the cache.
pub(crate) fn find_or_unpack(config: &DataConfig, key: &str) -> Result<Corpus> {
    let corpus = config.corpus.as_str();
    if embedded::is_named(corpus) && !Path::new(corpus).exists() {
        let folder = embedded::unpack(&cache::folder(config)).map_err(|error| {
            error.context("the program's own corpus needs the cache").hint(cache::OTHER_FOLDER)
        })?;
        return find_in_folder(&folder);
    }
    find(corpus, key).map_err(|error| match &config.beside {
        Some(beside) if !Path::new(corpus).exists() => {
            error.context(format!("there is no `{}` beside the config", beside.display()))
        }
        _ => error,
    })
}

/// Finds the files that a corpus names; `key` is what it is called in messages.
///
/// # Errors
/// Nothing is there, a glob is malformed or matches no file, a folder holds no text file, or a
/// manifest cannot be read.
pub(crate) fn find(corpus: &str, key: &str) -> Result<Corpus> {
    let path = Path::new(corpus);
    if path.is_dir() {
        return find_in_folder(path);
    }
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sources = vec![source(path.to_owned(), name, None)?];
        return Ok(Corpus { sources, split_by_folder: false, manifest: None });
    }
    if corpus.contains(['*', '?', '[']) {
        return find_by_glob(corpus, key);
    }
    Err(Error::value(key, format!("\"{corpus}\""), "there is no such file or folder")
        .hint("paths start at the config's folder or at the current folder; a glob needs a `*`, `?` or `[`"))
}

/// Whether a glob names a file.
pub fn glob_matches(pattern: &str) -> bool {
    glob::glob(pattern).is_ok_and(|mut found| found.next().is_some())
}

fn find_in_folder(folder: &Path) -> Result<Corpus> {
    let present = split_folders(folder)?;
    let manifest = Manifest::read(folder)?;
    if present.is_empty() && manifest.is_none() {
        let sources = sources_below(folder, None)?;
        return if sources.is_empty() {
            Err(Error::failed(format!("`{}` holds no .txt, .text or .jsonl file", folder.display()))
                .hint("name other text files with a glob, e.g. `corpus = \"folder/**/*.rs\"`"))
        } else {
            Ok(Corpus { sources, split_by_folder: false, manifest: None })
        };
    }
    let mut sources = Vec::new();
    for (split, folder) in present {
        sources.extend(sources_below(&folder, Some(split))?);
    }
    let corpus = Corpus { sources, split_by_folder: true, manifest };
    corpus.check_presence()?;
    if !corpus.sources.iter().any(|source| source.split == Some(Split::Train)) {
        return Err(Error::failed(format!("`{}` has no text file for training", folder.display()))
            .hint("put .txt or .jsonl files into its subfolder `train`, or rename `valid` and `test`"));
    }
    Ok(corpus)
}

/// The folders of the splits in a corpus. The validation split has several usual names.
fn split_folders(folder: &Path) -> Result<Vec<(Split, PathBuf)>> {
    let has_train = folder.join("train").is_dir();
    let mut present = Vec::new();
    for split in Split::ALL {
        let names = split.names().iter().enumerate().filter(|(index, _)| *index == 0 || has_train);
        let found: Vec<&str> =
            names.map(|(_, name)| *name).filter(|name| folder.join(name).is_dir()).collect();
        if let [first, second, ..] = found.as_slice() {
            return Err(Error::usage(format!(
                "`{}` has two folders for the {split} split: `{first}` and `{second}`",
                folder.display()
            ))
            .hint("keep one of them, or move its files into the other"));
        }
        present.extend(found.first().map(|name| (split, folder.join(name))));
    }
    if has_train && folder.join("eval").is_dir() {
        tracing::warn!(
            "the folder `eval` of `{}` is not read: name it `valid` if choices are made by it, or `test` if results are \
             reported on it",
            folder.display()
        );
    }
    Ok(present)
}

fn find_by_glob(pattern: &str, key: &str) -> Result<Corpus> {
    let bad_glob = |error: &glob::PatternError| {
        Error::value(key, format!("\"{pattern}\""), format!("the glob is malformed: {error}"))
            .hint("`*` and `?` match within a name, `**` through folders, `[ab]` one of a set")
    };
    let base = pattern.find(['*', '?', '[']).and_then(|end| pattern[..end].rfind('/')).map_or(0, |at| at + 1);
    let mut sources = Vec::new();
    for path in glob::glob(pattern).map_err(|error| bad_glob(&error))? {
        let path = path.map_err(|error| Error::io("read", error.path(), error.error()))?;
        if path.is_file() {
            let text = path.to_string_lossy();
            // The matches begin as the pattern does, unless it begins with `./`.
            let name = text.strip_prefix(&pattern[..base]).unwrap_or(&text).to_owned();
            sources.push(source(path, name, None)?);
        }
    }
    if sources.is_empty() {
        return Err(Error::value(key, format!("\"{pattern}\""), "no file matches")
            .hint("paths start at the config's folder or at the current folder; quote `**` to reach into subfolders"));
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Corpus { sources, split_by_folder: false, manifest: None })
}

/// Every text file below `folder`, in the order of its name; hidden ones are left out.
fn sources_below(folder: &Path, split: Option<Split>) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    // Links may lead back to a folder that was read already.
    let mut seen = HashSet::new();
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |error: std::io::Error| Error::io("read", &folder, &error);
        if !seen.insert(folder.canonicalize().map_err(failed)?) {
            continue;
        }
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let full = format!("{prefix}{name}");
            if path.is_dir() {
                folders.push((path, format!("{full}/")));
            } else if path.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known)) {
                sources.push(source(path, full, split)?);
            }
        }
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sources)
}

fn source(path: PathBuf, name: String, split: Option<Split>) -> Result<Source> {
    let bytes = fs::metadata(&path).map_err(|error| Error::io("read", &path, &error))?.len();
    let format =
        if path.extension().is_some_and(|end| end == "jsonl") { Format::JsonLines } else { Format::Text };
    Ok(Source { path, name, format, split, bytes })
}

impl Manifest {
    /// Reads the manifest of a folder, if it has one.
    fn read(folder: &Path) -> Result<Option<Self>> {
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
    fn check_presence(&self) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let sources: BTreeMap<_, _> =
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
    ///
    /// # Errors
    /// The first file that has changed, by name.
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

    /// Size of all files together, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }
}

#[cfg(test)]
mod tests;
