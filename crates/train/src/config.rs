//! `[train]`: the first stage of training. [`steps`]: how its keys count steps; the checks of its values are in `check`.

mod check;
pub mod steps;

use crate::optimizer::OptimizerConfig;
use longwave_data::Sampling;
use longwave_kernels::Precision;
use longwave_position::TrainingPositions;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
pub use steps::{KeptSteps, Steps};

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
    #[schemars(!skip_deserializing, transform = or_a_kind)]
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

/// In a file the name of a kind stands for its table.
fn or_a_kind(schema: &mut Schema) {
    let table = schema.remove("$ref").map(|table| json!({ "$ref": table }));
    let tables = schema.remove("anyOf").and_then(|tables| tables.as_array().cloned());
    let mut forms = tables.unwrap_or_default();
    forms.extend(table);
    forms.push(json!({ "enum": OptimizerConfig::KINDS }));
    schema.insert("anyOf".to_owned(), forms.into());
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

    pub fn warmup_steps(&self) -> u64 {
        self.warmup.of(self.planned_steps())
    }

    /// Steps of the final decay of `wsd`.
    pub fn decay_steps(&self) -> u64 {
        self.decay.of(self.steps)
    }

    pub fn validate_every(&self) -> u64 {
        self.validate_every.unwrap_or(self.steps / 10).max(1)
    }

    /// Whether a step of the stage is followed by a validation.
    pub fn validates_at(&self, step: u64) -> bool {
        step.is_multiple_of(self.validate_every()) || step == self.steps
    }

    pub fn checkpoint_every(&self) -> u64 {
        self.checkpoint_every.unwrap_or_else(|| self.validate_every()).max(1)
    }

    /// Whether so many validations in a row without a better loss end the stage.
    pub fn is_out_of_patience(&self, without_improvement: u64) -> bool {
        self.patience.is_some_and(|patience| without_improvement >= patience)
    }
}
