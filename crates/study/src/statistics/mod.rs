//! Statistics of differences: intervals, tests, corrections.
//!
//! Everything is a pure function of its numbers, in f64.
//!
//! - [`interval`]: means and paired differences with Student's t.
//! - [`student`]: the t distribution itself.
//! - [`holm`]: many comparisons at once.
//! - [`power`]: how many pairs a test needs.
//! - [`mod@bootstrap`]: intervals that assume no distribution, over seeds and documents.

pub mod bootstrap;
pub mod holm;
pub mod interval;
pub mod power;
pub mod student;

pub use bootstrap::bootstrap;
pub use holm::adjusted;
pub use interval::{Interval, mean_interval, paired_difference, paired_documents, ratio_interval};
pub use power::seeds_needed;

/// Mean of numbers; `None` of none.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// Standard deviation with `n - 1`; `None` for fewer than two numbers.
pub fn standard_deviation(numbers: &[f64]) -> Option<f64> {
    let mean = mean(numbers).filter(|_| numbers.len() > 1)?;
    let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
    Some((squares / (numbers.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_of_one_number_is_unknown() {
        assert_eq!(standard_deviation(&[2.0]), None);
        assert_eq!(standard_deviation(&[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(mean(&[]), None);
    }
}
