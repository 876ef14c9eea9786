//! Runs that are seeds of one: nothing else tells them apart.

use super::{Difference, NOT_SET, PLACES, Run, differences, longer};
use crate::run_config::RunConfig;
use longwave_core::{Error, Result};
use longwave_data::Record;
use std::path::{Path, PathBuf};

const NAMED: usize = 3;

const HINT: &str = "name runs that differ in their seed alone, or read each by itself";

impl Run {
    /// Checks that numbers of runs may be averaged over them: their configs and texts differ in the seed alone, and no seed is there twice.
    ///
    /// # Errors
    /// A folder holds no run, or they differ in more or in nothing; the error names it.
    pub fn check_seeds(folders: &[PathBuf]) -> Result<()> {
        let mut known: Vec<(&Path, RunConfig)> = Vec::new();
        for folder in folders {
            let config = Self::read(folder)?;
            if let Some((first, of_first)) = known.first() {
                check_pair((first, of_first), (folder, &config))?;
            }
            if let Some((twin, _)) = known.iter().find(|(_, other)| other.seed == config.seed) {
                let (twin, folder) = (twin.display(), folder.display());
                return Err(Error::usage(format!(
                    "`{twin}` and `{folder}` have `seed` {} twice",
                    config.seed
                ))
                .hint(HINT));
            }
            known.push((folder, config));
        }
        Ok(())
    }

    /// In what two runs differ beside the seed, in words: `None` where they are seeds of one run, or copies, and where a config is not
    /// there or is one that this program cannot read.
    ///
    /// # Errors
    /// What is recorded of a text is damaged.
    pub fn differ_beside_seed(folder: &Path, other: &Path) -> Result<Option<String>> {
        match [Self::read(folder), Self::read(other)] {
            [Ok(config), Ok(of_other)] => differing((folder, &config), (other, &of_other)),
            _ => Ok(None),
        }
    }

    /// The error where two runs differ in this beside the seed.
    pub fn no_seeds(folder: &Path, other: &Path, differing: &str) -> Error {
        let (folder, other) = (folder.display(), other.display());
        Error::usage(format!("`{folder}` and `{other}` are no seeds of one run: {differing}")).hint(HINT)
    }
}

fn check_pair(run: (&Path, &RunConfig), other: (&Path, &RunConfig)) -> Result<()> {
    differing(run, other)?.map_or(Ok(()), |found| Err(Run::no_seeds(run.0, other.0, &found)))
}

fn differing(
    (folder, config): (&Path, &RunConfig),
    (other, of_other): (&Path, &RunConfig),
) -> Result<Option<String>> {
    let [a, b] = longer::compared(config, of_other)?;
    let contents = [content(folder)?, content(other)?];
    let is_place = |it: &Difference| PLACES.contains(&it.key.as_str());
    let is_known = contents.iter().all(Option::is_some);
    // The same text may lie elsewhere.
    let mut keys = differences(&a, &b);
    keys.retain(|it| it.key != "seed" && !(is_known && is_place(it)));
    // A key that one of both has not follows from another one, such as the kind.
    keys.sort_by_key(|it| it.old == NOT_SET || it.new == NOT_SET);
    let named = keys.iter().map(|it| format!("`{}` is {} and {}", it.key, it.old, it.new));
    let mut found: Vec<String> = named.collect();
    if is_known && contents[0] != contents[1] {
        found.push("`data.corpus` held another text".to_owned());
    }
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        found.push(format!("{more} more keys differ"));
    }
    Ok((!found.is_empty()).then(|| found.join("; ")))
}

/// The hash of what a run was trained on, where its folder records it.
fn content(folder: &Path) -> Result<Option<String>> {
    Ok(Record::read(folder)?.map(|record| record.content_hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders of runs with these keys after the name.
    fn runs(keys: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let write = |(index, keys): (usize, &&str)| {
            let run = folder.path().join(index.to_string());
            std::fs::create_dir(&run).unwrap();
            let text = format!(
                "name = \"x{index}\"\n{keys}\n[data]\ncorpus = \"data/sotu\"\n[position]\nkind = \"rope\"\n"
            );
            std::fs::write(run.join("config.toml"), text).unwrap();
            run
        };
        let runs = keys.iter().enumerate().map(write).collect();
        (folder, runs)
    }

    #[test]
    fn seeds_of_one_run_differ_in_nothing_else() {
        let message =
            |keys: &[&str]| Run::check_seeds(&runs(keys).1).map_err(|error| error.message().to_owned());
        // A name and how often checkpoints are written change no number.
        assert_eq!(message(&["seed = 0", "seed = 1\n[train]\ncheckpoint_every = 7", "seed = 2"]), Ok(()));
        assert_eq!(message(&["seed = 3"]), Ok(()));
        let twice = message(&["seed = 0", "seed = 1", "seed = 1"]).unwrap_err();
        assert!(twice.contains("2` have `seed` 1 twice"), "{twice}");
        let other = message(&["seed = 0", "seed = 1\n[train]\nsteps = 7\n[model]\nlayers = 3"]).unwrap_err();
        assert!(
            other.contains("are no seeds of one run: `train.steps` is 600 and 7; `model.layers` is "),
            "{other}"
        );
        let same_seed = message(&["seed = 0", "seed = 0\n[train]\nclip = 0.5"]).unwrap_err();
        assert!(same_seed.contains("`train.clip` is 1.0 and 0.5"), "what differs comes first: {same_seed}");
        let apart = |keys: [&str; 2]| {
            let (_folder, runs) = runs(&keys);
            Run::differ_beside_seed(&runs[0], &runs[1]).unwrap()
        };
        assert_eq!([apart(["seed = 0", "seed = 1"]), apart(["seed = 1", "seed = 1"])], [None, None]);
        let steps = "`train.steps` is 600 and 7".to_owned();
        assert_eq!(apart(["seed = 0", "seed = 1\n[train]\nsteps = 7"]), Some(steps));
        assert_eq!(apart(["seed = 0", "seed = \"one\""]), None);
    }
}
