//! Means over documents and their standard errors.
//!
//! Tokens of one document are not independent, so errors are taken over documents: the cluster-robust
//! error of a ratio of sums. With `K` documents, `S_d` the sum and `n_d` the weight (scored tokens) of
//! document `d`, and `mean = sum_d S_d / sum_d n_d`,
//!
//! ```text
//! se = sqrt(K / (K - 1) * sum_d (S_d - mean * n_d)^2) / sum_d n_d
//! ```
//!
//! Documents without weight are not among the `K`. With equal weights it is the standard deviation of
//! the documents' means over `sqrt(K)`. All sums are f64 in the order of the documents.
//!
//! [`student`] has the distribution that such a mean is held against.

pub mod student;

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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// `sum_d S_d / sum_d n_d`.
    pub mean: f64,
    /// Its standard error over documents; `None` for fewer than two.
    pub se: Option<f64>,
    /// Documents with a weight: K. A t interval has `K - 1` degrees of freedom.
    pub documents: usize,
}

/// The mean of per-document `sums` `[documents]` weighted by `weights` `[documents]`; `None` where no
/// document has a weight.
///
/// # Panics
/// There are not as many weights as sums.
pub fn mean_over_documents(sums: &[f64], weights: &[u64]) -> Option<Mean> {
    assert_eq!(sums.len(), weights.len(), "a document has one sum and one weight");
    let pairs: Vec<(f64, f64)> =
        sums.iter().zip(weights).map(|(&sum, &weight)| (sum, weight as f64)).collect();
    ratio_over_documents(&pairs)
}

/// The same for sums with weights of any size, `[documents]`.
pub fn ratio_over_documents(documents: &[(f64, f64)]) -> Option<Mean> {
    let total: f64 = documents.iter().map(|(_, weight)| weight).sum();
    if total <= 0.0 {
        return None;
    }
    let mean = documents.iter().map(|(sum, _)| sum).sum::<f64>() / total;
    let (mut squares, mut count) = (0.0, 0usize);
    for &(sum, weight) in documents {
        if weight > 0.0 {
            squares += (sum - mean * weight).powi(2);
            count += 1;
        }
    }
    let n = count as f64;
    let se = (count > 1).then(|| (n / (n - 1.0) * squares).sqrt() / total);
    Some(Mean { mean, se, documents: count })
}

/// The 95% interval of a share, of which `count` of `total` were seen: Wilson's score interval. `None` of nothing.
///
/// With `p = count / total`, `n = total` and `z = 1.959964`, its ends are
///
/// ```text
/// (p + z^2 / 2n ± z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
/// ```
///
/// Unlike `p ± se` it has a width at 0 of 32 (0 to 0.107) and stays between 0 and 1.
///
/// Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927), 209-212;
/// recommended for small `n` by L. D. Brown and others, "Interval estimation for a binomial
/// proportion", Statistical Science 16 (2001), 101-133.
pub fn share_interval(count: u64, total: u64) -> Option<(f64, f64)> {
    if total == 0 {
        return None;
    }
    let (n, z) = (total as f64, 1.959_963_984_540_054_f64);
    let (p, square) = (count as f64 / n, z * z / n);
    let centre = (p + square / 2.0) / (1.0 + square);
    let half = z * (p * (1.0 - p) / n + square / (4.0 * n)).sqrt() / (1.0 + square);
    Some(((centre - half).max(0.0), (centre + half).min(1.0)))
}

/// The mean of `a - b`, two measurements of the same tokens paired by document: what varies between
/// documents falls out, so its error is far below those of `a` and `b`.
///
/// `a` and `b` are per-document sums, `weights` the tokens of each document, all `[documents]`.
///
/// # Panics
/// The lists differ in length.
pub fn paired_difference(a: &[f64], b: &[f64], weights: &[u64]) -> Option<Mean> {
    assert_eq!(a.len(), b.len(), "both measurements have the same documents");
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    mean_over_documents(&differences, weights)
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

    #[test]
    fn a_share_has_the_published_interval() {
        // R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998),
        // 857-872, table I, method 3.
        let published = [
            ((81, 263), (0.2553, 0.3662)),
            ((15, 148), (0.0624, 0.1605)),
            ((0, 20), (0.0, 0.1611)),
            ((1, 29), (0.0061, 0.1718)),
        ];
        for ((count, total), (low, high)) in published {
            let found = share_interval(count, total).unwrap();
            assert!(
                (found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5,
                "{count} of {total}: {found:?}"
            );
        }
        // In closed form: z^2 / (n + z^2), and the mirror image.
        let (none, all) = (share_interval(0, 32).unwrap(), share_interval(32, 32).unwrap());
        assert!(none.0 == 0.0 && (none.1 - 0.107_179_198_255).abs() < 1e-11, "{none:?}");
        assert!((all.0 - (1.0 - none.1)).abs() < 1e-12 && all.1 == 1.0, "{all:?}");
        assert_eq!(share_interval(0, 0), None);
    }

    #[test]
    fn pairing_takes_out_what_documents_have_in_common() {
        let weights = [10, 20, 30];
        let hard = [50.0, 40.0, 90.0];
        let b: Vec<f64> = hard.iter().zip(weights).map(|(sum, weight)| sum + 0.5 * weight as f64).collect();
        let difference = paired_difference(&b, &hard, &weights).unwrap();
        assert!((difference.mean - 0.5).abs() < 1e-15 && difference.se.unwrap() < 1e-15, "{difference:?}");
        assert!(mean_over_documents(&hard, &weights).unwrap().se.unwrap() > 0.1);
    }
}
