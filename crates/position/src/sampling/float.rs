//! Random floats as positions: sorted real numbers in place of whole ones.
//!
//! N tokens read N positions drawn independently and uniformly from `[0, span)`, sorted; the same for queries and keys and
//! for all rows of a batch, and others at every step (Random Float Sampling, arXiv:2602.14050, with the range `[0, 1)`).
//! A text is then read at the middles of equal cells of the range, `span (2t + 1) / (2 max(L, L'))` for the token t: one
//! no longer than L uses its own part of the range, a longer one all of it, more densely (the extension `float`).
//! `span` is this project's: a rotation or a bias by distance sees little of a range of one position.

use crate::positions::Positions;
use longwave_core::random::Stream;

/// `count` numbers, each uniform in `[0, 1)`.
pub fn sample(stream: &mut Stream, count: usize) -> Vec<f64> {
    (0..count).map(|_| stream.uniform()).collect()
}

/// The positions of a sample, `[1, count]`: the same for all rows, in order.
pub fn positions(mut sample: Vec<f64>, span: f64) -> Positions {
    sample.sort_unstable_by(f64::total_cmp);
    Positions::drawn(1, sample.into_iter().map(|number| span * number).collect::<Vec<_>>())
}

/// The positions of a text of `length` tokens, `[1, length]`: the middles of the first of `cells` equal parts of the span.
pub fn grid(length: usize, cells: usize, span: f64) -> Positions {
    let middle = |t: usize| span * (2 * t + 1) as f64 / (2 * cells) as f64;
    Positions::drawn(1, (0..length).map(middle).collect::<Vec<_>>())
}
