//! The results of a study as tables: a line for each reading, a column for each length.

use crate::results::{Measured, Results};
use crate::statistics::mean;
use longwave_core::in_order::{distinct, grouped};
use longwave_eval::{Metric, Protocol, ResultRow, ScoredTokens, Settings, protocols};
use longwave_report::block::heading;
use longwave_report::grid::{Entry, Grid, Header};
use longwave_report::table::{Cell, Spread, across_lengths, percent};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What rows of one table have in common: a cell holds what was measured alike.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) settings: Settings,
    /// The text, where it is none of the run's own.
    corpus: Option<String>,
}

pub(super) fn group_of(row: &ResultRow) -> Group {
    let settings = row.settings.of_evaluation();
    let corpus = row.corpus.clone().filter(|_| settings.corpus_hash.is_some());
    Group { settings, corpus }
}

impl Group {
    /// The title of its table, with what tells it from others of its protocol among all `rows`.
    pub(super) fn title(&self, metric: Metric, rows: &[Measured]) -> String {
        let Settings { protocol, split, train_length, .. } = self.settings;
        let (tokens, apart) = (self.tokens(), self.apart(rows));
        format!("{}, {protocol}, {split} split{tokens}, L = {train_length}{apart}", metric.title())
    }

    /// What a title says of key tokens, after the split.
    pub(super) fn tokens(&self) -> &'static str {
        if self.settings.tokens() == ScoredTokens::Key { ", key tokens" } else { "" }
    }

    /// Keys of the protocol, and the text, in which it differs from other groups of the same protocol, split and training length;
    /// each after a comma.
    pub(super) fn apart(&self, rows: &[Measured]) -> String {
        let named = |it: &Self| {
            let Settings { protocol, split, train_length, .. } = it.settings;
            (protocol, split, it.settings.tokens(), train_length)
        };
        let groups = distinct(rows.iter().map(|it| group_of(&it.row)));
        let alike: Vec<&Self> = groups.iter().filter(|it| named(it) == named(self)).collect();
        let keys = protocols::keys()
            .into_iter()
            .map(|key| key.name)
            .filter(|key| alike.iter().any(|it| it.settings.keys.get(key) != self.settings.keys.get(key)));
        let value = |key: &str| self.settings.keys.get(key).map_or("all".to_owned(), |it| it.to_string());
        let mut apart: Vec<String> = keys.map(|key| format!("{key} = {}", value(key))).collect();
        if alike.iter().any(|it| it.settings.corpus_hash != self.settings.corpus_hash) {
            let text = self.corpus.as_ref().map(|corpus| format!("text of `{corpus}`"));
            apart.push(text.unwrap_or_else(|| "own text".to_owned()));
        }
        if alike.iter().any(|it| it.settings.key_tokens != self.settings.key_tokens) {
            apart.extend(self.settings.key_tokens.as_ref().map(|hash| format!("key tokens {hash}")));
        }
        apart.iter().flat_map(|part| [", ", part.as_str()]).collect()
    }
}

/// The names of a line, and its rows by what the columns are: lengths or steps.
pub(super) type Line<'a> = (Vec<String>, BTreeMap<u64, Vec<&'a ResultRow>>);

/// Rows in lines, each row with the names of its line and its column, in order of first appearance.
pub(super) fn lines<'a>(rows: impl IntoIterator<Item = (Vec<String>, u64, &'a ResultRow)>) -> Vec<Line<'a>> {
    let (mut lines, mut places) = (Vec::<Line<'a>>::new(), HashMap::new());
    for (names, column, row) in rows {
        let place = *places.entry(names.clone()).or_insert(lines.len());
        if place == lines.len() {
            lines.push((names, BTreeMap::new()));
        }
        lines[place].1.entry(column).or_default().push(row);
    }
    lines
}

/// Labels and extension, with what else tells lines apart.
pub(super) fn names(labels: &[String], extend: &str) -> Vec<String> {
    labels.iter().map(String::as_str).chain([extend]).map(str::to_owned).collect()
}

/// A table of lines: a column for each of their names, and one for each key of their rows, which has the name `head`.
pub(super) fn grid(
    title: String,
    metric: Metric,
    names: impl Iterator<Item = Header>,
    head: impl Fn(u64) -> String,
    lines: &[Line<'_>],
) -> Grid {
    let columns: BTreeSet<u64> = lines.iter().flat_map(|(_, rows)| rows.keys().copied()).collect();
    let of = |(names, rows): &Line<'_>| {
        let at = |column| rows.get(column).map_or_else(Entry::default, |rows| cell(metric, rows));
        names.iter().map(Entry::new).chain(columns.iter().map(at)).collect()
    };
    let all: Vec<&ResultRow> = lines.iter().flat_map(|(_, rows)| rows.values().flatten()).copied().collect();
    let rows: Vec<Vec<Entry>> = lines.iter().map(of).collect();
    Grid {
        title,
        headers: names.chain(columns.iter().map(|column| Header::number(head(*column)))).collect(),
        notes: vec![what_cells_are(metric, &all, &rows)],
        rows,
        ..Grid::default()
    }
}

/// By reading and length what the protocol is about: perplexity, accuracy or exact match. One table for what was measured
/// alike: protocol and its keys, split, text and training length, key tokens apart from all.
pub fn tables(results: &Results) -> Vec<Grid> {
    let groups = grouped(results.of_last().map(|measured| (group_of(&measured.row), measured)));
    let of_group = |(group, rows): &(Group, Vec<&Measured>)| -> Vec<Grid> {
        let metrics = shown(group.settings.protocol, rows).into_iter();
        metrics.map(|metric| table(results, metric, group, rows)).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

/// The metrics of a group, one table each: those of its protocol, for models that read bytes or different tokens also the bits per byte, and
/// no accuracy that says what the exact match says, as where every answer is one token.
fn shown(protocol: Protocol, rows: &[&Measured]) -> Vec<Metric> {
    let mut shown = protocol.shown().to_vec();
    let all = |is: fn(&ResultRow) -> bool| rows.iter().all(|row| is(&row.row));
    // Perplexities per token of different tokens do not compare.
    let differs = |row: &&&Measured| {
        !row.row.same_tokens(&rows[0].row) && row.row.settings.length == rows[0].row.settings.length
    };
    let several = rows.iter().any(|row| differs(&row)) && all(|row| row.bytes > 0);
    if shown[0] == Metric::Perplexity && (all(|row| row.tokens == row.bytes) || several) {
        shown.push(Metric::BitsPerByte);
    }
    if shown[0] == Metric::ExactMatch
        && all(|row| row.value(Metric::Accuracy) == row.value(Metric::ExactMatch))
    {
        shown.truncate(1);
    }
    shown
}

fn table(results: &Results, metric: Metric, group: &Group, rows: &[&Measured]) -> Grid {
    let train_length = group.settings.train_length;
    let found = rows.iter().map(|it| (names(&it.labels, &it.extend), length(&it.row), &it.row));
    let headers = results.axes.iter().map(String::as_str).chain(["extend"]).map(Header::words);
    let mut table = grid(
        group.title(metric, &results.rows),
        metric,
        headers,
        |at| heading(at as usize, train_length),
        &lines(found),
    );
    let lengths: BTreeSet<usize> = rows.iter().map(|row| row.row.settings.length).collect();
    let lengths: Vec<usize> = lengths.into_iter().collect();
    let across = rows.iter().find_map(|row| across_lengths(&row.row.settings, &lengths));
    table.notes.extend(across.map(str::to_owned));
    table.notes.extend(chance(metric, rows));
    table
}

fn chance(metric: Metric, rows: &[&Measured]) -> Option<String> {
    let levels = rows.iter().filter_map(|it| it.row.chance(metric)).map(|level| metric.factor() * level);
    let (low, high) = levels.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)));
    let [low, high] = [low, high].map(|end| metric.shown(end, None).0);
    let range = if low == high { low.clone() } else { format!("{low} to {high}") };
    (low != "inf")
        .then(|| format!("A guess that is always the most frequent token of the answers reaches {range}."))
}

pub(super) fn length(row: &ResultRow) -> u64 {
    row.settings.length as u64
}

/// What the cells of a table are that were made of these rows: of their errors those that stand in one.
pub(super) fn what_cells_are(metric: Metric, rows: &[&ResultRow], cells: &[Vec<Entry>]) -> String {
    // Runs of several corpora share a table, and the text of one may be a single document.
    let units = distinct(rows.iter().map(|row| format!("{}s", row.unit()))).join(" or ");
    let has_spread = cells.iter().flatten().any(|cell| cell.error.is_some());
    let has_error = cells.iter().flatten().any(|cell| cell.error_over_documents.is_some());
    let several = rows.iter().any(|row| row.seed != rows[0].seed);
    let of = if several { "over seeds" } else { "of one seed" };
    let spread = if has_spread { " ± standard deviation over seeds" } else { "" };
    let has_interval = rows.iter().any(|row| row.interval(metric).is_some());
    let error = match (has_error, has_interval) {
        (false, _) => String::new(),
        (true, true) => {
            format!("; in brackets the 95% interval over the {units} of a seed (Wilson's score interval)")
        }
        (true, false) => format!("; in parentheses the standard error over {units}"),
    };
    if !metric.is_exponential() {
        let value = if several { "Mean" } else { "Value" };
        return format!("{value} {of}{spread}{error}.");
    }
    let scale = match (has_spread, has_error) {
        (true, true) => " Both are in per cent of the perplexity: 100 times those of the loss in nats.",
        (true, false) => {
            " The deviation is in per cent of the perplexity: 100 times that of the loss in nats."
        }
        (false, true) => " The error is in per cent of the perplexity: 100 times that of the loss in nats.",
        (false, false) => "",
    };
    format!("exp of the mean loss {of}{spread}{error}.{scale}")
}

/// The value over seeds, their spread, and the mean of their errors over documents, or of their intervals; of a
/// perplexity both in per cent.
pub(super) fn cell(metric: Metric, rows: &[&ResultRow]) -> Entry {
    let Some(cell) = Cell::new(metric, rows) else { return Entry::default() };
    let is_perplexity = metric.is_exponential();
    let digits = |number| metric.shown(number, None).0;
    let spread = |spread| match spread {
        Spread::Relative(nats) => percent(nats),
        Spread::Absolute(deviation) => digits(deviation),
        Spread::Interval(low, high) => format!("[{}, {}]", digits(low), digits(high)),
    };
    // Of a perplexity in per cent the error of the loss in nats is a hundredth.
    let of = if is_perplexity { Metric::Loss } else { metric };
    let error = |row: &&ResultRow| row.error(of).map(|error| of.factor() * error);
    let errors: Vec<f64> = rows.iter().filter_map(error).collect();
    let over_documents = |error| if is_perplexity { percent(error) } else { digits(error) };
    let (lows, highs): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(|row| row.interval(metric)).unzip();
    let interval = mean(&lows).zip(mean(&highs));
    let interval = interval.map(|ends| (metric.factor() * ends.0, metric.factor() * ends.1));
    let interval = interval.map(|(low, high)| spread(Spread::Interval(low, high)));
    Entry {
        value: value(metric, cell.value),
        error: cell.error.filter(|_| cell.seeds > 1).map(spread),
        error_over_documents: interval.or_else(|| mean(&errors).map(over_documents)),
        ..Entry::default()
    }
}

/// A perplexity with four digits or so, a share in per cent, or bits.
pub(super) fn value(metric: Metric, value: f64) -> String {
    if !metric.is_exponential() {
        return metric.shown(value, None).0;
    }
    match value.abs() {
        large if large >= 1e6 => format!("{value:.2e}"),
        large if large >= 1000.0 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::set_key;
    use crate::results::tests::results;

    fn markdown(results: &Results) -> String {
        tables(results).iter().map(|grid| grid.markdown_at(2)).collect()
    }

    #[test]
    fn a_line_for_each_reading_and_a_column_for_each_length() {
        let text = markdown(&results());
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
        let text = markdown(&results);
        assert!(text.contains("| rope | ntk | 20.09 ±20.0% (5.0%) |"), "{text}");
        assert!(text.contains("Both are in per cent of the perplexity"), "{text}");
        results.rows.retain(|measured| measured.row.seed == 0);
        assert!(markdown(&results).contains("| rope | ntk | 16.44 (5.0%) |"), "{}", markdown(&results));
    }

    #[test]
    fn a_note_says_what_stands_in_its_table_and_no_more() {
        let mut results = results();
        let note = |results: &Results| tables(results)[0].notes[0].clone();
        assert_eq!(
            note(&results),
            "exp of the mean loss over seeds ± standard deviation over seeds. The deviation is in per cent of the perplexity: \
             100 times that of the loss in nats."
        );
        results.rows.retain(|measured| measured.row.seed == 0);
        assert_eq!(note(&results), "exp of the mean loss of one seed.");
        for measured in &mut results.rows {
            measured.row.values.set("nll_se", Some(0.05));
        }
        assert_eq!(
            note(&results),
            "exp of the mean loss of one seed; in parentheses the standard error over documents. The error is in per cent of \
             the perplexity: 100 times that of the loss in nats."
        );
        // The text of one run is one document.
        results.rows[0].row.per_document.as_mut().unwrap().blocks = true;
        assert!(
            note(&results).contains("the standard error over blocks or documents."),
            "{}",
            note(&results)
        );
        for measured in &mut results.rows {
            measured.row.settings.protocol = Protocol::Task;
            measured.row.values.set("exact_match", Some(0.25));
        }
        assert_eq!(note(&results), "Value of one seed.");
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
        let text = markdown(&results);
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(
            titles,
            ["## Exact match in %, task, test split, L = 128", "## Accuracy in %, task, test split, L = 128"]
        );
        assert!(text.contains("| a\\|b | yarn | 25.0 ±0.0 (12.5) | 25.0 ±0.0 (12.5) |"), "{text}");
        assert!(text.contains("| a\\|b | yarn | 50.0 ±0.0 | 50.0 ±0.0 |"), "{text}");
    }

    #[test]
    fn models_of_bytes_are_shown_in_bits_per_byte_too() {
        let mut results = results();
        assert!(!markdown(&results).contains("Bits per byte"));
        for measured in &mut results.rows {
            measured.row.bytes = measured.row.tokens;
            measured.row = measured.row.clone().with("bpb", 2.25 + 0.125 * (measured.row.seed as f64 - 1.0));
        }
        let text = markdown(&results);
        assert!(text.contains("## Bits per byte, fixed_target, test split, L = 128"), "{text}");
        assert!(text.contains("| rope | ntk | 2.250 ±0.125 |"), "{text}");
    }

    #[test]
    fn answers_of_one_token_have_one_table() {
        let mut results = results();
        for measured in &mut results.rows {
            measured.row.settings.protocol = Protocol::Task;
            measured.row.values.set("exact_match", Some(0.25));
            measured.row.values.set("accuracy", Some(0.25));
        }
        assert!(!markdown(&results).contains("## Accuracy"));
        results.rows[0].row.values.set("accuracy", Some(0.5));
        assert!(markdown(&results).contains("## Accuracy"));
    }

    #[test]
    fn what_was_measured_otherwise_has_a_table_of_its_own() {
        let mut results = results();
        results
            .rows
            .retain(|it| it.labels[0] == "rope" && it.extend == "ntk" && it.row.settings.length == 256);
        let mut elsewhere = results.rows.clone();
        for (windows, nll, rows) in [(2, 2.0, &mut results.rows), (5, 3.0, &mut elsewhere)] {
            for it in rows {
                it.row.values.set("nll", Some(nll));
                set_key(&mut it.row, "windows_per_document", windows);
            }
        }
        results.rows.extend(elsewhere);
        let text = markdown(&results);
        // exp 2 and exp 3, and nothing between them.
        assert!(text.contains("| rope | ntk | 7.39 ") && text.contains("| rope | ntk | 20.09 "), "{text}");
        assert!(text.contains("L = 128, windows_per_document = 5"), "{text}");
        for it in &mut results.rows[3..] {
            set_key(&mut it.row, "windows_per_document", 2);
            it.row.settings.corpus_hash = Some("hash".to_owned());
            it.row.corpus = Some("other.txt".to_owned());
        }
        let text = markdown(&results);
        assert!(
            text.contains("L = 128, own text") && text.contains("L = 128, text of `other.txt`"),
            "{text}"
        );
        assert!(text.contains("| rope | ntk | 7.39 ") && text.contains("| rope | ntk | 20.09 "), "{text}");
    }

    #[test]
    fn numbers_keep_few_digits() {
        let texts = [12.345, 123.45, 12345.6, 1e9].map(|number| value(Metric::Perplexity, number));
        assert_eq!(texts, ["12.35", "123.5", "12346", "1.00e9"]);
    }
}
