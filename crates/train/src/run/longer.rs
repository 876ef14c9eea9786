//! A run that goes on with another number of steps.
//!
//! Training goes on from the newest checkpoint of before the step where the two schedules part. A cosine keeps the steps that
//! it was made for and stays at its last rate, so nothing is trained again. `wsd` keeps its warm-up and decays at its new
//! end, so it goes on from before its decay. Either is what a run with this `schedule_steps` trains from the first step.

use super::shared::best_weights;
use super::{Difference, Run, Start};
use crate::checkpoint::Checkpoint;
use crate::config::{ScheduleKind, TrainConfig};
use crate::run_config::RunConfig;
use crate::schedule::Schedule;
use longwave_core::{Error, Result};
use toml::Table;

/// What to do where a run cannot go on.
const AFRESH: &str = "train from the first step into another folder, with `--out`";

/// Gives the stages of a config the steps that the schedules of the run in the folder were made for, unless it names others.
pub(super) fn keep_schedules(old: &RunConfig, config: &mut RunConfig) {
    for stage in 0..=old.last_stage().min(config.last_stage()) {
        let (before, now) = (old.stage(stage), config.stage_mut(stage));
        if now.schedule_steps.is_none() && (before.schedule_steps.is_some() || before.steps != now.steps) {
            now.schedule_steps = Some(before.planned_steps());
        }
        // Validations at other steps would end it elsewhere, and how their distance is written is part of the run's identity.
        if now.patience.is_some() {
            let every = now.validate_every.unwrap_or_else(|| before.validate_every());
            let is_same = (every, now.steps) == (before.validate_every(), before.steps);
            now.validate_every = if is_same { before.validate_every } else { Some(every) };
        }
        // What changes no rate is no part of the run's identity, unless it was written there.
        let without = TrainConfig { schedule_steps: None, ..now.clone() };
        let changes = Schedule::new(&without) != Schedule::new(now);
        now.schedule_steps =
            now.schedule_steps.filter(|steps| changes || before.schedule_steps == Some(*steps));
    }
}

/// Two configs as they are compared: the steps of schedules are no difference where they follow from the other keys.
pub(super) fn compared(old: &RunConfig, new: &RunConfig) -> Result<[Table; 2]> {
    let (mut old, mut new) = (old.clone(), new.clone());
    for stage in 0..=old.last_stage().min(new.last_stage()) {
        let (before, now) = (old.stage_mut(stage), new.stage_mut(stage));
        let planned = before.planned_steps();
        now.schedule_steps = now.schedule_steps.filter(|steps| *steps != planned);
        before.schedule_steps = now.schedule_steps.map(|_| planned);
        if before.patience.or(now.patience).is_some() {
            for train in [before, now] {
                train.validate_every = Some(train.validate_every());
            }
        }
    }
    Ok([old.to_table()?, new.to_table()?])
}

/// What a run that is there may go on with, though its config says otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Further {
    /// Another number of steps of this stage.
    Steps(usize),
    /// More patience.
    Patience,
    /// Further stages.
    Stages,
}

impl Further {
    /// What all the differences of two configs come to; `None` where there is none, or where a run cannot go on with them.
    pub(super) fn of(differences: &[Difference], old: &RunConfig, new: &RunConfig) -> Option<Self> {
        if let [only] = differences {
            let steps_of = |stage: usize| format!("{}.steps", RunConfig::section(stage));
            if let Some(stage) = (0..=old.last_stage()).find(|stage| only.key == steps_of(*stage)) {
                return Some(Self::Steps(stage));
            }
            if only.key == patience_key(old) && is_more_patient(old, new) {
                return Some(Self::Patience);
            }
        }
        let has_more_stages = differences.iter().all(|difference| difference.key.starts_with("stage["))
            && new.stages.len() > old.stages.len()
            && new.stages.starts_with(&old.stages);
        has_more_stages.then_some(Self::Stages)
    }
}

/// The key of the patience of a config's last stage, which alone may have one.
fn patience_key(config: &RunConfig) -> String {
    format!("{}.patience", RunConfig::section(config.last_stage()))
}

/// Whether a run has the same patience, more of it, or none that ends it.
fn is_more_patient(old: &RunConfig, new: &RunConfig) -> bool {
    let of = |config: &RunConfig| config.stage(config.last_stage()).patience.unwrap_or(u64::MAX);
    of(new) >= of(old)
}

impl Run {
    /// Decides where a run goes on whose config was `old`.
    pub(super) fn trained_further(&self, old: &RunConfig, further: Further) -> Result<Start> {
        self.may_go_on(old, further)?;
        match further {
            Further::Steps(stage) => self.lengthened(old, stage),
            Further::Patience => self.more_patient(old),
            Further::Stages => self.staged(old),
        }
    }

    /// The same config with more patience: what was trained is what such a run has trained until here.
    fn more_patient(&self, old: &RunConfig) -> Result<Start> {
        let Some(checkpoint) = self.newest(&|_, _| true)? else { return Ok(Start::Fresh) };
        let [before, now] =
            [old, &self.config].map(|config| match config.stage(config.last_stage()).patience {
                Some(patience) => format!("a patience of {patience} validations"),
                None => "none that ends it".to_owned(),
            });
        let how = format!("`{}`: {now} in the place of {before}", patience_key(old));
        Ok(Start::Longer(Box::new(checkpoint), how))
    }

    /// Checks that no step is taken back that is trained, and that there is a learning rate to go on with.
    pub(super) fn may_go_on(&self, old: &RunConfig, further: Further) -> Result<()> {
        let Further::Steps(stage) = further else { return Ok(()) };
        let (before, now) = (old.stage(stage), self.config.stage(stage));
        let shorter = format!("a run can be made longer; for a shorter one, {AFRESH}");
        if now.schedule == ScheduleKind::Cosine && now.steps < now.planned_steps() {
            let why = format!("its cosine was made for {} steps, and would be cut off", now.planned_steps());
            return Err(self.rejected(old, stage, &why).hint(shorter));
        }
        if now.steps < before.steps {
            let reached = self.newest(&|_, _| true)?.map_or(0, |checkpoint| checkpoint.meta.step);
            let reached = reached.min(old.steps_before(stage + 1)).saturating_sub(old.steps_before(stage));
            if now.steps < reached {
                let why = format!("{reached} of them are trained already");
                return Err(self.rejected(old, stage, &why).hint(shorter));
            }
        }
        if now.schedule == ScheduleKind::Cosine && now.final_ratio <= 0.0 {
            let why = "its learning rate has come to 0, at which nothing is trained";
            let hint = format!("add a `[[stage]]`, which has a learning rate of its own, or {AFRESH}");
            return Err(self.rejected(old, stage, why).hint(hint));
        }
        Ok(())
    }

    /// Why a stage that had other steps cannot go on.
    fn rejected(&self, old: &RunConfig, stage: usize, why: &str) -> Error {
        let (before, now) = (old.stage(stage).steps, self.config.stage(stage).steps);
        let section = RunConfig::section(stage);
        Error::usage(format!("`{section}` of {before} steps cannot go on to {now}: {why}"))
    }

    /// The same config but for the number of steps of a stage.
    fn lengthened(&self, old: &RunConfig, stage: usize) -> Result<Start> {
        let (before, now) = (old.stage(stage), self.config.stage(stage));
        let agree = old.steps_before(stage) + Schedule::new(before).agreement(&Schedule::new(now));
        // The patience counts validations, of which the old end may be one that the longer run does not make.
        let is_validated = |checkpoint: &Checkpoint| {
            let meta = &checkpoint.meta;
            let has_best = || meta.best.is_none_or(|best| best_weights(&self.folder, best).is_some());
            self.config.validates_as(old, meta.step) && has_best()
        };
        let accepts = |_, checkpoint: &Checkpoint| {
            checkpoint.meta.step <= agree && (now.patience.is_none() || is_validated(checkpoint))
        };
        let Some(checkpoint) = self.newest(&accepts)? else {
            let why = format!(
                "no checkpoint is left of the steps, at most {agree}, that both train and validate alike"
            );
            return Err(self.rejected(old, stage, &why).hint(AFRESH));
        };
        self.keep_end(&checkpoint)?;
        let how = self.described_schedule(before, stage, checkpoint.meta.step);
        Ok(Start::Longer(Box::new(checkpoint), how))
    }

    /// What becomes of the schedule of a stage that had other steps, in words.
    fn described_schedule(&self, before: &TrainConfig, stage: usize, from: u64) -> String {
        let now = self.config.stage(stage);
        let section = RunConfig::section(stage);
        let last = format!("{:.3e}", now.learning_rate * now.final_ratio);
        // Steps are counted through all stages.
        let before_it = self.config.steps_before(stage);
        let how = match now.schedule {
            ScheduleKind::Cosine => format!(
                "its cosine ends at step {} as before, and the learning rate stays at {last} from there",
                before_it + now.planned_steps()
            ),
            ScheduleKind::Wsd => format!(
                "it goes on from step {from}, before its decay; the learning rate stays at its peak until step {}, and then \
                 falls to {last}; the warm-up stays at {} steps",
                before_it + now.steps - now.decay_steps(),
                now.warmup_steps()
            ),
        };
        format!("`{section}` has {} steps in the place of {}: {how}", now.steps, before.steps)
    }
}
