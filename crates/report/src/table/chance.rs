//! What a guess reaches, as rows below those of readings.

use super::{Cell, TableRow};
use crate::block::{Block, Line};
use longwave_eval::Metric;
use longwave_eval::label::assigned;

pub(crate) const CHANCE: &str = "chance";

pub(crate) fn is_chance(row: &TableRow) -> bool {
    row.labels.last().is_some_and(|label| label.starts_with(CHANCE))
}

/// A row for each run and each way to ask its task; one row where all are alike.
pub(super) fn rows(block: &Block, metric: Metric) -> Vec<TableRow> {
    let runs = block.runs();
    let mut rows: Vec<(Vec<String>, Vec<Option<Cell>>)> = Vec::new();
    for run in &runs {
        let tasks = block.tasks();
        let of_run: Vec<_> = tasks
            .iter()
            .map(|task| {
                let differing = task
                    .fields()
                    .iter()
                    .filter(|(key, value)| tasks.iter().any(|other| other.fields().get(*key) != Some(value)));
                let keys: Vec<String> = differing.map(|(key, value)| assigned(key, value)).collect();
                let lines = block.lines.iter().filter(|line| line.run == *run && line.task == **task);
                (keys.join(", "), cells(block, lines, metric))
            })
            .filter(|(_, cells)| cells.iter().any(Option::is_some))
            .collect();
        let alike = of_run.iter().all(|(_, cells)| *cells == of_run[0].1);
        rows.extend(of_run.into_iter().take(if alike { 1 } else { usize::MAX }).map(|(keys, cells)| {
            let label =
                if alike || keys.is_empty() { CHANCE.to_owned() } else { format!("{CHANCE} ({keys})") };
            (vec![block.run_label(run), label], cells)
        }));
    }
    let several = runs.len() > 1;
    let alike = several && rows.len() == runs.len() && rows.iter().all(|(_, cells)| *cells == rows[0].1);
    let of_all = |labels: &mut Vec<String>| labels[0] = String::new();
    let kept = rows.into_iter().take(if alike { 1 } else { usize::MAX });
    kept.map(|(mut labels, cells)| {
        if alike {
            of_all(&mut labels);
        }
        TableRow { labels: labels.split_off(usize::from(!several)), cells }
    })
    .collect()
}

fn cells<'a>(block: &Block, lines: impl Iterator<Item = &'a Line<'a>>, metric: Metric) -> Vec<Option<Cell>> {
    let lines: Vec<&Line> = lines.collect();
    let at = |length: &usize| {
        let mut rows = lines.iter().filter_map(|line| line.rows.get(length)).flatten();
        let level = rows.find_map(|row| row.chance(metric))?;
        Cell::of_seeds(metric, &[metric.factor() * level])
    };
    block.lengths.iter().map(at).collect()
}
