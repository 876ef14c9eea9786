//! Angles that training showed to each band of a rotation, and those that it did not.
//!
//! A band of frequency `theta` that was trained at distances up to n has met the angles `[0, n theta]`, and all of them once
//! `n theta >= 2 pi`; a text of L tokens in a row has distances up to `L - 1`. A pair of a query and a key is read at the angle `a`,
//! taken mod 2 pi: a slow band that has come round is seen again. The angle is unseen where `a > n theta`.
//!
//! Source: the observation is that of `YaRN` (arXiv:2309.00071, section 3.1) and of the critical dimension (Liu et al. 2023,
//! arXiv:2310.05209); counting it pair by pair, weighted by attention, is ours.

use std::f64::consts::TAU;

/// Room for rounding: an angle at the end of what was seen is seen.
const ROUNDING: f64 = 1e-9;

/// What training showed to each band.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenAngles {
    /// The largest angle that a band has met; infinite where it has met all.
    largest: Vec<f64>,
}

impl SeenAngles {
    /// Bands of these frequencies, in radians a token, trained on texts of `length` tokens.
    pub fn new(frequencies: &[f64], length: usize) -> Self {
        Self::up_to(frequencies, length.saturating_sub(1) as f64)
    }

    /// The same, trained at distances from 0 to the farthest.
    pub fn up_to(frequencies: &[f64], farthest: f64) -> Self {
        let largest = frequencies.iter().map(|theta| {
            let angle = theta.abs() * farthest;
            if angle >= TAU { f64::INFINITY } else { angle * (1.0 + ROUNDING) }
        });
        Self { largest: largest.collect() }
    }

    /// What two trainings of the same bands have shown together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { largest: self.largest.iter().zip(&other.largest).map(|(a, b)| a.max(*b)).collect() }
    }

    /// Bands that have met every angle.
    pub fn turned(&self) -> usize {
        self.largest.iter().filter(|largest| largest.is_infinite()).count()
    }

    pub fn bands(&self) -> usize {
        self.largest.len()
    }

    /// Whether a band never met an angle, in radians.
    pub fn is_unseen(&self, band: usize, angle: f64) -> bool {
        let largest = self.largest[band];
        largest.is_finite() && angle.rem_euclid(TAU) > largest
    }

    /// The share of the bands that never met their angle, of a pair with one angle a band.
    pub fn unseen_share(&self, angles: impl Iterator<Item = f64>) -> f64 {
        let unseen = angles.enumerate().filter(|&(band, angle)| self.is_unseen(band, angle)).count();
        unseen as f64 / self.largest.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of unseen pairs of band and distance where `length` tokens are read as trained.
    fn plain(base: f64, train: usize, length: usize) -> f64 {
        let frequencies: Vec<f64> = (0..16).map(|i| base.powf(-f64::from(i) / 16.0)).collect();
        let seen = SeenAngles::new(&frequencies, train);
        let of = |n: usize| seen.unseen_share(frequencies.iter().map(|theta| n as f64 * theta));
        (0..length).map(of).sum::<f64>() / length as f64
    }

    #[test]
    fn rope_at_base_10000_meets_more_unseen_angles_the_longer_it_reads() {
        // Of 16 bands, those with 127 theta < 2 pi never turned fully: theta < 0.0495, so 10,000^(-i/16) from i = 6 on, 11 bands at
        // most; at 2L half of their distances are new.
        let shares = [128, 256, 512, 1024].map(|length| plain(10_000.0, 128, length));
        for (share, expected) in shares.into_iter().zip([0.0, 0.30, 0.42, 0.49]) {
            assert!((share - expected).abs() < 0.005, "{shares:?}");
        }
        let shares = [256, 512, 1024].map(|length| plain(128.0, 128, length));
        for (share, expected) in shares.into_iter().zip([0.13, 0.16, 0.17]) {
            assert!((share - expected).abs() < 0.005, "{shares:?}");
        }
    }

    #[test]
    fn a_band_that_has_come_round_is_seen_again_and_one_at_rest_always() {
        let seen = SeenAngles::new(&[0.0, 0.1], 11);
        assert!(!seen.is_unseen(0, 0.0) && !seen.is_unseen(1, 1.0) && seen.is_unseen(1, 1.01));
        assert!(!seen.is_unseen(1, TAU + 0.5), "taken mod 2 pi");
        assert_eq!((seen.turned(), seen.unseen_share([0.0, 2.0].into_iter())), (0, 0.5));
        assert_eq!(SeenAngles::new(&[1.0], 8).turned(), 1);
    }
}
