//! One config, from text to rows: the room between the parts (data, model, training, evaluation) and whoever uses them
//! together, which are the command line, studies, benchmarks and programs in Rust.
//!
//! 1. [`Config`] reads a file and checks every key ([`mod@schema`] describes them).
//! 2. [`Experiment::open`] opens the data, draws the model, and checks everything before anything is written.
//! 3. [`Experiment::train`] trains it, writes checkpoints, and gives a [`TrainedRun`], which
//!    [`TrainedRun::open`] finds again later.
//! 4. [`TrainedRun::evaluate`] reads longer texts with each extension, and gives the rows.
//!
//! [`run`] does all of this. An [`Observer`] follows it, and may stop it. [`Machine`] is the device.
//!
//! ```
//! use longwave_experiment::{Config, DeviceChoice, Machine, Silent, run};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let text = "name = 'copy'
//!     data.task = { kind = 'copy' }
//!     model = { layers = 1, width = 8, heads = 1 }
//!     position = 'alibi'
//!     train = { length = 16, steps = 2, batch_tokens = 32 }
//!     evaluate = [{ lengths = [16, 32], protocol = 'task', sequences = 2 }]";
//! let config = Config::parse(text)?;
//! let machine = Machine::open(DeviceChoice::Cpu, None)?;
//! let rows = run(config, &folder.path().join("run"), false, &machine, &mut Silent)?;
//! assert_eq!(rows[0].settings.length, 16);
//! # Ok::<(), longwave_experiment::Error>(())
//! ```

#![warn(missing_docs, clippy::missing_errors_doc)]
// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod config;
pub mod data;
pub mod experiment;
pub mod found_run;
pub mod machine;
pub mod observer;
pub mod paths;
pub mod reading;
pub mod schema;
pub mod trained_run;

pub use config::Config;
pub use data::open_data;
pub use experiment::{Experiment, check, check_validation, run};
pub use found_run::FoundRun;
pub use longwave_core::{Error, Result};
pub use longwave_eval::ResultRow;
pub use longwave_kernels::DeviceChoice;
pub use machine::Machine;
pub use observer::{Event, Observer, Overview, Silent};
pub use reading::{obstacles, reading_of};
pub use schema::schema;
pub use trained_run::{Measured, TrainedRun};
