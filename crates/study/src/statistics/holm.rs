//! Holm's step-down correction for many comparisons (Holm 1979).

/// Adjusted p values: ascending, `min(1, max over q <= r of (m - q) p_(q))`, given back in the order of
/// the input. What is at most `alpha` is rejected with a family-wise error of `alpha`.
///
/// ```
/// use longwave_study::statistics::adjusted;
///
/// // The smallest of three counts three times, the next twice.
/// assert_eq!(adjusted(&[0.01, 0.5, 0.02]), [0.03, 0.5, 0.04]);
/// ```
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in ranked(p).into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[index]);
        adjusted[index] = largest.min(1.0);
    }
    adjusted
}

/// Indices by ascending p; equal ones keep their order, and what is no number comes last.
pub fn ranked(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].is_nan().cmp(&p[b].is_nan()).then(p[a].total_cmp(&p[b])));
    order
}

/// The level of the interval that goes with the comparison of rank `rank` (from 0) out of `count`, so
/// that it excludes a value exactly where Holm's step rejects it: `1 - alpha / (count - rank)`.
pub fn level_of_rank(alpha: f64, rank: usize, count: usize) -> f64 {
    1.0 - alpha / (count - rank) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_down_and_never_back() {
        assert_eq!(adjusted(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(adjusted(&[0.7, 0.9]), [1.0, 1.0]);
        assert_eq!(adjusted(&[]), [0.0; 0]);
    }

    #[test]
    fn the_smallest_has_the_widest_interval() {
        assert_eq!(level_of_rank(0.05, 0, 5), 0.99);
        assert_eq!(level_of_rank(0.05, 4, 5), 0.95);
        assert_eq!(ranked(&[0.3, f64::NAN, 0.1]), [2, 0, 1]);
    }
}
