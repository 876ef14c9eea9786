//! How a run reads along its training: the checkpoints that it kept, from the first to the last.
//!
//! Rows of kept checkpoints (`step-N`) stand in no table of their own. Together with those of `last` they are a [`History`]:
//! for every extension a table with a line for each step, and a chart with a curve for each length.

use crate::block::{Block, Line, block_of, heading};
use crate::grid::{Entry, Grid, Header};
use crate::kept_steps::{kept, source};
use crate::plot::{Axis, Chart, Point, Role, Scale, Series, metric_axis};
use crate::table::{Cell, text_of};
use longwave_core::in_order::{distinct, grouped};
use longwave_eval::{Metric, ResultRow, Settings, WINDOW_BASELINE};
use std::collections::BTreeSet;

/// The rows of several checkpoints that score alike.
#[derive(Clone, Debug)]
pub struct History<'a> {
    steps: Vec<(u64, Block<'a>)>,
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
    groups.iter().map(|(settings, rows)| history(settings, rows)).collect()
}

fn history<'a>(settings: &Settings, rows: &[&'a ResultRow]) -> History<'a> {
    let mut steps = grouped(rows.iter().map(|row| (row.step, *row)));
    steps.sort_by_key(|(step, _)| *step);
    History { steps: steps.iter().map(|(step, rows)| (*step, block_of(settings, "last", rows))).collect() }
}

impl History<'_> {
    /// Every run with every extension, the window baseline last.
    pub fn readings(&self) -> Vec<Reading> {
        let lines = self.steps.iter().rev().flat_map(|(_, block)| &block.lines);
        let readings = distinct(lines.map(|line| (line.run.as_str(), line.label.as_str())));
        readings.into_iter().map(|(run, label)| self.reading(run, label)).collect()
    }

    fn metric(&self) -> Metric {
        self.steps[0].1.settings.protocol.shown()[0]
    }

    fn lengths(&self) -> Vec<usize> {
        let lengths: BTreeSet<usize> =
            self.steps.iter().flat_map(|(_, block)| block.lengths.iter().copied()).collect();
        lengths.into_iter().collect()
    }

    /// The line of a run and an extension at each step.
    fn lines<'s>(&'s self, run: &str, label: &str) -> impl Iterator<Item = (u64, &'s Line<'s>)> {
        self.steps.iter().filter_map(move |(step, block)| {
            let mut lines = block.lines.iter();
            Some((*step, lines.find(|line| line.run == run && line.label == label)?))
        })
    }

    /// The block of the last step, which says what all have in common.
    fn last(&self) -> &Block<'_> {
        &self.steps[self.steps.len() - 1].1
    }

    fn reading(&self, run: &str, label: &str) -> Reading {
        let (metric, last) = (self.metric(), self.last());
        let title = format!(
            "{} of {} by training step, {label}: {}{}",
            metric.title(),
            last.run_label(run),
            last.settings.protocol,
            text_of(last)
        );
        let own_run = (last.runs().len() > 1).then(|| run.to_owned());
        Reading {
            name: own_run.iter().cloned().chain([label.to_owned()]).collect(),
            table: self.table(run, label, &title),
            chart: Chart { run: own_run, ..self.chart(run, label, title) },
        }
    }

    fn table(&self, run: &str, label: &str, title: &str) -> Grid {
        let (metric, lengths) = (self.metric(), self.lengths());
        let train_length = self.last().settings.train_length;
        let entry = |line: &Line, length: &usize| {
            let cell = line.rows.get(length).and_then(|rows| Cell::new(metric, rows));
            cell.as_ref().map_or_else(|| Entry::new("-"), Cell::entry)
        };
        let rows = self.lines(run, label).map(|(step, line)| {
            let cells = lengths.iter().map(|length| entry(line, length));
            std::iter::once(Entry::new(step.to_string())).chain(cells).collect()
        });
        let mut seeds = self.steps.iter().flat_map(|(_, block)| block.rows()).map(|row| row.seed);
        let first = seeds.next();
        let spread = if seeds.any(|seed| Some(seed) != first) { "seeds" } else { "documents" };
        let headers = lengths.iter().map(|length| Header::number(heading(*length, train_length)));
        Grid {
            title: title.to_owned(),
            headers: std::iter::once(Header::number("step")).chain(headers).collect(),
            rows: rows.collect(),
            notes: vec![format!("± is over {spread}, as in the tables by length")],
            ..Grid::default()
        }
    }

    fn chart(&self, run: &str, label: &str, title: String) -> Chart {
        let (metric, lengths) = (self.metric(), self.lengths());
        let train_length = self.last().settings.train_length;
        let curve = |(style, length): (usize, &usize)| Series {
            name: heading(*length, train_length),
            points: self.points(run, label, *length),
            style,
            role: Role::Method,
        };
        let mut series: Vec<Series> = lengths.iter().enumerate().map(curve).collect();
        // What a longer context must beat, at the longest length.
        if let Some(longest) = lengths.last().filter(|_| label != WINDOW_BASELINE) {
            let points = self.points(run, WINDOW_BASELINE, *longest);
            let name = format!("{WINDOW_BASELINE} at {longest}");
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
            y: metric_axis(metric, ""),
            series,
            ..Chart::default()
        }
    }

    fn points(&self, run: &str, label: &str, length: usize) -> Vec<Point> {
        let metric = self.metric();
        let point = |(step, line): (u64, &Line)| {
            let cell = Cell::new(metric, line.rows.get(&length)?)?;
            Some(Point { x: step as f64, y: cell.value, bar: None })
        };
        self.lines(run, label).filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::blocks;
    use crate::example;

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
}
