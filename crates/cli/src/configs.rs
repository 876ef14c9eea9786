//! Configs and studies that the command line names, and where runs are kept.

use longwave_core::{Error, Result};
use longwave_experiment::Config;
use longwave_train::RunConfig;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Where a run is kept unless the command says so.
pub(crate) fn default_folder(config: &RunConfig) -> PathBuf {
    Path::new("runs").join(format!("{}-{}", config.name, config.seed))
}

/// Reads a config, of that path or of that name in `configs/`, and shows its warnings.
pub(crate) fn load_config(path: &Path, assignments: &[String]) -> Result<Config> {
    let config = Config::load(&find_config(path)?, assignments)?;
    warn(&config.warnings);
    Ok(config)
}

/// Shows each warning once.
pub(crate) fn warn<'a>(warnings: impl IntoIterator<Item = &'a String>) {
    let mut shown = HashSet::new();
    for warning in warnings {
        if shown.insert(warning) {
            tracing::warn!("{warning}");
        }
    }
}

/// The config file itself, or the one of that name in `configs/`.
pub(crate) fn find_config(path: &Path) -> Result<PathBuf> {
    find_shipped(path, "configs", "config")
}

/// The file itself, or the one of that name in the project's `folder`; `what` it is, for the message.
pub(crate) fn find_shipped(path: &Path, folder: &str, what: &str) -> Result<PathBuf> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    let bare = path.components().count() == 1;
    let shipped = Path::new(folder).join(path);
    if bare && shipped.exists() {
        return Ok(shipped);
    }
    let error = Error::usage(format!("there is no {what} `{}`", path.display()));
    let known = shipped_files(folder);
    Err(match longwave_core::error::nearest(&path.to_string_lossy(), known.iter().map(String::as_str)) {
        Some(near) if bare => error.hint(format!("did you mean `{near}`?")),
        _ if known.is_empty() => error.hint("run from the project's folder, or give the path of the file"),
        _ => error.hint(format!("`{folder}/` has {}", known.join(", "))),
    })
}

fn shipped_files(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| {
            entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
        })
        .unwrap_or_default();
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "toml"));
    names.sort();
    names
}
