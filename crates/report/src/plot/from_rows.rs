//! Charts of results.

use super::{Axis, Chart, Point, Role, Scale, Series, Styles};
use crate::block::{Block, Line, multiple};
use crate::curve::{Span, longest_with_curve, loss_within, rows_with_curve};
use crate::table::{Cell, Table, across, text_of};
use longwave_eval::{Metric, ResultRow};
use std::collections::BTreeSet;

/// A reader can follow up to so many lines in one chart.
const READABLE: usize = 12;
/// A longer curve is averaged down to about this many points.
const CURVE: usize = 300;

/// A metric against length: one chart, or, where several runs have
/// more lines together than a reader can follow, one chart of how each run reads by itself and one chart per
/// run.
pub fn by_length(block: &Block, metric: Metric, styles: &Styles) -> Vec<Chart> {
    let runs = block.runs();
    let own_name = |line: &Line| line.label.clone();
    if runs.len() < 2 || block.lines.len() <= READABLE {
        let title = Table::new(block, metric).title;
        let lines: Vec<&Line> = block.lines.iter().collect();
        return vec![if runs.len() > 1 {
            let name = |line: &Line| format!("{}: {}", line.run, line.label);
            by_length_of(block, metric, &title, &lines, name, &styles.among_runs(&lines))
        } else {
            by_length_of(block, metric, &title, &lines, own_name, &styles.of_one_run(&lines))
        }];
    }
    let own = |run: &&str| {
        let mut lines = block.lines.iter().filter(|line| line.run == **run);
        let direct = lines.clone().find(|line| line.extend == "direct");
        direct.or_else(|| lines.next())
    };
    let overview: Vec<&Line> = runs.iter().filter_map(own).collect();
    let title = format!("{} as trained: {}", metric.title(), block.settings.protocol);
    let name = |line: &Line| {
        let is_direct = line.extend == "direct";
        if is_direct { line.run.clone() } else { format!("{}: {}", line.run, line.label) }
    };
    let mut charts =
        vec![by_length_of(block, metric, &title, &overview, name, &styles.among_runs(&overview))];
    for run in runs {
        let lines: Vec<&Line> = block.lines.iter().filter(|line| line.run == run).collect();
        // Of one length the table says it all.
        if lines.len() > 1 && block.lengths.len() > 1 {
            let title =
                format!("{} of {}: {}", metric.title(), block.run_label(run), block.settings.protocol);
            let chart = by_length_of(block, metric, &title, &lines, own_name, &styles.of_one_run(&lines));
            charts.push(Chart { run: Some(run.to_owned()), ..chart });
        }
    }
    charts
}

/// The one chart that a paper shows of a block: the first of [`by_length`]. Where that has each run as trained alone, the lowest
/// of the window baselines stands with them where they compare, as it is what a longer context must beat.
pub fn of_paper(block: &Block, metric: Metric, styles: &Styles) -> Chart {
    let mut charts = by_length(block, metric, styles);
    let mut chart = charts.swap_remove(0);
    if charts.is_empty() || !block.compares(metric) {
        return chart;
    }
    let last = |line: &&Line| Cell::new(metric, line.rows.values().next_back()?).map(|cell| cell.value);
    let better = |one: &&Line, other: &&Line| {
        let (one, other) = (last(one).unwrap_or(f64::NAN), last(other).unwrap_or(f64::NAN));
        if metric.lower_is_better() { one.total_cmp(&other) } else { other.total_cmp(&one) }
    };
    if let Some(best) = block.lines.iter().filter(|line| line.is_baseline()).min_by(better) {
        let name = |line: &Line| format!("{}: {}", line.run, line.label);
        let mut baseline = by_length_of(block, metric, "", &[best], name, &[0]).series.swap_remove(0);
        // The label of the axis says what bars are, and it is that of the others.
        if !has_bar(&chart.series) {
            baseline.points.iter_mut().for_each(|point| point.bar = None);
        }
        // Before the chance level, so that it is the dashed one.
        let methods = chart.series.iter().filter(|series| series.role == Role::Method).count();
        chart.series.insert(methods, baseline);
    }
    chart
}

fn by_length_of(
    block: &Block,
    metric: Metric,
    title: &str,
    lines: &[&Line],
    name: impl Fn(&Line) -> String,
    styles: &[usize],
) -> Chart {
    let train_length = block.settings.train_length;
    let tick = |length: usize| (length as f64, vec![length.to_string(), multiple(length, train_length)]);
    // Of the whole block, whose table stands beside each of its charts.
    let cells = block.lines.iter().flat_map(|line| line.rows.values());
    let seeds = cells.filter_map(|rows| Cell::new(metric, rows)).any(|cell| cell.seeds > 1);
    // Error bars of many lines hide each other; the table has the errors.
    let has_bars = lines.len() <= READABLE;
    // As in the table, one seed's error over documents does not stand beside spreads over seeds.
    let bar = |cell: &Cell| {
        let error = cell.error.filter(|_| has_bars && (cell.seeds > 1 || !seeds));
        error.map(|error| error.ends(cell.value))
    };
    let of_line = |(line, &style): (&&Line, &usize)| {
        let name = name(line);
        let cells = line.rows.iter().filter_map(|(length, rows)| Some((*length, Cell::new(metric, rows)?)));
        let points = cells.map(|(length, cell)| Point { x: length as f64, y: cell.value, bar: bar(&cell) });
        Series { name, points: points.collect(), style, role: role(line) }
    };
    let series: Vec<Series> = lines.iter().zip(styles).map(of_line).collect();
    let bars = if has_bar(&series) { what_bars_are(lines, metric, seeds) } else { String::new() };
    Chart {
        title: title.to_owned(),
        subtitle: Table::new(block, metric).setting,
        note: note(block, metric, lines),
        x: Axis {
            label: format!("tokens of context (trained on L = {train_length})"),
            scale: Scale::Log,
            ticks: block.lengths.iter().map(|&length| tick(length)).collect(),
        },
        y: metric_axis(metric, &bars),
        series: series.into_iter().chain(chance(block, metric)).collect(),
        ..Chart::default()
    }
}

fn has_bar(series: &[Series]) -> bool {
    series.iter().flat_map(|series| &series.points).any(|point| point.bar.is_some())
}

/// As a label of an axis ends: what the bars of these lines are, which are over seeds or over what each row scored.
fn what_bars_are(lines: &[&Line], metric: Metric, over_seeds: bool) -> String {
    let mut rows = lines.iter().flat_map(|line| line.rows.values().flatten().copied());
    if over_seeds {
        ", bars: one standard deviation over seeds".to_owned()
    } else if rows.clone().any(|row| row.interval(metric).is_some()) {
        ", bars: 95% intervals".to_owned()
    } else {
        let unit = rows.next().map_or("document", ResultRow::unit);
        format!(", bars: one standard error over {unit}s")
    }
}

/// What a reader must know before comparing lines, or else points of one line.
fn note(block: &Block, metric: Metric, lines: &[&Line]) -> Option<String> {
    let is_of_one_run = block.runs().len() > 1 && lines.iter().all(|line| line.run == lines[0].run);
    let obstacle = block.obstacle(metric).filter(|_| !is_of_one_run);
    obstacle.or_else(|| across(block).map(str::to_owned))
}

/// The window baseline is what others are measured against.
fn role(line: &Line) -> Role {
    if line.is_baseline() { Role::Reference } else { Role::Method }
}

/// The vertical axis of a metric; `bars` ends its label.
pub(crate) fn metric_axis(metric: Metric, bars: &str) -> Axis {
    let (label, scale) = if metric.is_exponential() {
        (format!("{} (log scale{bars})", metric.in_words()), Scale::Log)
    } else {
        (format!("{}{bars}", metric.title().to_lowercase()), Scale::Linear)
    };
    Axis::new(label, scale)
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
    (!points.is_empty()).then(|| Series { name: "chance".into(), points, style: 0, role: Role::Reference })
}

/// The loss by position, at the longest length of each run; none where no row has one.
pub fn positions(block: &Block, styles: &Styles) -> Vec<Chart> {
    let runs = block.runs();
    runs.iter().filter_map(|run| positions_of(block, run, styles)).collect()
}

fn positions_of(block: &Block, run: &str, styles: &Styles) -> Option<Chart> {
    let lines = block.lines.iter().filter(|line| line.run == run);
    let length = longest_with_curve(block, lines.clone())?;
    let lines: Vec<&Line> = lines.filter(|line| !rows_with_curve(line, length).is_empty()).collect();
    let places = styles.of_one_run(&lines);
    let bucket = block.settings.protocol.bucket(&block.settings.keys).unwrap_or(1);
    let train_length = block.settings.train_length;
    let series = lines.iter().zip(places).map(|(line, style)| Series {
        name: line.label.clone(),
        points: mean_curve(line, length, bucket),
        style,
        role: role(line),
    });
    Some(Chart {
        title: format!("Loss by position of {}, at {length} tokens{}", block.run_label(run), text_of(block)),
        subtitle: format!("mean over buckets of {bucket} places"),
        run: (block.runs().len() > 1).then(|| run.to_owned()),
        x: Axis::new("position in the window (tokens of context)", Scale::Linear),
        y: Axis::new("loss (nats per token)", Scale::Linear),
        mark: (train_length < length).then(|| (train_length as f64, "trained length".into())),
        series: series.collect(),
        ..Chart::default()
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
    // Places that rows hold: a row may claim any length.
    let places = rows.iter().flat_map(|row| row.positions.iter().flatten());
    let firsts: BTreeSet<usize> = places.map(|place| place.position / bucket * bucket).collect();
    let spans = firsts.into_iter().map(|first| Span { first: first + 1, last: (first + bucket).min(length) });
    spans.filter_map(point).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub name: String,
    /// The run as its rows name it, which chooses the colour; of other curves the order does.
    pub run: Option<String>,
    /// `(step, loss)` in nats per token, by ascending step.
    pub values: Vec<(f64, f64)>,
}

/// How many values in a row a point is the mean of, in a curve of so many values.
pub(crate) fn values_per_point(values: usize) -> usize {
    values.div_ceil(CURVE).max(1)
}

/// Loss against training step. Long curves are averaged.
pub fn training(curves: &[Curve], styles: &Styles) -> Chart {
    let series = curves.iter().enumerate().map(|(order, curve)| {
        let size = values_per_point(curve.values.len());
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64, values: &[(f64, f64)]| {
            values.iter().map(of).sum::<f64>() / values.len() as f64
        };
        let point = |values: &[(f64, f64)]| Point {
            x: mean(&|value| value.0, values),
            y: mean(&|value| value.1, values),
            bar: None,
        };
        let style = curve.run.as_deref().and_then(|run| styles.of_name(run)).unwrap_or(order);
        let points = curve.values.chunks(size).map(point).collect();
        Series { name: curve.name.clone(), points, style, role: Role::Method }
    });
    Chart {
        x: Axis::new("step", Scale::Linear),
        y: Axis::new("loss (nats per token)", Scale::Linear),
        series: series.collect(),
        ..Chart::default()
    }
}
