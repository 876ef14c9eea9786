//! What a run shares with another one that is stored: the steps from the first on that both train alike.
//!
//! A step follows from the weights before it, its number, its learning rate, and what the config says of the model and its text. So
//! two runs that differ in nothing but the number of steps, or the learning rates of later ones, have the same weights for as long as
//! their rates are the same, to the bit. A run that has not begun goes on from such a checkpoint of the other, whose folder stays as
//! it is.

use super::{CheckpointId, Run, checkpoint_path, read_config};
use crate::checkpoint::{Best, Checkpoint};
use crate::metrics;
use crate::optimizer::OptimizerConfig;
use crate::run_config::RunConfig;
use crate::schedule::Schedule;
use longwave_core::{Result, canonical, file, written};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Keys of `[train]` and of stages that change a step by its learning rate alone, or not at all.
const OF_RATES_AND_BETWEEN: [&str; 12] = [
    "steps",
    "learning_rate",
    "schedule",
    "warmup",
    "decay",
    "final_ratio",
    "schedule_steps",
    "on_non_finite",
    "validate_every",
    "patience",
    "checkpoint_every",
    "keep_checkpoints",
];

impl RunConfig {
    /// What the first steps follow from, beside the text and the learning rates, as text: runs with other ones share nothing.
    pub fn beginning(&self) -> Result<String> {
        let mut table = self.to_table()?;
        for key in ["name", "data", "stage"] {
            table.remove(key);
        }
        if let Some(Value::Table(train)) = table.get_mut("train") {
            self.leave_what_steps_follow_from(train);
        }
        written::json_value("the config", &table).map(canonical::text)
    }

    /// The same of a stage after `[train]`.
    fn beginning_of(&self, stage: usize) -> Result<String> {
        let mut table = written::toml_table("a stage", &self.stages[stage - 1])?;
        self.leave_what_steps_follow_from(&mut table);
        written::json_value("the config", &table).map(canonical::text)
    }

    /// Leaves the keys of `[train]` or a stage that steps follow from beside their rates. The peak is one where an optimizer has rates
    /// of its own, which are shares of it: Muon.
    fn leave_what_steps_follow_from(&self, table: &mut Table) {
        let reads_peak = !matches!(self.train.optimizer, None | Some(OptimizerConfig::Adamw(_)));
        table.retain(|key, _| !OF_RATES_AND_BETWEEN.contains(&key) || reads_peak && key == "learning_rate");
    }

    /// How many steps from the first on train alike in two configs on the same text.
    pub fn shared_steps(&self, other: &Self) -> Result<u64> {
        if self.beginning()? != other.beginning()? {
            return Ok(0);
        }
        let mut shared = 0;
        for stage in 0..=self.last_stage().min(other.last_stage()) {
            if stage > 0 && self.beginning_of(stage)? != other.beginning_of(stage)? {
                break;
            }
            let (a, b) = (self.stage(stage), other.stage(stage));
            let alike = Schedule::new(a).agreement(&Schedule::new(b));
            shared += alike;
            if alike < a.steps.max(b.steps) {
                break;
            }
        }
        Ok(shared)
    }

    /// Whether the run of this config in `folder` was validated at the steps that the config says, and at no other. One that went on from
    /// another run, or was made longer, may hold validations of before.
    pub fn was_validated_as_said(&self, folder: &Path) -> Result<bool> {
        let is_said = |(stage, step): (usize, u64)| {
            stage <= self.last_stage() && self.stage(stage).validates_at(step - self.steps_before(stage))
        };
        Ok(metrics::validations(folder)?.into_iter().all(is_said))
    }

    /// Whether a run of this config has made the same validations by a shared checkpoint as one of `other`, whose checkpoint it is,
    /// and has come so far.
    pub(super) fn validates_as(&self, other: &Self, step: u64) -> bool {
        let alike = |stage: usize| {
            let (own, theirs) = (self.stage(stage), other.stage(stage));
            let end = other.steps_before(stage + 1);
            // The last step of a stage is validated in any case.
            let same_end = own.steps == theirs.steps || theirs.steps.is_multiple_of(theirs.validate_every());
            own.validate_every() == theirs.validate_every() && (same_end || end > step)
        };
        let stages = 0..=self.last_stage().min(other.last_stage());
        let within = stages.filter(|stage| other.steps_before(*stage) < step).all(alike);
        let of = |config: &Self| config.stage(config.last_stage()).patience;
        // One that is less patient might have stopped before.
        within && of(self).is_none_or(|own| of(other).is_some_and(|theirs| theirs <= own))
    }

    /// The newest checkpoint of a run in `folder` that a run of this config on the text of `content_hash` would have come to as well;
    /// `None` where there is none that is whole. Where it `reads_best`, the best weights until there must be left too.
    pub fn shared_checkpoint(
        &self,
        folder: &Path,
        content_hash: &str,
        reads_best: bool,
    ) -> Result<Option<Checkpoint>> {
        let other = read_config(folder)?;
        let (shared, hash) = (self.shared_steps(&other)?, other.hash(content_hash)?);
        if shared == 0 {
            return Ok(None);
        }
        let validates = reads_best || self.stage(self.last_stage()).patience.is_some();
        let kept = self.kept_steps();
        let is_there = |step: &u64| checkpoint_path(folder, CheckpointId::Step(*step)).exists();
        let is_shared = |checkpoint: &Checkpoint| {
            let meta = &checkpoint.meta;
            let has_best = || meta.best.is_none_or(|best| best_weights(folder, best).is_some());
            (1..=shared).contains(&meta.step)
                && meta.goes_on()
                && meta.config_hash == hash
                // Which batches are left out depends on where the other one went back to.
                && meta.skipped_batches.is_empty()
                && kept.iter().filter(|step| **step <= meta.step).all(is_there)
                && (!validates || self.validates_as(&other, meta.step) && has_best())
        };
        let ids = CheckpointId::to_go_on_from(other.last_stage());
        let paths = ids.map(|id| checkpoint_path(folder, id)).filter(|path| path.exists());
        let whole = paths.filter_map(|path| Checkpoint::load(&path).ok());
        Ok(whole.filter(is_shared).max_by_key(|checkpoint| checkpoint.meta.step))
    }
}

impl Run {
    /// What a checkpoint of another run's folder is to this run, in words; nothing for one of its own.
    pub fn described_source(&self, checkpoint: &Checkpoint) -> Option<String> {
        let folder = source_of(checkpoint).filter(|folder| *folder != self.folder)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        Some(format!(
            "goes on from the stored run {name}, which was trained alike until step {}",
            checkpoint.meta.step
        ))
    }

    /// Puts into the run's folder what it shares with another one until a checkpoint of that: its metrics, the weights of kept steps and of
    /// ends of stages, and the best ones. Nothing for a checkpoint of its own.
    pub fn bring(&self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(folder) = source_of(checkpoint).filter(|folder| *folder != self.folder) else {
            return Ok(());
        };
        let step = checkpoint.meta.step;
        let metrics = folder.join("metrics.jsonl");
        if metrics.exists() {
            file::copy(&metrics, &self.folder.join("metrics.jsonl"))?;
        }
        for kept in self.config.kept_steps().into_iter().filter(|kept| *kept <= step) {
            let id = CheckpointId::Step(kept);
            file::link(&checkpoint_path(folder, id), &self.checkpoint(id))?;
        }
        let ended = |stage: &usize| self.config.steps_before(stage + 1) <= step;
        for stage in (0..self.config.last_stage()).take_while(ended) {
            let id = CheckpointId::Stage(stage);
            let there = checkpoint_path(folder, id);
            // The other one may have no stage.
            file::link(if there.exists() { &there } else { &checkpoint.path }, &self.checkpoint(id))?;
        }
        match checkpoint.meta.best.and_then(|best| best_weights(folder, best)) {
            Some(best) => file::link(&best, &self.checkpoint(CheckpointId::Best)),
            None => Ok(()),
        }
    }
}

/// The folder of the run that a checkpoint is of.
fn source_of(checkpoint: &Checkpoint) -> Option<&Path> {
    checkpoint.path.parent()?.parent()
}

/// Where the weights of a run's best validation are: in `best`, or in what was kept of it before the decay of `wsd`.
pub(crate) fn best_weights(folder: &Path, best: Best) -> Option<PathBuf> {
    let paths = [checkpoint_path(folder, CheckpointId::Best), best_of_stable(folder)];
    let is_ours = |path: &PathBuf| Checkpoint::load(path).is_ok_and(|found| found.meta.best == Some(best));
    paths.into_iter().find(is_ours)
}

/// The best weights of until the checkpoint `stable`.
pub(crate) fn best_of_stable(folder: &Path) -> PathBuf {
    checkpoint_path(folder, CheckpointId::Stable).with_file_name("stable-best.safetensors")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(train: &str, more: &str) -> RunConfig {
        let text =
            format!("name = \"x\"\nposition = \"rope\"\n{more}\n[data]\ncorpus = \"c\"\n[train]\n{train}");
        RunConfig::from_table(text.parse().unwrap()).unwrap()
    }

    fn shared(a: &str, b: &str) -> u64 {
        config(a, "").shared_steps(&config(b, "")).unwrap()
    }

    #[test]
    fn steps_are_shared_while_nothing_but_their_number_differs() {
        let wsd = "schedule = \"wsd\"\nwarmup = 2\ndecay = 0.2\n";
        let of = |more: &str| format!("{wsd}{more}");
        // 20% of 40 steps decay.
        assert_eq!(shared(&of("steps = 40"), &of("steps = 60")), 32);
        let between =
            "steps = 60\nvalidate_every = 3\ncheckpoint_every = 5\nkeep_checkpoints = 10\npatience = 2";
        assert_eq!(shared(&of("steps = 40"), &of(between)), 32);
        for other in ["clip = 0.5", "batch_tokens = 8192", "learning_rate = 0.001", "length = 64"] {
            assert_eq!(shared(&of("steps = 40"), &of(&format!("steps = 60\n{other}"))), 0, "{other}");
        }
        // A warm-up that is a share of the steps is another one.
        let share = "schedule = \"wsd\"\nwarmup = 0.1\n";
        assert_eq!(shared(&format!("{share}steps = 40"), &format!("{share}steps = 60")), 0);
        let planned = format!("{share}steps = 60\nschedule_steps = 40");
        assert_eq!(shared(&format!("{share}steps = 40"), &planned), 32);
        assert_eq!(shared("steps = 40", "steps = 60\nschedule_steps = 40"), 40);
        let [a, b] = ["steps = 4", "steps = 4"].map(|train| config(train, "seed = 1"));
        assert_eq!(a.shared_steps(&b).unwrap(), 4);
        assert_eq!(a.shared_steps(&config("steps = 4", "")).unwrap(), 0, "another seed");
    }

    #[test]
    fn muon_has_rates_of_its_own_which_are_shares_of_the_peak() {
        // Both warm up by 3e-4 a step.
        let of = |optimizer: &str, warmup: u64, peak: f64| {
            format!("{optimizer}steps = 40\nwarmup = {warmup}\nlearning_rate = {peak}")
        };
        let shared_with = |optimizer: &str| shared(&of(optimizer, 10, 3e-3), &of(optimizer, 20, 6e-3));
        assert_eq!((shared_with(""), shared_with("optimizer = \"muon\"\n")), (10, 0));
        let muon = "optimizer = \"muon\"\nschedule = \"wsd\"\nwarmup = 2\n";
        assert_eq!(shared(&format!("{muon}steps = 40"), &format!("{muon}steps = 60")), 32);
    }

    #[test]
    fn stages_are_shared_in_their_order() {
        let staged = |length: usize, steps: u64| {
            let stage =
                format!("length = {length}, steps = {steps}, schedule = \"wsd\", warmup = 0, decay = 0");
            config("steps = 10", &format!("stage = [{{ {stage} }}]"))
        };
        let shared = |a: &RunConfig, b: &RunConfig| a.shared_steps(b).unwrap();
        assert_eq!(shared(&staged(256, 4), &staged(256, 6)), 14);
        assert_eq!(shared(&staged(256, 4), &staged(512, 4)), 10);
        assert_eq!(shared(&staged(256, 4), &config("steps = 10", "")), 10);
    }

    #[test]
    fn validations_are_alike_at_the_same_steps_and_ends() {
        let of = |keys: &str| config(&format!("schedule = \"wsd\"\nwarmup = 0\ndecay = 0\n{keys}"), "");
        let (short, long) = (of("steps = 8\nvalidate_every = 3"), of("steps = 12\nvalidate_every = 3"));
        assert!(long.validates_as(&short, 6));
        assert!(!long.validates_as(&short, 8), "its end is validated, which is no multiple of 3");
        assert!(!of("steps = 12\nvalidate_every = 4").validates_as(&short, 6));
        let patient = |patience: u64| of(&format!("steps = 12\nvalidate_every = 3\npatience = {patience}"));
        assert!(!patient(2).validates_as(&short, 6), "it might have stopped before");
        assert!(patient(3).validates_as(&patient(2), 6) && !patient(2).validates_as(&patient(3), 6));
    }
}
