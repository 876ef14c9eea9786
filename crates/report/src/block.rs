//! Rows of results gathered into what can stand in one table.
//!
//! A [`Block`] holds the rows that score alike: one protocol, split, training length and window
//! layout. Its [`Line`]s are the ways of reading, one per run name and extension, in order of first
//! appearance with the window baseline last; the seeds of a run share a line.

use crate::kept_steps::without_kept_steps;
use crate::newest::Newest;
use longwave_core::in_order::{distinct, grouped};
use longwave_eval::label::{assigned, labelled};
use longwave_eval::search::keys_of;
use longwave_eval::sweep::chosen_value;
use longwave_eval::{ResultRow, Settings, Split, TaskKeys, WINDOW_BASELINE};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// What the rows have in common; `length` is the shortest of theirs.
    pub settings: Settings,
    /// The checkpoint that was read: `last` or `best`.
    pub checkpoint: String,
    /// The lengths, ascending.
    pub lengths: Vec<usize>,
    pub lines: Vec<Line<'a>>,
}

/// One run name read with one extension.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Name of the run; with a piece of its config's hash where one name stands for several configs.
    pub run: String,
    pub encoding: String,
    pub extend: String,
    /// The extension's kind, with the keys in which its config, and how the task was asked, differ from others of that
    /// kind, and those that were chosen.
    pub label: String,
    /// What the evaluation gave keys of the run's task.
    pub task: TaskKeys,
    /// Whether its values were chosen on the validation split.
    pub chosen: bool,
    /// By length: one of each seed, or in a [history](crate::history) of each seed and step.
    pub rows: BTreeMap<usize, Vec<&'a ResultRow>>,
}

impl Line<'_> {
    fn among(&self) -> Option<&Value> {
        self.rows.values().flatten().next()?.choice()
    }

    /// Whether this is what a longer context must beat.
    pub fn is_baseline(&self) -> bool {
        self.extend == WINDOW_BASELINE
    }
}

impl Block<'_> {
    pub fn runs(&self) -> Vec<&str> {
        distinct(self.lines.iter().map(|line| line.run.as_str()))
    }

    /// A run's name with its encoding, where the name does not say it.
    pub fn run_label(&self, run: &str) -> String {
        match self.lines.iter().find(|line| line.run == run) {
            Some(line) if !run.contains(&line.encoding) => format!("{run} ({})", line.encoding),
            _ => run.to_owned(),
        }
    }

    /// The ways in which the task was asked, in order of first appearance.
    pub fn tasks(&self) -> Vec<&TaskKeys> {
        distinct(self.lines.iter().map(|line| &line.task))
    }

    pub fn rows(&self) -> impl Iterator<Item = &ResultRow> {
        self.lines.iter().flat_map(|line| line.rows.values().flatten().copied())
    }
}

/// Gathers rows into blocks, in order of first appearance; those of the validation split, where choices are made,
/// come after what is reported. Those of checkpoints that a run kept along its training are a
/// [history](crate::history). Of a run that was measured at several ends only the last is there, see [`Newest`].
pub fn blocks(rows: &[ResultRow]) -> Vec<Block<'_>> {
    let key = |row: &ResultRow| (row.settings.of_table(), row.checkpoint.clone());
    // Another config hash may be of another run, which rows alone do not tell.
    let newest = Newest::of(without_kept_steps(rows), |row| (&row.run, row.seed, &row.config_hash));
    let mut groups = grouped(newest.rows.into_iter().map(|row| (key(row), row)));
    groups.sort_by_key(|((settings, _), _)| settings.split == Split::Valid);
    groups.iter().map(|((settings, checkpoint), rows)| block_of(settings, checkpoint, rows)).collect()
}

/// A length in multiples of the training length: `L`, `2L`, `L/4`, `1.5L`.
pub fn multiple(length: usize, train_length: usize) -> String {
    if length == train_length {
        "L".into()
    } else if length.is_multiple_of(train_length) {
        format!("{}L", length / train_length)
    } else if train_length.is_multiple_of(length) {
        format!("L/{}", train_length / length)
    } else {
        let text = format!("{:.2}", length as f64 / train_length as f64);
        format!("{}L", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A length as the head of a column: `256 (2L)`.
pub fn heading(length: usize, train_length: usize) -> String {
    format!("{length} ({})", multiple(length, train_length))
}

/// The block of these rows, of which each line keeps one of each seed and step.
pub(crate) fn block_of<'a>(settings: &Settings, checkpoint: &str, rows: &[&'a ResultRow]) -> Block<'a> {
    let ambiguous = ambiguous_names(rows);
    let mut lines: Vec<(Value, Line)> = Vec::new();
    for row in rows {
        let run = if ambiguous.contains(&row.run) {
            let hash: String = row.config_hash.chars().take(8).collect();
            format!("{} [{hash}]", row.run)
        } else {
            row.run.clone()
        };
        let (config, among) = (config_of(row), row.choice());
        let same = |(other, line): &(Value, Line)| {
            let alike = if line.chosen { line.among() == among } else { among.is_none() && *other == config };
            line.run == run && line.extend == row.extend && line.task == row.settings.task && alike
        };
        let index = if let Some(index) = lines.iter().position(same) {
            index
        } else {
            let (encoding, extend) = (row.encoding.clone(), row.extend.clone());
            let (label, chosen, rows) = (extend.clone(), among.is_some(), BTreeMap::new());
            let task = row.settings.task.clone();
            lines.push((config, Line { run, encoding, extend, label, task, chosen, rows }));
            lines.len() - 1
        };
        add(lines[index].1.rows.entry(row.settings.length).or_default(), row);
    }
    join_chosen_values(&mut lines);
    add_differing_keys(&mut lines);
    let lines = baseline_last(lines.into_iter().map(|(_, line)| line).collect());
    let lengths: BTreeSet<usize> = rows.iter().map(|row| row.settings.length).collect();
    let settings =
        Settings { length: lengths.first().copied().unwrap_or(0), task: common(&lines), ..settings.clone() };
    Block { settings, checkpoint: checkpoint.to_owned(), lengths: lengths.into_iter().collect(), lines }
}

/// Adds a row of another seed or step; of one seed and step the latest row is kept.
fn add<'a>(rows: &mut Vec<&'a ResultRow>, row: &'a ResultRow) {
    match rows.iter_mut().find(|other| (other.seed, other.step) == (row.seed, row.step)) {
        Some(other) => *other = row,
        None => rows.push(row),
    }
}

/// Run names under which one seed has several config hashes: those are different runs.
fn ambiguous_names(rows: &[&ResultRow]) -> BTreeSet<String> {
    let mut hashes: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    let clashes = rows.iter().filter(|row| {
        *hashes.entry((&row.run, row.seed)).or_insert(&row.config_hash) != row.config_hash.as_str()
    });
    clashes.map(|row| row.run.clone()).collect()
}

/// In the config of a line whose seeds or steps chose different values, says so in the place of the value.
fn join_chosen_values(lines: &mut [(Value, Line)]) {
    for (config, line) in lines.iter_mut().filter(|(_, line)| line.chosen) {
        let Value::Object(fields) = config else { continue };
        let seeds: BTreeSet<u64> = line.rows.values().flatten().map(|row| row.seed).collect();
        let each = if seeds.len() > 1 { "chosen for each seed" } else { "chosen for each step" };
        let rows: Vec<Value> = line.rows.values().flatten().map(|row| config_of(row)).collect();
        for (key, value) in fields {
            if rows.iter().any(|row| row.get(key) != Some(value)) {
                *value = each.into();
            }
        }
    }
}

fn common(lines: &[Line]) -> TaskKeys {
    let mut fields = lines.first().map(|line| line.task.fields().clone()).unwrap_or_default();
    fields.retain(|key, value| lines.iter().all(|line| line.task.fields().get(key) == Some(value)));
    TaskKeys::of(fields)
}

/// An extension's config without its kind, with how the task was asked; the baseline's says whether it is exact.
fn config_of(row: &ResultRow) -> Value {
    let mut config = match &row.extend_config {
        Value::Object(fields) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    for (key, values) in row.choice().and_then(Value::as_object).into_iter().flatten() {
        // A value that is the default may not be there, and was chosen all the same.
        if let Some(value) = chosen_value(&row.extend_config, key, values) {
            config.insert(key.clone(), value);
        }
    }
    config.remove("kind");
    if row.settings.exact == Some(true) {
        config.insert("exact".into(), true.into());
    }
    config.extend(row.settings.task.fields().clone());
    Value::Object(config)
}

/// Adds to the labels of extensions of one kind the keys in which their configs differ, and those that were chosen.
fn add_differing_keys(lines: &mut [(Value, Line)]) {
    for index in 0..lines.len() {
        let (config, line) = &lines[index];
        let Value::Object(fields) = config else { continue };
        let differs = |key: &str| {
            lines.iter().any(|(other, with)| with.extend == line.extend && other.get(key) != fields.get(key))
        };
        let given = |key: &str| {
            line.chosen
                && line
                    .rows
                    .values()
                    .flatten()
                    .any(|row| row.choice().is_some_and(|among| among.get(key).is_some()))
        };
        let shown = fields.iter().filter(|(key, _)| differs(key) || given(key));
        // Of what searches found, how they searched.
        let search_of = |line: &Line| line.among().and_then(keys_of);
        let own = search_of(line).unwrap_or_default();
        let how = own.iter().filter(|(key, value)| {
            let others = lines.iter().filter(|(_, with)| with.extend == line.extend);
            let mut searches = others.filter_map(|(_, with)| search_of(with));
            searches.any(|other| other.get(*key) != Some(*value))
        });
        let keys: Vec<String> = shown.chain(how).map(|(key, value)| assigned(key, value)).collect();
        lines[index].1.label = labelled(&line.extend, &keys);
    }
}

/// Brings the lines of a run together, its window baseline last.
fn baseline_last(mut lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let runs = distinct(lines.iter().map(|line| line.run.clone()));
    lines.sort_by_key(|line| (runs.iter().position(|run| *run == line.run), line.is_baseline()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::row;
    use longwave_eval::Protocol;
    use longwave_eval::protocols::Keys;
    use serde_json::json;

    fn labels(rows: &[ResultRow]) -> Vec<String> {
        let blocks = blocks(rows);
        assert_eq!(blocks.len(), 1);
        blocks[0].lines.iter().map(|line| format!("{}: {}", line.run, line.label)).collect()
    }

    #[test]
    fn lines_keep_their_order_with_the_baseline_last() {
        let rows = [
            row("rope", WINDOW_BASELINE, 128, 12.0),
            row("rope", "direct", 128, 12.0),
            row("alibi", "direct", 128, 13.0),
            row("rope", "direct", 256, 12.0),
            row("rope", "yarn", 256, 12.0),
        ];
        assert_eq!(labels(&rows), ["rope: direct", "rope: yarn", "rope: window_baseline", "alibi: direct"]);
        assert_eq!(blocks(&rows)[0].lengths, [128, 256]);
    }

    #[test]
    fn configs_of_one_kind_are_told_apart_by_what_differs() {
        let with = |config: Value| ResultRow { extend_config: config, ..row("rope", "yarn", 128, 12.0) };
        let rows = [
            with(json!({ "kind": "yarn", "ramp": "code", "beta_fast": 32 })),
            with(json!({ "kind": "yarn", "ramp": "paper", "beta_fast": 32 })),
            row("rope", "direct", 128, 12.0),
        ];
        assert_eq!(labels(&rows), ["rope: yarn (ramp = code)", "rope: yarn (ramp = paper)", "rope: direct"]);
    }

    #[test]
    fn what_was_chosen_is_told_and_long_lists_are_cut() {
        let chosen = |extend: &str, config: Value, among: Value| ResultRow {
            extend_config: config,
            chosen_among: Some(among),
            ..row("rope", extend, 128, 12.0)
        };
        let window = chosen("rerope", json!({ "window": "L/2" }), json!({ "window": ["L/4", "L/2"] }));
        let factors = |last: f64| json!({ "long_factor": [1.0, 1.0, 1.0, 1.0, last] });
        let searched = chosen("longrope", factors(2.0), json!({ "search": {}, "with": {} }));
        let given = ResultRow { extend_config: factors(3.0), ..row("rope", "longrope", 128, 12.0) };
        let rows = [window, searched, given];
        let found = labels(&rows);
        assert_eq!(
            found,
            [
                "rope: rerope (window = L/2)",
                "rope: longrope (long_factor = [1.0, .., 2.0])",
                "rope: longrope (long_factor = [1.0, .., 3.0])"
            ]
        );
        let search = |method: &str, last: f64| {
            let among = json!({ "search": { "method": method, "budget": 8 }, "with": {} });
            chosen("longrope", factors(last), among)
        };
        let both = [search("longrope", 2.0), search("longrope2", 2.0)];
        let methods = ["rope: longrope (method = longrope)", "rope: longrope (method = longrope2)"];
        assert_eq!(labels(&both), methods);
        let marks: Vec<bool> = blocks(&rows)[0].lines.iter().map(|line| line.chosen).collect();
        assert_eq!(marks, [true, true, false]);
    }

    #[test]
    fn seeds_that_chose_different_values_share_a_line() {
        let chosen = |seed: u64, window: &str| ResultRow {
            seed,
            extend_config: json!({ "kind": "rerope", "window": window, "k": 2 }),
            chosen_among: Some(json!({ "window": ["L/4", "L/2"] })),
            ..row("rope", "rerope", 128, 12.0)
        };
        let rows = [chosen(0, "L/2"), chosen(1, "L/4"), row("rope", "direct", 128, 12.0)];
        assert_eq!(labels(&rows), ["rope: rerope (window = chosen for each seed)", "rope: direct"]);
        assert_eq!(blocks(&rows)[0].lines[0].rows[&128].len(), 2);
        assert_eq!(labels(&[chosen(0, "L/2"), chosen(1, "L/2")]), ["rope: rerope (window = L/2)"]);
    }

    #[test]
    fn seeds_share_a_line_and_other_configs_of_the_same_name_do_not() {
        let seed = |seed: u64, hash: &str| ResultRow {
            seed,
            config_hash: hash.into(),
            ..row("rope", "direct", 128, 12.0)
        };
        assert_eq!(labels(&[seed(0, "aaaa"), seed(1, "bbbb")]), ["rope: direct"]);
        let clash = [seed(0, "aaaa"), seed(0, "bbbb")];
        assert_eq!(labels(&clash), ["rope [aaaa]: direct", "rope [bbbb]: direct"]);
    }

    #[test]
    fn of_one_seed_the_latest_step_stands() {
        let step = |step: u64, ppl: f64| ResultRow { step, ..row("rope", "direct", 128, ppl) };
        for rows in [[step(600, 20.0), step(1200, 12.0)], [step(1200, 12.0), step(600, 20.0)]] {
            let blocks = blocks(&rows);
            let cell = &blocks[0].lines[0].rows[&128];
            assert_eq!((cell.len(), cell[0].step), (1, 1200));
        }
    }

    #[test]
    fn a_run_that_was_trained_further_is_one_model_in_all_of_its_table() {
        let at =
            |step: u64, extend: &str, length: usize| ResultRow { step, ..row("rope", extend, length, 12.0) };
        let rows = [at(7, "linear", 128), at(7, "direct", 128), at(7, "direct", 512), at(40, "direct", 128)];
        assert_eq!(labels(&rows), ["rope: direct"]);
        let steps: Vec<u64> = blocks(&rows)[0].rows().map(|row| row.step).collect();
        assert_eq!((&*blocks(&rows)[0].lengths, &*steps), (&[128][..], &[40][..]));
    }

    #[test]
    fn what_scores_differently_is_another_block() {
        let first = row("rope", "direct", 128, 12.0);
        let mut other = first.clone();
        other.settings.keys = Keys::of(&[("target", 128), ("max_length", 2048), ("window_stride", 1024)]);
        let best = ResultRow { checkpoint: "best".into(), ..first.clone() };
        assert_eq!(blocks(&[first, other, best]).len(), 3);
        let side_by_side = |length: usize| {
            let mut row = row("rope", "direct", length, 12.0);
            row.settings.protocol = Protocol::NonOverlapping;
            row.settings.keys = Keys::of(&[("stride", length)]);
            row
        };
        assert_eq!(blocks(&[side_by_side(128), side_by_side(256)]).len(), 1);
    }

    #[test]
    fn multiples() {
        let of = |length| multiple(length, 128);
        assert_eq!([of(128), of(1024), of(32), of(192), of(100)], ["L", "8L", "L/4", "1.5L", "0.78L"]);
    }
}
