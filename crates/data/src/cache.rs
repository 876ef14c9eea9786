//! Cache entries: folders named after a hash of all that decides their content.

use crate::config::DataConfig;
use crate::hash::{self, ALWAYS_HASHED};
use crate::noticed::Noticed;
use crate::split::Split;
use crate::tokenizer::Tokenizer;
use crate::tokens::TokenFile;
use longwave_core::file::fault;
use longwave_core::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment variable that names the folder of the cache.
const VARIABLE: &str = "LONGWAVE_CACHE";
/// What to do where the cache cannot be written.
pub(crate) const OTHER_FOLDER: &str =
    "name a folder on a local disk that you can write to, with `--cache` or `LONGWAVE_CACHE`";

/// The folder that the process was asked to use.
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// Keeps the tokens that this process makes in `folder`, whatever the environment and configs say. Only the first call counts.
pub fn choose(folder: PathBuf) {
    let _ = CHOSEN.set(folder);
}

pub fn chosen() -> Option<&'static Path> {
    CHOSEN.get().map(PathBuf::as_path)
}

/// The folder of the cache: what [`choose`] was called with, `LONGWAVE_CACHE`, what the config says, the user's, or else,
/// where that cannot be written, one for temporary files, which is said once.
pub(crate) fn folder(config: &DataConfig) -> PathBuf {
    of_the_process().unwrap_or_else(|| match config.cache.as_str() {
        "" => default_folder(),
        folder => PathBuf::from(file::in_home(folder)),
    })
}

/// The folder of the cache where no config names one.
pub fn default_folder() -> PathBuf {
    static OF_THE_USER: OnceLock<PathBuf> = OnceLock::new();
    of_the_process().unwrap_or_else(|| {
        OF_THE_USER.get_or_init(|| of_the_user(user_cache(), &std::env::temp_dir())).clone()
    })
}

fn of_the_process() -> Option<PathBuf> {
    chosen().map(Path::to_owned).or_else(|| variable(VARIABLE))
}

fn variable(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(given.to_str().map_or_else(|| PathBuf::from(&given), |text| PathBuf::from(file::in_home(text))))
}

/// The folder for caches of this program in the user's home.
fn user_cache() -> Option<PathBuf> {
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else {
        // A relative path is to be ignored (XDG base directory specification).
        let given = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        given.or_else(|| variable("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("longwave"))
}

/// The user's folder, or where that cannot be written one below `temporary`.
fn of_the_user(folder: Option<PathBuf>, temporary: &Path) -> PathBuf {
    let why = match folder {
        None => "there is no home folder".to_owned(),
        Some(folder) => match check_writable(&folder) {
            Ok(()) => return folder,
            Err(error) => format!("`{}` cannot be written ({error})", folder.display()),
        },
    };
    let user = std::env::var("USER").unwrap_or_default();
    let named = temporary.join(format!("longwave-cache-{user}"));
    let own = temporary.join(format!("longwave-cache-{user}-{}", std::process::id()));
    // The folder of that name may be another user's.
    let chosen = if check_writable(&named).is_ok() { named } else { own };
    tracing::warn!(
        "{why}: tokens are kept in `{}`; set `{VARIABLE}` to choose another folder",
        chosen.display()
    );
    chosen
}

/// Writes a file into a folder, which is made if it is not there, and removes it again.
fn check_writable(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    File::create(&probe)?;
    fs::remove_file(&probe)
}

/// The version of the files' layout and of what decides their content.
pub(crate) const FORMAT: u32 = 1;

const INDEX: &str = "index.json";
const TOKENIZER: &str = "tokenizer.json";

/// What a cache entry says about itself, written after all else in it.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    format: u32,
    key: String,
    files: Vec<Listed>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Listed {
    file: String,
    bytes: u64,
    sha256: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) tokenizer: Tokenizer,
    /// In the order of [`Split::ALL`].
    pub(crate) splits: [TokenFile; 3],
    pub(crate) noticed: Noticed,
}

pub(crate) struct CacheEntry {
    cache: PathBuf,
    key: String,
}

impl CacheEntry {
    /// The entry of a key (64 hexadecimal digits).
    pub(crate) fn new(cache: &Path, key: &str) -> Self {
        Self { cache: cache.to_owned(), key: key.to_owned() }
    }

    fn prefix(&self) -> &str {
        &self.key[..16]
    }

    fn folder(&self) -> PathBuf {
        self.cache.join(self.prefix())
    }

    /// Opens the entry if it is there and whole.
    pub(crate) fn open(&self) -> Option<Content> {
        let folder = self.folder();
        if !folder.exists() {
            return None;
        }
        let opened = self.try_open(&folder).inspect_err(|error| {
            let (folder, why) = (folder.display(), error.message());
            tracing::warn!("the cached tokens in `{folder}` are rebuilt: {why}");
        });
        opened.ok()
    }

    fn try_open(&self, folder: &Path) -> Result<Content> {
        let damaged = |what: &str| Error::failed(what.to_owned());
        let index: Index = serde_json::from_str(&file::read_text(&folder.join(INDEX))?)
            .map_err(|error| damaged(&format!("its index is damaged: {error}")))?;
        if index.format != FORMAT || index.key != self.key {
            return Err(damaged("it belongs to other content or to another version"));
        }
        let paths: Vec<PathBuf> = index.files.iter().map(|listed| folder.join(&listed.file)).collect();
        for (listed, path) in index.files.iter().zip(&paths) {
            let bytes = fs::metadata(path).map_err(|error| Error::io("read", path, &error))?.len();
            if bytes != listed.bytes {
                return Err(damaged(&format!(
                    "`{}` has {bytes} bytes instead of {}",
                    listed.file, listed.bytes
                )));
            }
        }
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let memory = self.cache.join("hashes").join(format!("{}.json", self.prefix()));
        let hashes = hash::hash_files(ALWAYS_HASHED, &paths, &memory, &mut |_, _| ())?;
        if let Some((listed, _)) =
            index.files.iter().zip(&hashes).find(|(listed, hash)| listed.sha256 != **hash)
        {
            return Err(damaged(&format!("the content of `{}` has changed", listed.file)));
        }
        let tokenizer = Tokenizer::load(&folder.join(TOKENIZER))?;
        let open = |split| TokenFile::open(folder, split, tokenizer.vocab_size(), tokenizer.token_bytes());
        let splits = [open(Split::Train)?, open(Split::Valid)?, open(Split::Test)?];
        Ok(Content { tokenizer, splits, noticed: Noticed::read(folder)? })
    }

    /// Lets one process at a time build this entry; the lock goes with the file returned.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.cache.join(format!("{}.lock", self.prefix()));
        let failed = |error: std::io::Error| Error::io("lock", &path, &error).hint(OTHER_FOLDER);
        fault::pass("make the folder of", &path)
            .and_then(|()| file::make_folders(&self.cache))
            .map_err(failed)?;
        let lock = fault::pass("create", &path).and_then(|()| File::create(&path)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                tracing::info!("another process is tokenizing this corpus; waiting for it");
                lock.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(lock)
    }

    /// Builds the entry beside its place and moves it there whole, or leaves nothing. `fill` writes the
    /// token files into the folder it is given and returns the tokenizer. The lock must be held.
    pub(crate) fn build(&self, fill: impl FnOnce(&Path) -> Result<Tokenizer>) -> Result<()> {
        let part = self.cache.join(format!(".{}.part", self.prefix()));
        let failed = |error: std::io::Error| Error::io("write", &part, &error);
        // A process that was killed may have left one.
        remove(&part)?;
        fault::pass("make", &part).and_then(|()| fs::create_dir_all(&part)).map_err(failed)?;
        let built = fill(&part).and_then(|tokenizer| self.complete(&part, &tokenizer));
        if built.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_dir_all(&part);
        }
        built
    }

    /// Adds the tokenizer and the index, and moves the folder into place.
    fn complete(&self, part: &Path, tokenizer: &Tokenizer) -> Result<()> {
        tokenizer.save(&part.join(TOKENIZER))?;
        let failed = |error: std::io::Error| Error::io("write", part, &error);
        let mut files = Vec::new();
        for entry in fs::read_dir(part).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            files.push(Listed {
                file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                bytes: fs::metadata(&path).map_err(failed)?.len(),
                sha256: file::sha256(&path)?,
            });
        }
        files.sort_by(|a, b| a.file.cmp(&b.file));
        let index = Index { format: FORMAT, key: self.key.clone(), files };
        let text = serde_json::to_vec_pretty(&index).map_err(|error| Error::failed(error.to_string()))?;
        file::write(&part.join(INDEX), &text)?;
        let folder = self.folder();
        remove(&folder)?;
        fault::pass("rename", part).and_then(|()| fs::rename(part, &folder)).map_err(failed)?;
        // The rename outlives a power cut.
        file::sync_folder(&self.cache).map_err(failed)
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder, &error)
                .hint("remove it by hand, or name another folder with `--cache` or `LONGWAVE_CACHE`"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_cannot_be_written_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        assert_eq!(of_the_user(Some(home.clone()), folder.path()), home);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "the probe is gone");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for home in [Some(file.join("longwave")), None] {
            let chosen = of_the_user(home, folder.path());
            assert!(chosen.starts_with(folder.path()) && chosen.is_dir(), "{}", chosen.display());
        }
    }
}
