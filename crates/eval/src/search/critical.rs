//! The space of `method = "longrope2"`: the band from which on factors are searched for, and these factors.
//!
//! The first band that does not complete a turn in L is the theoretical critical band `i_c`. `LongRoPE2` (Shang et al. 2025,
//! arXiv:2502.20082, section 3) finds that training leaves faster bands too short of turns, and searches the real critical
//! band r between `i_10`, the first band with at most ten turns in L, and `i_c`. Bands from r on have factors between s
//! and 2 s that never fall; those before it are NTK's, with the base that gives band r its factor:
//! `lambda_i = lambda_r^(i/r)`. The search begins with one factor for all bands from r on, for every r in turn. A change
//! draws the factors from r on again.

use super::config::SearchConfig;
use super::genome::{Genome, STEPS};
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use std::f64::consts::TAU;

/// The turns that a band makes at most in L from `i_10` on.
const TURNS: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CriticalBands {
    /// `i_10`.
    first: usize,
    /// `i_c`, or the last band where all complete a turn.
    last: usize,
    bands: usize,
    /// s in hundredths.
    lowest: u64,
    /// 2 s in hundredths.
    highest: u64,
}

/// The first band that makes at most so many turns in `length` tokens; the number of bands where all make more.
fn first_below(turns: f64, inv_freq: &[f64], length: usize) -> usize {
    let most = turns * TAU / length as f64;
    inv_freq.iter().position(|frequency| *frequency <= most).unwrap_or(inv_freq.len())
}

impl CriticalBands {
    /// Those of frequencies that were trained on `train` tokens, for texts `scale` times as long.
    pub(super) fn new(inv_freq: &[f64], train: usize, scale: f64) -> Result<Self> {
        let bands = inv_freq.len();
        let first = first_below(TURNS, inv_freq, train);
        if first == bands {
            return Err(Error::usage(format!(
                "`search.method = \"longrope2\"` has no band to search: every band makes more than ten turns in L = {train}"
            ))
            .hint("use `method = \"longrope\"`, which searches a factor for every band"));
        }
        let last = first_below(1.0, inv_freq, train).min(bands - 1);
        let (lowest, highest) = ((STEPS * scale).ceil() as u64, (2.0 * STEPS * scale).floor() as u64);
        Ok(Self { first, last, bands, lowest, highest })
    }

    fn drawn(self, stream: &mut Stream) -> u64 {
        self.lowest + stream.below(self.highest - self.lowest + 1)
    }

    /// The first generation: every band between the two as the critical one, in turn.
    pub(super) fn seeds(self, config: &SearchConfig, stream: &mut Stream) -> Vec<Genome> {
        let candidates = self.last - self.first + 1;
        (0..config.population.max(candidates))
            .map(|index| {
                let critical = self.first + index % candidates;
                let factors = vec![self.drawn(stream); self.bands - critical];
                Genome { factors, n_hat: 0, critical: Some(critical) }
            })
            .collect()
    }

    /// A reading with some of its factors drawn again.
    pub(super) fn mutated(self, mut genome: Genome, chance: f64, stream: &mut Stream) -> Genome {
        genome.redraw(chance, [self.lowest, self.highest], stream);
        genome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bands(head_dim: usize, base: f64, train: usize) -> [usize; 2] {
        let inv_freq: Vec<f64> =
            (0..head_dim / 2).map(|band| base.powf(-2.0 * band as f64 / head_dim as f64)).collect();
        [TURNS, 1.0].map(|turns| first_below(turns, &inv_freq, train))
    }

    #[test]
    fn critical_bands_are_those_of_the_paper() {
        assert_eq!(bands(96, 1e4, 2048)[1], 31);
        assert_eq!(bands(128, 5e5, 8192)[1], 35);
        // ceil(d/2 log_b(L / 2 pi)) and ceil(d/2 log_b(L / 20 pi)).
        assert_eq!([128, 256, 512].map(|train| bands(32, 1e4, train)), [[2, 6], [3, 7], [4, 8]]);
        assert_eq!([128, 256, 512].map(|train| bands(64, 1e4, train)[1]), [11, 13, 16]);
    }

    #[test]
    fn every_candidate_keeps_the_constraints() {
        let inv_freq: Vec<f64> = (0..16).map(|band| 1e4f64.powf(-f64::from(band) / 16.0)).collect();
        let space = CriticalBands::new(&inv_freq, 128, 4.0).unwrap();
        assert_eq!((space.first, space.last, space.lowest, space.highest), (2, 6, 400, 800));
        let mut stream = Stream::new(0, "test", 0);
        let config = SearchConfig { population: 12, ..SearchConfig::default() };
        let seeds = space.seeds(&config, &mut stream);
        assert_eq!(seeds.len(), 12);
        for (index, seed) in seeds.iter().enumerate() {
            assert_eq!(seed.critical, Some(2 + index % 5), "every band in turn");
            assert!(seed.factors.iter().all(|factor| *factor == seed.factors[0]), "one factor: {seed:?}");
        }
        for seed in seeds {
            let mut genome = seed;
            for _ in 0..100 {
                let critical = genome.critical.unwrap();
                assert!((2..=6).contains(&critical) && genome.factors.len() == 16 - critical);
                assert!(genome.factors.is_sorted() && genome.n_hat == 0, "{genome:?}");
                assert!(genome.factors.iter().all(|factor| (400..=800).contains(factor)), "{genome:?}");
                let factors = genome.factors();
                assert_eq!(factors.len(), 16);
                assert!(factors.is_sorted() && (factors[0] - 1.0).abs() < 1e-12, "{factors:?}");
                // NTK: the base grows by the same power in every band before the critical one.
                let base = |band: usize| factors[band].powf(16.0 / band as f64);
                assert!((1..=critical).all(|band| (base(band) / base(critical) - 1.0).abs() < 1e-9));
                genome = space.mutated(genome, 0.5, &mut stream);
            }
        }
        assert!(CriticalBands::new(&[1.0, 0.9], 128, 4.0).is_err());
    }
}
