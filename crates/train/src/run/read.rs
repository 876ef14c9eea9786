//! Opens a run that has been trained, to read it.

use super::Run;
use crate::run_config::RunConfig;
use longwave_core::text::quoted;
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
            let word = quoted(&folder.to_string_lossy());
            format!("`longwave import {word}` makes a run of a folder in Hugging Face's layout")
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
    let broken = |error: &dyn std::fmt::Display| {
        Error::failed(format!("`{}` is damaged: {error}", path.display())).hint(
            "bring the file back from a copy, use the version of longwave that wrote it, or train again into another folder",
        )
    };
    let mut table: Table = file::read_text(&path)?.parse().map_err(|error| broken(&error))?;
    table.remove("evaluate");
    RunConfig::from_table(table).map_err(|error| broken(&error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_folder_has_a_hint_that_is_safe_to_copy() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("my dir; touch pwned");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        let error = Run::read(&folder).unwrap_err();
        let command = format!("`longwave import '{}'`", folder.display());
        assert!(error.hint_text().is_some_and(|hint| hint.contains(&command)), "{error}");
        for broken in ["[", "name = 3"] {
            std::fs::write(folder.join("config.toml"), broken).unwrap();
            let error = Run::read(&folder).unwrap_err();
            assert!(error.message().contains("config.toml` is damaged"), "{error}");
            assert!(error.hint_text().is_some_and(|hint| hint.contains("from a copy")), "{error}");
        }
    }
}
