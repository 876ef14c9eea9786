//! How the tokens of a text are laid out over positions when it is read.

use crate::positions::Positions;
use crate::sampling::segments::Segments;
use crate::sampling::{float, randpos};
use longwave_core::random::Stream;

/// The positions of a text of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TextLayout {
    /// 0, 1, 2, ..
    #[default]
    Contiguous,
    /// An ordered random subset of the positions below `max_position`; the same for the same length.
    Drawn {
        /// Positions lie below it.
        max_position: usize,
        /// Decides the subset.
        seed: u64,
    },
    /// The middles of equal cells of a range, as a training at drawn real positions is read.
    Cells {
        /// Cells in the whole range, of which a text takes the first.
        count: usize,
        /// The end of the range.
        span: f64,
    },
    /// Independent segments of `length` tokens, each from position 0: no attention crosses their borders.
    Segments {
        /// Tokens of a segment.
        length: usize,
    },
    /// Segments of `length` tokens, one after the other, each of which also sees what the blocks were
    /// given for the `memory` tokens before it (Dai et al. 2019, arXiv:1901.02860, section 3.2). Positions
    /// count on.
    Recurrent {
        /// Tokens of a segment.
        length: usize,
        /// Tokens that are carried over.
        memory: usize,
    },
}

impl TextLayout {
    /// The positions of a text of `length` tokens, `[1, length]`.
    pub fn positions(self, length: usize) -> Positions {
        match self {
            Self::Contiguous | Self::Recurrent { .. } => Positions::range(0..length),
            Self::Drawn { max_position, seed } => {
                let mut stream = Stream::new(seed, "positions of a reading", length as u64);
                randpos::positions(randpos::sample(&mut stream, length, max_position))
            }
            Self::Cells { count, span } => float::grid(length, count, span),
            Self::Segments { length: segment } => {
                Positions::explicit(1, Segments::uniform(length, segment).positions())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_layout_repeats_and_fills_the_range() {
        let layout = TextLayout::Drawn { max_position: 64, seed: 0 };
        assert_eq!(layout.positions(16), layout.positions(16));
        assert_ne!(layout.positions(16), TextLayout::Drawn { max_position: 64, seed: 1 }.positions(16));
        assert_eq!(layout.positions(64).values(), Positions::range(0..64).values());
        assert!(layout.positions(16).values().windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn cells_fill_the_range_and_short_texts_their_own_part() {
        let layout = TextLayout::Cells { count: 4, span: 16.0 };
        assert_eq!(layout.positions(4).values(), [2.0, 6.0, 10.0, 14.0]);
        assert_eq!(layout.positions(2).values(), [2.0, 6.0]);
        assert_eq!(layout.positions(2).keys_seen().collect::<Vec<_>>(), [1.0, 2.0], "tokens are counted");
    }

    #[test]
    fn segments_begin_at_zero_and_a_memory_counts_on() {
        let segments = TextLayout::Segments { length: 3 };
        assert_eq!(segments.positions(7).values(), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0]);
        assert_eq!(TextLayout::Recurrent { length: 3, memory: 2 }.positions(7), Positions::range(0..7));
    }
}
