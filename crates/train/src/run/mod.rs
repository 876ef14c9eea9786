//! A run's folder, and whether training may start or go on there.
//!
//! `config.toml` (resolved), `metrics.jsonl`, `checkpoints/{last,previous,best,stable}.safetensors`,
//! `tokenizer.json`, `results.jsonl`, `report.html`. `previous` is the `last` before, for the case that
//! `last` is damaged. `stable` is the state before the final decay of
//! `wsd`, from which a finished run can go on. A run with stages also keeps the end of each:
//! `stage-0` of `[train]`, `stage-1` of the first `[[stage]]`, and so on. `step-N` has the weights after a step that
//! `keep_checkpoints` names.

mod checkpoint_id;
mod longer;
mod read;
mod seeds;
mod shared;

use crate::checkpoint::{Checkpoint, Unreadable};
use crate::run_config::{RunConfig, changes_no_step};
use longwave_core::{Error, Result, file};
use longwave_data::Record;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

pub(crate) use shared::{best_of_stable, best_weights};

use longer::Further;
use read::read_config;

pub use checkpoint_id::{CheckpointId, checkpoint_path, existing_checkpoint};

/// A run: what it trains, and where it is kept.
#[derive(Clone, Debug)]
pub struct Run {
    pub folder: PathBuf,
    pub config: RunConfig,
    /// [`RunConfig::hash`].
    pub hash: String,
}

/// The right to train in a run's folder.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock goes when the file is closed")] Option<File>);

/// Where a config does not have a key.
const NOT_SET: &str = "not set";

/// The keys of places: the same content may lie elsewhere.
const PLACES: [&str; 2] = ["data.corpus", "data.tokenizer.path"];

/// Where training begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// From fresh weights.
    Fresh,
    Resume(Box<Checkpoint>),
    /// From a checkpoint of the run when it had another number of steps, or of another run that was trained alike until there, and how
    /// it goes on, in a sentence.
    Longer(Box<Checkpoint>, String),
    /// Nowhere: the run is finished, and this is its last checkpoint.
    Finished(Box<Checkpoint>),
}

impl Run {
    /// Decides where training in `folder` begins, without writing anything. `content_hash` is that of the config's data.
    pub fn prepare(
        folder: &Path,
        mut config: RunConfig,
        content_hash: &str,
        resume: bool,
    ) -> Result<(Self, Start)> {
        if config.imported.is_some() {
            let text = "this config is of imported weights, which training would not begin with";
            return Err(Error::usage(text)
                .hint("remove `imported` to train a model of this shape from fresh weights"));
        }
        let shown = folder.display();
        let identified = |config: RunConfig| -> Result<Self> {
            Ok(Self { folder: folder.to_owned(), hash: config.hash(content_hash)?, config })
        };
        if !folder.join("config.toml").exists() {
            // A run that was killed before it had written its config has left nothing else, but the folder that it locks.
            return if file::holds_leftovers_only_beside(folder, "checkpoints") {
                Ok((identified(config)?, Start::Fresh))
            } else {
                Err(Error::usage(format!("`{shown}` is not empty and holds no run"))
                    .hint("choose another folder with `--out`"))
            };
        }
        let old = read_config(folder)?;
        longer::keep_schedules(&old, &mut config);
        let run = identified(config)?;
        let [there, here] = longer::compared(&old, &run.config)?;
        let mut differences = differences(&there, &here);
        let is_place = |difference: &Difference| PLACES.contains(&difference.key.as_str());
        // The same text may lie elsewhere by now.
        if differences.iter().any(is_place) && run.was_trained_on(&old, content_hash)? {
            differences.retain(|difference| !is_place(difference));
        }
        let further = Further::of(&differences, &old, &run.config);
        // Each goes on from a checkpoint with the hash of the old config, so no later check would notice another text.
        let is_other_text = further.is_some()
            && Record::read(folder)?.is_some_and(|record| record.content_hash != content_hash);
        if !resume {
            let further = further.filter(|_| !is_other_text);
            return Err(run.not_resumed(&old, differences.first(), further));
        }
        if is_other_text {
            return Err(Error::usage(format!(
                "`{shown}` was trained on other text: `data.corpus` has changed since"
            ))
            .hint("bring the old text back, or choose another folder with `--out`"));
        }
        let start = match (differences.first(), further) {
            (None, _) => run.continued()?,
            (_, Some(further)) => run.trained_further(&old, further)?,
            (Some(first), None) => {
                return Err(Error::usage(format!("`{shown}` holds a run with another config: {first}"))
                    .hint("choose another folder with `--out`, or the same config"));
            }
        };
        Ok((run, start))
    }

    /// Why a folder that holds a run is not trained in without `--resume`, and what may be done: `first` is the first key that
    /// differs, and `further` how the run may go on with what differs.
    fn not_resumed(&self, old: &RunConfig, first: Option<&Difference>, further: Option<Further>) -> Error {
        let error = Error::usage(format!("`{}` already holds a run", self.folder.display()));
        let Some(first) = first else {
            return error.hint("continue it with `--resume`, or choose another folder with `--out`");
        };
        let goes_on = further.is_some_and(|further| self.may_go_on(old, further).is_ok());
        let resumed = format!("`--resume` goes on to step {}, or ", self.config.total_steps());
        let resumed = if goes_on { resumed } else { String::new() };
        error.context(first).hint(format!("{resumed}choose another folder with `--out`"))
    }

    /// Takes the right to train in the folder, until what it gives is dropped; the system releases it when the process ends,
    /// however it ends.
    pub fn lock(&self) -> Result<Lock> {
        let folder = self.folder.join("checkpoints");
        let failed = |error: std::io::Error| Error::io("lock", &folder, &error);
        file::make_folders(&folder).map_err(|error| Error::io("make", &folder, &error))?;
        if !cfg!(unix) {
            return Ok(Lock(None));
        }
        let handle = File::open(&folder).map_err(failed)?;
        match handle.try_lock() {
            Ok(()) => Ok(Lock(Some(handle))),
            Err(TryLockError::WouldBlock) => {
                Err(Error::failed(format!("another process is training `{}`", self.folder.display()))
                    .hint("wait until it has ended, or train into another folder with `--out`"))
            }
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                tracing::warn!("`{}` cannot be locked: train there with one process only", folder.display());
                Ok(Lock(None))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    pub fn checkpoint(&self, which: CheckpointId) -> PathBuf {
        checkpoint_path(&self.folder, which)
    }

    /// Loads a checkpoint, and checks that it is of this run.
    pub fn load(&self, which: CheckpointId) -> Result<Checkpoint> {
        let path = existing_checkpoint(&self.folder, which)?;
        let checkpoint = Checkpoint::load(&path)?;
        self.check(&checkpoint, which)?;
        Ok(checkpoint)
    }

    pub fn check(&self, checkpoint: &Checkpoint, which: CheckpointId) -> Result<()> {
        let expected =
            if self.config.imported.is_some() { self.config.weights_hash()? } else { self.hash.clone() };
        if checkpoint.meta.config_hash == expected {
            return Ok(());
        }
        // A run that was made longer, or got a stage, kept what it had written under the hash that it had then. Whether it is
        // still this run is known from its last checkpoint.
        let last = self.checkpoint(CheckpointId::Last);
        if which != CheckpointId::Last && last.exists() {
            let last = Checkpoint::load(&last)?;
            let step = checkpoint.meta.step;
            let is_before = match which {
                // With fewer steps before it, a stage has left checkpoints of steps that are another stage's now.
                CheckpointId::Step(kept) => {
                    step == kept && checkpoint.meta.stage() == self.config.stage_of(step)
                }
                CheckpointId::Best => last.meta.best.is_some_and(|best| best.step == step),
                CheckpointId::Stage(stage) => {
                    stage < self.config.last_stage() && step == self.config.steps_before(stage + 1)
                }
                CheckpointId::Last | CheckpointId::Previous | CheckpointId::Stable => false,
            };
            if is_before && step <= last.meta.step {
                return self.check(&last, CheckpointId::Last);
            }
        }
        Err(Error::failed(format!(
            "`{}` was trained as {}, and config and corpus now give {}",
            self.checkpoint(which).display(),
            checkpoint.meta.config_hash,
            expected
        ))
        .hint("the config, the corpus or the tokenizer has changed since: bring the old one back, or train again"))
    }

    /// Whether the folder's run, whose config is `old`, was trained on text of this content hash.
    fn was_trained_on(&self, old: &RunConfig, content_hash: &str) -> Result<bool> {
        if let Some(record) = Record::read(&self.folder)? {
            return Ok(record.content_hash == content_hash);
        }
        let last = self.checkpoint(CheckpointId::Last);
        Ok(last.exists() && Checkpoint::load(&last)?.meta.config_hash == old.hash(content_hash)?)
    }

    /// The same config again.
    fn continued(&self) -> Result<Start> {
        // A checkpoint from before the run was made longer is of another config.
        let accepts = |id, checkpoint: &Checkpoint| {
            id == CheckpointId::Last || checkpoint.meta.config_hash == self.hash
        };
        let Some(checkpoint) = self.newest(&accepts)? else { return Ok(Start::Fresh) };
        self.check(&checkpoint, CheckpointId::Last)?;
        Ok(if checkpoint.meta.is_end_of(&self.config) {
            Start::Finished(Box::new(checkpoint))
        } else {
            Start::Resume(Box::new(checkpoint))
        })
    }

    /// The newest checkpoint that is whole and that `accepts` takes; `None` where there is none and none is damaged.
    fn newest(&self, accepts: &dyn Fn(CheckpointId, &Checkpoint) -> bool) -> Result<Option<Checkpoint>> {
        let ids = CheckpointId::to_go_on_from(self.config.last_stage());
        let (mut newest, mut damaged): (Option<Checkpoint>, _) = (None, Vec::new());
        for id in ids.filter(|id| self.checkpoint(*id).exists()) {
            match Checkpoint::try_load(&self.checkpoint(id)) {
                Ok(found) if accepts(id, &found) => {
                    if newest.as_ref().is_none_or(|newest| newest.meta.step < found.meta.step) {
                        newest = Some(found);
                    }
                    // No other is newer.
                    if id == CheckpointId::Last {
                        break;
                    }
                }
                Ok(_) => {}
                Err(Unreadable::Damaged(error)) => damaged.push(error),
                Err(Unreadable::Other(error)) => return Err(error),
            }
        }
        match (newest, damaged.first()) {
            (Some(mut newest), _) => {
                newest.instead_of = damaged;
                Ok(Some(newest))
            }
            (None, None) => Ok(None),
            (None, Some(error)) => Err(error.clone().hint(format!(
                "no other checkpoint of the run can take its place; remove the folder `{}` to train from the first step",
                self.folder.join("checkpoints").display()
            ))),
        }
    }

    /// The same config with further stages: what was trained stays, its last checkpoint is of this run from now on.
    fn staged(&self, old: &RunConfig) -> Result<Start> {
        let Some(checkpoint) = self.newest(&|_, _| true)? else { return Ok(Start::Fresh) };
        if checkpoint.meta.step < old.total_steps() {
            return Ok(Start::Resume(Box::new(checkpoint)));
        }
        // The run knew of no stage then, or of fewer: the end of its last one gets its name.
        let end = self.checkpoint(CheckpointId::Stage(checkpoint.meta.stage()));
        if !end.exists() {
            file::copy(&checkpoint.path, &end)?;
        }
        self.keep_end(&checkpoint)?;
        Ok(Start::Resume(Box::new(checkpoint)))
    }

    /// Keeps the weights of the step that was the last until now, where it is one of those that are kept.
    fn keep_end(&self, checkpoint: &Checkpoint) -> Result<()> {
        let step = checkpoint.meta.step;
        let path = self.checkpoint(CheckpointId::Step(step));
        if path.exists() || !self.config.kept_steps().contains(&step) {
            return Ok(());
        }
        file::copy(&checkpoint.path, &path)
    }
}

/// Removes the half-written files that killed processes left in a run's folder.
pub fn remove_leftovers(folder: &Path) {
    for folder in [folder.join("checkpoints"), folder.join("searches"), folder.to_owned()] {
        file::remove_leftovers(&folder);
    }
}

/// One key with different values in two configs.
#[derive(Clone, Debug, PartialEq)]
struct Difference {
    key: String,
    old: String,
    new: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is {} there and {} here", self.key, self.old, self.new)
    }
}

/// The keys that differ, without those that change no number of a run.
fn differences(old: &Table, new: &Table) -> Vec<Difference> {
    let (old, new) = (flat(old), flat(new));
    let mut keys: Vec<&String> = old.iter().chain(&new).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let value = |of: &[(String, String)], key: &str| {
        of.iter().find(|(k, _)| k == key).map_or(NOT_SET.to_owned(), |(_, value)| value.clone())
    };
    let has = |wanted: &str| old.iter().chain(&new).any(|(key, _)| key == wanted);
    let changes_nothing = |key: &str| {
        ["name", "data.cache"].contains(&key)
            || key.rsplit_once('.').is_some_and(|(section, last)| {
                (section == "train" || section.starts_with("stage["))
                    && changes_no_step(last, has(&format!("{section}.patience")))
            })
    };
    keys.into_iter()
        .filter(|key| !changes_nothing(key))
        .map(|key| Difference { key: key.clone(), old: value(&old, key), new: value(&new, key) })
        .filter(|difference| difference.old != difference.new)
        .collect()
}

/// Dotted keys and their values; those of stages as `stage[0].steps`.
fn flat(table: &Table) -> Vec<(String, String)> {
    let inside = |key: &str, inner: &Table| -> Vec<(String, String)> {
        flat(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)).collect()
    };
    let below = |(key, value): (&String, &Value)| match value {
        Value::Table(inner) => inside(key, inner),
        Value::Array(stages) if key == "stage" => {
            let tables =
                stages.iter().enumerate().filter_map(|(index, stage)| Some((index, stage.as_table()?)));
            tables.flat_map(|(index, stage)| inside(&format!("stage[{index}]"), stage)).collect()
        }
        other => vec![(key.clone(), other.to_string())],
    };
    table.iter().flat_map(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_key_and_values() {
        let old: Table = "name = \"a\"\n[train]\nsteps = 1\nclip = 1.0".parse().unwrap();
        let new: Table = "name = \"b\"\n[train]\nsteps = 2".parse().unwrap();
        let shown: Vec<String> = differences(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["`train.clip` is 1.0 there and not set here", "`train.steps` is 1 there and 2 here"]
        );
    }
}
