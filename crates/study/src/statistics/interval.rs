//! Means with their standard errors, tests and intervals.

use super::student;
use super::{mean, standard_deviation};
use longwave_eval::statistics::mean_over_documents;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub se: f64,
    /// Degrees of freedom of `se`.
    pub df: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The interval that covers with probability `level`, from a mean and its error.
    pub fn new(mean: f64, se: f64, df: f64, level: f64) -> Self {
        let reach = student::quantile(f64::midpoint(1.0, level), df) * se;
        Self { mean, se, df, low: mean - reach, high: mean + reach }
    }

    /// The same mean and error at another level.
    #[must_use]
    pub fn at(self, level: f64) -> Self {
        Self::new(self.mean, self.se, self.df, level)
    }

    /// The same mean with the errors of two causes that have nothing to do with each other: their squares add up, with the fewer
    /// degrees of freedom of both, which never makes an interval too narrow (Mickey and Brown, "Bounds on the distribution functions of
    /// the Behrens-Fisher statistic", Annals of Mathematical Statistics 37 (1966), 639-642). Those of Satterthwaite do: an error of
    /// two seeds that is small by chance leaves him with those of the other cause.
    #[must_use]
    pub fn with_error_of(self, other: Self, level: f64) -> Self {
        Self::new(self.mean, self.se.hypot(other.se), self.df.min(other.df), level)
    }

    /// The degrees of freedom of the sum of both squared errors, where these are the true ones (Satterthwaite, "An approximate distribution
    /// of estimates of variance components", Biometrics Bulletin 2 (1946), 110-114).
    pub(super) fn df_with(self, other: Self) -> f64 {
        let (own, more) = (self.se.powi(2), other.se.powi(2));
        if own + more > 0.0 {
            (own + more).powi(2) / (own.powi(2) / self.df + more.powi(2) / other.df)
        } else {
            self.df.min(other.df)
        }
    }

    /// Two-sided probability of a mean as far from `value`; 0 where the error is 0 and the mean elsewhere.
    pub fn p_against(self, value: f64) -> f64 {
        if self.se == 0.0 {
            return if self.mean - value == 0.0 { 1.0 } else { 0.0 };
        }
        student::two_sided((self.mean - value) / self.se, self.df)
    }
}

/// The mean of `numbers` and its t interval with `n - 1` degrees of freedom; `None` for fewer than two.
pub fn mean_interval(numbers: &[f64], level: f64) -> Option<Interval> {
    let deviation = standard_deviation(numbers)?;
    let count = numbers.len() as f64;
    Some(Interval::new(mean(numbers)?, deviation / count.sqrt(), count - 1.0, level))
}

/// The token-weighted mean of sums per document: where these are the differences of two readings of the same tokens, the
/// difference of their means.
///
/// `mean = sum_d s_d / sum(tokens)`, and with the residuals `r_d = s_d - mean tokens_d` of the K documents
/// `se = sqrt(K / (K - 1) sum_d r_d^2) / sum(tokens)`, the cluster-robust error of a ratio, with K - 1 degrees of freedom.
/// `None` for fewer than two documents with tokens, or lists of different lengths.
pub fn ratio_interval(sums: &[f64], tokens: &[u64], level: f64) -> Option<Interval> {
    if sums.len() != tokens.len() {
        return None;
    }
    let found = mean_over_documents(sums, tokens)?;
    Some(Interval::new(found.mean, found.se?, found.documents as f64 - 1.0, level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_one_size_are_plain_numbers() {
        let sums = [1.0, -0.5, 2.0];
        let documents = ratio_interval(&sums, &[10; 3], 0.95).unwrap();
        let numbers = mean_interval(&sums.map(|x| x / 10.0), 0.95).unwrap();
        assert!((documents.mean - numbers.mean).abs() < 1e-15 && (documents.se - numbers.se).abs() < 1e-15);
        assert!((documents.low - numbers.low).abs() < 1e-14 && documents.df == 2.0);
    }

    #[test]
    fn too_few_or_unequal_have_none() {
        assert_eq!(mean_interval(&[1.0], 0.95), None);
        assert_eq!(ratio_interval(&[1.0], &[3, 4], 0.95), None);
        assert_eq!(ratio_interval(&[0.0, 0.0], &[3, 0], 0.95), None);
    }

    #[test]
    fn an_exact_difference_is_certain() {
        let exact = mean_interval(&[2.0, 2.0], 0.95).unwrap();
        assert_eq!((exact.p_against(2.0), exact.p_against(1.0), exact.low), (1.0, 0.0, 2.0));
    }

    #[test]
    fn errors_of_two_causes_add_up_as_squares() {
        let both = Interval::new(1.0, 0.3, 4.0, 0.95).with_error_of(Interval::new(9.0, 0.4, 9.0, 0.95), 0.95);
        assert_eq!((both.mean, both.se, both.df), (1.0, 0.5, 4.0));
        let [own, more] = [(0.3, 4.0), (0.4, 9.0)].map(|(se, df)| Interval::new(1.0, se, df, 0.95));
        // 0.25^2 / (0.09^2 / 4 + 0.16^2 / 9) = 0.0625 / (0.002025 + 0.0028444..)
        assert!((own.df_with(more) - 12.8351).abs() < 1e-4);
        assert_eq!(own.df_with(Interval::new(1.0, 0.0, 9.0, 0.95)), 4.0);
    }

    #[test]
    fn the_interval_excludes_what_the_test_rejects() {
        let interval = mean_interval(&[0.1, 0.3, 0.2, 0.5], 0.95).unwrap();
        let p = interval.p_against(interval.low);
        assert!((p - 0.05).abs() < 1e-10, "{p}");
    }
}
