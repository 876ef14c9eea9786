//! What a study over learning rates found: the best rate of each combination, and the test there.

use super::tables::{grid, group_of, length, lines, names};
use crate::rates::Choice;
use crate::results::{Measured, Results};
use longwave_eval::{Settings, Split, WINDOW_BASELINE};
use longwave_report::Grid;
use longwave_report::block::heading;
use longwave_report::grid::Header;
use longwave_train::run::CheckpointId;

/// One line for each reading at the best rate of its combination; `None` where no rates were varied beside something else.
pub(super) fn table(results: &Results) -> Option<Grid> {
    let rates = results.rates.as_ref()?;
    let is_read = |it: &&Measured| it.row.extend != WINDOW_BASELINE && it.row.settings.split != Split::Valid;
    let group = group_of(&results.of_last().find(is_read)?.row);
    let rows = results.of_last().filter(|it| is_read(it) && group_of(&it.row) == group);
    let mut edges: Vec<String> = Vec::new();
    let at_best = rows.filter_map(|it| {
        let rest = rates.rest(&it.labels);
        let choice = rates.choose(&rest, None).filter(|choice| choice.label == it.labels[rates.axis])?;
        edges.extend(edge(&rest, &choice).filter(|note| !edges.contains(note)));
        let spread = choice.deviation.map_or(String::new(), |deviation| format!(" ±{deviation:.4}"));
        let found = vec![choice.label, format!("{:.4}{spread}", choice.loss)];
        Some(([names(&rest, &it.extend), found].concat(), length(&it.row), &it.row))
    });
    let lines = lines(at_best);
    let axes = results.axes.iter().enumerate().filter(|(place, _)| *place != rates.axis);
    let axes = axes.map(|(_, axis)| Header::words(axis.clone()));
    let last = [Header::words("extend"), Header::number("best rate"), Header::number("validation loss")];
    let Settings { protocol, split, train_length, .. } = group.settings;
    let metric = protocol.shown()[0];
    let apart: String = group.apart(&results.rows).iter().flat_map(|part| [", ", part.as_str()]).collect();
    let title = format!(
        "The best rate of each, and the {split} result there: {}, {protocol}, L = {train_length}{apart}",
        metric.title()
    );
    let mut table = grid(title, metric, axes.chain(last), |at| heading(at as usize, train_length), &lines);
    let mut read = lines.iter().flat_map(|(_, rows)| rows.values().flatten());
    let is_best = read.any(|row| row.checkpoint == CheckpointId::Best.name());
    let tested = if is_best { "the best step of each run" } else { "the end of training" };
    let rate = format!(
        "The rate of a line has the lowest mean loss on the validation split at {tested}, in nats per token ± standard \
         deviation over seeds."
    );
    table.notes.insert(0, rate);
    table.notes.extend(edges);
    Some(table)
}

/// What may be better beyond the grid.
fn edge(rest: &[String], choice: &Choice) -> Option<String> {
    let end = choice.at_edge?;
    let beyond = if end == "smallest" { "smaller" } else { "larger" };
    let (rest, rate) = (rest.join(", "), &choice.label);
    let of = if choice.lacks_rates { "that has all its runs" } else { "of the grid" };
    Some(format!("`{rest}`: {rate} is the {end} rate {of}; a {beyond} one may be better."))
}
