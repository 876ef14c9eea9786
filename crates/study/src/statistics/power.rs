//! How many pairs a t test needs.

use super::student;
use std::f64::consts::PI;

/// The most pairs that are counted.
const MOST: usize = 10_000;

/// Intervals of the integral over the distribution of the sample deviation.
const STEPS: usize = 400;

/// The fewest pairs, at least two, with which a two-sided t test at level `alpha` finds a mean difference of `distance`, of
/// deviation `deviation` from pair to pair, with probability `power`. `constant` is an error of the mean that more pairs do not
/// make smaller.
///
/// # Errors
/// More than the number given back are needed.
pub fn seeds_needed(
    distance: f64,
    deviation: f64,
    constant: f64,
    alpha: f64,
    power: f64,
) -> Result<usize, usize> {
    let enough = |count: usize| {
        let effect = distance / deviation.hypot(constant * (count as f64).sqrt());
        power_of(count, effect, alpha) >= power
    };
    if deviation == 0.0 && constant == 0.0 && distance > 0.0 {
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

/// The probability that a t test of `count` pairs at level `alpha` finds an effect of `effect` deviations, on its side: that
/// of a noncentral t above the quantile `c`,
/// `P(T > c) = integral over s of Phi(effect sqrt(count) - c s) f(s)`, where `s^2 df` is chi-square with `df = count - 1`
/// (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 2, 1995, chapter 31), by Simpson's rule.
pub fn power_of(count: usize, effect: f64, alpha: f64) -> f64 {
    let df = count as f64 - 1.0;
    let critical = student::quantile(1.0 - alpha / 2.0, df);
    let shift = effect * (count as f64).sqrt();
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
        found += density * normal(shift - critical * s);
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

    /// Pairs for a power of 0.8 at 0.05, from published tables of the paired t test (Cohen 1988, and G*Power).
    #[test]
    fn pairs_are_those_of_published_tables() {
        for (effect, pairs) in [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (1.5, 6)] {
            assert_eq!(seeds_needed(effect, 1.0, 0.0, 0.05, 0.8), Ok(pairs), "{effect}");
        }
        assert_eq!(seeds_needed(0.5, 1.0, 0.0, 0.01, 0.8), Ok(51));
    }

    #[test]
    fn a_difference_without_spread_needs_two_and_none_no_number() {
        assert_eq!(seeds_needed(0.1, 0.0, 0.0, 0.05, 0.8), Ok(2));
        assert_eq!(seeds_needed(0.0, 1.0, 0.0, 0.05, 0.8), Err(MOST));
        assert_eq!(seeds_needed(0.0, 0.0, 0.0, 0.05, 0.8), Err(MOST));
        // An error that stays is never outweighed where it is half of the difference, and costs pairs where it is a tenth.
        assert_eq!(seeds_needed(0.5, 1.0, 0.25, 0.05, 0.8), Err(MOST));
        assert!(seeds_needed(0.5, 1.0, 0.05, 0.05, 0.8).unwrap() > 34);
    }

    #[test]
    fn without_an_effect_the_power_is_the_level_of_one_side() {
        for count in [2, 3, 10, 500] {
            let found = power_of(count, 0.0, 0.05);
            assert!((found - 0.025).abs() < 2e-4, "{count}: {found}");
        }
    }
}
