//! A study's tables, claims and failures as Markdown.

use crate::claim::Judged;
use crate::plan::Plan;
use crate::results::{Measured, Results};
use crate::statistics::{mean, standard_deviation};
use longwave_eval::{Protocol, Split};
use std::fmt::Write as _;

/// The whole page of a study.
pub fn markdown(name: &str, plan: &Plan, results: &Results, claims: &[Judged]) -> String {
    let mut text = format!("# {name}\n\n");
    text += &progress(plan, results);
    text += &tables(results);
    if !claims.is_empty() {
        text += &claims_table(claims);
    }
    if !results.failures.is_empty() {
        text += "\n## Failed\n\n";
        for (run, failure) in &results.failures {
            let _ = writeln!(text, "- {}: {}", plan.runs[*run].title(), failure.reason);
        }
    }
    text
}

fn progress(plan: &Plan, results: &Results) -> String {
    let (all, failed, missing) = (plan.runs.len(), results.failures.len(), results.missing.len());
    let mut text = format!("{} of {all} runs finished", all - failed - missing);
    if failed > 0 {
        let _ = write!(text, ", {failed} failed");
    }
    if missing > 0 {
        let _ = write!(text, ", {missing} to be done");
    }
    text + ".\n"
}

/// Rows that stand in one table.
type Group = (Protocol, Split, usize);

/// Perplexity by reading and length, one table for each protocol, split and training length.
pub fn tables(results: &Results) -> String {
    let group = |measured: &Measured| -> Group {
        let settings = &measured.row.settings;
        (settings.protocol, settings.split, settings.train_length)
    };
    let mut groups: Vec<Group> = Vec::new();
    for measured in &results.rows {
        if !groups.contains(&group(measured)) {
            groups.push(group(measured));
        }
    }
    let mut text = String::new();
    for wanted in groups {
        let rows: Vec<&Measured> = results.rows.iter().filter(|row| group(row) == wanted).collect();
        text += &table(results, wanted, &rows);
    }
    text
}

fn table(results: &Results, (protocol, split, train_length): Group, rows: &[&Measured]) -> String {
    let mut lengths: Vec<usize> = rows.iter().map(|row| row.row.settings.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut lines: Vec<(&[String], &str)> = Vec::new();
    for row in rows {
        let line = (row.labels.as_slice(), row.extend.as_str());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let head: Vec<String> = results
        .axes
        .iter()
        .cloned()
        .chain(["extend".to_owned()])
        .chain(lengths.iter().map(|length| heading(*length, train_length)))
        .collect();
    let rule = vec!["---"; head.len()].join("|");
    let mut text = format!(
        "\n## Perplexity, {protocol}, {split} split, L = {train_length}\n\n| {} |\n|{rule}|\n",
        head.join(" | ")
    );
    for (labels, extend) in lines {
        let cells = lengths.iter().map(|&length| {
            let of_cell = rows.iter().filter(|row| {
                row.labels == labels && row.extend == extend && row.row.settings.length == length
            });
            cell(&of_cell.copied().collect::<Vec<_>>())
        });
        let line: Vec<String> = labels.iter().cloned().chain([extend.to_owned()]).chain(cells).collect();
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
    text + "\nMean over seeds ± standard deviation over seeds; in parentheses the standard error over documents.\n"
}

fn heading(length: usize, train_length: usize) -> String {
    match length / train_length {
        1 if length == train_length => format!("{length} (L)"),
        times if length == times * train_length => format!("{length} ({times}L)"),
        _ => length.to_string(),
    }
}

fn cell(rows: &[&Measured]) -> String {
    let ppl: Vec<f64> = rows.iter().map(|row| row.row.ppl).collect();
    let Some(middle) = mean(&ppl) else { return String::new() };
    let mut text = number(middle);
    if let Some(deviation) = standard_deviation(&ppl).filter(|deviation| deviation.is_finite()) {
        let _ = write!(text, " ±{}", number(deviation));
    }
    let errors: Vec<f64> = rows.iter().filter_map(|row| row.row.ppl_se()).collect();
    if let Some(error) = mean(&errors) {
        let _ = write!(text, " ({})", number(error));
    }
    text
}

/// Four digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{value:.2e}"),
        large if large >= 1000.0 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn claims_table(claims: &[Judged]) -> String {
    let mut text = "\n## Claims\n\n| claim | tolerance | difference | adjusted interval | bootstrap 95% | p (Holm) | seeds, documents | verdict |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for claim in claims {
        let difference = claim.difference.as_ref();
        let pair = |ends: Option<(f64, f64)>| {
            ends.map_or("-".to_owned(), |(low, high)| format!("{low:+.4} to {high:+.4}"))
        };
        let cells = [
            claim.says.clone(),
            claim.tolerance.to_string(),
            difference.map_or("not measured".to_owned(), |it| format!("{:+.4}", it.mean)),
            claim.interval.map_or("-".to_owned(), |interval| {
                format!("{} ({:.2}%)", pair(Some((interval.low, interval.high))), 100.0 * claim.level)
            }),
            pair(difference.and_then(|difference| difference.bootstrap)),
            claim.p.map_or("-".to_owned(), |p| if p < 1e-4 { format!("{p:.1e}") } else { format!("{p:.4}") }),
            difference.map_or("-".to_owned(), |it| format!("{}, {}", it.seeds, it.documents)),
            format!("**{}**", claim.verdict.word()),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text + "\nDifferences in nats per token, left side minus right, paired by seed and by document.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn a_line_for_each_reading_and_a_column_for_each_length() {
        let text = tables(&results());
        assert!(text.contains("| position | extend | 256 (2L) | 512 (4L) |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| rope |")).count(), 2);
        let line = text.lines().find(|line| line.starts_with("| alibi | ntk |")).unwrap();
        assert_eq!(line.matches('±').count(), 2, "{line}");
    }

    #[test]
    fn numbers_keep_few_digits() {
        assert_eq!(
            [number(12.345), number(123.45), number(12345.6), number(1e9)],
            ["12.35", "123.5", "12346", "1.00e9"]
        );
    }
}
