//! Holm's step-down correction for many comparisons (Holm 1979).

/// Where a comparison stands in the procedure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The level of the interval that decides it: `1 - alpha / (m - r)` for the r-th smallest p (from 0) of `m`, up to the
    /// first that decides nothing. There the procedure stops, and all that are left have its level. So an interval excludes a
    /// value exactly where the procedure rejects it.
    pub level: f64,
    /// The adjusted p value, `min(1, max over q <= r of (m - q) p_(q))`; no number where p is none.
    pub adjusted: f64,
}

/// Holm's procedure on `p` at `alpha`, given back in the order of the input. `count` is `m`: the comparisons there are, with
/// those whose p is not known.
pub fn steps(p: &[f64], alpha: f64, count: usize) -> Vec<Step> {
    let mut steps = vec![Step { level: 1.0 - alpha, adjusted: f64::NAN }; p.len()];
    let (mut level, mut has_stopped, mut largest) = (1.0 - alpha, false, 0.0_f64);
    for (rank, index) in ranked(p).into_iter().enumerate().filter(|(_, index)| !p[*index].is_nan()) {
        let left = (count - rank) as f64;
        if !has_stopped {
            level = 1.0 - alpha / left;
            has_stopped = p[index] >= alpha / left;
        }
        largest = largest.max(left * p[index]);
        steps[index] = Step { level, adjusted: largest.min(1.0) };
    }
    steps
}

/// The adjusted p values of all comparisons. What is at most `alpha` is rejected with a family-wise error of `alpha`.
///
/// ```
/// use longwave_study::statistics::adjusted;
///
/// // The smallest of three counts three times, the next twice.
/// assert_eq!(adjusted(&[0.01, 0.5, 0.02]), [0.03, 0.5, 0.04]);
/// ```
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    steps(p, 1.0, p.len()).into_iter().map(|step| step.adjusted).collect()
}

/// Indices by ascending p; equal ones keep their order, and what is no number comes last.
fn ranked(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].is_nan().cmp(&p[b].is_nan()).then(p[a].total_cmp(&p[b])));
    order
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
        let levels =
            |p: &[f64], count| steps(p, 0.05, count).iter().map(|step| step.level).collect::<Vec<_>>();
        assert_eq!(levels(&[0.02, 0.001, 0.01], 3), [0.95, 1.0 - 0.05 / 3.0, 0.975]);
        // Comparisons that could not be made count.
        assert_eq!(levels(&[0.001, f64::NAN], 5), [0.99, 0.95]);
    }

    #[test]
    fn the_procedure_stops_at_the_first_that_is_open() {
        // 0.03 is not below 0.05 / 2: what follows has the level at which it stopped, and is not below that either.
        let found = steps(&[0.04, 0.01, 0.03], 0.05, 3);
        assert_eq!(found.iter().map(|step| step.level).collect::<Vec<_>>(), [0.975, 1.0 - 0.05 / 3.0, 0.975]);
        assert_eq!(found[0].adjusted, 0.06);
    }
}
