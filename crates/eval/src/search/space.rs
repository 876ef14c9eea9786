//! The readings that a search may try, and how new ones come from the best so far.

use super::config::SearchConfig;
use super::critical::CriticalBands;
use super::genome::{Genome, STEPS};
use longwave_core::random::Stream;

/// The numbers of first positions that may be read as trained (arXiv:2402.13753, table 4).
const FIRST_POSITIONS: [usize; 14] = [0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64, 128, 256];

#[derive(Clone, Copy, Debug)]
pub(super) enum Space {
    /// A factor for every band up to `highest`, at texts of `length` tokens.
    All {
        /// In hundredths.
        highest: u64,
        /// Tokens.
        length: usize,
        /// How many first positions the model reads with frequencies of their own.
        start: Option<usize>,
    },
    Critical(CriticalBands),
}

/// Changes of the best readings so far; half of the new ones are crossings, where these keep to the space.
pub(super) fn generation(
    scored: &[(f64, Genome)],
    config: &SearchConfig,
    space: Space,
    stream: &mut Stream,
) -> Vec<Genome> {
    let parents = &scored[..config.parents.min(scored.len())];
    let draw = |stream: &mut Stream| &parents[stream.below(parents.len() as u64) as usize].1;
    (0..config.population)
        .map(|index| match space {
            Space::Critical(bands) => bands.mutated(draw(stream).clone(), config.mutation, stream),
            Space::All { highest, length, start } if index % 2 == 0 => {
                let allowed = first_positions(length, start);
                mutated(draw(stream).clone(), config.mutation, highest, &allowed, stream)
            }
            Space::All { .. } => {
                let (a, b) = (draw(stream).clone(), draw(stream).clone());
                crossed(&a, &b, stream)
            }
        })
        .collect()
}

/// Draws some factors again, and perhaps the number of positions read as trained.
fn mutated(mut genome: Genome, chance: f64, highest: u64, allowed: &[usize], stream: &mut Stream) -> Genome {
    genome.redraw(chance, [STEPS as u64, highest], stream);
    if stream.uniform() < chance {
        genome.n_hat = allowed[stream.below(allowed.len() as u64) as usize];
    }
    genome
}

/// The values of `n_hat` at texts of `length` tokens: where a model has a start of its own, all of it stays or none.
fn first_positions(length: usize, start: Option<usize>) -> Vec<usize> {
    match start {
        Some(start) => vec![0, start],
        None => FIRST_POSITIONS.into_iter().filter(|&n| n < length).collect(),
    }
}

/// Takes every factor from one of two readings.
fn crossed(a: &Genome, b: &Genome, stream: &mut Stream) -> Genome {
    let mut one = |a, b| if stream.below(2) == 0 { a } else { b };
    let mut factors: Vec<u64> = a.factors.iter().zip(&b.factors).map(|(&a, &b)| one(a, b)).collect();
    factors.sort_unstable();
    let n_hat = if stream.below(2) == 0 { a.n_hat } else { b.n_hat };
    Genome { factors, n_hat, critical: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_keep_the_bounds_and_the_order() {
        let mut stream = Stream::new(0, "test", 0);
        let parent = |factors: Vec<u64>| Genome { factors, n_hat: 4, critical: None };
        let (a, b) = (parent(vec![100, 200, 400]), parent(vec![150, 150, 500]));
        for _ in 0..200 {
            let child = mutated(a.clone(), 0.5, 500, &first_positions(16, None), &mut stream);
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
