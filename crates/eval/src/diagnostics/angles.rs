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
    /// Bands of these frequencies, in radians a token, trained at distances from 0 to the farthest.
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

    #[test]
    fn a_band_that_has_come_round_is_seen_again_and_one_at_rest_always() {
        let seen = SeenAngles::up_to(&[0.0, 0.1], 10.0);
        assert!(!seen.is_unseen(0, 0.0) && !seen.is_unseen(1, 1.0) && seen.is_unseen(1, 1.01));
        assert!(!seen.is_unseen(1, TAU + 0.5), "taken mod 2 pi");
        assert_eq!(seen.unseen_share([0.0, 2.0].into_iter()), 0.5);
    }
}
