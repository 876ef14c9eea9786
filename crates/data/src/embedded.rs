//! The corpus that the program carries, for where there is no checkout.

use longwave_core::{Result, file};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

include!(concat!(env!("OUT_DIR"), "/sotu.rs"));

/// The name of the corpus, as in a checkout.
pub(crate) const NAME: &str = "data/sotu";

/// Whether a path that is not there names the corpus.
pub(crate) fn is_named(corpus: &str) -> bool {
    let parts = Path::new(corpus).components().filter(|part| *part != Component::CurDir);
    parts.eq(Path::new(NAME).components())
}

pub(crate) fn training_texts() -> impl Iterator<Item = &'static [u8]> {
    let is_text = |name: &str| name.starts_with("train/");
    FILES.iter().filter(move |(name, _)| is_text(name)).map(|(_, content)| *content)
}

/// Writes the corpus into a cache, where it is not there already, and gives its folder. Every file appears whole, and
/// all processes write the same.
pub(crate) fn unpack(cache: &Path) -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let folder = cache.join("sotu");
    for (name, content) in FILES {
        let path = folder.join(name);
        if !fs::read(&path).is_ok_and(|found| found == *content) {
            file::write(&path, content)?;
        }
    }
    Ok(folder)
}
