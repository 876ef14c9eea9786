//! Statistics of differences: intervals, tests, corrections.
//!
//! Everything is a pure function of its numbers, in f64.
//!
//! - [`interval`]: means with Student's t.
//! - [`student`]: the t distribution itself.
//! - [`holm`]: many comparisons at once.
//! - [`power`]: how many pairs a test needs.
//! - [`mod@bootstrap`]: intervals that assume no distribution, over seeds and documents.

pub mod bootstrap;
pub mod holm;
pub mod interval;
pub mod power;

pub use bootstrap::bootstrap;
pub use holm::adjusted;
pub use interval::{Interval, mean_interval, ratio_interval};
pub use longwave_eval::statistics::{mean, standard_deviation, student};
pub use power::seeds_needed;
