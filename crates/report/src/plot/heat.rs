//! A matrix as a picture: a colour for each number, an axis on two sides and a bar that explains the colours.

use super::canvas::{Canvas, Side, Typeface, load_font};
use super::draw::{FAINT, INK, PAPER};
use super::{BITMAP_TEXT_DROP, FINE, SIZE, at_natural_size, png, smooth_png};
use longwave_core::{Error, Result, file};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;
use std::fmt::{Display, Write as _};
use std::path::Path;

const LEFT: f64 = 66.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 56.0;
/// Right of the cells: the bar of the colours and its numbers.
const RIGHT: f64 = 110.0;
/// The least and the largest height of the cells.
const HEIGHT: (f64, f64) = (180.0, 640.0);
const STEPS: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    pub title: String,
    /// How it was made; may be empty.
    pub subtitle: String,
    pub x: Edge,
    /// What the rows are, the first at the top.
    pub y: Edge,
    /// `[rows, columns]`; nothing is drawn where there is no number.
    pub values: Vec<Vec<Option<f64>>>,
    /// Blue below 0 and red above, white at 0; from dark to light otherwise.
    pub around_zero: bool,
}

/// An axis of a [`HeatMap`].
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub label: String,
    /// Rows or columns that have a label.
    pub ticks: Vec<(usize, String)>,
}

impl Edge {
    /// An axis with about `most` labels, evenly spread.
    pub fn of(label: impl Into<String>, names: &[usize], most: usize) -> Self {
        let step = names.len().div_ceil(most.max(1)).max(1);
        let ticks = names.iter().enumerate().step_by(step).map(|(at, name)| (at, name.to_string()));
        Self { label: label.into(), ticks: ticks.collect() }
    }
}

impl HeatMap {
    /// The picture as an SVG document. The cells are a PNG inside it.
    pub fn svg(&self) -> Result<String> {
        let area = self.area()?;
        let (width, height) = (SIZE.0, area.height());
        let mut text = String::new();
        self.frame(&area, SVGBackend::with_string(&mut text, (width * FINE, height * FINE)), 0.0)?;
        let mut text = at_natural_size(&text, (width, height));
        let unit = f64::from(FINE);
        let pictures = [
            ([area.left, area.top, area.wide, area.high], self.pixels(&area)),
            ([area.bar(), area.top, 14.0, area.high], self.bar(&area)),
        ];
        text.truncate(text.trim_end().trim_end_matches("</svg>").len());
        for ([x, y, wide, high], (pixels, columns)) in pictures {
            let rows = pixels.len() / (3 * columns);
            let encoded = base64::encode(png(&pixels, columns as u32, rows as u32)?);
            let _ = writeln!(
                text,
                "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{encoded}\"/>",
                x * unit,
                y * unit,
                wide * unit,
                high * unit
            );
        }
        Ok(text + "</svg>\n")
    }

    /// Writes the picture as a PNG, whole or not at all.
    pub fn write_png(&self, path: &Path) -> Result<()> {
        let area = self.area()?;
        let (wide, high) = (SIZE.0 * FINE, area.height() * FINE);
        let mut buffer = vec![u8::MAX; (wide * high * 3) as usize];
        self.frame(&area, BitMapBackend::with_buffer(&mut buffer, (wide, high)), BITMAP_TEXT_DROP)?;
        let (pixels, columns) = self.pixels(&area);
        let mut copy = |[x, y, width, height]: [f64; 4], pixels: &[u8], columns: usize| {
            let rows = pixels.len() / (3 * columns);
            let [x, y, width, height] = [x, y, width, height].map(|at| (at * f64::from(FINE)) as usize);
            for down in 0..height {
                for across in 0..width {
                    let from = 3 * (down * rows / height * columns + across * columns / width);
                    let to = 3 * ((y + down) * wide as usize + x + across);
                    buffer[to..to + 3].copy_from_slice(&pixels[from..from + 3]);
                }
            }
        };
        copy([area.left, area.top, area.wide, area.high], &pixels, columns);
        let (pixels, columns) = self.bar(&area);
        copy([area.bar(), area.top, 14.0, area.high], &pixels, columns);
        file::write(path, &smooth_png(&buffer, (wide, high))?)
    }

    /// Where everything goes, and which numbers the ends of the colours are.
    fn area(&self) -> Result<Area> {
        let numbers = || self.values.iter().flatten().flatten().copied().filter(|value| value.is_finite());
        let (low, high) =
            numbers().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        if low > high {
            return Err(Error::failed(format!("there is nothing to draw in \"{}\"", self.title))
                .hint("no value is a finite number"));
        }
        let far = low.abs().max(high.abs());
        let (low, high) = if self.around_zero { (-far, far) } else { (low, high) };
        let columns = self.values.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let wide = f64::from(SIZE.0) - LEFT - RIGHT;
        let high_in_proportion = wide * self.values.len() as f64 / columns as f64;
        Ok(Area {
            low,
            high: high_in_proportion.clamp(HEIGHT.0, HEIGHT.1),
            most: high,
            left: LEFT,
            top: if self.title.is_empty() { TOP - 50.0 } else { TOP },
            wide: wide.min(
                high_in_proportion.clamp(HEIGHT.0, HEIGHT.1) * columns as f64 / self.values.len() as f64
                    * 2.0,
            ),
            columns,
        })
    }

    fn frame<DB: DrawingBackend>(&self, area: &Area, backend: DB, text_drop: f64) -> Result<()>
    where
        DB::ErrorType: Display,
    {
        load_font()?;
        let canvas = Canvas::new(backend.into_drawing_area(), FINE, text_drop, Typeface::default())?;
        canvas.fill(PAPER)?;
        canvas.text(&self.title, (20.0, 24.0), 17.0, INK, Side::Right)?;
        canvas.text(&self.subtitle, (20.0, 45.0), 12.0, FAINT, Side::Right)?;
        canvas.text(&self.y.label, (20.0, area.top - 14.0), 12.0, INK, Side::Right)?;
        let rows = self.values.len() as f64;
        for (row, label) in &self.y.ticks {
            let y = area.top + (*row as f64 + 0.5) * area.high / rows;
            canvas.text(label, (area.left - 8.0, y), 12.0, FAINT, Side::Left)?;
        }
        let bottom = area.top + area.high;
        for (column, label) in &self.x.ticks {
            let x = area.left + (*column as f64 + 0.5) * area.wide / area.columns as f64;
            canvas.stroke(&[(x, bottom), (x, bottom + 5.0)], FAINT, 1.0)?;
            canvas.text(label, (x, bottom + 16.0), 12.0, FAINT, Side::Middle)?;
        }
        canvas.text(&self.x.label, (area.left + area.wide / 2.0, bottom + 36.0), 12.0, INK, Side::Middle)?;
        for (value, y) in [(area.most, area.top + 6.0), (area.low, bottom - 6.0)] {
            canvas.text(&number(value), (area.bar() + 20.0, y), 12.0, FAINT, Side::Right)?;
        }
        canvas.finish()
    }

    /// The cells as RGB, a pixel each, and how many there are in a row.
    fn pixels(&self, area: &Area) -> (Vec<u8>, usize) {
        let mut pixels = Vec::with_capacity(3 * area.columns * self.values.len());
        for row in &self.values {
            for column in 0..area.columns {
                let value = row.get(column).copied().flatten().filter(|value| !value.is_nan());
                pixels.extend(value.map_or([PAPER.0, PAPER.1, PAPER.2], |value| self.colour(area, value)));
            }
        }
        (pixels, area.columns)
    }

    fn bar(&self, area: &Area) -> (Vec<u8>, usize) {
        let at = |step: usize| area.most + (area.low - area.most) * step as f64 / (STEPS - 1) as f64;
        ((0..STEPS).flat_map(|step| self.colour(area, at(step))).collect(), 1)
    }

    fn colour(&self, area: &Area, value: f64) -> [u8; 3] {
        let span = area.most - area.low;
        // All alike, but for rounding.
        let share = if span < 1e-9 { 1.0 } else { ((value - area.low) / span).clamp(0.0, 1.0) };
        between(if self.around_zero { &AROUND_ZERO } else { &SEQUENTIAL }, share)
    }
}

/// From low to high, lighter all the way, as the eye and a grey print see it (ends and middles of viridis).
const SEQUENTIAL: [[u8; 3]; 5] =
    [[0x44, 0x01, 0x54], [0x3b, 0x52, 0x8b], [0x21, 0x91, 0x8c], [0x5e, 0xc9, 0x62], [0xfd, 0xe7, 0x25]];
/// Blue, white, red-brown: two hues that colour-blind readers can distinguish.
const AROUND_ZERO: [[u8; 3]; 5] =
    [[0x05, 0x30, 0x61], [0x43, 0x93, 0xc3], [0xf7, 0xf7, 0xf7], [0xd6, 0x60, 0x4d], [0x67, 0x00, 0x1f]];

fn between(colours: &[[u8; 3]; 5], share: f64) -> [u8; 3] {
    let at = share * (colours.len() - 1) as f64;
    let first = (at as usize).min(colours.len() - 2);
    let rest = at - first as f64;
    std::array::from_fn(|channel| {
        let [from, to] = [first, first + 1].map(|index| f64::from(colours[index][channel]));
        (from + rest * (to - from)).round() as u8
    })
}

/// A number with as many places as its size asks for.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (0.01..1000.0).contains(&size) => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// Where a heat map lies, in pixels, and the numbers at the ends of its colours.
struct Area {
    low: f64,
    most: f64,
    left: f64,
    top: f64,
    wide: f64,
    high: f64,
    columns: usize,
}

impl Area {
    fn bar(&self) -> f64 {
        self.left + self.wide + 24.0
    }

    fn height(&self) -> u32 {
        (self.top + self.high + BOTTOM).ceil() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: Vec<Vec<Option<f64>>>) -> HeatMap {
        HeatMap {
            title: "logits <of> a head".into(),
            subtitle: String::new(),
            x: Edge::of("key", &[0, 8, 16], 3),
            y: Edge::of("query", &[0, 8], 2),
            values,
            around_zero: false,
        }
    }

    #[test]
    fn colours_go_from_end_to_end() {
        assert_eq!(between(&SEQUENTIAL, 0.0), SEQUENTIAL[0]);
        assert_eq!(between(&SEQUENTIAL, 1.0), SEQUENTIAL[4]);
        assert_eq!(between(&AROUND_ZERO, 0.5), AROUND_ZERO[2]);
        let light = |share: f64| between(&SEQUENTIAL, share).map(u32::from).iter().sum::<u32>();
        assert!((0..10).all(|step| light(f64::from(step) / 10.0) < light(f64::from(step + 1) / 10.0)));
    }

    #[test]
    fn cells_are_pixels_and_hidden_ones_paper() {
        let map = map(vec![vec![Some(1.0), None, None], vec![Some(0.0), Some(1.0), None]]);
        let (pixels, columns) = map.pixels(&map.area().unwrap());
        let pixels: Vec<&[u8]> = pixels.chunks(3).collect();
        assert_eq!(columns, 3);
        assert_eq!((pixels[0], pixels[3]), (&SEQUENTIAL[4][..], &SEQUENTIAL[0][..]));
        assert!([1, 2, 5].iter().all(|&hidden| pixels[hidden] == [255; 3]));
        let svg = map.svg().unwrap();
        assert!(svg.contains("logits &lt;of&gt; a head") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("data:image/png;base64,iVBORw0KGgo").count(), 2);
    }

    #[test]
    fn a_png_has_the_size_of_the_svg_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let map = map(vec![vec![Some(1.0), Some(2.0), Some(3.0)]]);
        map.write_png(&path).unwrap();
        let image = image::open(&path).unwrap().to_rgb8();
        assert_eq!(image.width(), 2 * SIZE.0);
        assert_eq!(image.height(), 2 * map.area().unwrap().height());
        // The middle of the last cell.
        let area = map.area().unwrap();
        let at = [area.left + area.wide * 5.0 / 6.0, area.top + area.high / 2.0].map(|at| (2.0 * at) as u32);
        assert_eq!(image.get_pixel(at[0], at[1]).0, SEQUENTIAL[4]);
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(
            map(vec![vec![None, Some(f64::NAN)]]).svg().unwrap_err().to_string().contains("nothing to draw")
        );
    }
}
