//! The order of a table's lines.

use super::Cell;
use crate::block::{Block, Line};
use longwave_eval::Metric;

pub(super) fn length_of_order(block: &Block) -> usize {
    let wanted = 8 * block.settings.train_length;
    let longest = block.lengths.last().copied().unwrap_or(wanted);
    if block.lengths.contains(&wanted) { wanted } else { longest }
}

/// The block with each run's lines from the best to the worst; lines without a value stand last. Where a task was asked in
/// several ways, they keep the order of these.
pub(super) fn sorted<'a>(block: &Block<'a>, metric: Metric) -> Block<'a> {
    if block.tasks().len() > 1 {
        return block.clone();
    }
    let length = length_of_order(block);
    let runs: Vec<String> = block.runs().into_iter().map(str::to_owned).collect();
    let place = |line: &Line| {
        let cell = Cell::new(metric, line.rows.get(&length).map_or(&[][..], Vec::as_slice));
        let value = cell.map_or(f64::NAN, |cell| cell.value);
        let value = if metric.lower_is_better() { value } else { -value };
        // Positive NaN orders last.
        let value = if value.is_nan() { f64::NAN.abs() } else { value };
        (runs.iter().position(|run| *run == line.run), value)
    };
    let mut sorted = block.clone();
    sorted.lines.sort_by(|a, b| {
        let ((run_a, a), (run_b, b)) = (place(a), place(b));
        run_a.cmp(&run_b).then(a.total_cmp(&b))
    });
    sorted
}
