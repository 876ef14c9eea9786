//! How a run reads along its training: the checkpoints that it kept, from the first to the last.
//!
//! Rows of kept checkpoints (`step-N`) stand in no table of their own. Together with those of `last` they are a [`History`]:
//! for every extension a table with a line for each step, and a chart with a curve for each length.

use crate::block::{Block, Line, block_of, heading};
use crate::grid::{Entry, Grid, Header};
use crate::kept_steps::{kept, source};
use crate::plot::{Axis, Chart, Point, Role, Scale, Series, metric_axis};
use crate::table::{Cell, TableRow, leave_out_other_errors, notes_of_errors, text_of};
use longwave_core::in_order::grouped;
use longwave_eval::{Metric, ResultRow, Settings};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The rows of several checkpoints that score alike.
#[derive(Clone, Debug)]
pub struct History<'a> {
    /// The lines of all steps, so that a reading is the same line with the same name at each.
    block: Block<'a>,
}

/// One run read with one extension at every kept step: a table and its chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub name: Vec<String>,
    pub table: Grid,
    pub chart: Chart,
}

/// The histories of these rows, in order of first appearance.
pub fn histories(rows: &[ResultRow]) -> Vec<History<'_>> {
    let has_kept = kept(rows);
    let is_here = |row: &&ResultRow| {
        has_kept.contains(&source(row)) && (row.is_of_kept_step() || row.checkpoint == "last")
    };
    let groups = grouped(rows.iter().filter(is_here).map(|row| (row.settings.of_table(), row)));
    groups.into_iter().map(|(settings, rows)| history(&settings, rows)).collect()
}

fn history<'a>(settings: &Settings, mut rows: Vec<&'a ResultRow>) -> History<'a> {
    // Lines stand in the order of the last step, and then come those that it lacks.
    rows.sort_by_key(|row| Reverse(row.step));
    History { block: block_of(settings, "last", &rows) }
}

impl History<'_> {
    /// Every run with every extension, the window baseline last.
    pub fn readings(&self) -> Vec<Reading> {
        self.block.lines.iter().map(|line| self.reading(line)).collect()
    }

    fn metric(&self) -> Metric {
        self.block.settings.protocol.shown()[0]
    }

    fn cell(&self, line: &Line, step: u64, length: usize) -> Option<Cell> {
        let rows = line.rows.get(&length)?.iter().copied();
        Cell::new(self.metric(), &rows.filter(|row| row.step == step).collect::<Vec<_>>())
    }

    fn reading(&self, line: &Line) -> Reading {
        let (block, label) = (&self.block, &line.label);
        let title = format!(
            "{} of {} by training step, {label}: {}{}",
            self.metric().title(),
            block.run_label(&line.run),
            block.settings.protocol,
            text_of(block)
        );
        let own_run = (block.runs().len() > 1).then(|| line.run.clone());
        Reading {
            name: own_run.iter().cloned().chain([label.clone()]).collect(),
            table: self.table(line, &title),
            chart: Chart { run: own_run, ..self.chart(line, title) },
        }
    }

    fn table(&self, line: &Line, title: &str) -> Grid {
        let block = &self.block;
        let row = |step: u64| TableRow {
            labels: vec![step.to_string()],
            cells: block.lengths.iter().map(|&length| self.cell(line, step, length)).collect(),
        };
        let mut rows: Vec<TableRow> = steps(line).into_iter().map(row).collect();
        leave_out_other_errors(&mut rows);
        let cells: Vec<&Cell> = rows.iter().flat_map(|row| row.cells.iter().flatten()).collect();
        let notes = notes_of_errors(block, &cells, self.metric());
        let entries = |row: &TableRow| {
            let cells = row.cells.iter().map(Option::as_ref);
            let cells = cells.map(|cell| cell.map_or_else(|| Entry::new("-"), Cell::entry));
            row.labels.iter().map(Entry::new).chain(cells).collect()
        };
        let headers =
            block.lengths.iter().map(|&length| Header::number(heading(length, block.settings.train_length)));
        Grid {
            title: title.to_owned(),
            headers: std::iter::once(Header::number("step")).chain(headers).collect(),
            rows: rows.iter().map(entries).collect(),
            notes,
            ..Grid::default()
        }
    }

    fn chart(&self, line: &Line, title: String) -> Chart {
        let block = &self.block;
        let curve = |(style, &length): (usize, &usize)| Series {
            name: heading(length, block.settings.train_length),
            points: self.points(line, length),
            style,
            role: Role::Method,
        };
        let mut series: Vec<Series> = block.lengths.iter().enumerate().map(curve).collect();
        // What a longer context must beat, at the longest length.
        let is_its_baseline =
            |other: &&Line| other.is_baseline() && (&other.run, &other.task) == (&line.run, &line.task);
        let baseline = block.lines.iter().find(is_its_baseline).filter(|_| !line.is_baseline());
        if let (Some(baseline), Some(&longest)) = (baseline, block.lengths.last()) {
            let points = self.points(baseline, longest);
            let name = format!("{} at {longest}", baseline.label);
            series.extend((!points.is_empty()).then_some(Series {
                name,
                points,
                style: 0,
                role: Role::Reference,
            }));
        }
        Chart {
            title,
            x: Axis::new("training step", Scale::Linear),
            y: metric_axis(self.metric(), ""),
            series,
            ..Chart::default()
        }
    }

    fn points(&self, line: &Line, length: usize) -> Vec<Point> {
        let point = |step: u64| {
            let cell = self.cell(line, step, length)?;
            Some(Point { x: step as f64, y: cell.value, bar: None })
        };
        steps(line).into_iter().filter_map(point).collect()
    }
}

/// The steps at which a line was read, ascending.
fn steps(line: &Line) -> BTreeSet<u64> {
    line.rows.values().flatten().map(|row| row.step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::blocks;
    use crate::example;
    use longwave_eval::WINDOW_BASELINE;
    use serde_json::json;

    fn at(step: u64, checkpoint: &str, extend: &str, length: usize, ppl: f64) -> ResultRow {
        ResultRow { step, checkpoint: checkpoint.to_owned(), ..example::row("rope", extend, length, ppl) }
    }

    fn rows() -> Vec<ResultRow> {
        let mut rows = Vec::new();
        for (step, checkpoint, ppl) in [(100, "step-100", 40.0), (200, "step-200", 20.0), (300, "last", 14.0)]
        {
            for (length, factor) in [(128, 1.0), (256, 2.0)] {
                rows.push(at(step, checkpoint, "direct", length, ppl * factor));
                rows.push(at(step, checkpoint, WINDOW_BASELINE, length, ppl));
            }
        }
        rows
    }

    #[test]
    fn kept_steps_stand_in_a_table_of_their_own() {
        let rows = rows();
        let blocks = blocks(&rows);
        assert_eq!((blocks.len(), blocks[0].checkpoint.as_str()), (1, "last"));
        let found = histories(&rows);
        assert_eq!(found.len(), 1);
        let readings = found[0].readings();
        assert_eq!(readings.len(), 2);
        let table = readings[0].table.csv();
        let first_columns: Vec<Vec<&str>> =
            table.lines().map(|line| line.split(',').take(2).collect()).collect();
        assert_eq!(
            first_columns,
            [["step", "128 (L)"], ["100", "40.00"], ["200", "20.00"], ["300", "14.00"]]
        );
        let chart = &readings[0].chart;
        assert_eq!(chart.series.len(), 3);
        let points: Vec<(f64, f64)> = chart.series[1].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(100.0, 80.0), (200.0, 40.0), (300.0, 28.0)]);
        assert_eq!(chart.series[2].role, Role::Reference);
    }

    #[test]
    fn one_checkpoint_alone_is_no_history() {
        let one: Vec<ResultRow> = rows().into_iter().filter(|row| row.step == 100).collect();
        assert!(histories(&one).is_empty());
        assert_eq!(blocks(&one)[0].checkpoint, "step-100");
        let last: Vec<ResultRow> = rows().into_iter().filter(|row| row.step == 300).collect();
        assert!(histories(&last).is_empty());
    }

    #[test]
    fn other_runs_keep_their_tables() {
        let mut rows = rows();
        rows.push(example::row("alibi", "direct", 128, 13.0));
        let blocks = blocks(&rows);
        assert_eq!(blocks[0].runs(), ["rope", "alibi"]);
        assert!(histories(&rows)[0].readings().iter().all(|reading| !reading.table.title.contains("alibi")));
    }

    /// The names of readings, and the first column of their tables.
    fn named(rows: &[ResultRow]) -> Vec<(String, Vec<String>)> {
        let steps = |reading: &Reading| reading.table.rows.iter().map(|row| row[0].value.clone()).collect();
        let of = |reading: Reading| (reading.name.join(": "), steps(&reading));
        histories(rows).iter().flat_map(History::readings).map(of).collect()
    }

    #[test]
    fn a_reading_is_one_at_all_steps_whatever_stands_beside_it_at_some() {
        let ntk = |step: u64, checkpoint: &str, scale: serde_json::Value| ResultRow {
            extend_config: json!({ "kind": "ntk", "scale": scale }),
            ..at(step, checkpoint, "ntk", 128, 20.0)
        };
        // The training read two of a kind at its end, and `eval` one of them at every step.
        let rows = [
            ntk(6, "last", json!("auto")),
            ntk(6, "last", json!(3.0)),
            ntk(2, "step-2", json!("auto")),
            ntk(4, "step-4", json!("auto")),
        ];
        let steps = |steps: &[&str]| steps.iter().map(|&step| step.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            named(&rows),
            [
                ("ntk (scale = auto)".to_owned(), steps(&["2", "4", "6"])),
                ("ntk (scale = 3.0)".to_owned(), steps(&["6"]))
            ]
        );
        let points = histories(&rows)[0].readings()[0].chart.series[0].points.len();
        assert_eq!(points, 3, "one curve");
        // Each step chose a value of its own, among the same ones.
        let rows: Vec<ResultRow> = [(2, "step-2", 2.0), (4, "step-4", 3.0), (6, "last", 3.0)]
            .into_iter()
            .map(|(step, checkpoint, scale)| ResultRow {
                chosen_among: Some(json!({ "scale": [2.0, 3.0] })),
                ..ntk(step, checkpoint, json!(scale))
            })
            .collect();
        assert_eq!(
            named(&rows),
            [("ntk (scale = chosen for each step)".to_owned(), steps(&["2", "4", "6"]))]
        );
    }

    #[test]
    fn configs_of_one_name_are_told_apart_at_all_steps() {
        let of = |hash: &str, step: u64, checkpoint: &str| ResultRow {
            config_hash: hash.to_owned(),
            ..at(step, checkpoint, "direct", 128, 20.0)
        };
        // They meet at one step alone.
        let rows =
            [of("aaaa", 2, "step-2"), of("aaaa", 4, "last"), of("bbbb", 4, "step-4"), of("bbbb", 6, "last")];
        let names: Vec<String> =
            named(&rows).into_iter().map(|(name, steps)| format!("{name} {steps:?}")).collect();
        assert_eq!(names, ["rope [bbbb]: direct [\"4\", \"6\"]", "rope [aaaa]: direct [\"2\", \"4\"]"]);
    }

    #[test]
    fn a_note_says_what_the_errors_of_its_own_table_are_over() {
        let of = |run: &str, seed: u64, step: u64, checkpoint: &str| ResultRow {
            run: run.to_owned(),
            seed,
            config_hash: format!("{run} {seed}"),
            ..at(step, checkpoint, "direct", 128, 20.0)
        };
        let two = |run: &str, seed| [of(run, seed, 100, "step-100"), of(run, seed, 300, "last")];
        // Two names, each with a seed of its own.
        let rows = [two("a", 0), two("b", 1)].concat();
        for reading in histories(&rows)[0].readings() {
            assert_eq!(reading.table.notes, ["± is one standard error over documents"]);
            assert!(reading.table.rows.iter().all(|row| row[1].error.is_some()));
        }
        // Two seeds of one name, of which one was read at a step more.
        let rows = [&two("a", 0)[..], &two("a", 1), &[of("a", 1, 200, "step-200")]].concat();
        let reading = histories(&rows)[0].readings().remove(0);
        assert!(reading.table.notes[0].starts_with("± is one standard deviation over seeds"));
        let has_error: Vec<bool> = reading.table.rows.iter().map(|row| row[1].error.is_some()).collect();
        assert_eq!(has_error, [true, false, true], "none of one seed stands beside them");
    }
}
