//! The metrics of a training as `TensorBoard` shows them while it runs: `tensorboard/train` in the run's folder.
//!
//! The file repeats `metrics.jsonl`. A run that is resumed writes it again from there. Each step is written at once but not
//! flushed to the disk, so a power cut may lose the last steps. Where the file cannot be written, training continues without
//! it, with a warning.

use longwave_core::event_file::{self, NAME};
use longwave_core::file::existing_folder;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The folder of the curves of a training, below that of the run.
pub const FOLDER: &str = "tensorboard/train";

#[derive(Debug)]
pub(crate) struct Live {
    file: Option<File>,
}

impl Live {
    /// Begins a file in a run's folder with the records `before`, and removes those of earlier processes.
    pub(crate) fn open(folder: &Path, before: &[u8]) -> Self {
        let (run, folder) = (folder, folder.join(FOLDER));
        let file = begin(run, &folder, before).inspect_err(|error| {
            tracing::warn!("the curves for TensorBoard cannot be written to `{}`: {error}", folder.display());
        });
        Self { file: file.ok() }
    }

    pub(crate) fn push(&mut self, step: u64, record: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(record) {
            tracing::warn!("the curves for TensorBoard end before step {step}: {error}");
            self.file = None;
        }
    }
}

fn begin(run: &Path, folder: &Path, before: &[u8]) -> io::Result<File> {
    existing_folder::make_below(run, folder).map_err(io::Error::other)?;
    let earlier: Vec<_> = fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path()).collect();
    let path = folder.join(format!("{NAME}.{:.6}.{}", event_file::now(), std::process::id()));
    let mut file = File::create(&path)?;
    file.write_all(&[&event_file::header(), before].concat())?;
    for path in earlier.iter().filter(|path| path.to_string_lossy().contains(NAME)) {
        fs::remove_file(path)?;
    }
    Ok(file)
}
