//! Which files a corpus is made of, which split each belongs to, and whether they are what its manifest says.

mod kind;
mod layout;
mod manifest;

pub(crate) use kind::Format;
pub(crate) use layout::listed;

use crate::cache;
use crate::config::DataConfig;
use crate::embedded;
use crate::packing::Packing;
use crate::split::Split;
use layout::{Found, Layout};
use longwave_core::{Error, Result, file};
use manifest::Manifest;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The path below the corpus, with `/` between folders: the same wherever the corpus lies.
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) packing: Packing,
    /// The split that its name or the config says; `None` where shares decide.
    pub(crate) split: Option<Split>,
    pub(crate) bytes: u64,
}

/// The files of a corpus, in the order of their splits and names.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) sources: Vec<Source>,
    /// Whether names of files and folders, or the config, say which file belongs to which split.
    pub(crate) named: bool,
    /// The shares of validation and test, of the documents of files without a split.
    pub(crate) shares: [f64; 2],
    /// Which files are which split, in words, where names or the config say it.
    pub(crate) words: Option<String>,
    /// Shares that were given and have no effect, since files are that split.
    pub(crate) idle: Vec<(Split, f64)>,
    /// Files beside those that are read, by their names.
    pub(crate) left_out: Vec<String>,
    /// Whether all of it is read as the test split of a run that was trained on other text.
    pub(crate) whole: bool,
    manifest: Option<Manifest>,
}

/// Finds the files of a config's corpus, which may be the one that the program carries; `key` is what it is called in
/// messages.
pub(crate) fn find_or_unpack(config: &DataConfig, key: &str) -> Result<Corpus> {
    let corpus = find_other(config, key)?;
    corpus.check_train(&config.corpus)?;
    Ok(corpus)
}

/// The same of a text that nothing is trained on: it may be files to test alone.
pub(crate) fn find_other(config: &DataConfig, key: &str) -> Result<Corpus> {
    let corpus = config.corpus.as_str();
    if embedded::is_named(corpus) && !Path::new(corpus).exists() {
        let folder = embedded::unpack(&cache::folder(config)).map_err(|error| {
            error.context("the program's own corpus needs the cache").hint(cache::OTHER_FOLDER)
        })?;
        return find_in_folder(&folder, config);
    }
    find(config, key).map_err(|error| match &config.beside {
        Some(beside) if !Path::new(corpus).exists() => {
            error.context(format!("there is no `{}` beside the config", beside.display()))
        }
        _ => error,
    })
}

/// Refuses what is neither a file nor a folder: it is read more than once. `what` is what it should hold.
pub(crate) fn check_regular(key: &str, path: &str, what: &str) -> Result<()> {
    if !file::is_special(Path::new(path)) {
        return Ok(());
    }
    Err(Error::value(key, format!("\"{path}\""), "it is a pipe or a device, and no regular file")
        .hint(format!("write the {what} to a file and name that: it is read more than once")))
}

/// Finds the files that a corpus names, of whatever splits; `key` is what it is called in messages.
pub(crate) fn find(config: &DataConfig, key: &str) -> Result<Corpus> {
    let corpus = config.corpus.as_str();
    let path = Path::new(corpus);
    if path.is_dir() {
        return find_in_folder(path, config);
    }
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = Found { path: path.to_owned(), name };
        // The name of a file that is all there is says nothing of others.
        let layout = if config.split.files().is_empty() {
            Layout { files: vec![(found, None)], shares: config.split.shares(), ..Layout::default() }
        } else {
            Layout::new(vec![found], &config.split, corpus)?
        };
        return Corpus::new(layout, Vec::new(), None);
    }
    check_regular(key, corpus, "text")?;
    if corpus.contains(['*', '?', '[']) {
        return find_by_glob(config, key);
    }
    Err(Error::value(key, format!("\"{corpus}\""), "there is no such file or folder")
        .hint("paths start at the config's folder or at the current folder; a glob needs a `*`, `?` or `[`"))
}

/// The glob from the current folder to what `pattern` names in `folder`, if it names anything there. What looks like a wildcard in the folder's own
/// name is none.
pub fn glob_in(folder: &Path, pattern: &str) -> Option<String> {
    let folder = glob::Pattern::escape(&folder.to_string_lossy());
    let joined = plain(&Path::new(&folder).join(pattern).to_string_lossy());
    glob::glob(&joined).is_ok_and(|mut found| found.next().is_some()).then_some(joined)
}

/// A glob without the parts that lead nowhere, `./` and a second `/`: the matches have none, and names begin where they do.
fn plain(pattern: &str) -> String {
    let [root, end] = [pattern.starts_with('/'), pattern.ends_with('/')].map(|is| if is { "/" } else { "" });
    let parts: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    format!("{root}{}{end}", parts.join("/"))
}

/// The folder that a plain glob names before its first wildcard, as it is called, and the rest of the glob.
fn parted(pattern: &str) -> (String, &str) {
    let (mut folder, mut rest) = (String::new(), pattern);
    while let Some((part, below)) = rest.split_once('/') {
        let Some(name) = literal(part) else { break };
        folder += &(name + "/");
        rest = below;
    }
    (folder, rest)
}

/// The one name that a part of a glob matches; `None` where it has a wildcard. Alone in brackets, a sign stands for itself.
fn literal(part: &str) -> Option<String> {
    let (mut name, mut rest) = (String::new(), part);
    while let Some(sign) = rest.chars().next() {
        if ["[*]", "[?]", "[[]", "[]]"].iter().any(|escaped| rest.starts_with(escaped)) {
            name += &rest[1..2];
            rest = &rest[3..];
        } else if "*?[".contains(sign) {
            return None;
        } else {
            name.push(sign);
            rest = &rest[sign.len_utf8()..];
        }
    }
    Some(name)
}

fn find_in_folder(folder: &Path, config: &DataConfig) -> Result<Corpus> {
    let place = folder.display().to_string();
    let (found, left_out) = files_below(folder)?;
    if found.is_empty() {
        let others = but_others(&left_out);
        let text = format!("`{place}` holds no .txt, .text, .jsonl or .parquet file{others}");
        return Err(Error::failed(text)
            .hint("name other text files one by one or with a glob, e.g. `corpus = \"folder/**/*.rs\"`"));
    }
    let manifest = Manifest::read(folder)?;
    let corpus = Corpus::new(Layout::new(found, &config.split, &place)?, left_out, manifest)?;
    corpus.check_presence()?;
    Ok(corpus)
}

fn but_others(left_out: &[String]) -> String {
    let others: Vec<&str> = left_out.iter().map(String::as_str).collect();
    if others.is_empty() { String::new() } else { format!(", but {}", listed(&others)) }
}

fn find_by_glob(config: &DataConfig, key: &str) -> Result<Corpus> {
    let pattern = config.corpus.as_str();
    let bad_glob = |error: &glob::PatternError| {
        Error::value(key, format!("\"{pattern}\""), format!("the glob is malformed: {error}"))
            .hint("`*` and `?` match within a name, `**` through folders, `[ab]` one of a set")
    };
    // However the folder is written, the files in it have the same names, which decide their splits.
    let plain = plain(pattern);
    let (folder, below) = parted(&plain);
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    // Hidden files and copies of editors are read where the pattern says so by itself, as folders leave them out.
    let is_hidden =
        |name: &str| name.split('/').any(|part| part.starts_with('.') && part != "." && part != "..");
    let is_left_out =
        |name: &str| (is_hidden(name) && !is_hidden(below)) || (name.ends_with('~') && !below.ends_with('~'));
    for path in glob::glob(&plain).map_err(|error| bad_glob(&error))? {
        let path = path.map_err(|error| Error::io("read", error.path(), error.error()))?;
        if path.is_file() {
            let text = path.to_string_lossy();
            let name = text.strip_prefix(&folder).unwrap_or(&text).replace('\\', "/");
            if is_left_out(&name) {
                left_out.push(name);
            } else {
                found.push(Found { path, name });
            }
        }
    }
    if found.is_empty() {
        let others = but_others(&left_out);
        return Err(Error::value(key, format!("\"{pattern}\""), format!("no file matches{others}"))
            .hint("`**` matches through subfolders, e.g. `\"texts/**/*.txt\"`; hidden files are read where the pattern has their dot"));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Corpus::new(Layout::new(found, &config.split, pattern)?, left_out, None)
}

/// The text files below a folder and the names of the others, in the order of their names. Hidden files and folders are
/// skipped, and a folder that is linked to more than once is read once: by its own name, or else by the first of those of links, so
/// that the names do not depend on the order that the file system gives.
fn files_below(folder: &Path) -> Result<(Vec<Found>, Vec<String>)> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let mut seen: HashMap<PathBuf, String> = HashMap::new();
    let mut folders = BTreeMap::from([((false, String::new()), folder.to_owned())]);
    while let Some(((_, prefix), folder)) = folders.pop_first() {
        let failed = |error: std::io::Error| Error::io("read", &folder, &error);
        let real = folder.canonicalize().map_err(failed)?;
        if let Some(other) = seen.get(&real) {
            let other = if other.is_empty() { "the corpus itself" } else { other };
            others.push(format!("{prefix} (a link to {other}, which is read already)"));
            continue;
        }
        seen.insert(real, prefix.clone());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let full = format!("{prefix}{name}");
            if name.starts_with('.') {
                others.push(if path.is_dir() { format!("{full}/") } else { full });
            } else if path.is_dir() {
                folders.insert((path.is_symlink(), format!("{full}/")), path);
            } else if file::is_special(&path) {
                // To read a pipe that nobody writes to never ends.
                others.push(format!("{full} (a pipe or a device)"));
            } else if kind::is_read(&name, layout::says_split(&full)) {
                found.push(Found { path, name: full });
            } else if full != manifest::MANIFEST {
                others.push(full);
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    others.sort();
    Ok((found, others))
}

impl Corpus {
    /// Whether a share of the documents is held out, besides the files that are a split by themselves.
    pub(crate) fn by_shares(&self) -> bool {
        self.shares.iter().any(|share| *share > 0.0)
    }

    /// Whether there is something to train on; `place` is what the corpus is called.
    fn check_train(&self, place: &str) -> Result<()> {
        if self.trains() {
            return Ok(());
        }
        Err(Error::failed(format!("`{place}` has no text file for training")).hint(layout::SAY))
    }

    /// Whether any file holds text to train on.
    pub(crate) fn trains(&self) -> bool {
        self.sources.iter().any(|source| source.split.is_none_or(|split| split == Split::Train))
    }

    /// The one split that every file is by its name.
    pub(crate) fn only_split(&self) -> Option<Split> {
        let only = self.sources.first()?.split?;
        self.sources.iter().all(|source| source.split == Some(only)).then_some(only)
    }

    /// Whether a text whose names say its splits has this one; `place` is what it is called.
    pub(crate) fn check_split(&self, split: Split, place: &str) -> Result<()> {
        if self.sources.iter().any(|source| source.split == Some(split)) {
            return Ok(());
        }
        let words = self.words.as_deref().unwrap_or_default();
        let there = self.sources.first().and_then(|source| source.split).unwrap_or_default();
        Err(Error::usage(format!("`{place}` has no {split} split: {words}")).hint(format!(
            "read another split of it, such as `--split {there}`, or name the files of one alone with `--corpus`: they are read as `test`"
        )))
    }

    fn new(layout: Layout, mut left_out: Vec<String>, manifest: Option<Manifest>) -> Result<Self> {
        let Layout { files, named, shares, left_out: silent, words, idle } = layout;
        left_out.extend(silent);
        let sources = files.into_iter().map(|(Found { path, name }, split)| {
            let bytes = fs::metadata(&path).map_err(|error| Error::io("read", &path, &error))?.len();
            let (format, packing) = kind::of(&path)?;
            Ok(Source { path, name, format, packing, split, bytes })
        });
        let mut sources = sources.collect::<Result<Vec<_>>>()?;
        sources.sort_by_key(|source| source.split);
        Ok(Self { sources, named, shares, words, idle, left_out, whole: false, manifest })
    }

    /// Whether a key of a document's place in its file matters.
    pub(crate) fn has_records(&self) -> bool {
        self.sources.iter().any(|source| source.format != Format::Text)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }
}

#[cfg(test)]
mod tests;
