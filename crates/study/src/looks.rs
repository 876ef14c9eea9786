//! After how many seeds the claims of a study are judged.
//!
//! A study with a number of seeds is judged once. With `seeds = "until decided"` it is judged after 3 seeds and then each
//! time that it has 1.6 times as many, up to `max_seeds`. Looking several times gives chance several turns, so each of the
//! `K` looks has `1 / K` of the probability of a wrong verdict: by the union bound (Bonferroni), all looks together have no
//! more than one look of a study with a fixed number of seeds.

use crate::words::listed;

/// The probability of a wrong verdict that all claims of a study together may have, over all looks.
pub const ALPHA: f64 = 0.05;

/// The most seeds of `seeds = "until decided"` unless `max_seeds` says otherwise.
pub const MAX_SEEDS: u64 = 12;

const FIRST: usize = 3;

/// How many times more seeds the next look has.
const GROWTH: f64 = 1.6;

/// The numbers of seeds after which claims are judged, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks(Vec<usize>);

impl Looks {
    /// Claims are judged once, after all seeds.
    pub fn once(seeds: usize) -> Self {
        Self(vec![seeds])
    }

    /// Claims are judged until they are decided, after `most` seeds for the last time.
    pub fn until(most: usize) -> Self {
        let next = |seeds: &usize| Some((*seeds as f64 * GROWTH).ceil() as usize);
        // A last look right after another one would have little that is new.
        let before_last = |seeds: &usize| (*seeds as f64) * (1.0 + (GROWTH - 1.0) / 2.0) < most as f64;
        let mut looks: Vec<usize> =
            std::iter::successors(Some(FIRST), next).take_while(before_last).collect();
        looks.push(most);
        Self(looks)
    }

    pub fn seeds(&self) -> &[usize] {
        &self.0
    }

    pub fn first(&self) -> usize {
        self.0[0]
    }

    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The probability of a wrong verdict that all claims together may have at one look.
    pub fn alpha(&self) -> f64 {
        ALPHA / self.0.len() as f64
    }

    /// The looks in words: `3, 5, 8 and 12`.
    pub fn in_words(&self) -> String {
        listed(&self.0.iter().map(ToString::to_string).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_up_to_the_most() {
        assert_eq!(Looks::until(12).seeds(), [3, 5, 8, 12]);
        assert_eq!(Looks::until(20).seeds(), [3, 5, 8, 13, 20]);
        assert_eq!(Looks::until(9).seeds(), [3, 5, 9]);
        assert_eq!(Looks::until(3).seeds(), [3]);
        assert_eq!(Looks::until(2).seeds(), [2]);
        assert_eq!(Looks::once(7).seeds(), [7]);
        assert_eq!((Looks::until(12).alpha(), Looks::once(7).alpha()), (0.0125, 0.05));
        assert_eq!(Looks::until(12).in_words(), "3, 5, 8 and 12");
    }
}
