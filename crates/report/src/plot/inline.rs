//! A chart as the page has it: drawn for a wide and for a narrow screen, each series an element of its own that can be
//! hidden, with the values that a script reads out. Heading and legend stand outside, as text of the page.

use super::canvas::Typeface;
use super::draw::{Picture, order_of_names};
use super::layout::{Layout, size};
use super::scale::Range;
use super::{Axis, Chart, FINE};
use longwave_core::Result;
use plotters::backend::SVGBackend;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Width and height on a wide and on a narrow screen, in pixels of the page at their least sizes.
const SIZES: [(u32, u32); 2] = [(720, 380), (340, 300)];
/// Width and height of a key of the legend, in pixels.
const KEY: (u32, u32) = (28, 14);

pub(crate) struct Inline {
    /// For a wide and for a narrow screen.
    pub(crate) drawings: Vec<Drawing>,
    /// The series in the order of a legend, each with its key: an SVG element.
    pub(crate) keys: Vec<(usize, String)>,
    /// Axes and points, for the script.
    pub(crate) values: Value,
    pub(crate) leaves_scale: bool,
}

pub(crate) struct Drawing {
    pub(crate) view_box: String,
    /// Left, top, right and bottom of the data, in units of the view box.
    pub(crate) frame: String,
    /// What is inside of the element; series are groups with `data-series`.
    pub(crate) content: String,
}

pub(crate) fn inline(chart: &Chart) -> Result<Inline> {
    // The page says these as text, which wraps.
    let bare = chart.bare();
    let layouts = SIZES.map(|(width, height)| Layout {
        width,
        height: Some(height),
        typeface: Typeface::default(),
        is_bare: true,
    });
    let drawings = layouts.iter().map(|layout| drawing(&bare, layout)).collect::<Result<_>>()?;
    let (frame, leaves_scale) =
        asked(&bare, &layouts[0], |picture| Ok((picture.frame, picture.leaves_scale())))?;
    let key = |index| Ok((index, key(&bare, &layouts[0], index)?));
    let series = bare.series.iter().map(|series| {
        let points = series.points.iter().filter(|point| !point.y.is_nan()).map(|point| {
            let bar = point.bar.filter(|(low, high)| low.is_finite() && high.is_finite());
            let (low, high) = bar.unzip();
            let all = [Some(point.x), Some(point.y), low, high];
            all.iter().map_while(|value| value.map(number)).collect::<Vec<Value>>()
        });
        json!({ "name": series.name, "points": points.collect::<Vec<_>>() })
    });
    Ok(Inline {
        drawings,
        keys: order_of_names(&bare).into_iter().map(key).collect::<Result<_>>()?,
        values: json!({
            "x": axis(&bare.x, &frame.x),
            "y": axis(&bare.y, &frame.y),
            "series": series.collect::<Vec<_>>(),
        }),
        leaves_scale,
    })
}

fn drawing(chart: &Chart, layout: &Layout) -> Result<Drawing> {
    let (width, height) = size(chart, layout)?;
    let mut content = layer(chart, layout, axes)?;
    let (frame, order) = asked(chart, layout, |picture| Ok((picture.frame, picture.back_to_front())))?;
    for index in order {
        let series = layer(chart, layout, |picture| picture.series(index))?;
        let _ = write!(content, "<g data-series=\"{index}\">{series}</g>");
    }
    let sides = [frame.left, frame.top, frame.right, frame.bottom];
    Ok(Drawing {
        view_box: format!("0 0 {} {}", width * FINE, height * FINE),
        frame: sides.map(|side| format!("{:.0}", side * f64::from(FINE))).join(" "),
        content,
    })
}

/// A function for pictures of any lifetime, which the method's path is not.
fn axes(picture: &SvgPicture) -> Result<()> {
    picture.axes()
}

fn key(chart: &Chart, layout: &Layout, index: usize) -> Result<String> {
    let content = layer(chart, layout, |picture| picture.key(index, (1.0, 7.0)))?;
    let (width, height) = KEY;
    Ok(format!(
        "<svg class=\"key\" aria-hidden=\"true\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {} {}\">\n\
         {content}</svg>",
        width * FINE,
        height * FINE
    ))
}

type SvgPicture<'p, 's> = Picture<'p, SVGBackend<'s>>;

/// What a part of a picture draws, without the element around it.
fn layer(chart: &Chart, layout: &Layout, part: impl Fn(&SvgPicture) -> Result<()>) -> Result<String> {
    let (width, height) = size(chart, layout)?;
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, (width * FINE, height * FINE));
    let picture = Picture::new(chart, layout, backend, FINE, 0.0)?;
    part(&picture)?;
    picture.finish()?;
    let inside = text.split_once('>').and_then(|(_, rest)| rest.rsplit_once("</svg>"));
    Ok(inside.map(|(inside, _)| inside.trim().to_owned() + "\n").unwrap_or_default())
}

/// Asks a picture that draws nothing.
fn asked<T>(chart: &Chart, layout: &Layout, ask: impl Fn(&SvgPicture) -> Result<T>) -> Result<T> {
    let mut text = String::new();
    ask(&Picture::new(chart, layout, SVGBackend::with_string(&mut text, (1, 1)), FINE, 0.0)?)
}

fn axis(axis: &Axis, range: &Range) -> Value {
    let (is_log, low, high) = range.ends();
    json!({ "label": axis.label, "log": is_log, "low": low, "high": high })
}

/// A number to six digits. JSON has none that is infinite.
fn number(value: f64) -> Value {
    format!("{value:.5e}")
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::blocks;
    use crate::example;
    use crate::plot::{Styles, by_length};
    use longwave_eval::Metric;

    #[test]
    fn every_series_is_a_group_with_its_values() {
        let rows = example::rows();
        let chart = by_length(&blocks(&rows)[0], Metric::Perplexity, &Styles::of(&blocks(&rows))).remove(0);
        let inline = inline(&chart).unwrap();
        assert_eq!(inline.drawings.len(), 2);
        for drawing in &inline.drawings {
            for index in 0..chart.series.len() {
                let group = format!("<g data-series=\"{index}\">");
                assert_eq!(drawing.content.matches(&group).count(), 1);
            }
            assert!(!drawing.content.contains("<svg") && !drawing.content.contains(&chart.title));
            assert!(!drawing.content.contains("yarn"), "names stand in the legend");
        }
        assert_eq!(inline.drawings[1].view_box, "0 0 1360 1200");
        assert!(inline.leaves_scale && inline.keys.len() == chart.series.len());
        let yarn =
            inline.values["series"].as_array().unwrap().iter().find(|it| it["name"] == "yarn").unwrap();
        assert_eq!(yarn["points"][3], json!([1024.0, 14.8, 14.652, 14.948]));
        // An infinite value is not the same as a missing one.
        let broken =
            inline.values["series"].as_array().unwrap().iter().find(|it| it["name"] == "broken").unwrap();
        assert_eq!((broken["points"][3][0].as_f64(), broken["points"][3][1].is_null()), (Some(1024.0), true));
    }
}
