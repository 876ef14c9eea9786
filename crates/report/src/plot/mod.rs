//! Charts as SVG, PNG and PDF, from one drawing.
//!
//! A [`Chart`] is data: series, labels and scales. [`svg`], [`write_png`] and [`figure`] draw it with the font that
//! this crate carries, so that none asks the system for one. Series differ in colour (Okabe
//! and Ito's palette, which colour-blind readers can distinguish) and in marker.

mod canvas;
mod draw;
mod from_rows;
mod heat;
mod inline;
mod layout;
mod pdf;
mod scale;
mod styles;

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ColorType, ImageEncoder};
use layout::{Layout, size};
use longwave_core::{Error, Result, file};
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;
use std::fmt::Display;
use std::path::Path;

pub use canvas::Typeface;
pub use from_rows::{Curve, by_length, of_paper, positions, training};
pub(crate) use from_rows::{metric_axis, values_per_point};
pub use heat::{Edge, HeatMap};
pub(crate) use inline::inline;
pub use scale::Scale;
pub use styles::Styles;

/// Width and height of a chart, in pixels of an SVG at its natural size; a PNG has twice as many.
pub const SIZE: (u32, u32) = (900, 500);
const SMALL: (u32, u32) = (260, 180);
/// Drawing units per pixel of the SVG: coordinates are whole, and curves should not show it.
const FINE: u32 = 4;
/// The size of the numbers at the axes, in pixels.
const AXIS_TEXT: f64 = 12.0;
/// Drawing units per pixel of a PNG; their mean smooths the edges.
const SMOOTH: u32 = 2;
/// Drawing units per pixel of a PNG for a paper: four of its pixels a pixel, 430 an inch where the text has 8 points.
const PAPER_FINE: u32 = 8;
/// The most pixels that a PNG may have: drawing it takes four times as many, in memory.
const MOST_PIXELS: u64 = 50_000_000;
/// The bitmap backend centres the line of a text, the SVG one its small letters, which lie lower by
/// this much of the text's size.
const BITMAP_TEXT_DROP: f64 = 0.16;

/// One picture: series over a shared pair of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What is shown; may be empty.
    pub title: String,
    /// How it was measured; may be empty.
    pub subtitle: String,
    /// The run that it shows, where other charts show the others.
    pub run: Option<String>,
    /// What a reader must know before comparing points.
    pub note: Option<String>,
    pub x: Axis,
    pub y: Axis,
    /// A vertical line with its label, such as the training length.
    pub mark: Option<(f64, String)>,
    pub series: Vec<Series>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    pub scale: Scale,
    /// Places of the ticks and their labels, one line each; empty for round numbers.
    pub ticks: Vec<(f64, Vec<String>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    /// Its points, by ascending `x`.
    pub points: Vec<Point>,
    /// The place of its colour and marker in the palette.
    pub style: usize,
    pub role: Role,
}

/// How a series stands beside the others of its chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of those that are compared: in colour, with markers.
    Method,
    /// What the methods are measured against: dashed and grey.
    Reference,
    /// What the methods stand among: thin, grey, without a name in the legend.
    Background,
}

/// One point of a series. A `y` that is not a number breaks the line; one past the axis leaves it at
/// the edge, with an arrow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub bar: Option<(f64, f64)>,
}

impl Axis {
    /// An axis whose ticks are round numbers.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, ticks: Vec::new() }
    }
}

impl Chart {
    pub(super) fn named(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.role != Role::Background)
    }

    /// The same without the texts that may stand outside of it.
    fn bare(&self) -> Self {
        Self { title: String::new(), subtitle: String::new(), note: None, ..self.clone() }
    }

    pub fn has_numbers(&self) -> bool {
        self.series.iter().flat_map(|series| &series.points).any(|point| point.y.is_finite())
    }
}

pub fn svg(chart: &Chart) -> Result<String> {
    drawn_svg(chart, &Layout::default())
}

fn drawn_svg(chart: &Chart, layout: &Layout) -> Result<String> {
    let (width, height) = size(chart, layout)?;
    let mut text = String::new();
    draw::draw(chart, layout, SVGBackend::with_string(&mut text, (width * FINE, height * FINE)), FINE, 0.0)?;
    Ok(at_natural_size(&text, (width, height)))
}

/// An SVG document of [`FINE`] units a pixel, whose element says how large it is in pixels.
fn at_natural_size(svg: &str, (width, height): (u32, u32)) -> String {
    sized(svg, (width * FINE, height * FINE), &(width.to_string(), height.to_string()))
}

/// An SVG document with another size in its element.
fn sized(svg: &str, (width, height): (u32, u32), shown: &(String, String)) -> String {
    let old = format!("width=\"{width}\" height=\"{height}\"");
    svg.replacen(&old, &format!("width=\"{}\" height=\"{}\"", shown.0, shown.1), 1)
}

/// The chart in small, as an SVG document without heading and legend: for a page that shows many side by side.
pub fn small_svg(chart: &Chart) -> Result<String> {
    let (width, height) = SMALL;
    let layout = Layout { width, height: Some(height), is_bare: true, ..Layout::default() };
    drawn_svg(&chart.bare(), &layout)
}

pub fn write_png(chart: &Chart, path: &Path) -> Result<()> {
    file::write(path, &drawn_png(chart, &Layout::default(), FINE)?)
}

fn drawn_png(chart: &Chart, layout: &Layout, fine: u32) -> Result<Vec<u8>> {
    let (width, height) = size(chart, layout)?;
    let drawn = (width * fine, height * fine);
    if u64::from(drawn.0 / SMOOTH) * u64::from(drawn.1 / SMOOTH) > MOST_PIXELS {
        return Err(Error::usage(format!(
            "the PNG would have {} by {} pixels, more than {MOST_PIXELS}",
            drawn.0 / SMOOTH,
            drawn.1 / SMOOTH
        ))
        .hint("make it smaller or its font larger, or write `.svg` or `.pdf`"));
    }
    let mut buffer = vec![u8::MAX; 3 * drawn.0 as usize * drawn.1 as usize];
    draw::draw(chart, layout, BitMapBackend::with_buffer(&mut buffer, drawn), fine, BITMAP_TEXT_DROP)?;
    smooth_png(&buffer, drawn)
}

/// An RGB image as a PNG of [`SMOOTH`] times fewer pixels each way.
fn smooth_png(buffer: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>> {
    let size = (width / SMOOTH, height / SMOOTH);
    png(&smooth(buffer, size.0 as usize), size.0, size.1)
}

fn png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let mut encoded = Vec::new();
    // A chart is mostly runs of one colour: without a filter the file is half as large, and written in half the time.
    PngEncoder::new_with_quality(&mut encoded, CompressionType::Default, FilterType::NoFilter)
        .write_image(pixels, width, height, ColorType::Rgb8)
        .map_err(failed)?;
    Ok(encoded)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its width in points of 1/72 inch; the natural one unless given.
    pub width: Option<f64>,
    /// Its height in points; in proportion to the width unless given.
    pub height: Option<f64>,
    /// The size of the numbers at the axes, in points. Other texts and lines follow.
    pub font_size: f64,
    pub typeface: Typeface,
}

impl Default for Figure {
    fn default() -> Self {
        Self { width: None, height: None, font_size: 9.0, typeface: Typeface::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureFormat {
    Pdf,
    Png,
    Svg,
}

impl FigureFormat {
    /// What the end of a file's name says.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("pdf") => Ok(Self::Pdf),
            Some("png") => Ok(Self::Png),
            Some("svg") => Ok(Self::Svg),
            _ => Err(Error::usage(format!("`{}` does not say what figure it is", path.display()))
                .hint("end its name with `.svg`, `.png` or `.pdf`")),
        }
    }
}

/// The chart as a file for a paper, without its heading: a paper has a caption.
pub fn figure(chart: &Chart, figure: &Figure, kind: FigureFormat) -> Result<Vec<u8>> {
    let chart = Chart { title: String::new(), subtitle: String::new(), ..chart.clone() };
    let scale = figure.font_size / AXIS_TEXT;
    let pixels = |points: f64| (points / scale).round().max(1.0) as u32;
    let layout = Layout {
        width: figure.width.map_or(SIZE.0, pixels),
        height: figure.height.map(pixels),
        typeface: figure.typeface,
        is_bare: false,
    };
    let (width, height) = size(&chart, &layout)?;
    // Pixels are whole, and the width is what was asked for.
    let scale = figure.width.map_or(scale, |points| points / f64::from(width));
    match kind {
        FigureFormat::Pdf => {
            let mut bytes = Vec::new();
            let size = (width * FINE, height * FINE);
            let backend = pdf::PdfBackend::new(&mut bytes, size, scale / f64::from(FINE), figure.typeface)?;
            draw::draw(&chart, &layout, backend, FINE, 0.0)?;
            Ok(bytes)
        }
        FigureFormat::Png => drawn_png(&chart, &layout, PAPER_FINE),
        FigureFormat::Svg if figure.typeface != Typeface::default() => {
            Err(Error::usage("an SVG does not carry a font: whoever shows it sets its texts")
                .hint("write `.pdf` or `.png`, or leave the font out"))
        }
        FigureFormat::Svg => {
            let points = |pixels: u32| format!("{:.2}pt", f64::from(pixels) * scale);
            let size = (points(width), points(height));
            Ok(sized(&drawn_svg(&chart, &layout)?, (width, height), &size).into_bytes())
        }
    }
}

/// Averages squares of `SMOOTH` by `SMOOTH` pixels of an RGB image into one of `width` columns.
fn smooth(buffer: &[u8], width: usize) -> Vec<u8> {
    let step = SMOOTH as usize;
    let row = 3 * width * step;
    let mut pixels = Vec::with_capacity(buffer.len() / (step * step));
    let mut sums = vec![[0_u16; 3]; width];
    for rows in buffer.chunks_exact(row * step) {
        sums.fill([(step * step / 2) as u16; 3]);
        for row in rows.chunks_exact(row) {
            // Plain additions: with an iterator over the channels, this took most of the time of a short training.
            for (sum, square) in sums.iter_mut().zip(row.chunks_exact(3 * step)) {
                for pixel in square.as_chunks::<3>().0 {
                    sum[0] += u16::from(pixel[0]);
                    sum[1] += u16::from(pixel[1]);
                    sum[2] += u16::from(pixel[2]);
                }
            }
        }
        pixels.extend(sums.as_flattened().iter().map(|sum| (sum / (SMOOTH * SMOOTH) as u16) as u8));
    }
    pixels
}

fn failed(error: impl Display) -> Error {
    Error::failed(format!("cannot draw a chart: {error}"))
}

#[cfg(test)]
mod tests;
