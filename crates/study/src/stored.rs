//! The stored runs that others go on from: with more `train.steps`, a study trains only those that the runs of before lack.

use crate::plan::{Job, Plan, data_text, key_of};
use crate::store::{Store, Work};
use longwave_core::Result;
use longwave_eval::Evaluation;
use longwave_train::run::{CheckpointId, checkpoint_path};
use longwave_train::{Run, RunConfig};
use std::collections::HashMap;
use std::path::Path;

/// The most runs that a line names.
const FEW: usize = 4;

/// The stored run that another goes on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its key.
    pub key: String,
    /// The step of the checkpoint.
    pub step: u64,
}

/// The runs of a store that have a checkpoint, by the [beginning](RunConfig::beginning) of their configs.
type Stored = HashMap<String, Vec<(String, RunConfig)>>;

impl Plan {
    /// Finds for each run that has not begun the stored run with which it shares most steps, see [`RunConfig::shared_steps`].
    ///
    /// # Errors
    /// The store cannot be listed.
    pub fn find_sources(&mut self, store: &Store) -> Result<()> {
        let mut stored: Option<Stored> = None;
        for index in 0..self.runs.len() {
            let Ok(job) = &self.runs[index].job else { continue };
            if store.work(job) != Work::Open || has_checkpoint(&store.run(&job.key)) {
                continue;
            }
            let stored = match &mut stored {
                Some(stored) => stored,
                none => none.insert(read(store)?),
            };
            let source = self.source(job, store, stored)?;
            self.runs[index].from = source;
        }
        Ok(())
    }

    fn source(&self, job: &Job, store: &Store, stored: &Stored) -> Result<Option<Source>> {
        let config = &job.config.run;
        let Some(content) = self.contents.get(&data_text(&config.data)) else { return Ok(None) };
        let Some(candidates) = stored.get(&config.beginning()?) else { return Ok(None) };
        let reads_best = job.config.evaluations()?.iter().any(Evaluation::reads_best);
        let mut best: Option<Source> = None;
        for (key, other) in candidates {
            // The key proves that it was trained on the same text, and on a device that rounds alike.
            if *key == key_of(other, &other.hash(content)?, &self.device)
                && let Some(shared) = config.shared_checkpoint(&store.run(key), content, reads_best)?
                && best.as_ref().is_none_or(|best| best.step < shared.meta.step)
            {
                best = Some(Source { key: key.clone(), step: shared.meta.step });
            }
        }
        Ok(best)
    }

    /// Which runs go on from which stored ones, in a sentence; nothing where none does.
    pub fn going_on(&self) -> Option<String> {
        let named: Vec<String> = self
            .runs
            .iter()
            .filter_map(|run| Some((run, run.from.as_ref()?)))
            .map(|(run, Source { key, step })| format!("{} from step {step} of {key}", run.title()))
            .collect();
        let more = named.len().saturating_sub(FEW);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let (count, few) = (named.len(), named[..named.len().min(FEW)].join("; "));
        let runs = if count == 1 { "run goes" } else { "runs go" };
        (count > 0).then(|| {
            format!("{count} {runs} on from stored runs that were trained alike until there: {few}{more}")
        })
    }
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
