//! What a search changes: a factor for every band, and the positions read as trained.

use super::config::SearchConfig;
use longwave_core::random::Stream;
use serde::{Deserialize, Serialize};

/// The numbers of first positions that may be read as trained (arXiv:2402.13753, table 4).
const FIRST_POSITIONS: [usize; 14] = [0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 128, 256];

/// Factors are multiples of one over this.
pub(super) const STEPS: f64 = 100.0;

/// One reading: a factor for every band in hundredths, ascending, and the positions read as trained.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Genome {
    pub(super) factors: Vec<u64>,
    pub(super) n_hat: usize,
}

/// Changes and crossings of the best readings so far.
pub(super) fn generation(
    scored: &[(f64, Genome)],
    config: &SearchConfig,
    highest: u64,
    length: usize,
    stream: &mut Stream,
) -> Vec<Genome> {
    let parents = &scored[..config.parents.min(scored.len())];
    let draw = |stream: &mut Stream| &parents[stream.below(parents.len() as u64) as usize].1;
    (0..config.population)
        .map(|index| {
            if index % 2 == 0 {
                mutated(draw(stream).clone(), config.mutation, highest, length, stream)
            } else {
                let (a, b) = (draw(stream).clone(), draw(stream).clone());
                crossed(&a, &b, stream)
            }
        })
        .collect()
}

/// Draws some factors again, and perhaps the number of positions read as trained.
fn mutated(mut genome: Genome, chance: f64, highest: u64, length: usize, stream: &mut Stream) -> Genome {
    let lowest = STEPS as u64;
    for factor in &mut genome.factors {
        if stream.uniform() < chance {
            *factor = lowest + stream.below(highest - lowest + 1);
        }
    }
    if stream.uniform() < chance {
        let allowed = FIRST_POSITIONS.iter().filter(|&&n| n < length).count();
        genome.n_hat = FIRST_POSITIONS[stream.below(allowed as u64) as usize];
    }
    genome.factors.sort_unstable();
    genome
}

/// Takes every factor from one of two readings.
fn crossed(a: &Genome, b: &Genome, stream: &mut Stream) -> Genome {
    let mut one = |a, b| if stream.below(2) == 0 { a } else { b };
    let mut factors: Vec<u64> = a.factors.iter().zip(&b.factors).map(|(&a, &b)| one(a, b)).collect();
    factors.sort_unstable();
    let n_hat = if stream.below(2) == 0 { a.n_hat } else { b.n_hat };
    Genome { factors, n_hat }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_keep_the_bounds_and_the_order() {
        let mut stream = Stream::new(0, "test", 0);
        let parent = |factors: Vec<u64>| Genome { factors, n_hat: 4 };
        let (a, b) = (parent(vec![100, 200, 400]), parent(vec![150, 150, 500]));
        for _ in 0..200 {
            let child = mutated(a.clone(), 0.5, 500, 16, &mut stream);
            assert!(
                child.factors.is_sorted() && child.factors[0] >= 100 && child.factors[2] <= 500,
                "{child:?}"
            );
            assert!(child.n_hat < 16);
            let child = crossed(&a, &b, &mut stream);
            assert!(child.factors.is_sorted(), "{child:?}");
            assert!(child.factors.iter().all(|f| a.factors.contains(f) || b.factors.contains(f)));
        }
    }
}
