//! How the runs of a study read along their training: a line for each reading and length, a column for each step whose
//! checkpoint was kept, and the end.

use super::tables::{Group, cell, group_of, heading, what_cells_are};
use crate::results::{Measured, Results};
use longwave_eval::{Metric, ResultRow};
use longwave_report::grid::{Entry, Grid, Header};
use std::collections::{BTreeMap, BTreeSet};

/// Labels, extension and length of a line.
type Line<'a> = (&'a [String], &'a str, usize);

/// One table for each protocol, split and training length of which kept checkpoints were read.
pub(super) fn tables(results: &Results) -> Vec<Grid> {
    let mut groups: Vec<Group> = Vec::new();
    for measured in results.rows.iter().filter(|measured| measured.row.is_of_kept_step()) {
        let group = group_of(&measured.row);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.into_iter().map(|group| table(results, group)).collect()
}

fn table(results: &Results, group: Group) -> Grid {
    let (protocol, split, train_length) = group;
    let metric = protocol.shown()[0];
    let mut lines: Vec<(Line<'_>, BTreeMap<u64, Vec<&ResultRow>>)> = Vec::new();
    for measured in results.rows.iter().filter(|measured| group_of(&measured.row) == group) {
        let Measured { labels, extend, row, .. } = measured;
        let line = (labels.as_slice(), extend.as_str(), row.settings.length);
        let place = lines.iter().position(|(known, _)| *known == line).unwrap_or_else(|| {
            lines.push((line, BTreeMap::new()));
            lines.len() - 1
        });
        lines[place].1.entry(row.step).or_default().push(row);
    }
    // A reading of the end alone stands in the table by length.
    lines.retain(|(_, steps)| steps.values().flatten().any(|row| row.is_of_kept_step()));
    // Checkpoints were read one after the other; the lengths of a reading belong together, in their order.
    let mut readings: Vec<(&[String], &str)> = Vec::new();
    for ((labels, extend, _), _) in &lines {
        if !readings.contains(&(*labels, *extend)) {
            readings.push((labels, extend));
        }
    }
    let place =
        |labels: &[String], extend: &str| readings.iter().position(|reading| *reading == (labels, extend));
    lines.sort_by_key(|((labels, extend, length), _)| (place(labels, extend), *length));
    let steps: BTreeSet<u64> = lines.iter().flat_map(|(_, steps)| steps.keys().copied()).collect();
    let all: Vec<&ResultRow> =
        lines.iter().flat_map(|(_, steps)| steps.values().flatten()).copied().collect();
    let names = results.axes.iter().map(String::as_str).chain(["extend", "length"]);
    Grid {
        title: format!("{}, {protocol}, {split} split, L = {train_length}, by training step", metric.title()),
        setting: String::new(),
        headers: names
            .map(Header::words)
            .chain(steps.iter().map(|step| Header::number(format!("step {step}"))))
            .collect(),
        rows: lines.iter().map(|(line, found)| entries(metric, train_length, *line, found, &steps)).collect(),
        notes: vec![what_cells_are(metric, &all)],
    }
}

fn entries(
    metric: Metric,
    train_length: usize,
    (labels, extend, length): Line<'_>,
    found: &BTreeMap<u64, Vec<&ResultRow>>,
    steps: &BTreeSet<u64>,
) -> Vec<Entry> {
    let names = labels.iter().map(String::as_str).chain([extend]).map(Entry::new);
    let at = |step| found.get(step).map_or_else(Entry::default, |rows| cell(metric, rows));
    names.chain([Entry::new(heading(length, train_length))]).chain(steps.iter().map(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn a_column_for_each_step_and_a_line_for_each_length() {
        let mut results = results();
        assert!(tables(&results).is_empty());
        let mut kept = results.rows.clone();
        kept.retain(|measured| measured.extend == "ntk" && measured.labels[0] == "rope");
        for measured in &mut kept {
            measured.row.checkpoint = "step-3".to_owned();
            measured.row.step = 3;
        }
        results.rows.extend(kept);
        let [table] = tables(&results).try_into().unwrap();
        let text = table.markdown_at(2);
        assert!(
            text.starts_with("## Perplexity, fixed_target, test split, L = 128, by training step"),
            "{text}"
        );
        assert!(text.contains("| position | extend | length | step 3 | step 6 |"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| rope |")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].starts_with("| rope | ntk | 256 (2L) |") && lines[1].contains("| 512 (4L) |"),
            "{text}"
        );
        assert!(!text.contains("| alibi |"), "{text}");
    }
}
