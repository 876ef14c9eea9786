//! Bands of a rotation in queries and keys: their norms, the band that keys prefer, and what each adds to the logits.
//!
//! Pair i of channels is a band of frequency `theta_i`; the rotation leaves the norm of each pair alone.
//!
//! - The preferred band of a head, `i_band`, is the band with the largest `|k_(i)|` of a token (the fastest of those alike), of the most
//!   tokens (the fastest again).
//! - It is predicted at `j* = (d/2) log_base(D / 3.65721)`, where `cos(n theta_i)` varies most over the distances below D of training, L
//!   of them where a text is read in a row: the variance of `cos(x)` for x uniform on `[0, a]` is largest at a = 3.65721. Where no band
//!   that turns is there, it is the nearest that does.
//! - The share of a band in the logits of a query is the standard deviation of `q_(i) . k_(i)`, turned as the pair is read, over the keys
//!   that the query sees, over the sum of those of all bands.
//!
//! Source: "Frequency Bands" (Oka et al., ICLR 2026) for `i_band` and `j*`, Barbero et al. 2024 (arXiv:2410.06205) for norms by band; the share is
//! ours, after DPE (arXiv:2504.18857).

use longwave_position::frequency::{Frequencies, Layout};

/// Where the variance of cos(x), x uniform on [0, a], is largest.
pub const LARGEST_VARIANCE: f64 = 3.657_21;

/// The channels of pair `band` of `bands`.
pub fn channels(layout: Layout, band: usize, bands: usize) -> [usize; 2] {
    match layout {
        Layout::Half => [band, band + bands],
        Layout::Interleaved => [2 * band, 2 * band + 1],
    }
}

/// The norm of each pair of a vector `[head_dim]`, `[bands]`.
pub fn norms(vector: &[f32], layout: Layout, bands: usize) -> impl Iterator<Item = f64> + '_ {
    (0..bands).map(move |band| {
        let [a, b] = channels(layout, band, bands).map(|channel| f64::from(vector[channel]));
        a.hypot(b)
    })
}

/// The band that is largest, the first of those alike.
pub fn largest(norms: impl Iterator<Item = f64>) -> usize {
    norms.enumerate().fold((0, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best }).0
}

/// The index of the largest count, the first of those alike.
pub fn most_frequent(counts: &[u64]) -> usize {
    largest(counts.iter().map(|&count| count as f64))
}

/// `j* = bands log_base(distances / 3.65721)`: the band that keys are predicted to prefer.
pub fn predicted(bands: usize, base: f64, distances: f64) -> f64 {
    bands as f64 * (distances / LARGEST_VARIANCE).ln() / base.ln()
}

/// The same among the bands that turn; none where their frequencies are no geometric progression downwards.
pub fn predicted_among(frequencies: &Frequencies, distances: f64) -> Option<f64> {
    let Frequencies { inv_freq, base, .. } = frequencies;
    let turns = |frequency: &f64| *frequency != 0.0;
    let (first, last) = (inv_freq.iter().position(turns)?, inv_freq.iter().rposition(turns)?);
    if *base <= 1.0 || !frequencies.is_geometric() {
        return None;
    }
    Some(predicted(inv_freq.len(), *base, distances).clamp(first as f64, last as f64))
}

/// What each band adds to the logits of a query over its keys, each a pair of q and k `[head_dim]` that are turned as they are read: the
/// standard deviation over the keys of its part of q.k, `[bands]`.
pub fn deviations<'a>(
    pairs: impl Iterator<Item = (&'a [f32], &'a [f32])>,
    layout: Layout,
    bands: usize,
) -> Vec<f64> {
    let (mut sums, mut squares) = (vec![0.0_f64; bands], vec![0.0_f64; bands]);
    let mut count = 0.0_f64;
    for (query, key) in pairs {
        count += 1.0;
        for band in 0..bands {
            let [a, b] = channels(layout, band, bands);
            let part = f64::from(query[a] * key[a] + query[b] * key[b]);
            sums[band] += part;
            squares[band] += part * part;
        }
    }
    let count = count.max(1.0);
    let deviation = |(sum, square): (f64, f64)| (square / count - (sum / count).powi(2)).max(0.0).sqrt();
    sums.into_iter().zip(squares).map(deviation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_pair_the_channels_of_the_layout() {
        let vector = [3.0, 0.0, 4.0, 1.0];
        assert_eq!(norms(&vector, Layout::Half, 2).collect::<Vec<_>>(), [5.0, 1.0]);
        assert_eq!(norms(&vector, Layout::Interleaved, 2).collect::<Vec<_>>(), [3.0, 17.0_f64.sqrt()]);
        assert_eq!(largest([1.0, 2.0, 2.0].into_iter()), 1);
        assert_eq!(most_frequent(&[3, 5, 5]), 1);
    }

    #[test]
    fn the_predicted_band_is_where_the_cosine_varies_most() {
        for (length, expected) in [(64.0, 4.97), (128.0, 6.18), (256.0, 7.38), (512.0, 8.58)] {
            assert!((predicted(16, 1e4, length) - expected).abs() < 0.006, "{length}");
        }
        assert!((predicted(16, 128.0, 128.0) - 11.72).abs() < 0.006);
        // The variance of cos over [0, a]: 1/2 + sin(2a)/(4a) - (sin(a)/a)^2.
        let variance = |a: f64| 0.5 + (2.0 * a).sin() / (4.0 * a) - (a.sin() / a).powi(2);
        let best =
            (1..100_000).map(|at| f64::from(at) * 1e-4).max_by(|a, b| variance(*a).total_cmp(&variance(*b)));
        assert!((best.unwrap() - LARGEST_VARIANCE).abs() < 1e-3);
    }

    #[test]
    fn the_predicted_band_is_one_that_turns() {
        let of = |base: f64, turning: usize, distances: f64| {
            let frequencies = Frequencies::geometric(base, 32);
            predicted_among(&frequencies.map(|band, f| if band < turning { f } else { 0.0 }), distances)
        };
        assert!((of(1e4, 16, 128.0).unwrap() - 6.18).abs() < 0.006);
        // HoPE keeps the bands that turn fully; those after it stand still, whatever the formula says.
        assert_eq!(of(1e4, 3, 128.0), Some(2.0));
        // At the base 2 even the slowest of 16 bands is too fast, and for 3 tokens the fastest is too slow.
        assert_eq!((of(2.0, 16, 128.0), of(1e4, 16, 3.0)), (Some(15.0), Some(0.0)));
        assert_eq!((of(1e4, 0, 128.0), of(1.0, 16, 128.0)), (None, None));
        assert_eq!(predicted_among(&Frequencies::cosh(1e4, 32, 2.0), 128.0), None, "another spacing");
    }

    #[test]
    fn a_band_that_all_keys_share_adds_nothing() {
        // Keys differ in the second pair alone, by 1 and -1, times a query of 2.
        let keys = [1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, -1.0];
        let query = [5.0, 0.0, 0.0, 2.0];
        let pairs = keys.chunks_exact(4).map(|key| (query.as_slice(), key));
        assert_eq!(deviations(pairs, Layout::Interleaved, 2), [0.0, 2.0]);
        assert_eq!(deviations(std::iter::empty(), Layout::Interleaved, 2), [0.0, 0.0]);
    }
}
