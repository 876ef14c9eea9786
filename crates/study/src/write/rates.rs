//! What a study over learning rates found: the best rate of each combination, and the test there.

use super::tables::{Group, grid, group_of, length, lines, names};
use crate::rates::{Choice, Rates};
use crate::results::{Measured, Results};
use longwave_core::in_order::grouped;
use longwave_eval::{Settings, Split, WINDOW_BASELINE};
use longwave_report::Grid;
use longwave_report::block::heading;
use longwave_report::grid::Header;
use longwave_train::run::CheckpointId;

/// One table for each protocol, split and training length, as [`tables`](super::tables::tables) has; none where no rates were varied
/// beside something else.
pub(super) fn tables(results: &Results) -> Vec<Grid> {
    let Some(rates) = &results.rates else { return Vec::new() };
    let is_read = |it: &&Measured| it.row.extend != WINDOW_BASELINE && it.row.settings.split != Split::Valid;
    let groups = grouped(results.of_last().filter(is_read).map(|it| (group_of(&it.row), it)));
    groups.iter().filter_map(|(group, rows)| table(results, rates, group, rows)).collect()
}

/// One line for each reading at the best rate of its combination; `None` where no combination has one.
fn table(results: &Results, rates: &Rates, group: &Group, rows: &[&Measured]) -> Option<Grid> {
    let mut edges: Vec<String> = Vec::new();
    let at_best = rows.iter().filter_map(|it| {
        let rest = rates.rest(&it.labels);
        let choice = rates.choose(&rest, None).filter(|choice| choice.label == it.labels[rates.axis])?;
        edges.extend(edge(&rest, &choice).filter(|note| !edges.contains(note)));
        let spread = choice.deviation.map_or(String::new(), |deviation| format!(" ±{deviation:.4}"));
        let found = vec![choice.label, format!("{:.4}{spread}", choice.loss)];
        Some(([names(&rest, &it.extend), found].concat(), length(&it.row), &it.row))
    });
    let lines = lines(at_best);
    if lines.is_empty() {
        return None;
    }
    let axes = results.axes.iter().enumerate().filter(|(place, _)| *place != rates.axis);
    let axes = axes.map(|(_, axis)| Header::words(axis.clone()));
    let last = [Header::words("extend"), Header::number("best rate"), Header::number("validation loss")];
    let Settings { protocol, split, train_length, .. } = group.settings;
    let metric = protocol.shown()[0];
    let (tokens, apart) = (group.tokens(), group.apart(&results.rows));
    let title = format!(
        "The best rate of each, and the {split} result there: {}, {protocol}{tokens}, L = {train_length}{apart}",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::row;
    use crate::rates::Trained;
    use crate::results::tests::results;

    #[test]
    fn every_training_length_has_its_best_rates_and_their_edges() {
        let (mut runs, mut rows) = (Vec::new(), Vec::new());
        for position in ["rope", "alibi"] {
            for train_length in [16_usize, 32] {
                for (rate, loss) in [(0.001_f64, 3.0), (0.01, 2.0)] {
                    let (run, label) = (runs.len(), rate.to_string());
                    let rest = vec![position.to_owned(), train_length.to_string()];
                    let labels = [rest.clone(), vec![label.clone()]].concat();
                    runs.push(Trained { run, rest, label, rate, seed: 0, loss: Some(loss) });
                    let mut row = row("direct", 2 * train_length, 0, &[loss]);
                    row.settings.train_length = train_length;
                    rows.push(Measured { run, labels, extend: "direct".to_owned(), row });
                }
            }
        }
        let mut results = results();
        assert!(tables(&results).is_empty());
        results.axes = ["position", "train.length", "train.learning_rate"].map(str::to_owned).to_vec();
        (results.seeds, results.rows, results.rates) = (1, rows, Some(Rates::new(2, runs)));
        let found = tables(&results);
        assert_eq!(found.len(), 2);
        for (table, train_length) in found.iter().zip([16, 32]) {
            let text = table.markdown_at(2);
            let title = format!(
                "## The best rate of each, and the test result there: Perplexity, fixed_target, L = {train_length}\n"
            );
            assert!(text.starts_with(&title), "{text}");
            for position in ["rope", "alibi"] {
                // exp 2.
                let line = format!("| {position} | {train_length} | direct | 0.01 | 2.0000 | 7.39 |");
                assert!(text.contains(&line), "{line} {text}");
                let edge = format!("`{position}, {train_length}`: 0.01 is the largest rate of the grid");
                assert!(text.contains(&edge), "{edge} {text}");
            }
            assert_eq!(table.rows.len(), 2, "{text}");
        }
    }
}
