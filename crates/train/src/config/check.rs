//! The checks of `[train]`, and of the stages after it.

use super::{ScheduleKind, TrainConfig};
use longwave_core::{Error, Result};

impl TrainConfig {
    /// Checks every value; `section` is their place in the file, `train` or `stage[0]`.
    pub fn validate(&self, section: &str) -> Result<()> {
        let at = |key: &str| format!("{section}.{key}");
        let at_least_one = [
            ("length", self.length),
            ("steps", self.steps as usize),
            ("accumulation", self.accumulation),
            ("validation_tokens", self.validation_tokens),
        ];
        for (key, value) in at_least_one {
            if value == 0 {
                return Err(Error::value(&at(key), value, "it must be at least 1"));
            }
        }
        let at_the_end = |key: &str, what: &str| {
            format!("leave it out, or write `{} = {}` for {what} at the end", at(key), self.steps)
        };
        let all = "it counts validations without a better loss; leave it out to train all steps".to_owned();
        for (key, value, hint) in [
            ("patience", self.patience, all),
            ("validate_every", self.validate_every, at_the_end("validate_every", "a validation")),
            ("checkpoint_every", self.checkpoint_every, at_the_end("checkpoint_every", "a checkpoint")),
        ] {
            if value == Some(0) {
                return Err(Error::value(&at(key), 0, "it must be at least 1").hint(hint));
            }
        }
        if self.batch_tokens == 0 || !self.batch_tokens.is_multiple_of(self.length) {
            let near = self.batch_tokens.div_ceil(self.length).max(1) * self.length;
            return Err(Error::value(
                &at("batch_tokens"),
                self.batch_tokens,
                format!("it must be a multiple of `{} = {}`", at("length"), self.length),
            )
            .hint(format!("write `{} = {near}`", at("batch_tokens"))));
        }
        // Tokens are counted through all stages, and reported as numbers that f64 holds.
        if self.steps.saturating_mul(self.batch_tokens as u64) > 1 << 53 {
            let (key, value) = [("steps", self.steps), ("batch_tokens", self.batch_tokens as u64)]
                .into_iter()
                .max_by_key(|(_, value)| *value)
                .unwrap_or_default();
            return Err(Error::value(&at(key), value, "all steps together read more than 2^53 tokens")
                .hint("no training comes near them: a digit may be one too many"));
        }
        if !self.sequences().is_multiple_of(self.accumulation) {
            return Err(Error::value(
                &at("accumulation"),
                self.accumulation,
                format!("it must divide the {} sequences of a batch", self.sequences()),
            )
            .hint("it is the number of parts that a batch is computed in: 1 computes it at once"));
        }
        if let Some(kept) = &self.keep_checkpoints {
            kept.validate(&at("keep_checkpoints"), self.steps)?;
        }
        self.validate_schedule(section)?;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let below_one = |value: f64| (0.0..1.0).contains(&value);
        let share = |value: f64| (0.0..=1.0).contains(&value);
        for (key, value, allowed, what) in [
            ("learning_rate", self.learning_rate, positive(self.learning_rate), "it must be above 0"),
            ("final_ratio", self.final_ratio, share(self.final_ratio), "it must lie between 0 and 1"),
            ("beta1", self.beta1, below_one(self.beta1), "it must be at least 0 and below 1"),
            ("beta2", self.beta2, below_one(self.beta2), "it must be at least 0 and below 1"),
            ("eps", self.eps, positive(self.eps), "it must be above 0"),
            ("weight_decay", self.weight_decay, not_negative(self.weight_decay), "it must be at least 0"),
            ("clip", self.clip, not_negative(self.clip), "it must be at least 0"),
        ] {
            if !allowed {
                return Err(Error::value(&at(key), value, what));
            }
        }
        Ok(())
    }

    /// Checks that a decay belongs to a schedule that has one; `given` of `[train]`, whose decay a stage takes over, is none of its own.
    pub(crate) fn check_decay(&self, section: &str, given: &Self) -> Result<()> {
        let is_own = self.decay != Self::default().decay && (section == "train" || self.decay != given.decay);
        if self.schedule == ScheduleKind::Wsd || !is_own {
            return Ok(());
        }
        let key = format!("{section}.decay");
        Err(Error::value(&key, self.decay, format!("it belongs to `{section}.schedule = \"wsd\"`")).hint(
            "leave it out, or change the schedule: a cosine falls from its warm-up on, to `final_ratio` of the rate",
        ))
    }

    /// Checks that warm-up and decay find room in the steps.
    fn validate_schedule(&self, section: &str) -> Result<()> {
        let at = |key: &str| format!("{section}.{key}");
        self.warmup.validate(&at("warmup"))?;
        self.decay.validate(&at("decay"))?;
        let (steps, planned) = (self.steps, self.planned_steps());
        if planned == 0 || self.schedule == ScheduleKind::Cosine && planned > steps {
            let allowed = format!("it must be a number of steps from 1 to `{} = {steps}`", at("steps"));
            return Err(Error::value(&at("schedule_steps"), planned, allowed)
                .hint("leave it out: `--resume` writes it where a run is made longer"));
        }
        let warmup = self.warmup_steps();
        if warmup > steps {
            let allowed =
                format!("a warm-up of {warmup} steps does not fit into `{} = {steps}`", at("steps"));
            return Err(Error::value(&at("warmup"), self.warmup, allowed).hint(format!(
                "give a share of the steps, such as `{} = 0.05`, or at most {steps} steps",
                at("warmup")
            )));
        }
        let decay = self.decay_steps();
        if self.schedule == ScheduleKind::Wsd && decay > steps - warmup {
            let allowed = format!(
                "a decay of {decay} steps after a warm-up of {warmup} does not fit into `{} = {steps}`",
                at("steps")
            );
            return Err(Error::value(&at("decay"), self.decay, allowed).hint(format!(
                "give a share of the steps, such as `{} = 0.2`, or at most {}",
                at("decay"),
                steps - warmup
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Steps;

    #[test]
    fn warm_up_and_decay_may_take_all_steps() {
        let (half, all) = (Steps::Share(0.5), Steps::Count(10));
        for (warmup, schedule) in [(all, ScheduleKind::Cosine), (half, ScheduleKind::Wsd)] {
            let config = TrainConfig { steps: 10, warmup, decay: half, schedule, ..TrainConfig::default() };
            config.validate("train").unwrap();
        }
    }
}
