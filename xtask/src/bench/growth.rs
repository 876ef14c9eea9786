//! `cargo xtask bench growth`: how the time of a token grows with the length of a text, and with the width of the model.
//!
//! Reading: one pass over texts of each length. A token costs as much in any text, but for attention, where it
//! meets all tokens before it: `t(n) = a + b n`. Training: one step at each width, with heads of the config's width.
//! Whatever goes through a row once grows with the width, and the products of weights with its square:
//! `t(w) = a w + b w²`. Both are fitted as `t / x^k = a + b x`, by least squares of relative deviations.

use longwave_bench::{Bench, Record, eval, train};
use longwave_core::{Error, Result};
use longwave_data::Dataset;
use longwave_position::Dimensions;
use longwave_report::grid::{Grid, Header};
use longwave_report::plot::{Axis, Chart, Point, Role, Scale, Series};
use longwave_train::RunConfig;
use std::fmt::Write;

/// Lengths that are read unless others are asked for.
pub(crate) const LENGTHS: [usize; 8] = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
/// Widths that are trained unless others are asked for.
pub(crate) const WIDTHS: [usize; 6] = [64, 128, 192, 256, 384, 512];

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Length,
    /// A training step, with the width of the model.
    Width,
}

impl By {
    /// The file name of the chart, and what the axis measures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Width => "width",
        }
    }

    /// The power of x that both terms of the fit have in common.
    fn common(self) -> i32 {
        match self {
            Self::Length => 0,
            Self::Width => 1,
        }
    }

    /// The two terms of the fit, in words.
    fn terms(self) -> [&'static str; 2] {
        match self {
            Self::Length => ["", " x length"],
            Self::Width => [" x width", " x width²"],
        }
    }
}

/// Times of a token against what they grow with, and the two terms that they are made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// What grows.
    pub(crate) by: By,
    /// What was measured, in words.
    pub(crate) setting: String,
    /// Length or width, and seconds per token in the fastest run; ascending.
    pub(crate) points: Vec<(f64, f64)>,
    /// The same for the matrix products of a training step alone; empty for reading.
    pub(crate) products: Vec<(f64, f64)>,
    /// a of the fit, in seconds.
    pub(crate) lower: f64,
    /// b of the fit, in seconds.
    pub(crate) higher: f64,
}

impl Curve {
    fn new(by: By, setting: String, points: Vec<(f64, f64)>, products: Vec<(f64, f64)>) -> Self {
        let [lower, higher] = fit(&points, by.common());
        Self { by, setting, points, products, lower, higher }
    }

    /// Seconds per token by the fit.
    pub(crate) fn fitted(&self, x: f64) -> f64 {
        x.powi(self.by.common()) * (self.lower + self.higher * x)
    }

    /// Where both terms of the fit are equal, if they ever are.
    pub(crate) fn crossing(&self) -> Option<f64> {
        (self.lower > 0.0 && self.higher > 0.0).then(|| self.lower / self.higher)
    }

    /// The slope of log time against log x, by least squares over all points.
    pub(crate) fn slope(&self) -> f64 {
        slope(&self.points)
    }

    /// The slope of the fit at the last point.
    pub(crate) fn last_slope(&self) -> f64 {
        let last = self.points.last().map_or(0.0, |point| point.0);
        f64::from(self.by.common()) + self.share(last)
    }

    /// The share of the steeper term in the fit.
    fn share(&self, x: f64) -> f64 {
        self.higher * x / (self.lower + self.higher * x)
    }

    /// The largest relative deviation of a point from the fit.
    pub(crate) fn deviation(&self) -> f64 {
        self.points.iter().map(|&(x, t)| (t / self.fitted(x) - 1.0).abs()).fold(0.0, f64::max)
    }

    /// The fit in words.
    pub(crate) fn summary(&self) -> String {
        let name = self.by.name();
        let [low, high] = self.by.terms();
        let mut text = format!(
            "time per token by {name}: {:.4} us{low} + {:.6} us{high}, within {:.0}%; slope {:.2} over all, \
             {:.2} at the end of the fit",
            1e6 * self.lower,
            1e6 * self.higher,
            100.0 * self.deviation(),
            self.slope(),
            self.last_slope(),
        );
        if let Some(crossing) = self.crossing() {
            // Writing into a string cannot fail.
            let _ = write!(text, "; both terms are equal at a {name} of {crossing:.0}");
        }
        text
    }

    /// The chart: what was measured, the fit, and where its terms are equal.
    pub(crate) fn chart(&self) -> Chart {
        let point = |(x, seconds): (f64, f64)| Point { x, y: 1e6 * seconds, bar: None };
        let series =
            |name: &str, points: Vec<Point>, style, role| Series { name: name.into(), points, style, role };
        let measured: Vec<Point> = self.points.iter().copied().map(point).collect();
        let fit = self.points.iter().map(|&(x, _)| point((x, self.fitted(x)))).collect();
        let mut all = vec![series("measured", measured, 0, Role::Method)];
        if !self.products.is_empty() {
            let products = self.products.iter().copied().map(point).collect();
            all.push(series("its matrix products alone", products, 1, Role::Method));
        }
        all.push(series(&format!("fit, slope {:.2} at the end", self.last_slope()), fit, 0, Role::Reference));
        let seen = |x: &f64| self.points[0].0 < *x && *x < self.points[self.points.len() - 1].0;
        let [title, x] = match self.by {
            By::Length => ["Reading: time per token by length", "length in tokens"],
            By::Width => ["Training: time per token of a step by width", "width"],
        };
        let tick = |&(x, _): &(f64, f64)| (x, vec![format!("{x:.0}")]);
        Chart {
            title: title.into(),
            subtitle: self.setting.clone(),
            x: Axis { label: x.into(), scale: Scale::Log, ticks: self.points.iter().map(tick).collect() },
            y: Axis::new("microseconds per token", Scale::LogWhole),
            mark: self.crossing().filter(seen).map(|x| (x, format!("both terms equal ({x:.0})"))),
            series: all,
            ..Chart::default()
        }
    }

    /// The points as a Markdown table, with the fit and its larger term's share.
    pub(crate) fn table(&self) -> String {
        let alone = (!self.products.is_empty()).then_some("products alone");
        let names = [self.by.name(), "us per token"].into_iter().chain(alone);
        let names = names.chain(["fit", "share of the steeper term"]);
        let row = |(index, &(x, seconds)): (usize, &(f64, f64))| {
            let alone = self.products.get(index).map_or(0.0, |&(_, seconds)| 1e6 * seconds);
            let alone = (!self.products.is_empty()).then(|| format!("{alone:.2}"));
            let first = [format!("{x:.0}"), format!("{:.2}", 1e6 * seconds)].into_iter().chain(alone);
            let fit = [format!("{:.2}", 1e6 * self.fitted(x)), format!("{:.0}%", 100.0 * self.share(x))];
            first.chain(fit).collect::<Vec<_>>()
        };
        Grid::of(names.map(Header::number), self.points.iter().enumerate().map(row)).markdown_lines()
    }
}

/// Measures both curves with one config. Nothing is trained, and no peer is timed.
pub(crate) fn run(
    bench: &Bench,
    config: &RunConfig,
    dataset: &Dataset,
    [lengths, widths]: [&[usize]; 2],
    show: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<[Curve; 2]> {
    let bench = Bench { alone: true, ..bench.clone() };
    let [lengths, widths] = [ascending("--lengths", lengths)?, ascending("--widths", widths)?];
    let vocab = dataset.tokenizer().vocab_size();
    let Dimensions { layers, width, head_dim, .. } =
        config.model.resolve(vocab, config.train.length)?.dimensions;
    if let Some(width) = widths.iter().find(|width| !width.is_multiple_of(head_dim)) {
        return Err(Error::value("--widths", width, format!("it must be a multiple of {head_dim}"))
            .hint(format!("the heads of the config have {head_dim} channels at every width")));
    }
    let mut emit = |mut record: Record| {
        record.bench = "growth";
        let tokens = record.tokens.unwrap_or(1).max(1) as f64;
        let point = record.seconds_min / tokens;
        show(record).map(|()| point)
    };

    let mut times = Vec::new();
    eval::run(&bench, config, vocab, &lengths, &mut |record| {
        times.push(emit(record)?);
        Ok(())
    })?;
    let paired =
        |xs: &[usize], times: &[f64]| xs.iter().map(|&x| x as f64).zip(times.iter().copied()).collect();
    let setting =
        format!("{}, {layers} layers, width {width}; {}", config.position.name(), bench.device_name);
    let reading = Curve::new(By::Length, setting, paired(&lengths, &times), Vec::new());

    let (mut steps, mut products) = (Vec::new(), Vec::new());
    for &width in &widths {
        let mut wide = config.clone();
        (wide.model.width, wide.model.heads) = (Some(width), Some(width / head_dim));
        (wide.model.kv_heads, wide.model.feed_forward_width) = (None, None);
        let mut times = Vec::new();
        train::run(&bench, &wide, dataset, &mut |record| {
            times.push(emit(record)?);
            Ok(())
        })?;
        if let [step, alone] = times[..] {
            steps.push(step);
            products.push(alone);
        }
    }
    let setting = format!(
        "{}, {} x {} tokens, heads of {head_dim}; {}",
        config.position.name(),
        config.train.sequences(),
        config.train.length,
        bench.device_name,
    );
    let training = Curve::new(By::Width, setting, paired(&widths, &steps), paired(&widths, &products));
    Ok([reading, training])
}

/// The values in order, each once.
fn ascending(key: &str, values: &[usize]) -> Result<Vec<usize>> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < 2 || sorted[0] == 0 {
        let shown = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        return Err(Error::value(key, shown, "growth needs at least two different values above 0"));
    }
    Ok(sorted)
}

/// The a and b, neither negative, for which `x^common (a + b x)` deviates least from the times, relatively.
fn fit(points: &[(f64, f64)], common: i32) -> [f64; 2] {
    let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|&(x, t)| (x, x.powi(common) / t)).map(|(x, u)| term(u, u * x)).sum()
    };
    let (uu, uv, vv) = (sum(&|u, _| u * u), sum(&|u, v| u * v), sum(&|_, v| v * v));
    let (u, v) = (sum(&|u, _| u), sum(&|_, v| v));
    let determinant = uu * vv - uv * uv;
    let (a, b) = ((vv * u - uv * v) / determinant, (uu * v - uv * u) / determinant);
    if a < 0.0 {
        [0.0, v / vv]
    } else if b < 0.0 {
        [u / uu, 0.0]
    } else {
        [a, b]
    }
}

/// The least-squares slope of log time against log x.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|&(x, t)| (x.ln(), t.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let products: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    products / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs()
    }

    #[test]
    fn the_terms_of_an_exact_curve_are_found() {
        let xs = [64.0, 128.0, 512.0, 4096.0];
        let reading = xs.map(|x| (x, 1e-5 + 2e-8 * x)).to_vec();
        let curve = Curve::new(By::Length, "s".into(), reading, Vec::new());
        assert!(close(curve.lower, 1e-5) && close(curve.higher, 2e-8) && curve.deviation() < 1e-9);
        assert!(close(curve.crossing().unwrap(), 500.0));
        assert!(close(curve.last_slope(), 4096.0 / 4596.0));
        assert!(curve.summary().contains("equal at a length of 500"), "{}", curve.summary());

        let training = xs.map(|x| (x, 3e-7 * x + 1e-9 * x * x)).to_vec();
        let curve = Curve::new(By::Width, "s".into(), training, Vec::new());
        assert!(close(curve.lower, 3e-7) && close(curve.higher, 1e-9));
        // Neither term is ever negative: a power of its own has the other at zero.
        let power = xs.map(|x| (x, 1e-9 * x.powi(3))).to_vec();
        let curve = Curve::new(By::Length, "s".into(), power, Vec::new());
        assert!(curve.lower == 0.0 && curve.crossing().is_none());
        assert!(close(curve.slope(), 3.0) && close(curve.last_slope(), 1.0));
    }

    #[test]
    fn a_chart_shows_points_fit_and_crossing() {
        let points = vec![(128.0, 1e-5), (1024.0, 2e-5), (8192.0, 9e-5)];
        let chart = Curve::new(By::Length, "rope".into(), points.clone(), points.clone()).chart();
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names[..2], ["measured", "its matrix products alone"]);
        assert!(
            names[2].starts_with("fit") && chart.series[2].role == Role::Reference && chart.mark.is_some()
        );
        assert_eq!(chart.series[0].points[1].y, 20.0);
        let table = Curve::new(By::Length, "rope".into(), points, Vec::new()).table();
        assert!(table.lines().nth(2).unwrap().starts_with("| 128 | 10.00 |"), "{table}");
    }
}
