//! Opens a run that has been trained, to read it.

use super::Run;
use crate::run_config::RunConfig;
use longwave_core::{Error, Result, file};
use std::path::Path;
use toml::Table;

impl Run {
    /// Opens a run that has been trained, to read it.
    ///
    /// # Errors
    /// The folder holds no run, or its config is damaged.
    pub fn read(folder: &Path) -> Result<RunConfig> {
        if holds_a_run(folder) {
            return read_config(folder);
        }
        let shown = folder.display();
        let near = Path::new("runs").join(folder);
        let hint = if holds_a_run(&near) {
            format!("did you mean `{}`?", near.display())
        } else if let Some(above) = above(folder) {
            format!("did you mean `{}`?", above.display())
        } else if folder.join("config.json").exists() {
            format!("`longwave import {shown}` makes a run of a folder in Hugging Face's layout")
        } else {
            "name the folder that `longwave train` wrote, such as `runs/rope-0`".to_owned()
        };
        let what = if folder.is_file() {
            "is a file, and not the folder of a run"
        } else {
            "holds no run: it has no `config.toml`"
        };
        Err(Error::usage(format!("`{shown}` {what}")).hint(hint))
    }
}

fn holds_a_run(folder: &Path) -> bool {
    folder.join("config.toml").exists()
}

/// The folder of the run that a file or a folder is part of, if it is there and part of one.
fn above(part: &Path) -> Option<&Path> {
    if !part.exists() {
        return None;
    }
    let above = part.ancestors().skip(1);
    let mut named = above.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    named.find(|folder| holds_a_run(folder))
}

pub(super) fn read_config(folder: &Path) -> Result<RunConfig> {
    let path = folder.join("config.toml");
    let broken =
        |error: &dyn std::fmt::Display| Error::failed(format!("`{}` is damaged: {error}", path.display()));
    let mut table: Table = file::read_text(&path)?.parse().map_err(|error| broken(&error))?;
    table.remove("evaluate");
    RunConfig::from_table(table).map_err(|error| broken(&error.message()))
}
