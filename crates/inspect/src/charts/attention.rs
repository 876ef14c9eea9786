//! Where a trained model attends, as a chart.

use super::{Drawing, Form, chart, series};
use crate::attention::{Attention, AttentionByDistance, BINS_A_DOUBLING, LayerAttention, SINGLE};
use crate::picture::Picture;
use longwave_report::plot::{Axis, Scale};

/// Probabilities below it are left out: they would take most of a logarithmic axis.
const LEAST: f64 = 1e-6;

/// The mean probability by distance, a line a layer; none where it was not measured, or nothing lies further back than the
/// query itself.
pub(super) fn attention(picture: &Picture) -> Option<Drawing> {
    let Some(Attention::ByDistance(measured)) = &picture.attention else { return None };
    let lines = measured.layers.iter().map(|layer| {
        series(format!("layer {}", layer.index), layer.index, points(measured, layer).into_iter())
    });
    let title = format!("{}: attention by distance", picture.encoding);
    let axes = [Axis::new("tokens back", Scale::LogWhole), Axis::new("mean probability", Scale::LogWhole)];
    let mut chart = chart(picture, title, axes, lines.collect());
    if picture.length > picture.train_length {
        chart.mark = Some((picture.train_length as f64, format!("L = {}", picture.train_length)));
    }
    chart.has_numbers().then(|| Drawing {
        file: "attention".to_owned(),
        title: "Attention by distance".to_owned(),
        caption: format!(
            "The mean attention probability of a key so many tokens back, over heads and over the queries in the second half of \
             {}. {}Less than {LEAST:e} is left out.",
            measured.measured_on(),
            binned(measured),
        ),
        form: Form::Chart(chart),
    })
}

/// Says what is averaged.
fn binned(measured: &AttentionByDistance) -> String {
    if measured.distances.iter().all(|[first, last]| first == last) {
        return String::new();
    }
    format!("Distances beyond {SINGLE} are averaged in bins, {BINS_A_DOUBLING} for each doubling. ")
}

/// From one token back on: a query's own key has no place on the axis. A bin lies in its middle.
fn points(measured: &AttentionByDistance, layer: &LayerAttention) -> Vec<(f64, f64)> {
    let bins = measured.distances.iter().zip(&layer.mean.probability).skip(1);
    bins.map(|([first, last], &probability)| {
        let middle = (*first as f64 * *last as f64).sqrt();
        (middle, if probability < LEAST { f64::NAN } else { probability })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Profile;
    use crate::attention::tests::{of_two_layers, profile};
    use crate::charts::tests::looked_at;

    fn measured(probability: &[f64]) -> AttentionByDistance {
        let head = Profile { probability: probability.to_vec(), ..profile(1.0, 0.0) };
        let distances = [[0, 0], [1, 1], [2, 2], [65, 67]];
        AttentionByDistance { tokens: [64, 64], documents: 3, ..of_two_layers(&[head], &distances) }
    }

    fn drawn(probability: &[f64]) -> Option<Drawing> {
        let mut picture = looked_at("kind = 'rope'", 64, "direct").remove(0);
        picture.attention = Some(Attention::ByDistance(measured(probability)));
        attention(&picture)
    }

    #[test]
    fn a_layer_is_a_line_from_one_token_back() {
        let drawing = drawn(&[0.7, 0.2, 0.0, 0.1]).unwrap();
        let Form::Chart(chart) = &drawing.form else { panic!("{drawing:?}") };
        assert_eq!(chart.series.len(), 2);
        let points = &chart.series[1].points;
        assert_eq!((points[0].x, points[0].y), (1.0, 0.2));
        assert!(points[1].y.is_nan(), "nothing there breaks the line");
        assert!((points[2].x - (65.0 * 67.0_f64).sqrt()).abs() < 1e-12);
        assert_eq!(chart.mark.as_ref().unwrap().1, "L = 16");
        let caption = "The mean attention probability of a key so many tokens back, over heads and over the queries in the \
                       second half of 8 windows of 64 tokens, from 3 documents of the split `valid`. Distances beyond 64 are \
                       averaged in bins, 16 for each doubling. Less than 1e-6 is left out.";
        assert_eq!(drawing.caption, caption);
        assert!(drawing.svg().unwrap().contains("layer 1"));
    }

    #[test]
    fn nothing_further_back_has_no_chart() {
        assert_eq!(drawn(&[1.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(attention(&looked_at("kind = 'rope'", 64, "direct")[0]), None);
    }
}
