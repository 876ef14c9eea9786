//! Bootstrap intervals of a difference over seeds and documents (Efron 1979).

use longwave_core::random::Stream;

/// Resamples that an interval is read from.
pub const RESAMPLES: u64 = 10_000;

/// A percentile interval of a token-weighted mean difference, drawn over seeds and, apart from
/// that, over documents.
///
/// `sums` holds `a - b` summed per document, `[seeds, documents]`, `tokens` the counts `[documents]`.
/// A resample draws as many seeds and as many documents as there are, each with replacement; documents
/// are drawn once for all its seeds, because they are the same ones. With one seed only documents are
/// drawn, with one document only seeds. The draws follow from `seed` alone.
///
/// `None` where neither has two members, or where no document has a token.
///
/// ```
/// use longwave_study::statistics::bootstrap;
///
/// // Two seeds, three documents of 100 tokens: about 0.1 nats per token.
/// let sums = [vec![9.0, 11.0, 10.0], vec![10.0, 12.0, 9.0]];
/// let (low, high) = bootstrap(&sums, &[100, 100, 100], 0.95, 0).unwrap();
/// assert!(0.09 <= low && low < 0.1 && 0.1 < high && high <= 0.12);
/// ```
pub fn bootstrap(sums: &[Vec<f64>], tokens: &[u64], level: f64, seed: u64) -> Option<(f64, f64)> {
    let documents: Vec<usize> = (0..tokens.len()).filter(|&index| tokens[index] > 0).collect();
    if documents.is_empty() || sums.is_empty() || (sums.len() < 2 && documents.len() < 2) {
        return None;
    }
    let mut stream = Stream::new(seed, "bootstrap", 0);
    let mut means = Vec::with_capacity(RESAMPLES as usize);
    for _ in 0..RESAMPLES {
        let drawn: Vec<usize> =
            documents.iter().map(|_| documents[stream.below(documents.len() as u64) as usize]).collect();
        let all: f64 = drawn.iter().map(|&index| tokens[index] as f64).sum();
        let mut sum = 0.0;
        for _ in sums {
            let row = &sums[stream.below(sums.len() as u64) as usize];
            sum += drawn.iter().map(|&index| row[index]).sum::<f64>();
        }
        means.push(sum / (all * sums.len() as f64));
    }
    means.sort_by(f64::total_cmp);
    let outside = (1.0 - level) / 2.0;
    Some((quantile(&means, outside), quantile(&means, 1.0 - outside)))
}

/// The quantile of sorted numbers, with straight lines between them.
pub fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let place = probability * (sorted.len() - 1) as f64;
    let (below, share) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + share * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::mean_interval;

    /// Differences per seed and document with known spread.
    fn sums(seeds: usize, documents: usize) -> Vec<Vec<f64>> {
        let mut stream = Stream::new(3, "test", 0);
        (0..seeds).map(|_| (0..documents).map(|_| 5.0 + stream.normal()).collect()).collect()
    }

    #[test]
    fn repeats_and_covers_the_mean() {
        let sums = sums(3, 12);
        let tokens = vec![10; 12];
        let (low, high) = bootstrap(&sums, &tokens, 0.95, 7).unwrap();
        assert_eq!(bootstrap(&sums, &tokens, 0.95, 7), Some((low, high)));
        assert!(low < 0.5 && 0.5 < high && high - low < 0.2, "{low} {high}");
        let (wider_low, wider_high) = bootstrap(&sums, &tokens, 0.99, 7).unwrap();
        assert!(wider_low < low && high < wider_high);
    }

    #[test]
    fn many_documents_agree_with_student() {
        let sums = sums(1, 400);
        let (low, high) = bootstrap(&sums, &vec![1; 400], 0.95, 1).unwrap();
        let student = mean_interval(&sums[0], 0.95).unwrap();
        assert!((low - student.low).abs() < 0.02 && (high - student.high).abs() < 0.02);
    }

    #[test]
    fn one_of_each_has_no_interval() {
        assert_eq!(bootstrap(&[vec![1.0]], &[2], 0.95, 0), None);
        assert_eq!(bootstrap(&[vec![1.0, 2.0]], &[0, 0], 0.95, 0), None);
        assert!(bootstrap(&[vec![1.0], vec![2.0]], &[2], 0.95, 0).is_some());
    }
}
