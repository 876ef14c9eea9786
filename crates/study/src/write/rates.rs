//! What a study over learning rates found: the best rate of each combination, and the test there.

use super::tables::{cell, group_of, heading, what_cells_are};
use crate::rates::Choice;
use crate::results::{Measured, Results};
use longwave_eval::{ResultRow, Split, WINDOW_BASELINE};
use longwave_report::grid::{Entry, Grid, Header};

/// Labels, extension, the chosen rate, and the rows there.
type Line<'a> = (Vec<String>, &'a str, Choice, Vec<&'a Measured>);

/// One line for each reading at the best rate of its combination; `None` where no rates were varied beside something else.
pub(super) fn table(results: &Results) -> Option<Grid> {
    let rates = results.rates.as_ref()?;
    let is_read = |it: &&Measured| it.row.extend != WINDOW_BASELINE && it.row.settings.split != Split::Valid;
    let group = group_of(&results.of_last().find(is_read)?.row);
    let rows: Vec<&Measured> =
        results.of_last().filter(|it| is_read(it) && group_of(&it.row) == group).collect();
    let metric = group.0.shown()[0];
    let mut lengths: Vec<usize> = rows.iter().map(|it| it.row.settings.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for it in rows {
        let rest = rates.rest(&it.labels);
        let Some(choice) = rates.choose(&rest, None).filter(|choice| choice.label == it.labels[rates.axis])
        else {
            continue;
        };
        match lines.iter_mut().find(|(known, extend, ..)| (known, *extend) == (&rest, it.extend.as_str())) {
            Some((.., rows)) => rows.push(it),
            None => lines.push((rest, &it.extend, choice, vec![it])),
        }
    }
    let line = |(rest, extend, choice, rows): &Line<'_>| {
        let at = |length: &usize| {
            let rows: Vec<&ResultRow> =
                rows.iter().map(|it| &it.row).filter(|row| row.settings.length == *length).collect();
            if rows.is_empty() { Entry::default() } else { cell(metric, &rows) }
        };
        let spread = choice.deviation.map_or(String::new(), |deviation| format!(" ±{deviation:.4}"));
        let names = rest.iter().map(String::as_str).chain([*extend, choice.label.as_str()]).map(Entry::new);
        names
            .chain([Entry::new(format!("{:.4}{spread}", choice.loss))])
            .chain(lengths.iter().map(at))
            .collect()
    };
    let axes = results.axes.iter().enumerate().filter(|(place, _)| *place != rates.axis);
    let axes = axes.map(|(_, axis)| Header::words(axis.clone()));
    let last = [Header::words("extend"), Header::number("best rate"), Header::number("validation loss")];
    let all: Vec<&ResultRow> = lines.iter().flat_map(|(.., rows)| rows.iter().map(|it| &it.row)).collect();
    let (protocol, split, train_length) = group;
    Some(Grid {
        title: format!(
            "The best rate of each, and the {split} result there: {}, {protocol}, L = {train_length}",
            metric.title()
        ),
        setting: String::new(),
        headers: axes
            .chain(last)
            .chain(lengths.iter().map(|length| Header::number(heading(*length, train_length))))
            .collect(),
        rows: lines.iter().map(line).collect(),
        notes: [
            "The rate of a line has the lowest mean loss on the validation split at the end of training, in nats per token \
             ± standard deviation over seeds."
                .to_owned(),
            what_cells_are(metric, &all),
        ]
        .into_iter()
        .chain(edges(&lines))
        .collect(),
    })
}

/// What may be better beyond the grid.
fn edges(lines: &[Line<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (rest, _, choice, _) in lines {
        let Some(end) = choice.at_edge else { continue };
        let beyond = if end == "smallest" { "smaller" } else { "larger" };
        let note = format!(
            "`{}`: {} is the {end} rate of the grid; a {beyond} one may be better.",
            rest.join(", "),
            choice.label
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}
