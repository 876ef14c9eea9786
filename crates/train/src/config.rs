//! `[train]`: the first stage of training.

use crate::optimizer::OptimizerConfig;
use longwave_core::{Error, Result};
use longwave_data::Sampling;
use longwave_kernels::Precision;
use longwave_position::TrainingPositions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the learning rate changes after warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Half a cosine from the peak to `final_ratio` of it (Loshchilov and Hutter 2017,
    /// arXiv:1608.03983). A finished run that is made longer stays at its last rate.
    #[default]
    Cosine,
    /// Warm-up, stable, decay: the peak until the last `decay` share of the steps, then a straight line
    /// to `final_ratio` of it (Hu et al. 2024, arXiv:2404.06395). A finished run that is made longer goes on from
    /// before its decay, and decays at its new end.
    Wsd,
}

/// A number of steps, or a share of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of steps, or a share of them below 1")]
pub enum Steps {
    /// So many steps.
    Count(u64),
    /// This share of `train.steps`, rounded; below 1.
    Share(f64),
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(share) => write!(f, "{share}"),
        }
    }
}

impl Steps {
    /// The number of steps out of `total`.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Share(share) => (share * total as f64).round() as u64,
        }
    }

    fn validate(self, key: &str) -> Result<()> {
        match self {
            Self::Share(share) if !(0.0..1.0).contains(&share) => {
                Err(Error::value(key, share, "a share must be at least 0 and below 1")
                    .hint("write a whole number for a count of steps"))
            }
            _ => Ok(()),
        }
    }
}

/// Steps of a stage after which its weights are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of steps between checkpoints, or a list of steps")]
pub enum KeptSteps {
    /// So many steps between them.
    Every(u64),
    /// These steps, ascending.
    Listed(Vec<u64>),
}

impl KeptSteps {
    /// The steps of a stage of so many steps.
    pub fn of(&self, steps: u64) -> Vec<u64> {
        match self {
            Self::Every(every) => (1..=steps / every.max(&1)).map(|count| count * every).collect(),
            Self::Listed(listed) => listed.clone(),
        }
    }

    fn validate(&self, key: &str, steps: u64) -> Result<()> {
        let within = |step: &u64| (1..=steps).contains(step);
        match self {
            Self::Every(every) if !within(every) => {
                Err(Error::value(key, every, format!("it must be a number of steps from 1 to {steps}"))
                    .hint("the last step is kept in any case: it is the checkpoint `last`"))
            }
            Self::Listed(listed)
                if listed.is_empty() || !listed.iter().all(within) || !listed.is_sorted_by(|a, b| a < b) =>
            {
                let allowed = format!("it must hold steps from 1 to {steps}, ascending");
                Err(Error::value(key, format!("{listed:?}"), allowed)
                    .hint("as in `keep_checkpoints = [50, 100, 200]`"))
            }
            _ => Ok(()),
        }
    }
}

/// What follows a step whose loss or gradient is not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnNonFinite {
    /// The run ends.
    #[default]
    Stop,
    /// Training goes back to the last checkpoint and leaves the batch of that step out.
    Rollback,
}

/// `[train]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// L: tokens a sequence. Everything longer is extrapolation.
    pub length: usize,
    /// Optimizer steps.
    pub steps: u64,
    /// Tokens an optimizer step; a multiple of `length`.
    pub batch_tokens: usize,
    /// Parts that the batch is computed in, one after the other, to save memory.
    pub accumulation: usize,
    /// How training sequences are drawn from the training text.
    pub sampling: Sampling,
    /// The positions that rows are read at. Validation reads 0, 1, 2, ..
    pub positions: TrainingPositions,
    /// What the products of linear maps are computed in, by all stages: `f32` (the default), or `f16` or `bf16` where
    /// the device has them. Those of attention follow where the processor or GPU multiplies such numbers itself. Validation
    /// and evaluation are in f32.
    pub precision: Precision,
    /// What moves the parameters, in all stages: a kind, or a table with a `kind` and its keys. Default: `adamw`.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub optimizer: Option<OptimizerConfig>,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// How the learning rate changes after warm-up.
    pub schedule: ScheduleKind,
    /// Steps of linear warm-up: a count, or a share of `schedule_steps`; the last of them has the peak.
    pub warmup: Steps,
    /// Steps of the final decay of `wsd`: a count, or a share of all steps.
    pub decay: Steps,
    /// The learning rate of the last step as a share of the peak.
    pub final_ratio: f64,
    /// Steps that the schedule was made for; `steps` unless given. A run that is made longer with `--resume` keeps those that
    /// it began with: its warm-up is a share of them, and its cosine ends there and stays at its last rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_steps: Option<u64>,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay of matrices; gains, biases and scales have none.
    pub weight_decay: f64,
    /// The gradient's norm is clipped to this; 0 leaves it.
    pub clip: f64,
    /// What follows a step whose loss or gradient is not finite, in all stages: `stop` (the default) ends the run, `rollback`
    /// goes back to the last checkpoint and leaves the batch of that step out.
    pub on_non_finite: OnNonFinite,
    /// Steps between validations; a tenth of all unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validate_every: Option<u64>,
    /// Tokens of the validation split that a validation scores.
    pub validation_tokens: usize,
    /// Validations in a row without a better loss after which training stops early, in the last stage only; never unless given.
    /// The weights of the best one are the checkpoint `best`, which `evaluate.checkpoints = "best"` reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// Steps between checkpoints; as often as validations unless given. A validation with a better loss than those before writes one too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Steps whose weights are kept, to be read with `evaluate.checkpoints = "all"`: every so many, or those in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_checkpoints: Option<KeptSteps>,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            length: 128,
            steps: 600,
            batch_tokens: 4096,
            accumulation: 1,
            sampling: Sampling::default(),
            positions: TrainingPositions::default(),
            precision: Precision::default(),
            optimizer: None,
            learning_rate: 3e-3,
            schedule: ScheduleKind::default(),
            warmup: Steps::Share(0.05),
            decay: Steps::Share(0.2),
            final_ratio: 0.1,
            schedule_steps: None,
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-8,
            weight_decay: 0.1,
            clip: 1.0,
            on_non_finite: OnNonFinite::default(),
            validate_every: None,
            validation_tokens: 16_384,
            patience: None,
            checkpoint_every: None,
            keep_checkpoints: None,
        }
    }
}

impl TrainConfig {
    /// Sequences an optimizer step.
    pub fn sequences(&self) -> usize {
        self.batch_tokens / self.length
    }

    /// Sequences a forward pass.
    pub fn micro_batch(&self) -> usize {
        self.sequences() / self.accumulation
    }

    /// Steps that the schedule was made for.
    pub fn planned_steps(&self) -> u64 {
        self.schedule_steps.unwrap_or(self.steps)
    }

    /// Steps of the warm-up.
    pub fn warmup_steps(&self) -> u64 {
        self.warmup.of(self.planned_steps())
    }

    /// Steps of the final decay of `wsd`.
    pub fn decay_steps(&self) -> u64 {
        self.decay.of(self.steps)
    }

    /// Steps between validations.
    pub fn validate_every(&self) -> u64 {
        self.validate_every.unwrap_or(self.steps / 10).max(1)
    }

    /// Steps between checkpoints.
    pub fn checkpoint_every(&self) -> u64 {
        self.checkpoint_every.unwrap_or_else(|| self.validate_every()).max(1)
    }

    /// Whether so many validations in a row without a better loss end the stage.
    pub fn is_out_of_patience(&self, without_improvement: u64) -> bool {
        self.patience.is_some_and(|patience| without_improvement >= patience)
    }

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

    #[test]
    fn errors_name_the_key_and_help() {
        let error = |change: fn(&mut TrainConfig)| {
            let mut config = TrainConfig::default();
            change(&mut config);
            config.validate("train").unwrap_err()
        };
        assert_eq!(error(|c| c.batch_tokens = 1000).hint_text(), Some("write `train.batch_tokens = 1024`"));
        assert!(error(|c| c.accumulation = 5).message().contains("32 sequences"));
        let none = error(|c| c.validate_every = Some(0));
        assert!(none.message().starts_with("`train.validate_every = 0` is not allowed"), "{none}");
        assert!(none.hint_text().unwrap().contains("`train.validate_every = 600`"), "{none}");
        assert!(
            error(|c| c.checkpoint_every = Some(0)).hint_text().unwrap().contains("a checkpoint at the end")
        );
        assert!(error(|c| c.learning_rate = f64::NAN).message().starts_with("`train.learning_rate"));
        assert!(error(|c| c.warmup = Steps::Share(1.5)).message().starts_with("`train.warmup"));
        // As many steps as there are may warm up, and no more; what a decay needs is left then.
        let steps = |warmup, decay, schedule| TrainConfig {
            steps: 10,
            warmup,
            decay,
            schedule,
            ..TrainConfig::default()
        };
        let (half, all, more) = (Steps::Share(0.5), Steps::Count(10), Steps::Count(11));
        for (fits, schedule) in [(all, ScheduleKind::Cosine), (half, ScheduleKind::Wsd)] {
            assert!(steps(fits, half, schedule).validate("train").is_ok());
        }
        for (warmup, decay, schedule, key) in [
            (more, half, ScheduleKind::Cosine, "warmup = 11"),
            (more, half, ScheduleKind::Wsd, "warmup = 11"),
            (Steps::Count(6), half, ScheduleKind::Wsd, "decay = 0.5"),
            (Steps::Count(0), more, ScheduleKind::Wsd, "decay = 11"),
        ] {
            let error = steps(warmup, decay, schedule).validate("stage[0]").unwrap_err();
            assert!(error.message().starts_with(&format!("`stage[0].{key}` is not allowed")), "{error}");
            assert!(error.hint_text().is_some());
        }
        assert!(
            error(|c| c.schedule_steps = Some(601)).message().starts_with("`train.schedule_steps = 601`")
        );
        assert!(error(|c| c.length = 0).message().contains("at least 1"));
        assert!(TrainConfig::default().validate("train").is_ok());
    }

    #[test]
    fn what_follows_a_step_that_is_not_finite_is_one_of_two() {
        let read = |text: &str| {
            longwave_core::config::read::<TrainConfig>(&text.parse().unwrap(), "train")
                .map(|c| c.on_non_finite)
        };
        assert_eq!(read("").unwrap(), OnNonFinite::Stop);
        assert_eq!(read("on_non_finite = \"rollback\"").unwrap(), OnNonFinite::Rollback);
        let error = read("on_non_finite = \"rolback\"").unwrap_err().to_string();
        assert!(error.contains("train.on_non_finite") && error.contains("rollback"), "{error}");
    }

    #[test]
    fn kept_steps_are_every_so_many_or_listed() {
        assert_eq!(KeptSteps::Every(4).of(10), [4, 8]);
        assert_eq!(KeptSteps::Every(5).of(10), [5, 10]);
        let error = |kept: KeptSteps| kept.validate("train.keep_checkpoints", 10).unwrap_err().to_string();
        assert!(error(KeptSteps::Every(0)).starts_with("`train.keep_checkpoints = 0` is not allowed"));
        assert!(error(KeptSteps::Every(11)).contains("from 1 to 10"));
        for wrong in [vec![], vec![0, 4], vec![4, 4], vec![8, 4], vec![11]] {
            assert!(error(KeptSteps::Listed(wrong)).contains("ascending"));
        }
        assert!(KeptSteps::Listed(vec![1, 10]).validate("train.keep_checkpoints", 10).is_ok());
    }

    #[test]
    fn steps_read_as_count_or_share() {
        let read =
            |text: &str| longwave_core::config::read::<TrainConfig>(&text.parse().unwrap(), "train").unwrap();
        assert_eq!(read("warmup = 30").warmup, Steps::Count(30));
        assert_eq!(read("warmup = 0.1").warmup.of(200), 20);
    }
}
