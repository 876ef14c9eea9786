//! The stored runs that others go on from: with more `train.steps`, a study trains only those that the runs of before lack.

use crate::plan::Plan;
use crate::plan::job::{Origin, data_text, key_of};
use crate::store::{Store, Work};
use crate::words::few;
use longwave_core::{Error, Result};
use longwave_eval::Evaluation;
use longwave_experiment::Config;
use longwave_train::run::{CheckpointId, checkpoint_path};
use longwave_train::{Run, RunConfig, TrainConfig};
use std::collections::HashMap;
use std::path::Path;

const FEW: usize = 4;

/// The runs of a store that have a checkpoint, by the [beginning](RunConfig::beginning) of their configs.
type Stored = HashMap<String, Vec<(String, RunConfig)>>;

impl Plan {
    /// Finds for each run that has not begun the stored run with which it shares most steps, see [`RunConfig::shared_steps`]. Gives a
    /// hint where another schedule would let runs go on that do not.
    pub fn find_sources(&mut self, store: &Store) -> Result<Option<String>> {
        let (mut stored, mut hint): (Option<Stored>, _) = (None, None);
        for index in 0..self.runs.len() {
            let Ok(job) = &self.runs[index].job else { continue };
            if store.work(job) != Work::Open || has_checkpoint(&store.run(&job.key)) {
                continue;
            }
            let stored = match &mut stored {
                Some(stored) => stored,
                none => none.insert(read(store)?),
            };
            let source = self.source(&job.config, store, stored)?;
            if source.is_none() && hint.is_none() {
                hint = self.hint(&job.config, store, stored)?;
            }
            self.runs[index].from = source;
        }
        Ok(hint)
    }

    /// Checks that the runs whose best step is read were validated at the steps that their configs say: a run that went on from a stored
    /// one, for a study that reads the last step, holds the validations of that.
    pub fn check_best(&self, store: &Store) -> Result<()> {
        let of_best = self.jobs().filter(|(_, job)| reads_best(&job.config));
        for (index, job) in of_best {
            let folder = store.run(&job.key);
            if !job.config.run.was_validated_as_said(&folder)? {
                let title = self.runs[index].title();
                return Err(Error::failed(format!(
                    "the stored run of `{title}`, {}, went on from a run that was validated at other steps: its best step may not be that \
                     of a run made in one go",
                    job.key
                ))
                .hint(format!(
                    "remove `{}` to train it again, or give the study the `train.validate_every` of the shorter run",
                    folder.display()
                )));
            }
        }
        Ok(())
    }

    fn source(&self, config: &Config, store: &Store, stored: &Stored) -> Result<Option<Origin>> {
        let Some(content) = self.contents.get(&data_text(&config.run.data)) else { return Ok(None) };
        let Some(candidates) = stored.get(&config.run.beginning()?) else { return Ok(None) };
        let reads_best = reads_best(config);
        let mut best: Option<Origin> = None;
        for (key, other) in candidates {
            // The key proves that it was trained on the same text, and on a device that rounds alike.
            if *key == key_of(other, &other.hash(content)?, &self.device)
                && let Some(shared) = config.run.shared_checkpoint(&store.run(key), content, reads_best)?
                && best.as_ref().is_none_or(|best| best.step < shared.meta.step)
            {
                best = Some(Origin { key: key.clone(), step: shared.meta.step });
            }
        }
        Ok(best)
    }

    /// With which key a run that has more steps than a stored one would go on from that.
    fn hint(&self, config: &Config, store: &Store, stored: &Stored) -> Result<Option<String>> {
        let candidates = stored.get(&config.run.beginning()?);
        let shorter = candidates.into_iter().flatten().map(|(_, other)| &other.train);
        let shorter = shorter.filter(|other| other.steps < config.run.train.steps);
        let mut planned: Vec<u64> = shorter.map(TrainConfig::planned_steps).collect();
        planned.sort_unstable();
        planned.dedup();
        for steps in planned.into_iter().rev().filter(|_| config.run.train.schedule_steps.is_none()) {
            let mut longer = config.clone();
            longer.run.train.schedule_steps = Some(steps);
            if self.source(&longer, store, stored)?.is_some() {
                return Ok(Some(format!(
                    "with `train.schedule_steps = {steps}` runs would go on from stored ones, whose learning rates they then have; \
                     as they are, they begin with the first step"
                )));
            }
        }
        Ok(None)
    }

    /// Which runs go on from which stored ones, in a sentence; nothing where none does.
    pub fn going_on(&self) -> Option<String> {
        let named: Vec<String> = self
            .runs
            .iter()
            .filter_map(|run| Some((run, run.from.as_ref()?)))
            .map(|(run, Origin { key, step })| format!("{} from step {step} of {key}", run.title()))
            .collect();
        let (count, few) = (named.len(), few(&named, FEW));
        let runs = if count == 1 { "run goes" } else { "runs go" };
        (count > 0)
            .then(|| format!("{count} {runs} on from stored runs that were trained alike until there: {few}"))
    }
}

fn reads_best(config: &Config) -> bool {
    config.evaluations().iter().any(Evaluation::reads_best)
}

fn has_checkpoint(folder: &Path) -> bool {
    checkpoint_path(folder, CheckpointId::Last).exists()
}

/// Reads the configs of a store; a run whose config cannot be read is none to go on from.
fn read(store: &Store) -> Result<Stored> {
    let mut stored = Stored::new();
    for key in store.keys()? {
        let folder = store.run(&key);
        if has_checkpoint(&folder)
            && let Ok(config) = Run::read(&folder)
        {
            stored.entry(config.beginning()?).or_default().push((key, config));
        }
    }
    Ok(stored)
}
