//! The folder that a study writes into: a new one, or its own.

use longwave_core::{Error, Result, file};
use longwave_study::saved;
use std::path::Path;
use toml::Table;

/// What a study that was stopped before it had a plan may have left.
const CLAIMS: &str = "claims.json";

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
        None if has_runs() || file::check_new_folder(folder, &[CLAIMS], "").is_ok() => return Ok(()),
        None => ("is not empty and holds no study".to_owned(), "choose another folder with `--out`"),
    };
    Err(Error::usage(format!("`{}` {holds}", folder.display())).hint(hint))
}

/// The name of the study whose plan a folder holds.
fn study_in(folder: &Path) -> Option<String> {
    let plan: Table = file::read_text(&folder.join("plan.toml")).ok()?.parse().ok()?;
    Some(plan.get("study")?.get("name")?.as_str()?.to_owned())
}
