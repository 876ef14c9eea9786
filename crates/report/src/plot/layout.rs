//! How large a chart is, and how its room is shared out.

use super::canvas::{Pixel, Typeface};
use super::scale::Range;
use super::{AXIS_TEXT, Axis, Chart, Point, SIZE};
use longwave_core::{Error, Result};

const LEFT: f64 = 66.0;
/// Above the data: the label of the vertical axis, and the heading where there is one.
const TOP: f64 = 42.0;
const HEADING: f64 = 54.0;
pub(super) const NOTE: f64 = 18.0;
pub(super) const BOTTOM: f64 = 66.0;
pub(super) const LEGEND_ROW: f64 = 20.0;
/// Between the label of the axis and a legend below it.
pub(super) const LEGEND_GAP: f64 = 8.0;
/// From one line of a text to the next.
pub(super) const LINE: f64 = 15.0;
/// Left and right of texts that stand at the edge.
const MARGIN: f64 = 20.0;
const BARE_MARGIN: f64 = 2.0;
const LEAST: f64 = 120.0;
/// What a tick takes along the horizontal axis.
const TICK: f64 = 75.0;

/// How large a chart is drawn, and in what its texts are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// In pixels.
    pub(super) width: u32,
    /// In pixels; in proportion to the width unless given.
    pub(super) height: Option<u32>,
    pub(super) typeface: Typeface,
    pub(super) is_bare: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self { width: SIZE.0, height: None, typeface: Typeface::default(), is_bare: false }
    }
}

impl Layout {
    /// Left and right of texts that stand at the edge.
    pub(super) fn margin(&self) -> f64 {
        if self.is_bare { BARE_MARGIN } else { MARGIN }
    }

    pub(super) fn lines(&self, label: &str) -> Result<Vec<String>> {
        let room = f64::from(self.width) - 2.0 * self.margin();
        let mut lines: Vec<String> = Vec::new();
        for word in label.split(' ') {
            if let Some(line) = lines.last_mut() {
                let longer = format!("{line} {word}");
                if self.typeface.text_width(&longer, AXIS_TEXT)? <= room {
                    *line = longer;
                    continue;
                }
            }
            lines.push(word.to_owned());
        }
        Ok(lines)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Legend {
    /// At the right, so many pixels wide.
    Beside(f64),
    /// Below, in columns of so many pixels.
    Below {
        columns: usize,
        width: f64,
    },
    Outside,
}

impl Legend {
    /// At the right, unless that leaves too little of the width to the data.
    pub(super) fn of(chart: &Chart, layout: &Layout) -> Result<Self> {
        if layout.is_bare {
            return Ok(Self::Outside);
        }
        let mut width = 0f64;
        for series in chart.named() {
            width = width.max(layout.typeface.text_width(&series.name, 13.0)?);
        }
        let (width, all) = (width + 46.0, f64::from(layout.width));
        if width + LEFT + 28.0 <= 0.5 * all {
            return Ok(Self::Beside(width));
        }
        let columns = ((all - 2.0 * MARGIN) / width).floor().max(1.0) as usize;
        Ok(Self::Below { columns: columns.min(chart.named().count().max(1)), width })
    }

    /// What it takes below the axis.
    fn height(self, chart: &Chart) -> f64 {
        match self {
            Self::Beside(_) | Self::Outside => 0.0,
            // One row more for what leaves the scale.
            Self::Below { columns, .. } => {
                LEGEND_GAP + LEGEND_ROW * (chart.named().count().div_ceil(columns) + 1) as f64
            }
        }
    }
}

/// Width and height, in pixels: a long legend makes a chart taller.
pub(super) fn size(chart: &Chart, layout: &Layout) -> Result<(u32, u32)> {
    if let Some(height) = layout.height {
        return Ok((layout.width, height));
    }
    let top = top(chart, layout)?;
    let spared = TOP + HEADING - top;
    let legend = Legend::of(chart, layout)?;
    let natural = f64::from(SIZE.1) * f64::from(layout.width) / f64::from(SIZE.0);
    let height = match legend {
        Legend::Beside(_) | Legend::Outside => {
            let legend = top + LEGEND_ROW * (chart.named().count() + 2) as f64;
            (natural - spared).max(legend)
        }
        Legend::Below { .. } => (natural - spared).max(top + BOTTOM + LEAST) + legend.height(chart),
    };
    Ok((layout.width, height.ceil() as u32))
}

fn top(chart: &Chart, layout: &Layout) -> Result<f64> {
    let has_heading = !(chart.title.is_empty() && chart.subtitle.is_empty());
    let heading = if has_heading { HEADING } else { 0.0 };
    let note = match &chart.note {
        Some(note) => NOTE + LINE * further(&layout.lines(note)?),
        None => 0.0,
    };
    Ok(TOP + heading + note + LINE * further(&layout.lines(&chart.y.label)?))
}

/// How many lines there are below the first.
pub(super) fn further(lines: &[String]) -> f64 {
    lines.len().saturating_sub(1) as f64
}

/// The rectangle that data are drawn in, and what its sides stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Range,
    pub(super) y: Range,
}

impl Frame {
    pub(super) fn of(chart: &Chart, layout: &Layout) -> Result<Self> {
        let nothing = || {
            Error::failed(format!("there is nothing to draw in \"{}\"", chart.title))
                .hint("no value is a finite number; the results file says what was measured")
        };
        let x = Range::horizontal(&chart.x, &chart.series).ok_or_else(nothing)?;
        let y = Range::vertical(&chart.y, &chart.series).ok_or_else(nothing)?;
        let (width, height) = size(chart, layout)?;
        let legend = Legend::of(chart, layout)?;
        let beside = if let Legend::Beside(width) = legend { width + 28.0 } else { MARGIN };
        let lines = further(&layout.lines(&chart.x.label)?);
        let mut frame = Self {
            left: LEFT,
            right: f64::from(width) - beside,
            top: top(chart, layout)?,
            bottom: f64::from(height) - BOTTOM - LINE * lines - legend.height(chart),
            x,
            y,
        };
        if layout.is_bare {
            frame.fit(chart, layout)?;
        }
        if frame.right - frame.left < LEAST || frame.bottom - frame.top < 0.5 * LEAST {
            return Err(Error::usage("the figure is too small for its texts")
                .hint("make it wider or higher, or the font smaller"));
        }
        Ok(frame)
    }

    /// Gives the data what the labels of the ticks leave over.
    fn fit(&mut self, chart: &Chart, layout: &Layout) -> Result<()> {
        let width = |label: &String| layout.typeface.text_width(label, AXIS_TEXT);
        let mut widest = 0f64;
        for label in self.y_ticks(&chart.y).iter().flat_map(|(_, labels)| labels) {
            widest = widest.max(width(label)?);
        }
        self.left = (widest + 14.0).max(30.0);
        let mut last = 0f64;
        if let Some((_, labels)) = self.x_ticks(&chart.x).last() {
            for label in labels {
                last = last.max(width(label)?);
            }
        }
        self.right = f64::from(layout.width) - (0.5 * last + BARE_MARGIN).max(10.0);
        let lines = self.x_ticks(&chart.x).iter().map(|(_, labels)| labels.len()).max().unwrap_or(0);
        let labels = lines + layout.lines(&chart.x.label)?.len();
        self.bottom = f64::from(size(chart, layout)?.1) - 14.0 - LINE * labels as f64;
        self.top -= 14.0;
        Ok(())
    }

    pub(super) fn x_ticks(&self, axis: &Axis) -> Vec<(f64, Vec<String>)> {
        let about = ((self.right - self.left) / TICK).clamp(2.0, 6.0);
        if axis.ticks.is_empty() { self.x.round_ticks(about) } else { axis.ticks.clone() }
    }

    pub(super) fn y_ticks(&self, axis: &Axis) -> Vec<(f64, Vec<String>)> {
        if axis.ticks.is_empty() { self.y.round_ticks(6.0) } else { axis.ticks.clone() }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * (self.right - self.left)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }

    pub(super) fn place(&self, point: &Point) -> Pixel {
        // An infinite value lies above every chart, and its place must still be a number.
        (self.x(point.x), self.y(point.y).max(self.top - 1e6))
    }
}

/// Which labels along an axis are written: from the last, all that keep clear of those before. `spans` are their ends.
pub(super) fn clear(spans: &[(f64, f64)]) -> Vec<bool> {
    let mut written: Vec<(f64, f64)> = Vec::new();
    let mut is_clear: Vec<bool> = spans
        .iter()
        .rev()
        .map(|&(low, high)| {
            let is_clear = written.iter().all(|other| high < other.0 || other.1 < low);
            if is_clear {
                written.push((low, high));
            }
            is_clear
        })
        .collect();
    is_clear.reverse();
    is_clear
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_would_touch_are_left_out() {
        assert_eq!(clear(&[(0.0, 9.0), (10.0, 19.0), (20.0, 29.0)]), [true; 3]);
        assert_eq!(clear(&[(0.0, 11.0), (10.0, 21.0), (20.0, 31.0)]), [true, false, true]);
    }

    #[test]
    fn a_long_label_takes_lines_that_fit() {
        let layout = Layout { width: 200, is_bare: true, ..Layout::default() };
        let lines = layout.lines("perplexity (log scale, bars: one standard deviation over seeds)").unwrap();
        assert!(lines.len() > 1);
        for line in &lines {
            assert!(layout.typeface.text_width(line, AXIS_TEXT).unwrap() <= 196.0, "{line}");
        }
        assert_eq!(lines.join(" ").split(' ').count(), 9);
    }
}
