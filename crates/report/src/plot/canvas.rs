//! Strokes, markers and text in the units of a chart, on any backend.

use super::failed;
use ab_glyph::FontRef;
use longwave_core::text::shown;
use longwave_core::{Error, Result};
use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, register_font};
use std::path::Path;
use std::sync::OnceLock;

/// `DejaVu Sans`, cut to Latin, Greek and the signs that labels use; its licence lies beside it.
static FONT: &[u8] = include_bytes!("../../fonts/DejaVuSans.ttf");
/// The name the font is registered under; a viewer of the SVG takes its own sans-serif.
const FAMILY: &str = "sans-serif";
/// A font's em is smaller than the line height that plotters asks for.
pub(super) const LINE_PER_EM: f64 = 1.24;

/// A place on the canvas, in pixels from the top left corner.
pub(super) type Pixel = (f64, f64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Right,
    Left,
    Middle,
}

/// A drawing area with a unit of its own.
pub(super) struct Canvas<DB: DrawingBackend> {
    area: DrawingArea<DB, Shift>,
    unit: f64,
    text_drop: f64,
    typeface: Typeface,
}

pub(super) const MARKERS: usize = 7;

pub(super) fn load_font() -> Result<()> {
    static LOADED: OnceLock<bool> = OnceLock::new();
    if *LOADED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FONT).is_ok()) {
        Ok(())
    } else {
        Err(Error::failed("the font of the charts is damaged").hint("build the program again"))
    }
}

/// What texts are set in: the font of this crate unless another is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typeface {
    family: &'static str,
    pub(super) bytes: &'static [u8],
}

impl Default for Typeface {
    fn default() -> Self {
        Self { family: FAMILY, bytes: FONT }
    }
}

impl Typeface {
    /// Loads a TrueType font, which stays loaded as long as the program runs.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, &error))?;
        let wrong = || {
            Error::usage(format!("`{}` is no TrueType font", path.display())).hint(
                "name a `.ttf` file; a font with PostScript outlines (`.otf`) cannot stand in a PDF as it is",
            )
        };
        if !(bytes.starts_with(&[0, 1, 0, 0]) || bytes.starts_with(b"true")) {
            return Err(wrong());
        }
        FontRef::try_from_slice(&bytes).map_err(|_| wrong())?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let family: String = stem.chars().filter(char::is_ascii_alphanumeric).collect();
        // plotters asks for fonts that live as long as the program.
        let (family, bytes) = (format!("figure-{family}").leak(), bytes.leak());
        register_font(family, FontStyle::Normal, bytes).map_err(|_| wrong())?;
        Ok(Self { family, bytes })
    }

    pub(super) fn name(self) -> &'static str {
        if self.family == FAMILY { "DejaVuSans" } else { self.family }
    }

    pub(super) fn font(self) -> Result<FontRef<'static>> {
        FontRef::try_from_slice(self.bytes).map_err(failed)
    }

    /// Width of a text, in pixels.
    pub(super) fn text_width(self, text: &str, size: f64) -> Result<f64> {
        load_font()?;
        // Measured large, as the answer is a whole number.
        let (width, _) = (self.family, 100.0 * LINE_PER_EM).into_font().box_size(text).map_err(failed)?;
        Ok(f64::from(width) * size / 100.0)
    }
}

impl<DB: DrawingBackend> Canvas<DB> {
    /// A canvas whose pixel is `unit` of the area's, and whose texts lie `text_drop` of their size too
    /// high.
    pub(super) fn new(
        area: DrawingArea<DB, Shift>,
        unit: u32,
        text_drop: f64,
        typeface: Typeface,
    ) -> Result<Self> {
        load_font()?;
        Ok(Self { area, unit: f64::from(unit), text_drop, typeface })
    }

    pub(super) fn fill(&self, color: RGBColor) -> Result<()> {
        self.area.fill(&color).map_err(failed)
    }

    pub(super) fn finish(self) -> Result<()> {
        self.area.present().map_err(failed)
    }

    pub(super) fn stroke(&self, places: &[Pixel], color: RGBColor, width: f64) -> Result<()> {
        let style =
            ShapeStyle { color: color.to_rgba(), filled: false, stroke_width: self.units(width) as u32 };
        self.area.draw(&PathElement::new(self.coordinates(places), style)).map_err(failed)
    }

    pub(super) fn dashed(
        &self,
        places: &[Pixel],
        color: RGBColor,
        width: f64,
        dash: (f64, f64),
    ) -> Result<()> {
        for piece in dashes(places, dash) {
            self.stroke(&piece, color, width)?;
        }
        Ok(())
    }

    /// One of the [`MARKERS`] around a place, with a rim that keeps it apart from lines below it.
    pub(super) fn marker(&self, kind: usize, place: Pixel, color: RGBColor, rim: RGBColor) -> Result<()> {
        let outline = |points: &[Pixel], scale: f64| -> Vec<Pixel> {
            points.iter().map(|(x, y)| (place.0 + x * scale, place.1 + y * scale)).collect()
        };
        for (scale, color) in [(5.6, rim), (4.2, color)] {
            let shape = match kind % MARKERS {
                0 => {
                    let circle =
                        Circle::new(self.coordinate(place), self.units(0.95 * scale), color.filled());
                    self.area.draw(&circle).map_err(failed)?;
                    continue;
                }
                1 => outline(&[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)], scale),
                2 => outline(&[(0.0, -1.15), (1.05, 0.75), (-1.05, 0.75)], scale),
                3 => outline(&[(0.0, -1.25), (1.05, 0.0), (0.0, 1.25), (-1.05, 0.0)], scale),
                4 => outline(&[(0.0, 1.15), (1.05, -0.75), (-1.05, -0.75)], scale),
                5 => outline(&cross(), scale),
                _ => outline(&cross().map(|(x, y)| (0.707 * (x - y), 0.707 * (x + y))), scale),
            };
            self.polygon(&shape, color)?;
        }
        Ok(())
    }

    pub(super) fn polygon(&self, places: &[Pixel], color: RGBColor) -> Result<()> {
        self.area.draw(&Polygon::new(self.coordinates(places), color.filled())).map_err(failed)
    }

    /// A text whose middle height is at the place.
    pub(super) fn text(
        &self,
        text: &str,
        place: Pixel,
        size: f64,
        color: RGBColor,
        side: Side,
    ) -> Result<()> {
        let horizontal = match side {
            Side::Right => HPos::Left,
            Side::Left => HPos::Right,
            Side::Middle => HPos::Center,
        };
        let style = (self.typeface.family, size * LINE_PER_EM * self.unit)
            .into_font()
            .color(&color)
            .pos(Pos::new(horizontal, VPos::Center));
        let place = (place.0, place.1 + self.text_drop * size);
        self.area.draw(&Text::new(shown(text), self.coordinate(place), style)).map_err(failed)
    }

    fn units(&self, pixels: f64) -> i32 {
        (pixels * self.unit).round() as i32
    }

    fn coordinate(&self, (x, y): Pixel) -> (i32, i32) {
        (self.units(x), self.units(y))
    }

    fn coordinates(&self, places: &[Pixel]) -> Vec<(i32, i32)> {
        places.iter().map(|&place| self.coordinate(place)).collect()
    }
}

fn cross() -> [Pixel; 12] {
    let (far, near) = (1.2, 0.42);
    [
        (-near, -far),
        (near, -far),
        (near, -near),
        (far, -near),
        (far, near),
        (near, near),
        (near, far),
        (-near, far),
        (-near, near),
        (-far, near),
        (-far, -near),
        (-near, -near),
    ]
}

/// Cuts a stroke into dashes of `dash.0` pixels with gaps of `dash.1`.
fn dashes(places: &[Pixel], dash: (f64, f64)) -> Vec<Vec<Pixel>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<Pixel> = places.first().copied().into_iter().collect();
    let (mut on, mut left) = (true, dash.0);
    for ends in places.windows(2) {
        let (mut from, to) = (ends[0], ends[1]);
        loop {
            let distance = (to.0 - from.0).hypot(to.1 - from.1);
            if distance <= left {
                left -= distance;
                if on {
                    piece.push(to);
                }
                break;
            }
            let share = left / distance;
            from = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            if on {
                piece.push(from);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![from];
            }
            on = !on;
            left = if on { dash.0 } else { dash.1 };
        }
    }
    if on && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_keep_their_length_around_corners() {
        let pieces = dashes(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0)], (6.0, 3.0));
        let expected: Vec<Vec<Pixel>> = vec![
            vec![(0.0, 0.0), (6.0, 0.0)],
            vec![(9.0, 0.0), (10.0, 0.0), (10.0, 5.0)],
            vec![(10.0, 8.0), (10.0, 10.0)],
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn the_font_has_every_sign_that_labels_use() {
        let text_width = |text: &str, size| Typeface::default().text_width(text, size);
        let missing = text_width("\u{10FFFF}", 12.0).unwrap();
        for sign in "AaZz019()[]=.,:;_-+/*±×–·↑≤αβθ".chars() {
            let width = text_width(&sign.to_string(), 12.0).unwrap();
            assert!(width > 0.0 && (width - missing).abs() > 0.01, "{sign} has the width of a missing sign");
        }
    }
}
