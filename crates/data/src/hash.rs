//! Hashes of files' content, remembered for large corpora.

use longwave_core::{Error, Result, clock, file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Up to so many bytes are hashed again every time: it takes a fraction of a second and cannot be wrong.
pub(crate) const ALWAYS_HASHED: u64 = 64 << 20;

/// A file changed so shortly before it was hashed may change again within one tick of its time stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// What a file looked like when it was hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u64,
    sha256: String,
}

/// SHA-256 of each file, in lower-case hexadecimal.
///
/// Of more than `always` bytes, files whose path, size and time stamp are those of an earlier
/// call are taken from `memory`, a file this function keeps. `progress` receives bytes done and in all.
pub(crate) fn hash_files(
    always: u64,
    files: &[&Path],
    memory: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<String>> {
    let looks: Vec<(u64, Option<u64>)> = files.iter().map(|path| look(path)).collect::<Result<_>>()?;
    let total: u64 = looks.iter().map(|(bytes, _)| bytes).sum();
    let remember = total > always;
    let known: BTreeMap<String, Known> = if remember { recall(memory) } else { BTreeMap::new() };
    let now = u64::try_from(clock::now().as_nanos()).unwrap_or(u64::MAX);
    let mut next = BTreeMap::new();
    let mut hashes = Vec::with_capacity(files.len());
    let mut done = 0;
    for (path, &(bytes, modified)) in files.iter().zip(&looks) {
        let key = path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).to_string_lossy().into_owned();
        let sha256 = match known.get(&key) {
            Some(known) if known.bytes == bytes && Some(known.modified) == modified => known.sha256.clone(),
            _ => {
                progress(done, total);
                file::sha256(path)?
            }
        };
        done += bytes;
        if let Some(modified) = modified
            && modified.saturating_add(SETTLED.as_nanos() as u64) < now
        {
            next.insert(key, Known { bytes, modified, sha256: sha256.clone() });
        }
        hashes.push(sha256);
    }
    if remember && next != known {
        let text = serde_json::to_vec(&next).map_err(|error| Error::failed(error.to_string()))?;
        file::write(memory, &text)?;
    }
    Ok(hashes)
}

/// Size in bytes, and time of the last change where the system tells it.
fn look(path: &Path) -> Result<(u64, Option<u64>)> {
    let metadata = fs::metadata(path).map_err(|error| Error::io("read", path, &error))?;
    Ok((metadata.len(), metadata.modified().ok().and_then(nanoseconds)))
}

fn nanoseconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_nanos()).ok())
}

/// Nothing remembered, or nothing readable, means that everything is hashed.
fn recall(memory: &Path) -> BTreeMap<String, Known> {
    let Ok(text) = fs::read(memory) else { return BTreeMap::new() };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::warn!("`{}` is damaged ({error}); hashing the files again", memory.display());
        BTreeMap::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a file a time stamp `seconds` ago.
    #[expect(clippy::disallowed_methods, reason = "time stamps of files are the system's")]
    fn age(path: &Path, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn remembers_only_settled_files_of_large_corpora() {
        let folder = tempfile::tempdir().unwrap();
        let (path, memory) = (folder.path().join("a.txt"), folder.path().join("memory.json"));
        let hash = |always, text: &str| {
            let mut hashed = false;
            let found = hash_files(always, &[&path], &memory, &mut |_, _| hashed = true).unwrap();
            assert_eq!(found, [file::sha256_of(text.as_bytes())]);
            hashed
        };
        fs::write(&path, "one").unwrap();
        assert!(hash(3, "one"));
        assert!(!memory.exists(), "a small corpus is hashed every time");
        assert!(hash(0, "one") && hash(0, "one"), "a file that has just changed is not remembered");
        age(&path, 60);
        assert!(hash(0, "one"));
        assert!(!hash(0, "one"), "now it is");
        fs::write(&path, "two").unwrap();
        age(&path, 30);
        assert!(hash(0, "two"), "a changed file is hashed again");
        fs::write(&memory, "{").unwrap();
        assert!(hash(0, "two"), "a damaged memory is no memory");
        assert!(!hash(0, "two"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone.txt");
        let error =
            hash_files(ALWAYS_HASHED, &[&path], &folder.path().join("memory"), &mut |_, _| ()).unwrap_err();
        assert!(error.message().contains("gone.txt"), "{error}");
    }
}
