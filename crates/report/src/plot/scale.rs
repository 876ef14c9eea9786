//! Axes: from values to places between 0 and 1, and where ticks go.

use super::{Axis, Point, Series};

/// Values beyond this many times the smallest leave a logarithmic axis.
const CLIP: f64 = 50.0;

/// How values are spaced along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    #[default]
    Linear,
    /// Equal ratios; vertically without what lies far above the rest.
    Log,
    /// Equal ratios, with room for every value.
    LogWhole,
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log | Self::LogWhole => value.ln(),
        }
    }

    fn is_log(self) -> bool {
        self != Self::Linear
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Range {
    /// Room for all points of the series, with a margin.
    pub(super) fn horizontal(axis: &Axis, series: &[Series]) -> Option<Self> {
        let values: Vec<f64> = points(series).map(|point| point.x).collect();
        let margin = if axis.scale.is_log() { 0.06 } else { 0.0 };
        Self::around(axis.scale, &values, margin)
    }

    /// Room for the points and their error bars, but not for what explodes.
    pub(super) fn vertical(axis: &Axis, series: &[Series]) -> Option<Self> {
        let ends = |point: &Point| {
            let (low, high) = point.bar.filter(|_| point.y.is_finite()).unwrap_or((point.y, point.y));
            [point.y, low, high]
        };
        let finite: Vec<f64> = points(series)
            .flat_map(ends)
            .filter(|value| value.is_finite() && (!axis.scale.is_log() || *value > 0.0))
            .collect();
        let lowest =
            points(series).map(|point| point.y).filter(|y| y.is_finite()).fold(f64::INFINITY, f64::min);
        let most = if axis.scale == Scale::Log { lowest * CLIP } else { f64::INFINITY };
        let shown: Vec<f64> = finite.into_iter().filter(|value| *value <= most).collect();
        Self::around(axis.scale, &shown, 0.06)
    }

    fn around(scale: Scale, values: &[f64], margin: f64) -> Option<Self> {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !(low.is_finite() && high.is_finite()) {
            return None;
        }
        let (mut low, mut high) = (scale.of(low), scale.of(high));
        if !(low.is_finite() && high.is_finite()) {
            return None;
        }
        if high - low < 1e-9 * low.abs().max(1.0) {
            // One value: some room around it, or it lies on the frame.
            let room = if scale.is_log() { 0.35 } else { 0.1 * low.abs().max(1.0) };
            (low, high) = (low - room, high + room);
        }
        let room = margin * (high - low);
        Some(Self { scale, low: low - room, high: high + room })
    }

    /// Whether places are of logarithms, and the low and the high end, as such.
    pub(super) fn ends(&self) -> (bool, f64, f64) {
        (self.scale.is_log(), self.low, self.high)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(super) fn place(&self, value: f64) -> f64 {
        (self.scale.of(value) - self.low) / (self.high - self.low)
    }

    pub(super) fn is_past(&self, value: f64) -> bool {
        self.place(value) > 1.0 + 1e-9
    }

    /// Round numbers within the range, about so many on a linear axis, and their labels.
    pub(super) fn round_ticks(&self, about: f64) -> Vec<(f64, Vec<String>)> {
        let values = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high, about),
            Scale::Log | Scale::LogWhole => log_ticks(self.low.exp(), self.high.exp()),
        };
        values.into_iter().map(|value| (value, vec![label(value)])).collect()
    }
}

fn points(series: &[Series]) -> impl Iterator<Item = &Point> {
    series.iter().flat_map(|series| &series.points)
}

/// Multiples of 1, 2 or 5 times a power of ten, about so many of them.
fn linear_ticks(low: f64, high: f64, about: f64) -> Vec<f64> {
    let rough = (high - low) / about;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|index| index as f64 * step).collect()
}

/// The coarsest of three sets of mantissas that has four ticks in the range.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let sets: [&[f64]; 3] = [
        &[1.0, 2.0, 5.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        &[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0],
    ];
    let within = |set: &[f64]| -> Vec<f64> {
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        powers
            .flat_map(|power| set.iter().map(move |mantissa| mantissa * 10f64.powi(power)))
            .filter(|value| (low..=high).contains(value))
            .collect()
    };
    let found = sets.iter().map(|set| within(set)).find(|ticks| ticks.len() >= 4);
    // Within less than a factor of two even the finest set may have too few.
    found.unwrap_or_else(|| linear_ticks(low, high, 6.0))
}

/// The shortest decimal that says the number to six digits.
fn label(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 12) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    fn series(values: &[f64]) -> Vec<Series> {
        let points = values.iter().map(|&y| Point { x: 1.0, y, bar: None }).collect();
        vec![Series { name: "a".into(), points, style: 0, role: Role::Method }]
    }

    fn log() -> Axis {
        Axis { label: "y".into(), scale: Scale::Log, ticks: vec![] }
    }

    #[test]
    fn a_log_axis_shows_what_did_not_explode() {
        let range =
            Range::vertical(&log(), &series(&[10.0, 400.0, 9000.0, f64::INFINITY, f64::NAN])).unwrap();
        assert!(!range.is_past(400.0) && range.is_past(9000.0) && range.is_past(f64::INFINITY));
        assert!(range.place(10.0) > 0.0 && range.place(10.0) < 0.1);
        assert!(!range.is_past(f64::NAN));
        let whole = Axis { scale: Scale::LogWhole, ..log() };
        assert!(!Range::vertical(&whole, &series(&[10.0, 400.0, 9000.0])).unwrap().is_past(9000.0));
    }

    #[test]
    fn one_value_has_room_around_it_and_none_has_no_range() {
        assert!((Range::vertical(&log(), &series(&[12.0])).unwrap().place(12.0) - 0.5).abs() < 1e-9);
        assert_eq!(Range::vertical(&log(), &series(&[f64::NAN, f64::INFINITY])), None);
    }

    #[test]
    fn ticks_are_round_and_enough() {
        assert_eq!(log_ticks(12.0, 40.0), [15.0, 20.0, 30.0, 40.0]);
        assert_eq!(log_ticks(9.0, 500.0), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert!(log_ticks(12.0, 12.5).len() >= 4);
        assert_eq!(linear_ticks(0.0, 600.0, 6.0), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0]);
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.3, 12.0, 1500.0, 0.1 + 0.2, -2.5].map(label);
        assert_eq!(labels, ["0", "0.3", "12", "1500", "0.3", "-2.5"]);
    }
}
