//! A study's tables, claims and failures as Markdown.

use crate::judge::Judged;
use crate::plan::Plan;
use crate::ranking::Ranking;
use crate::results::{Measured, Results};
use crate::statistics::mean;
use longwave_eval::{Metric, Protocol, ResultRow, Split};
use longwave_position::Tokens;
use longwave_report::grid::markdown_text;
use longwave_report::table::{Cell, Spread, percent};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// The whole page of a study.
pub fn markdown(
    name: &str,
    plan: &Plan,
    results: &Results,
    claims: &[Judged],
    best: Option<&(Tokens, Ranking)>,
) -> String {
    let mut text = format!("# {name}\n\n");
    text += &progress(plan, results);
    text += &tables(results);
    if !claims.is_empty() {
        text += &claims_table(claims);
    }
    let left_out = plan.left_out();
    if !left_out.is_empty() {
        text += "\n## Left out\n\nEvaluations that do not apply to these runs:\n\n";
        for one in left_out {
            let _ = writeln!(text, "- {}", markdown_text(&one));
        }
    }
    if !results.failures.is_empty() {
        text += "\n## Failed\n\n";
        for (run, failure) in &results.failures {
            let _ = writeln!(
                text,
                "- {}: {}",
                markdown_text(&plan.runs[*run].title()),
                markdown_text(&failure.reason)
            );
        }
    }
    if let Some((at, ranking)) = best {
        text += &ranking_table(*at, ranking);
    }
    text
}

/// What is the best at one length, and by how much.
fn ranking_table(at: Tokens, ranking: &Ranking) -> String {
    let metric = ranking.metric;
    let is_loss = metric == Metric::Loss;
    let name = if is_loss { "perplexity".to_owned() } else { metric.title().to_lowercase() };
    let mut text = format!(
        "\n## Best at {}\n\n| | reading | {name} | difference to the best | adjusted interval | p (Holm) |\n|---|---|---|---|---|---|\n",
        at.text()
    );
    for (place, one) in (1..).zip(&ranking.ranked) {
        let value =
            if is_loss { number(one.value.exp()) } else { format!("{:.1}", metric.factor() * one.value) };
        let difference = one.difference.as_ref().map_or("-".to_owned(), |it| format!("{:+.4}", it.mean));
        let interval = one.interval.map_or("-".to_owned(), |it| format!("{:+.4} to {:+.4}", it.low, it.high));
        let p = one.p.map_or("-".to_owned(), p_value);
        let _ = writeln!(
            text,
            "| {place} | {} | {value} | {difference} | {interval} | {p} |",
            markdown_text(&one.name)
        );
    }
    let _ = writeln!(text, "\nDifferences in {}, paired by seed and by document.\n", metric.unit());
    text + &markdown_text(&ranking.sentence(&at.text())) + "\n"
}

fn p_value(p: f64) -> String {
    if p < 1e-4 { format!("{p:.1e}") } else { format!("{p:.4}") }
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

/// The rows of one table's line by length.
type Cells<'a> = BTreeMap<usize, Vec<&'a ResultRow>>;

/// By reading and length what the protocol is about: perplexity, accuracy or exact match. One table for each
/// protocol, split and training length.
pub fn tables(results: &Results) -> String {
    let mut groups: Vec<(Group, Vec<&Measured>)> = Vec::new();
    for measured in &results.rows {
        let settings = &measured.row.settings;
        let group = (settings.protocol, settings.split, settings.train_length);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, rows)) => rows.push(measured),
            None => groups.push((group, vec![measured])),
        }
    }
    let mut text = String::new();
    for (group, rows) in &groups {
        for &metric in group.0.shown() {
            text += &table(results, metric, *group, rows);
        }
    }
    text
}

fn table(
    results: &Results,
    metric: Metric,
    (protocol, split, train_length): Group,
    rows: &[&Measured],
) -> String {
    let mut lengths: Vec<usize> = rows.iter().map(|row| row.row.settings.length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut lines: Vec<(&[String], &str, Cells<'_>)> = Vec::new();
    let mut places = HashMap::new();
    for row in rows {
        let (labels, extend) = (row.labels.as_slice(), row.extend.as_str());
        let place = *places.entry((labels, extend)).or_insert(lines.len());
        if place == lines.len() {
            lines.push((labels, extend, Cells::new()));
        }
        lines[place].2.entry(row.row.settings.length).or_default().push(&row.row);
    }
    let head: Vec<String> = results
        .axes
        .iter()
        .map(|axis| markdown_text(axis))
        .chain(["extend".to_owned()])
        .chain(lengths.iter().map(|length| heading(*length, train_length)))
        .collect();
    let rule = vec!["---"; head.len()].join("|");
    let mut text = format!(
        "\n## {}, {protocol}, {split} split, L = {train_length}\n\n| {} |\n|{rule}|\n",
        metric.title(),
        head.join(" | ")
    );
    for (labels, extend, found) in lines {
        let cells =
            lengths.iter().map(|length| found.get(length).map_or(String::new(), |rows| cell(metric, rows)));
        let names = labels.iter().map(|label| markdown_text(label)).chain([markdown_text(extend)]);
        let _ = writeln!(text, "| {} |", names.chain(cells).collect::<Vec<_>>().join(" | "));
    }
    text + if metric.is_exponential() {
        "\nexp of the mean loss over seeds ± standard deviation over seeds; in parentheses the standard error over \
         documents. Both are in per cent of the perplexity: 100 times those of the loss in nats.\n"
    } else {
        "\nMean over seeds ± standard deviation over seeds; in parentheses the standard error over documents.\n"
    }
}

fn heading(length: usize, train_length: usize) -> String {
    match length / train_length {
        1 if length == train_length => format!("{length} (L)"),
        times if length == times * train_length => format!("{length} ({times}L)"),
        _ => length.to_string(),
    }
}

/// The value over seeds, their spread, and the mean of their errors over documents; of a perplexity both in per cent.
fn cell(metric: Metric, rows: &[&ResultRow]) -> String {
    let Some(cell) = Cell::new(metric, rows) else { return String::new() };
    let is_perplexity = metric.is_exponential();
    let mut text = if is_perplexity { number(cell.value) } else { format!("{:.1}", cell.value) };
    let deviation = cell.error.filter(|_| cell.seeds > 1).map(|spread| match spread {
        Spread::Relative(nats) => percent(nats),
        Spread::Absolute(deviation) => format!("{deviation:.1}"),
        Spread::Interval(low, high) => format!("[{low:.1}, {high:.1}]"),
    });
    // Of a perplexity in per cent the error of the loss in nats is a hundredth.
    let of = if is_perplexity { Metric::Loss } else { metric };
    let error = |row: &&ResultRow| row.error(of).map(|error| of.factor() * error);
    let errors: Vec<f64> = rows.iter().filter_map(error).collect();
    let error = mean(&errors).map(|error| if is_perplexity { percent(error) } else { format!("{error:.1}") });
    // Writing into a string cannot fail.
    let _ = deviation.map(|deviation| write!(text, " ±{deviation}"));
    let _ = error.map(|error| write!(text, " ({error})"));
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
            markdown_text(&says(claim)),
            claim.tolerance.to_string(),
            difference.map_or("not measured".to_owned(), |it| format!("{:+.4}", it.mean)),
            claim.interval.map_or("-".to_owned(), |interval| {
                format!("{} ({:.2}%)", pair(Some((interval.low, interval.high))), 100.0 * claim.level)
            }),
            pair(difference.and_then(|difference| difference.bootstrap)),
            claim.p.map_or("-".to_owned(), p_value),
            difference.map_or("-".to_owned(), |it| format!("{}, {}", it.seeds, it.documents)),
            format!("**{}**{}", claim.verdict.word(), if claim.is_added { " (added)" } else { "" }),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text += "\nDifferences in nats per token, left side minus right, paired by seed and by document.\n";
    if claims.iter().any(|claim| claim.is_added) {
        text += "(added): the claim was added or changed after the first result of the study was there. It is corrected \
                 with the rest.\n";
    }
    let mut others: Vec<Metric> = Vec::new();
    for claim in claims {
        if claim.metric != Metric::Loss && !others.contains(&claim.metric) {
            others.push(claim.metric);
        }
    }
    for other in others {
        let less = if other.lower_is_better() { "less" } else { "more" };
        let _ = writeln!(text, "`{}`: differences in {}, {less} is better.", other.name(), other.unit());
    }
    text
}

/// The claim's sentence, with its metric where that is not the loss.
fn says(claim: &Judged) -> String {
    match claim.metric {
        Metric::Loss => claim.says.clone(),
        other => format!("{} (`{}`)", claim.says, other.name()),
    }
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
    fn a_perplexity_over_seeds_is_that_of_the_mean_loss() {
        let mut results = results();
        results
            .rows
            .retain(|measured| (measured.extend.as_str(), measured.row.settings.length) == ("ntk", 256));
        for measured in &mut results.rows {
            let row = &mut measured.row;
            let nll = 3.0 + 0.2 * (row.seed as f64 - 1.0);
            *row = row.clone().with("nll", nll).with("ppl", nll.exp()).with("nll_se", 0.05);
        }
        let text = tables(&results);
        assert!(text.contains("| rope | ntk | 20.09 ±20.0% (5.0%) |"), "{text}");
        assert!(text.contains("Both are in per cent of the perplexity"), "{text}");
        results.rows.retain(|measured| measured.row.seed == 0);
        assert!(tables(&results).contains("| rope | ntk | 16.44 (5.0%) |"), "{}", tables(&results));
    }

    #[test]
    fn a_task_has_tables_of_what_it_is_about() {
        let mut results = results();
        for measured in &mut results.rows {
            measured.row.settings.protocol = Protocol::Task;
            measured.row.values.set("exact_match", Some(0.25));
            measured.row.values.set("exact_match_se", Some(0.125));
            measured.row.values.set("accuracy", Some(0.5));
            measured.labels = vec!["a|b".to_owned()];
        }
        let text = tables(&results);
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(
            titles,
            ["## Exact match in %, task, test split, L = 128", "## Accuracy in %, task, test split, L = 128"]
        );
        assert!(text.contains("| a\\|b | yarn | 25.0 ±0.0 (12.5) | 25.0 ±0.0 (12.5) |"), "{text}");
        assert!(text.contains("| a\\|b | yarn | 50.0 ±0.0 | 50.0 ±0.0 |"), "{text}");
    }

    #[test]
    fn numbers_keep_few_digits() {
        assert_eq!(
            [number(12.345), number(123.45), number(12345.6), number(1e9)],
            ["12.35", "123.5", "12346", "1.00e9"]
        );
    }
}
