//! Training: the loop, optimizer, schedule, checkpoints and exact resume.
//!
//! - [`run_config`]: a whole config but its evaluations; the run's identity.
//! - [`config`], [`schedule`]: `[train]` and its learning rate; [`stage`]: what trains on from there.
//! - [`imported`]: what a run knows of a model that was not trained here.
//! - [`run`]: the run's folder, and whether it may be continued.
//! - [`batch`]: what a step reads; [`segment_memory`]: what it carries to the next.
//! - [`trainer`]: the loop.
//! - [`optimizer`], [`parameters`]: what moves a model's parameters, by name; [`optimizer_state`]: what it keeps of them; [`loss_scale`]: what f16 needs besides.
//! - [`checkpoint`]: one file that holds a step of training, whole; [`mod@restore`]: the model of a run.
//! - [`trained`]: a trained run, opened without its corpus.
//! - [`memory_check`]: whether a training fits, before it starts.
//! - [`metrics`]: the lines of `metrics.jsonl`; [`live`]: the same for `TensorBoard`; [`validated`]: what its validations say.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod batch;
pub mod checkpoint;
pub mod config;
mod from_table;
pub mod imported;
pub mod live;
pub mod loss_scale;
pub mod memory_check;
pub mod metrics;
pub mod optimizer;
pub mod optimizer_state;
pub mod parameters;
pub mod restore;
pub mod run;
pub mod run_config;
pub mod schedule;
pub mod segment_memory;
pub mod stage;
pub mod trained;
pub mod trainer;
pub mod validated;

pub use checkpoint::Checkpoint;
pub use config::TrainConfig;
pub use imported::{FileScaling, Imported};
pub use loss_scale::LossScale;
pub use restore::{fresh_model, reading_after, restore, restored_model};
pub use run::{Run, Start};
pub use run_config::RunConfig;
pub use stage::StageConfig;
pub use trained::Trained;
pub use trainer::{Event, Outcome, Trainer};
pub use validated::Validated;

/// The version that rows and checkpoints carry.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
