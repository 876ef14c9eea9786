//! Where everything of a chart goes.

use super::canvas::{Canvas, MARKERS, Pixel, Side, load_font};
use super::layout::{BOTTOM, Frame, LEGEND_GAP, LEGEND_ROW, LINE, Layout, Legend, NOTE, clear, further};
use super::{AXIS_TEXT, Chart, IntoDrawingArea, Point, Role, Series, failed};
use longwave_core::Result;
use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;
use std::fmt::Display;

/// Text and marks. The page's style sheet knows these four by their values, for dark screens.
pub(crate) const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
/// What stands back: ticks, subtitles, references.
pub(crate) const FAINT: RGBColor = RGBColor(0x5F, 0x67, 0x70);
pub(crate) const GRID: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);
/// Lines that others stand among.
const BACKGROUND: RGBColor = RGBColor(0xC4, 0xC9, 0xD0);
pub(crate) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

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

/// Draws the chart on a backend of [`size`](super::layout::size) times `unit` pixels, see [`Canvas::new`].
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
    let picture = Picture::new(chart, layout, backend, unit, text_drop)?;
    picture.canvas.fill(PAPER)?;
    picture.heading()?;
    picture.axes()?;
    for index in picture.back_to_front() {
        picture.series(index)?;
    }
    picture.names()?;
    picture.finish()
}

/// Series of more points than this have a marker every so often only.
const CROWDED: usize = 16;

/// A chart on its way to a backend. The page takes its parts one by one.
pub(super) struct Picture<'a, DB: DrawingBackend> {
    chart: &'a Chart,
    layout: &'a Layout,
    pub(super) frame: Frame,
    legend: Legend,
    canvas: Canvas<DB>,
}

impl<'a, DB: DrawingBackend> Picture<'a, DB> {
    /// An empty picture, for a backend as [`draw`] has it.
    pub(super) fn new(
        chart: &'a Chart,
        layout: &'a Layout,
        backend: DB,
        unit: u32,
        text_drop: f64,
    ) -> Result<Self>
    where
        DB::ErrorType: Display,
    {
        load_font()?;
        let (frame, legend) = (Frame::of(chart, layout)?, Legend::of(chart, layout)?);
        let canvas = Canvas::new(backend.into_drawing_area(), unit, text_drop, layout.typeface)?;
        Ok(Self { chart, layout, frame, legend, canvas })
    }

    pub(super) fn finish(self) -> Result<()> {
        self.canvas.finish().map_err(failed)
    }

    fn heading(&self) -> Result<()> {
        let Chart { title, subtitle, y, .. } = self.chart;
        self.canvas.text(title, (20.0, 24.0), 17.0, INK, Side::Right)?;
        let room = f64::from(self.layout.width) - 2.0 * self.layout.margin();
        let narrow = self.layout.typeface.text_width(subtitle, 12.0)? <= room;
        let cut = if narrow { None } else { subtitle.find("; ") };
        let (first, second) = subtitle.split_at(cut.map_or(subtitle.len(), |cut| cut + 1));
        self.canvas.text(first, (20.0, 45.0), 12.0, FAINT, Side::Right)?;
        self.canvas.text(second.trim_start(), (20.0, 60.0), 12.0, FAINT, Side::Right)?;
        if let Some(note) = &self.chart.note {
            let bottom = self.frame.top - 18.0 - NOTE - LINE * further(&self.layout.lines(&y.label)?);
            for (index, line) in self.layout.lines(note)?.iter().rev().enumerate() {
                let y = bottom - LINE * index as f64;
                self.canvas.text(line, (self.layout.margin(), y), AXIS_TEXT, INK, Side::Right)?;
            }
        }
        Ok(())
    }

    pub(super) fn axes(&self) -> Result<()> {
        self.vertical_axis()?;
        self.mark()?;
        self.horizontal_axis()
    }

    fn vertical_axis(&self) -> Result<()> {
        let (frame, axis) = (&self.frame, &self.chart.y);
        let lines = self.layout.lines(&axis.label)?;
        for (index, line) in lines.iter().rev().enumerate() {
            let y = frame.top - 18.0 - LINE * index as f64;
            self.canvas.text(line, (self.layout.margin(), y), AXIS_TEXT, INK, Side::Right)?;
        }
        let ticks = frame.y_ticks(axis);
        let spans: Vec<_> =
            ticks.iter().map(|(value, _)| (frame.y(*value) - 6.0, frame.y(*value) + 6.0)).collect();
        for ((value, labels), is_clear) in ticks.iter().zip(clear(&spans)) {
            let y = frame.y(*value);
            self.canvas.stroke(&[(frame.left, y), (frame.right, y)], GRID, 1.0)?;
            for label in labels.iter().filter(|_| is_clear) {
                self.canvas.text(label, (frame.left - 9.0, y), AXIS_TEXT, FAINT, Side::Left)?;
            }
        }
        Ok(())
    }

    /// The vertical line with its label, on the side where that has room; none where its place lies off the axis.
    fn mark(&self) -> Result<()> {
        let Some((value, label)) = &self.chart.mark else { return Ok(()) };
        if !(0.0..=1.0).contains(&self.frame.x.place(*value)) {
            return Ok(());
        }
        let (x, frame) = (self.frame.x(*value), &self.frame);
        self.canvas.dashed(&[(x, frame.bottom), (x, frame.top)], FAINT, 1.0, (2.0, 4.0))?;
        let is_near_end = x + 6.0 + self.layout.typeface.text_width(label, AXIS_TEXT)? > frame.right;
        let (x, side) = if is_near_end { (x - 6.0, Side::Left) } else { (x + 6.0, Side::Right) };
        self.canvas.text(label, (x, frame.top + 9.0), AXIS_TEXT, FAINT, side)
    }

    fn horizontal_axis(&self) -> Result<()> {
        let (frame, axis) = (&self.frame, &self.chart.x);
        self.canvas.stroke(&[(frame.left, frame.bottom), (frame.right, frame.bottom)], FAINT, 1.0)?;
        let ticks = frame.x_ticks(axis);
        let mut spans = Vec::new();
        for (value, labels) in &ticks {
            let mut half = 3.0;
            for label in labels {
                half = self.layout.typeface.text_width(label, AXIS_TEXT)?.mul_add(0.5, 3.0).max(half);
            }
            spans.push((frame.x(*value) - half, frame.x(*value) + half));
        }
        for ((value, labels), is_clear) in ticks.iter().zip(clear(&spans)) {
            let x = frame.x(*value);
            self.canvas.stroke(&[(x, frame.bottom), (x, frame.bottom + 5.0)], FAINT, 1.0)?;
            for (line, label) in labels.iter().enumerate().filter(|_| is_clear) {
                let y = frame.bottom + 16.0 + LINE * line as f64;
                self.canvas.text(label, (x, y), AXIS_TEXT, FAINT, Side::Middle)?;
            }
        }
        let lines = ticks.iter().map(|(_, labels)| labels.len()).max().unwrap_or(0);
        for (line, label) in (lines..).zip(self.layout.lines(&axis.label)?) {
            let half = 0.5 * self.layout.typeface.text_width(&label, AXIS_TEXT)?;
            let end = f64::from(self.layout.width) - self.layout.margin() - half;
            let x = f64::midpoint(frame.left, frame.right).min(end);
            let y = frame.bottom + 20.0 + LINE * line as f64;
            self.canvas.text(&label, (x, y), AXIS_TEXT, INK, Side::Middle)?;
        }
        Ok(())
    }

    /// The background, then references, then methods from the last to the first, so that the first lies on top.
    pub(super) fn back_to_front(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.chart.series.len()).rev().collect();
        order.sort_by_key(|&index| match self.chart.series[index].role {
            Role::Background => 0,
            Role::Reference => 1,
            Role::Method => 2,
        });
        order
    }

    fn style(&self, index: usize) -> (RGBColor, usize) {
        let series = &self.chart.series[index];
        match series.role {
            Role::Method => (PALETTE[series.style % COLOURS], series.style % MARKERS),
            Role::Reference => (FAINT, 0),
            Role::Background => (BACKGROUND, 0),
        }
    }

    /// Dashes for the first reference, dots for others, so that the chance level is not taken for the window baseline.
    fn dashes(&self, series: &Series) -> (f64, f64) {
        let first = self.chart.series.iter().find(|other| other.role == Role::Reference);
        if first.is_some_and(|first| std::ptr::eq(first, series)) { (6.0, 4.0) } else { (2.0, 3.0) }
    }

    fn line(&self, places: &[Pixel], series: &Series, color: RGBColor) -> Result<()> {
        match series.role {
            _ if places.len() < 2 => Ok(()),
            Role::Method => self.canvas.stroke(places, color, 2.0),
            Role::Reference => self.canvas.dashed(places, color, 2.0, self.dashes(series)),
            Role::Background => self.canvas.stroke(places, color, 1.0),
        }
    }

    pub(super) fn series(&self, index: usize) -> Result<()> {
        let series = &self.chart.series[index];
        let (color, marker) = self.style(index);
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
            if series.role == Role::Method && place % every == (index * every / 4) % every {
                self.canvas.marker(marker, self.frame.place(point), color, PAPER)?;
            }
        }
        Ok(())
    }

    /// A line without breaks: what is past the top ends there with an arrow.
    fn run(&self, points: &[Point], series: &Series, color: RGBColor) -> Result<()> {
        let frame = &self.frame;
        let mut visible: Vec<Pixel> = Vec::new();
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

    fn arrow(&self, (x, y): Pixel, color: RGBColor) -> Result<()> {
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

    /// The line and the marker of a series, 26 pixels wide, as a legend has it.
    pub(super) fn key(&self, index: usize, (left, y): Pixel) -> Result<()> {
        let series = &self.chart.series[index];
        let (color, marker) = self.style(index);
        self.line(&[(left, y), (left + 26.0, y)], series, color)?;
        if series.role == Role::Method {
            self.canvas.marker(marker, (left + 13.0, y), color, PAPER)?;
        }
        Ok(())
    }

    pub(super) fn leaves_scale(&self) -> bool {
        let mut points = self.chart.series.iter().flat_map(|series| &series.points);
        points.any(|point| self.frame.y.is_past(point.y))
    }

    /// The names, in the order in which the lines end at the right.
    fn names(&self) -> Result<()> {
        let (left, top, columns, width) = match self.legend {
            Legend::Beside(width) => (self.frame.right + 22.0, self.frame.top + 6.0, 1, width),
            Legend::Below { columns, width } => {
                let lines = further(&self.layout.lines(&self.chart.x.label)?);
                (20.0, self.frame.bottom + BOTTOM + LINE * lines + LEGEND_GAP, columns, width)
            }
            Legend::Outside => return Ok(()),
        };
        let order = order_of_names(self.chart);
        let rows = order.len().div_ceil(columns);
        for (place, index) in order.into_iter().enumerate() {
            let left = left + width * (place / rows) as f64;
            let y = top + LEGEND_ROW * (place % rows) as f64;
            self.key(index, (left, y))?;
            self.canvas.text(&self.chart.series[index].name, (left + 34.0, y), 13.0, INK, Side::Right)?;
        }
        if self.leaves_scale() {
            let y = top + LEGEND_ROW * rows as f64 + 6.0;
            self.canvas.text("↑ leaves the scale", (left, y), 11.0, FAINT, Side::Right)?;
        }
        Ok(())
    }
}

/// The series that have a name in the legend, in the order in which their lines end at the right, highest first.
pub(super) fn order_of_names(chart: &Chart) -> Vec<usize> {
    let end = |index: &usize| {
        let points = &chart.series[*index].points;
        points.iter().rev().find(|point| !point.y.is_nan()).map_or(f64::NEG_INFINITY, |point| point.y)
    };
    let mut order: Vec<usize> = (0..chart.series.len()).collect();
    order.retain(|&index| chart.series[index].role != Role::Background);
    order.sort_by(|a, b| end(b).total_cmp(&end(a)));
    order
}
