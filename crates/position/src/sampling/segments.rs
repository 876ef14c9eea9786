//! Segments: pieces of a text whose positions each begin at 0.
//!
//! Token t of segment s reads position `start_s + t`, t counted inside the segment. Attention does not cross
//! a border, and the losses of all tokens are combined: segment-wise training and reading, the plainest way
//! around a table of positions that ends. Uniform segments from 0 read position t mod `segment`.

use std::ops::Range;

/// Consecutive segments of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    lengths: Vec<usize>,
    starts: Vec<usize>,
}

impl Segments {
    /// Segments of the given lengths, in tokens, with the first position of each.
    ///
    /// # Panics
    /// There are not as many starts as lengths.
    pub fn new(lengths: Vec<usize>, starts: Vec<usize>) -> Self {
        assert_eq!(lengths.len(), starts.len(), "one start per segment");
        Self { lengths, starts }
    }

    /// A text of `length` tokens in segments of `segment`, the last one shorter where it does not divide,
    /// all from position 0.
    ///
    /// # Panics
    /// `segment` is 0.
    pub fn uniform(length: usize, segment: usize) -> Self {
        let lengths: Vec<usize> =
            (0..length).step_by(segment).map(|start| segment.min(length - start)).collect();
        Self { starts: vec![0; lengths.len()], lengths }
    }

    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// The position of every token, `[tokens]`.
    pub fn positions(&self) -> Vec<f64> {
        let pairs = self.lengths.iter().zip(&self.starts);
        pairs.flat_map(|(&length, &start)| (start..start + length).map(|position| position as f64)).collect()
    }

    /// The segment of every token, `[tokens]`.
    pub fn of_tokens(&self) -> Vec<usize> {
        self.lengths.iter().enumerate().flat_map(|(index, &length)| vec![index; length]).collect()
    }

    /// The tokens of each segment.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end - length..*end)
        })
    }
}
