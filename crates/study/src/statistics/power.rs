//! How many pairs a t test needs.

use super::{Interval, student};
use std::f64::consts::PI;

const MOST: usize = 10_000;

/// Intervals of the integral over the distribution of the sample deviation.
const STEPS: usize = 400;

/// The fewest pairs, at least two, whose interval at level `1 - alpha` ends within `room` below and above the mean with
/// probability `power`, where the pairs differ by `deviation`. A test for a difference has room on one side and no end on the
/// other; one for equality has two ends. `documents` holds an error of the mean that more pairs do not make smaller.
pub fn seeds_needed(
    room: (f64, f64),
    deviation: f64,
    documents: Option<Interval>,
    alpha: f64,
    power: f64,
) -> Result<usize, usize> {
    let enough = |count: usize| {
        let count = count as f64;
        let pairs = Interval::new(0.0, deviation / count.sqrt(), count - 1.0, 1.0 - alpha);
        let (error, df) = match documents {
            Some(documents) => (pairs.with_error_of(documents, 1.0 - alpha), pairs.df_with(documents)),
            None => (pairs, pairs.df),
        };
        let shifts = (room.0 / error.se, room.1 / error.se);
        power_of(shifts, df, student::quantile(1.0 - alpha / 2.0, error.df)) >= power
    };
    if deviation == 0.0 && documents.is_none_or(|it| it.se == 0.0) && room.0.min(room.1) > 0.0 {
        return Ok(2);
    }
    // Power grows with the count: halving finds the first that has enough.
    let (mut low, mut high) = (1, 2);
    while !enough(high) {
        if high >= MOST {
            return Err(MOST);
        }
        (low, high) = (high, (2 * high).min(MOST));
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if enough(middle) { high = middle } else { low = middle }
    }
    Ok(high)
}

/// The probability that an interval ends within `shifts` of its mean, below and above, in standard errors: with `c` estimated errors
/// to either side, the quantile `critical`, and `s` the estimated error as a part of the true one,
/// `integral over s of max(0, Phi(below - c s) + Phi(above - c s) - 1) f(s)`, where `s^2 df` is chi-square with `df` degrees of
/// freedom, by Simpson's rule. Without an end on one side it is the probability of a noncentral t above `c` (Johnson, Kotz and
/// Balakrishnan, Continuous Univariate Distributions 2, 1995, chapter 31); with two, the power of two one-sided tests.
pub fn power_of((below, above): (f64, f64), df: f64, critical: f64) -> f64 {
    // The logarithm of the density of s, up to a constant: with 1 degree of freedom it is largest at 0.
    let log_density =
        |s: f64| if s > 0.0 { (df - 1.0) * s.ln() - df * s * s / 2.0 } else { f64::NEG_INFINITY };
    let peak = ((df - 1.0) / df).max(0.0).sqrt();
    let highest = if peak > 0.0 { log_density(peak) } else { 0.0 };
    let reach = 8.0 / (2.0 * df).sqrt();
    let (from, to) = ((peak - reach).max(1e-9), peak + reach.max(1.0));
    let width = (to - from) / STEPS as f64;
    let (mut found, mut whole) = (0.0, 0.0);
    for step in 0..=STEPS {
        let s = from + width * step as f64;
        let weight = if step == 0 || step == STEPS { 1.0 } else { 2.0 * (1.0 + (step % 2) as f64) };
        let density = weight * (log_density(s) - highest).exp();
        found += density * (normal(below - critical * s) + normal(above - critical * s) - 1.0).max(0.0);
        whole += density;
    }
    found / whole
}

/// The standard normal distribution function, to 7.5e-8 (Abramowitz and Stegun 1964, 26.2.17).
fn normal(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let coefficients = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let series = coefficients.iter().rev().fold(0.0, |sum, coefficient| t * (coefficient + sum));
    let tail = (-x * x / 2.0).exp() / (2.0 * PI).sqrt() * series;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: f64 = f64::INFINITY;

    /// Pairs for a power of 0.8 at 0.05, from published tables of the paired t test (Cohen 1988, and G*Power).
    #[test]
    fn pairs_are_those_of_published_tables() {
        for (effect, pairs) in [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (1.5, 6)] {
            assert_eq!(seeds_needed((effect, OPEN), 1.0, None, 0.05, 0.8), Ok(pairs), "{effect}");
        }
        assert_eq!(seeds_needed((OPEN, 0.5), 1.0, None, 0.01, 0.8), Ok(51));
    }

    #[test]
    fn a_difference_without_spread_needs_two_and_none_no_number() {
        let needed = |room, deviation, documents| seeds_needed((room, OPEN), deviation, documents, 0.05, 0.8);
        assert_eq!(needed(0.1, 0.0, None), Ok(2));
        assert_eq!(needed(0.0, 1.0, None), Err(MOST));
        assert_eq!(needed(0.0, 0.0, None), Err(MOST));
        // An error that stays is never outweighed where it is half of the difference, and costs pairs where it is a tenth.
        let documents = |se| Some(Interval::new(0.0, se, 99.0, 0.95));
        assert_eq!(needed(0.5, 1.0, documents(0.25)), Err(MOST));
        assert!(needed(0.5, 1.0, documents(0.05)).unwrap() > 34);
    }

    #[test]
    fn without_an_effect_the_power_is_the_level_of_one_side() {
        for df in [1.0, 2.0, 9.0, 499.0] {
            let found = power_of((0.0, OPEN), df, student::quantile(0.975, df));
            assert!((found - 0.025).abs() < 2e-4, "{df}: {found}");
        }
    }

    /// Of many pairs the error is known: a mean in the middle is inside of both ends with `2 Phi(room - 1.96) - 1`, and 0.8 takes
    /// `Phi^-1(0.9) + 1.96 = 3.2415` standard errors, not the `0.8416 + 1.96` of one end.
    #[test]
    fn equality_has_two_ends() {
        let pairs = seeds_needed((0.05, 0.05), 1.0, None, 0.05, 0.8).unwrap();
        assert!(pairs.abs_diff((3.2415_f64 / 0.05).powi(2) as usize) < 5, "{pairs}");
        assert!(power_of((0.1, 0.1), 9.0, student::quantile(0.975, 9.0)) < 1e-9);
    }
}
