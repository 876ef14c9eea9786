//! Where everything of a chart goes.

use super::canvas::{Canvas, MARKERS, Place, Side, Typeface, load_font};
use super::scale::Range;
use super::{Chart, IntoDrawingArea, Point, SIZE, Series, failed};
use longwave_core::{Error, Result};
use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;
use std::fmt::Display;

/// Text and marks. The page's style sheet knows these four by their values, for dark screens.
pub(crate) const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
/// What stands back: ticks, subtitles, references.
pub(crate) const FAINT: RGBColor = RGBColor(0x5F, 0x67, 0x70);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);
/// Behind everything.
pub(crate) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

/// Colours of series.
pub(super) const COLOURS: usize = 8;

/// Okabe and Ito's palette without black and yellow, and two that keep apart from it.
const PALETTE: [RGBColor; COLOURS] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x99, 0x99, 0x33),
];

const LEFT: f64 = 66.0;
/// Above the data: the label of the vertical axis, and the heading where there is one.
const TOP: f64 = 42.0;
const HEADING: f64 = 54.0;
const NOTE: f64 = 18.0;
const BOTTOM: f64 = 66.0;
const LEGEND_ROW: f64 = 20.0;
/// Between the label of the axis and a legend below it.
const LEGEND_GAP: f64 = 8.0;
/// Left and right of texts that stand at the edge.
const MARGIN: f64 = 20.0;
/// The least height of the data.
const LEAST: f64 = 120.0;
/// Series of more points than this have a marker every so often only.
const CROWDED: usize = 16;

/// How large a chart is drawn, and in what its texts are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// In pixels.
    pub(super) width: u32,
    /// In pixels; in proportion to the width unless given.
    pub(super) height: Option<u32>,
    pub(super) typeface: Typeface,
}

impl Default for Layout {
    fn default() -> Self {
        Self { width: SIZE.0, height: None, typeface: Typeface::default() }
    }
}

/// Where the legend stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Legend {
    /// At the right, so many pixels wide.
    Beside(f64),
    /// Below, in columns of so many pixels.
    Below { columns: usize, width: f64 },
}

impl Legend {
    /// At the right, unless that leaves too little of the width to the data.
    fn of(chart: &Chart, layout: &Layout) -> Result<Self> {
        let mut width = 0f64;
        for series in &chart.series {
            width = width.max(layout.typeface.text_width(&series.name, 13.0)?);
        }
        let (width, all) = (width + 46.0, f64::from(layout.width));
        if width + LEFT + 28.0 <= 0.5 * all {
            return Ok(Self::Beside(width));
        }
        let columns = ((all - 2.0 * MARGIN) / width).floor().max(1.0) as usize;
        Ok(Self::Below { columns: columns.min(chart.series.len().max(1)), width })
    }

    /// What it takes below the axis.
    fn height(self, chart: &Chart) -> f64 {
        match self {
            Self::Beside(_) => 0.0,
            // One row more for what leaves the scale.
            Self::Below { columns, .. } => {
                LEGEND_GAP + LEGEND_ROW * (chart.series.len().div_ceil(columns) + 1) as f64
            }
        }
    }
}

/// Width and height, in pixels: a long legend makes a chart taller.
pub(super) fn size(chart: &Chart, layout: &Layout) -> Result<(u32, u32)> {
    if let Some(height) = layout.height {
        return Ok((layout.width, height));
    }
    let spared = TOP + HEADING - top(chart);
    let legend = Legend::of(chart, layout)?;
    let natural = f64::from(SIZE.1) * f64::from(layout.width) / f64::from(SIZE.0);
    let height = match legend {
        Legend::Beside(_) => {
            let legend = top(chart) + LEGEND_ROW * (chart.series.len() + 2) as f64;
            (natural - spared).max(legend)
        }
        Legend::Below { .. } => (natural - spared).max(top(chart) + BOTTOM + LEAST) + legend.height(chart),
    };
    Ok((layout.width, height.ceil() as u32))
}

/// Where the data begin.
fn top(chart: &Chart) -> f64 {
    let has_heading = !(chart.title.is_empty() && chart.subtitle.is_empty());
    note_height(chart) + if has_heading { TOP + HEADING } else { TOP }
}

fn note_height(chart: &Chart) -> f64 {
    if chart.note.is_some() { NOTE } else { 0.0 }
}

/// Draws the chart on a backend of [`size`] times `unit` pixels, see [`Canvas::new`].
pub(super) fn draw<DB: DrawingBackend>(
    chart: &Chart,
    layout: &Layout,
    backend: DB,
    unit: u32,
    text_drop: f64,
) -> Result<()>
where
    DB::ErrorType: Display,
{
    load_font()?;
    let nothing = || {
        Error::failed(format!("there is nothing to draw in \"{}\"", chart.title))
            .hint("no value is a finite number; the results file says what was measured")
    };
    let x = Range::horizontal(&chart.x, &chart.series).ok_or_else(nothing)?;
    let y = Range::vertical(&chart.y, &chart.series).ok_or_else(nothing)?;
    let (width, height) = size(chart, layout)?;
    let legend = Legend::of(chart, layout)?;
    let beside = if let Legend::Beside(width) = legend { width + 28.0 } else { MARGIN };
    let frame = Frame {
        left: LEFT,
        right: f64::from(width) - beside,
        top: top(chart),
        bottom: f64::from(height) - BOTTOM - legend.height(chart),
        x,
        y,
    };
    if frame.right - frame.left < LEAST || frame.bottom - frame.top < 0.5 * LEAST {
        return Err(Error::usage("the figure is too small for its texts")
            .hint("make it wider or higher, or the font smaller"));
    }
    let canvas = Canvas::new(backend.into_drawing_area(), unit, text_drop, layout.typeface)?;
    canvas.fill(PAPER)?;
    let picture = Picture { chart, layout, frame, legend, canvas };
    picture.heading()?;
    picture.axes()?;
    for index in picture.back_to_front() {
        picture.series(index)?;
    }
    picture.names()?;
    picture.canvas.finish().map_err(failed)
}

/// The rectangle that data are drawn in, and what its sides stand for.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Range,
    y: Range,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }

    fn place(&self, point: &Point) -> Place {
        // An infinite value lies above every chart, and its place must still be a number.
        (self.x(point.x), self.y(point.y).max(self.top - 1e6))
    }
}

struct Picture<'a, DB: DrawingBackend> {
    chart: &'a Chart,
    layout: &'a Layout,
    frame: Frame,
    legend: Legend,
    canvas: Canvas<DB>,
}

impl<DB: DrawingBackend> Picture<'_, DB> {
    fn heading(&self) -> Result<()> {
        let Chart { title, subtitle, y, .. } = self.chart;
        self.canvas.text(title, (20.0, 24.0), 17.0, INK, Side::Right)?;
        let room = f64::from(self.layout.width) - 2.0 * MARGIN;
        let narrow = self.layout.typeface.text_width(subtitle, 12.0)? <= room;
        let cut = if narrow { None } else { subtitle.find("; ") };
        let (first, second) = subtitle.split_at(cut.map_or(subtitle.len(), |cut| cut + 1));
        self.canvas.text(first, (20.0, 45.0), 12.0, FAINT, Side::Right)?;
        self.canvas.text(second.trim_start(), (20.0, 60.0), 12.0, FAINT, Side::Right)?;
        if let Some(note) = &self.chart.note {
            self.canvas.text(note, (20.0, self.frame.top - 18.0 - NOTE), 12.0, INK, Side::Right)?;
        }
        self.canvas.text(&y.label, (20.0, self.frame.top - 18.0), 12.0, INK, Side::Right)
    }

    fn axes(&self) -> Result<()> {
        let frame = &self.frame;
        let ticks = |given: &Vec<(f64, Vec<String>)>, range: &Range| {
            if given.is_empty() { range.round_ticks() } else { given.clone() }
        };
        for (value, labels) in ticks(&self.chart.y.ticks, &frame.y) {
            let y = frame.y(value);
            self.canvas.stroke(&[(frame.left, y), (frame.right, y)], GRID, 1.0)?;
            for label in labels {
                self.canvas.text(&label, (frame.left - 9.0, y), 12.0, FAINT, Side::Left)?;
            }
        }
        if let Some((value, label)) = &self.chart.mark {
            let x = frame.x(*value);
            let ends = [(x, frame.bottom), (x, frame.top)];
            self.canvas.dashed(&ends, FAINT, 1.0, (2.0, 4.0))?;
            self.canvas.text(label, (x + 6.0, frame.top + 9.0), 11.0, FAINT, Side::Right)?;
        }
        self.canvas.stroke(&[(frame.left, frame.bottom), (frame.right, frame.bottom)], FAINT, 1.0)?;
        let ticks = ticks(&self.chart.x.ticks, &frame.x);
        let lines = ticks.iter().map(|(_, labels)| labels.len()).max().unwrap_or(0);
        for (value, labels) in ticks {
            let x = frame.x(value);
            self.canvas.stroke(&[(x, frame.bottom), (x, frame.bottom + 5.0)], FAINT, 1.0)?;
            for (line, label) in labels.iter().enumerate() {
                let y = frame.bottom + 16.0 + 15.0 * line as f64;
                self.canvas.text(label, (x, y), 12.0, FAINT, Side::Middle)?;
            }
        }
        let middle = f64::midpoint(frame.left, frame.right);
        self.canvas.text(
            &self.chart.x.label,
            (middle, frame.bottom + 20.0 + 15.0 * lines as f64),
            12.0,
            INK,
            Side::Middle,
        )
    }

    /// References first, then from the last to the first, so that the first lies on top.
    fn back_to_front(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.chart.series.len()).rev().collect();
        order.sort_by_key(|&index| !self.chart.series[index].reference);
        order
    }

    /// Colour and marker of a series.
    fn look(&self, index: usize) -> (RGBColor, usize) {
        let series = &self.chart.series[index];
        if series.reference {
            return (FAINT, 0);
        }
        (PALETTE[series.look % COLOURS], series.look % MARKERS)
    }

    /// Dashes for the first reference, dots for others, so that the chance level is not taken for the window baseline.
    fn dashes(&self, series: &Series) -> (f64, f64) {
        let first = self.chart.series.iter().find(|other| other.reference);
        if first.is_some_and(|first| std::ptr::eq(first, series)) { (6.0, 4.0) } else { (2.0, 3.0) }
    }

    fn line(&self, places: &[Place], series: &Series, color: RGBColor) -> Result<()> {
        match places.len() {
            0 | 1 => Ok(()),
            _ if series.reference => self.canvas.dashed(places, color, 2.0, self.dashes(series)),
            _ => self.canvas.stroke(places, color, 2.0),
        }
    }

    fn series(&self, index: usize) -> Result<()> {
        let series = &self.chart.series[index];
        let (color, marker) = self.look(index);
        for run in series.points.split(|point| point.y.is_nan()) {
            self.run(run, series, color)?;
        }
        let every = if series.points.len() > CROWDED { series.points.len().div_ceil(6) } else { 1 };
        for (place, point) in series.points.iter().enumerate() {
            if point.y.is_nan() || self.frame.y.is_past(point.y) {
                continue;
            }
            self.error_bar(point, color)?;
            // Each series starts elsewhere, so that the markers of curves that coincide do not.
            if !series.reference && place % every == (index * every / 4) % every {
                self.canvas.marker(marker, self.frame.place(point), color, PAPER)?;
            }
        }
        Ok(())
    }

    /// A line without breaks: what is past the top ends there with an arrow.
    fn run(&self, points: &[Point], series: &Series, color: RGBColor) -> Result<()> {
        let frame = &self.frame;
        let mut visible: Vec<Place> = Vec::new();
        for (index, point) in points.iter().enumerate() {
            let place = frame.place(point);
            let before = index.checked_sub(1).map(|before| &points[before]);
            let crossing = |other: &Point| {
                let (x, y) = frame.place(other);
                let share = (frame.top - y) / (place.1 - y);
                (x + share * (place.0 - x), frame.top)
            };
            match (before, frame.y.is_past(point.y)) {
                (Some(other), true) if !frame.y.is_past(other.y) => {
                    let edge = crossing(other);
                    visible.push(edge);
                    self.line(&visible, series, color)?;
                    visible.clear();
                    self.arrow(edge, color)?;
                }
                (None, true) => self.arrow((place.0, frame.top), color)?,
                (_, true) => {}
                (Some(other), false) if frame.y.is_past(other.y) => visible.extend([crossing(other), place]),
                (_, false) => visible.push(place),
            }
        }
        self.line(&visible, series, color)
    }

    fn arrow(&self, (x, y): Place, color: RGBColor) -> Result<()> {
        self.canvas.polygon(&[(x, y - 10.0), (x + 5.0, y), (x - 5.0, y)], color)
    }

    fn error_bar(&self, point: &Point, color: RGBColor) -> Result<()> {
        let Some((low, high)) =
            point.bar.filter(|(low, high)| low.is_finite() && high.is_finite() && low < high)
        else {
            return Ok(());
        };
        let frame = &self.frame;
        let x = frame.x(point.x);
        let low = frame.y(low);
        let low = if low.is_finite() { low.min(frame.bottom) } else { frame.bottom };
        let high = frame.y(high).max(frame.top);
        self.canvas.stroke(&[(x, low), (x, high)], color, 1.2)?;
        self.canvas.stroke(&[(x - 4.0, low), (x + 4.0, low)], color, 1.2)?;
        self.canvas.stroke(&[(x - 4.0, high), (x + 4.0, high)], color, 1.2)
    }

    /// The names, in the order in which the lines end at the right, highest first.
    fn names(&self) -> Result<()> {
        let end = |index: &usize| {
            let points = &self.chart.series[*index].points;
            points.iter().rev().find(|point| !point.y.is_nan()).map_or(f64::NEG_INFINITY, |point| point.y)
        };
        let mut order: Vec<usize> = (0..self.chart.series.len()).collect();
        order.sort_by(|a, b| end(b).total_cmp(&end(a)));
        let (left, top, columns, width) = match self.legend {
            Legend::Beside(width) => (self.frame.right + 22.0, self.frame.top + 6.0, 1, width),
            Legend::Below { columns, width } => {
                (MARGIN, self.frame.bottom + BOTTOM + LEGEND_GAP, columns, width)
            }
        };
        let rows = order.len().div_ceil(columns);
        for (place, index) in order.into_iter().enumerate() {
            let series = &self.chart.series[index];
            let (color, marker) = self.look(index);
            let left = left + width * (place / rows) as f64;
            let y = top + LEGEND_ROW * (place % rows) as f64;
            self.line(&[(left, y), (left + 26.0, y)], series, color)?;
            if !series.reference {
                self.canvas.marker(marker, (left + 13.0, y), color, PAPER)?;
            }
            self.canvas.text(&series.name, (left + 34.0, y), 13.0, INK, Side::Right)?;
        }
        let y = top + LEGEND_ROW * rows as f64;
        let past = |series: &Series| series.points.iter().any(|point| self.frame.y.is_past(point.y));
        if self.chart.series.iter().any(past) {
            self.canvas.text("↑ leaves the scale", (left, y + 6.0), 11.0, FAINT, Side::Right)?;
        }
        Ok(())
    }
}
