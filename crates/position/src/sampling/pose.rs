//! Positional skip-wise training: a short row stands for a long one.
//!
//! A row of N tokens is two chunks. The first, of 1 to (N + 1) / 2 tokens, reads positions 0, 1, ..; the second
//! reads on after a gap of 0 to `max_position` - N positions, so that distances up to the longer length are met in
//! rows of N tokens (Zhu et al. 2023, arXiv:2309.10400, section 3.2, two chunks). The second chunk's tokens skip ahead
//! in the text by an amount of its own. The target of a token is the one that follows it in the text, also at the
//! gap.

use longwave_core::random::Stream;

/// The two chunks of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pose {
    /// N, tokens in the row.
    pub length: usize,
    /// Tokens in the first chunk, at least 1.
    pub split: usize,
    /// Positions left out between the chunks.
    pub shift: usize,
    /// Tokens of the text left out between the chunks.
    pub skip: usize,
}

impl Pose {
    /// Draws a row of `length` tokens that leaves out up to so many positions and tokens.
    pub fn draw(stream: &mut Stream, length: usize, (most_shift, most_skip): (usize, usize)) -> Self {
        let mut below = |bound: usize| stream.below(bound as u64) as usize;
        Self {
            length,
            split: 1 + below(length.div_ceil(2)),
            shift: below(most_shift + 1),
            skip: below(most_skip + 1),
        }
    }

    /// The row's positions, `[length]`.
    pub fn positions(&self) -> impl Iterator<Item = f64> {
        self.after_the_split(self.shift).map(|position| position as f64)
    }

    /// Which tokens of the text the row reads, `[length]`, counted from its start.
    pub fn token_indices(&self) -> impl Iterator<Item = usize> {
        self.after_the_split(self.skip)
    }

    fn after_the_split(&self, gap: usize) -> impl Iterator<Item = usize> + use<> {
        let split = self.split;
        (0..self.length).map(move |t| if t < split { t } else { t + gap })
    }
}
