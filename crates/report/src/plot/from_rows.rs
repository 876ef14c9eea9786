//! Charts of results.

use super::{Axis, Chart, Point, Scale, Series};
use crate::block::{Block, Line, multiple};
use crate::curve::{Span, longest_with_curve, loss_within, rows_with_curve, spans};
use crate::table::{Cell, Table, across, text_of};
use longwave_eval::Metric;

/// A reader can follow up to so many lines in one chart.
const READABLE: usize = 12;
/// A longer curve is averaged down to about this many points.
const CURVE: usize = 300;

/// A metric against length: one chart, or, where several runs have
/// more lines together than a reader can follow, one chart of how each run reads by itself and one chart per
/// run.
pub fn by_length(block: &Block, metric: Metric) -> Vec<Chart> {
    let runs = block.runs();
    let several = runs.len() > 1;
    if !several || block.lines.len() <= READABLE {
        let name =
            |line: &Line| if several { format!("{}: {}", line.run, line.label) } else { line.label.clone() };
        return vec![by_length_of(
            block,
            metric,
            &Table::new(block, metric).title,
            &block.lines.iter().collect::<Vec<_>>(),
            name,
        )];
    }
    let own = |run: &&str| {
        let mut lines = block.lines.iter().filter(|line| line.run == **run);
        let direct = lines.clone().find(|line| line.extend == "direct");
        direct.or_else(|| lines.next())
    };
    let overview: Vec<&Line> = runs.iter().filter_map(own).collect();
    let title = format!("{} as trained: {}", metric.title(), block.settings.protocol);
    let mut charts = vec![by_length_of(block, metric, &title, &overview, |line| {
        if line.extend == "direct" { line.run.clone() } else { format!("{}: {}", line.run, line.label) }
    })];
    for run in runs {
        let lines: Vec<&Line> = block.lines.iter().filter(|line| line.run == run).collect();
        if lines.len() > 1 {
            let title =
                format!("{} of {}: {}", metric.title(), block.run_label(run), block.settings.protocol);
            charts.push(by_length_of(block, metric, &title, &lines, |line| line.label.clone()));
        }
    }
    charts
}

fn by_length_of(
    block: &Block,
    metric: Metric,
    title: &str,
    lines: &[&Line],
    name: impl Fn(&Line) -> String,
) -> Chart {
    let train_length = block.settings.train_length;
    let tick = |length: usize| (length as f64, vec![length.to_string(), multiple(length, train_length)]);
    let seeds = lines.iter().flat_map(|line| line.rows.values()).any(|rows| rows.len() > 1);
    // Error bars of many lines hide each other; the table has the errors.
    let has_bars = lines.len() <= READABLE;
    // As in the table, one seed's error over documents does not stand beside spreads over seeds.
    let bar = |cell: &Cell| {
        let error = cell.error.filter(|_| has_bars && (cell.seeds > 1 || !seeds));
        error.map(|error| error.ends(cell.value))
    };
    let series = lines.iter().map(|line| Series {
        name: name(line),
        points: line
            .rows
            .iter()
            .filter_map(|(length, rows)| Cell::new(metric, rows).map(|cell| (*length as f64, cell)))
            .map(|(x, cell)| Point { x, y: cell.value, bar: bar(&cell) })
            .collect(),
        reference: line.is_baseline(),
    });
    let has_intervals =
        lines.iter().flat_map(|line| line.rows.values().flatten()).any(|row| row.interval(metric).is_some());
    let bars = match (has_bars, seeds) {
        (true, true) => ", bars: one standard deviation over seeds",
        (true, false) if has_intervals => ", bars: 95% intervals",
        _ => "",
    };
    Chart {
        title: title.to_owned(),
        subtitle: Table::new(block, metric).setting,
        note: across(block).map(str::to_owned),
        x: Axis {
            label: format!("tokens of context (trained on L = {train_length})"),
            scale: Scale::Log,
            ticks: block.lengths.iter().map(|&length| tick(length)).collect(),
        },
        y: if metric.is_exponential() {
            let label = format!("{} (log scale{bars})", metric.in_words());
            Axis { label, scale: Scale::Log, ticks: vec![] }
        } else {
            let label = format!("{}{bars}", metric.title().to_lowercase());
            Axis { label, scale: Scale::Linear, ticks: vec![] }
        },
        mark: None,
        series: series.chain(chance(block, metric)).collect(),
    }
}

/// What a constant guess reaches at each length, where all rows of a length agree on it.
fn chance(block: &Block, metric: Metric) -> Option<Series> {
    let at = |length: &usize| {
        let rows = block.lines.iter().filter_map(|line| line.rows.get(length)).flatten();
        let mut levels = rows.map(|row| row.chance(metric));
        let level = levels.next()??;
        levels.all(|other| other == Some(level)).then(|| Point {
            x: *length as f64,
            y: metric.factor() * level,
            bar: None,
        })
    };
    let points: Vec<Point> = block.lengths.iter().filter_map(at).collect();
    (!points.is_empty()).then(|| Series { name: "chance".into(), points, reference: true })
}

/// The loss by position, at the longest length of each run; none where no row has one.
pub fn positions(block: &Block) -> Vec<Chart> {
    let runs = block.runs();
    runs.iter().filter_map(|run| positions_of(block, run)).collect()
}

fn positions_of(block: &Block, run: &str) -> Option<Chart> {
    let lines = block.lines.iter().filter(|line| line.run == run);
    let length = longest_with_curve(block, lines.clone())?;
    let bucket = block.settings.protocol.bucket(&block.settings.keys).unwrap_or(1);
    let train_length = block.settings.train_length;
    let series = lines.filter(|line| !rows_with_curve(line, length).is_empty()).map(|line| Series {
        name: line.label.clone(),
        points: mean_curve(line, length, bucket),
        reference: line.is_baseline(),
    });
    Some(Chart {
        title: format!("Loss by position of {}, at {length} tokens{}", block.run_label(run), text_of(block)),
        subtitle: format!("mean over buckets of {bucket} places"),
        note: None,
        x: Axis {
            label: "position in the window (tokens of context)".into(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis { label: "loss (nats per token)".into(), scale: Scale::Linear, ticks: vec![] },
        mark: (train_length < length).then(|| (train_length as f64, "trained length".into())),
        series: series.collect(),
    })
}

/// The mean over seeds of the losses by position, each at the middle of its bucket.
fn mean_curve(line: &Line, length: usize, bucket: usize) -> Vec<Point> {
    let rows = rows_with_curve(line, length);
    let point = |span: Span| {
        let losses: Vec<f64> = rows.iter().filter_map(|row| loss_within(row, span)).collect();
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        let x = (span.first + span.last) as f64 / 2.0;
        (!losses.is_empty()).then_some(Point { x, y: mean, bar: None })
    };
    spans(length, bucket).into_iter().filter_map(point).collect()
}

/// Loss against training step: `(name, [(step, loss)])` of each curve. Long curves are averaged.
pub fn training(curves: &[(String, Vec<(f64, f64)>)]) -> Chart {
    let series = curves.iter().map(|(name, values)| {
        let size = values.len().div_ceil(CURVE).max(1);
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64, values: &[(f64, f64)]| {
            values.iter().map(of).sum::<f64>() / values.len() as f64
        };
        let point = |values: &[(f64, f64)]| Point {
            x: mean(&|value| value.0, values),
            y: mean(&|value| value.1, values),
            bar: None,
        };
        Series { name: name.clone(), points: values.chunks(size).map(point).collect(), reference: false }
    });
    Chart {
        title: String::new(),
        subtitle: String::new(),
        note: None,
        x: Axis { label: "step".into(), scale: Scale::Linear, ticks: vec![] },
        y: Axis { label: "loss (nats per token)".into(), scale: Scale::Linear, ticks: vec![] },
        mark: None,
        series: series.collect(),
    }
}
