//! The loss by position of a line, in buckets of places or in wider ranges of them.

use crate::block::{Block, Line};
use longwave_eval::ResultRow;

/// Places of the window, as numbers of tokens of context: the target at place p has p + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// The rows of a line that have a curve at a length, one per seed.
pub(crate) fn rows_with_curve<'a>(line: &Line<'a>, length: usize) -> Vec<&'a ResultRow> {
    let rows = line.rows.get(&length).map_or(&[][..], Vec::as_slice);
    rows.iter().copied().filter(|row| row.positions.is_some()).collect()
}

/// The longest length at which one of the lines has a curve.
pub(crate) fn longest_with_curve<'a>(
    block: &Block<'_>,
    lines: impl Iterator<Item = &'a Line<'a>> + Clone,
) -> Option<usize> {
    let has_curve = |length: &usize| lines.clone().any(|line| !rows_with_curve(line, *length).is_empty());
    block.lengths.iter().copied().rev().find(has_curve)
}

/// Ranges of `width` places of a window of `length`; the last may be shorter.
pub(crate) fn spans(length: usize, width: usize) -> Vec<Span> {
    let first = (0..length).step_by(width);
    first.map(|first| Span { first: first + 1, last: (first + width).min(length) }).collect()
}

/// The mean loss of a row within a range of whole buckets, in nats per token; `None` where nothing was scored.
pub(crate) fn loss_within(row: &ResultRow, span: Span) -> Option<f64> {
    let places = row.positions.iter().flatten();
    let within = places.filter(|place| (span.first..=span.last).contains(&(place.position + 1)));
    let (sum, tokens) = within.fold((0.0, 0), |(sum, tokens), place| {
        (sum + place.nll * place.tokens as f64, tokens + place.tokens)
    });
    (tokens > 0).then(|| sum / tokens as f64)
}
