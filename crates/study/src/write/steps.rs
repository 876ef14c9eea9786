//! How the runs of a study read along their training: a line for each reading and length, a column for each step whose
//! checkpoint was kept, and the end.

use super::tables::{Group, grid, group_of, length, lines, names};
use crate::results::Results;
use longwave_core::in_order::distinct;
use longwave_report::Grid;
use longwave_report::block::heading;
use longwave_report::grid::Header;

/// One table for each protocol, split and training length of which kept checkpoints were read.
pub(super) fn tables(results: &Results) -> Vec<Grid> {
    let kept = results.rows.iter().filter(|measured| measured.row.is_of_kept_step());
    let groups = distinct(kept.map(|measured| group_of(&measured.row)));
    groups.iter().map(|group| table(results, group)).collect()
}

fn table(results: &Results, group: &Group) -> Grid {
    let train_length = group.settings.train_length;
    let rows = results.rows.iter().filter(|measured| group_of(&measured.row) == *group);
    // Checkpoints were read one after the other; the lengths of a reading belong together, in their order.
    let readings = lines(rows.map(|it| (names(&it.labels, &it.extend), length(&it.row), &it.row)));
    let mut by_step = Vec::new();
    for (names, lengths) in readings {
        // A reading of the end alone stands in the table by length.
        let kept = lengths.into_iter().filter(|(_, rows)| rows.iter().any(|row| row.is_of_kept_step()));
        for (length, rows) in kept {
            let names = [names.clone(), vec![heading(length as usize, train_length)]].concat();
            by_step.extend(rows.into_iter().map(|row| (names.clone(), row.step, row)));
        }
    }
    let lines = lines(by_step);
    let metric = group.settings.protocol.shown()[0];
    let title = group.title(metric, &results.rows) + ", by training step";
    let headers = results.axes.iter().map(String::as_str).chain(["extend", "length"]).map(Header::words);
    grid(title, metric, headers, |step| format!("step {step}"), &lines)
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
