//! The folder that a study writes into: a new one, or its own.

use longwave_core::{Error, Result, file};
use longwave_study::saved;
use std::path::Path;
use toml::Table;

/// Checks that a study of this name may write into a folder, where it replaces files and removes those of earlier results: the folder is
/// empty, or a study of this name wrote it.
pub(super) fn check(folder: &Path, name: &str) -> Result<()> {
    // The list of runs is written before the plan, and is left where the plan was lost or damaged.
    let has_runs = || saved::keys(folder).is_ok_and(|keys| !keys.is_empty());
    let (holds, hint) = match study_in(folder) {
        Some(other) if other == name => return Ok(()),
        Some(other) => (
            format!("holds the study `{other}`, and this one is `{name}`"),
            "choose another folder with `--out`: `runs prune` keeps the runs of a study as long as its folder names them",
        ),
        None if has_runs() || is_free(folder) => return Ok(()),
        None => ("is not empty and holds no study".to_owned(), "choose another folder with `--out`"),
    };
    Err(Error::usage(format!("`{}` {holds}", folder.display())).hint(hint))
}

/// The name of the study whose plan a folder holds.
fn study_in(folder: &Path) -> Option<String> {
    let plan: Table = file::read_text(&folder.join("plan.toml")).ok()?.parse().ok()?;
    Some(plan.get("study")?.get("name")?.as_str()?.to_owned())
}

/// Whether a folder is missing, empty, or holds no more than a study that was stopped before it had a plan: its claims, and half-written
/// files.
fn is_free(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).all(|name| {
        name == "claims.json" || name.strip_prefix('.').and_then(|name| name.strip_suffix(".part")).is_some()
    })
}
