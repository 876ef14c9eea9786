//! The loss by position as a table: ranges of places across, readings down.

use super::order::sorted;
use super::words::{layout, marks, text_of};
use super::{Cell, Table, TableRow, label_headers, labels, mark_best, runs_of};
use crate::block::{Block, Line};
use crate::curve::{Span, longest_with_curve, loss_within, rows_with_curve, spans};
use longwave_eval::Metric;

/// A table has up to so many ranges of places; the chart and the rows have every bucket.
const RANGES: usize = 8;

impl Table {
    /// The loss by position at the longest length that has it; `None` where none has.
    pub fn by_position(block: &Block) -> Option<Self> {
        let order = block.settings.protocol.shown()[0];
        let obstacle = block.obstacle(Metric::Loss);
        let mut block = sorted(block, order);
        let length = longest_with_curve(&block, block.lines.iter())?;
        block.lines.retain(|line| !rows_with_curve(line, length).is_empty());
        let bucket = block.settings.protocol.bucket(&block.settings.keys).unwrap_or(1);
        let spans = spans(length, range_width(length, bucket));
        let cell = |line: &Line, span: Span| {
            let rows = rows_with_curve(line, length);
            let losses: Vec<f64> = rows.iter().filter_map(|row| loss_within(row, span)).collect();
            Cell::of_seeds(Metric::Loss, &losses)
        };
        let row = |line| TableRow {
            labels: labels(&block, line),
            cells: spans.iter().map(|span| cell(line, *span)).collect(),
        };
        let mut rows: Vec<TableRow> = block.lines.iter().map(row).collect();
        mark_best(&block, &mut rows);
        let cells: Vec<&Cell> = rows.iter().flat_map(|row| row.cells.iter().flatten()).collect();
        let mut notes = marks(&block, &cells, order, "column");
        notes.push("the columns score different tokens, each the same ones in every row".into());
        if cells.iter().any(|cell| cell.error.is_some()) {
            notes.insert(0, "± is one standard deviation over seeds".into());
        }
        Some(Self {
            metric: Metric::Loss,
            title: format!("Loss by position of {}, at {length} tokens{}", runs_of(&block), text_of(&block)),
            setting: format!(
                "{}; mean loss in nats per token, columns are ranges of the tokens of context",
                layout(&block.settings)
            ),
            label_headers: label_headers(&block),
            columns: spans.iter().map(|span| format!("{}-{}", span.first, span.last)).collect(),
            rows,
            compares: obstacle.is_none(),
            notes: obstacle.into_iter().chain(notes).collect(),
        })
    }
}

/// Places of a range: whole buckets, as few as make no more than [`RANGES`].
fn range_width(length: usize, bucket: usize) -> usize {
    length.div_ceil(bucket).div_ceil(RANGES) * bucket
}
