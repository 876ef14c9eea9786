//! Folders for what is measured and thrown away.

use std::path::{Path, PathBuf};

/// A folder that goes away with this.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A folder of this process, which whoever writes into it makes.
    pub(super) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("longwave-{}-{name}", std::process::id())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("`{}` cannot be removed: {error}", folder.display());
    }
}
