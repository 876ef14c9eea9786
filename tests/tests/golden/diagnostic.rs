//! Kind `diagnostic`: what explains a trained model, in f64.

use crate::file::{Case, Tensor};
use crate::longppl;
use longwave_eval::diagnostics::angles::SeenAngles;
use longwave_eval::diagnostics::bands;
use longwave_eval::diagnostics::query::Spread;
use longwave_position::frequency::Layout;
use std::f64::consts::TAU;

/// Checks one case of a file; its inputs tell which diagnostic it is of.
pub fn check(name: &str, case: &Case) {
    if case.has_input("loss_long") {
        longppl::check(case);
    } else if case.has_input("k") {
        band_norms(case);
    } else if case.has_input("frequencies") {
        unseen_angles(case);
    } else if case.has_input("probs") {
        entropy_by_length(case);
    } else {
        panic!("{name} is no diagnostic we know");
    }
}

fn band_norms(case: &Case) {
    let bands = case.usize("d") / 2;
    let layout = match case.text("layout") {
        "half" => Layout::Half,
        _ => Layout::Interleaved,
    };
    let mut outputs = case.outputs();
    let mut preferred = Vec::new();
    for (input, output) in [("q", "q_norm"), ("k", "k_norm")] {
        let Tensor { shape, data } = case.input(input);
        let mut means = Vec::new();
        for head in data.chunks(shape[1] * shape[2]) {
            let (mut sums, mut counts) = (vec![0.0; bands], vec![0; bands]);
            for row in head.chunks(shape[2]) {
                let row: Vec<f32> = row.iter().map(|&x| x as f32).collect();
                let norms: Vec<f64> = bands::norms(&row, layout, bands).collect();
                sums.iter_mut().zip(&norms).for_each(|(sum, norm)| *sum += norm);
                counts[bands::largest(norms.into_iter())] += 1;
            }
            means.extend(sums.into_iter().map(|sum| sum / shape[1] as f64));
            if input == "k" {
                preferred.push(bands::most_frequent(&counts) as f64);
            }
        }
        outputs.compare_f64(output, &means);
    }
    outputs.compare_f64("i_band_mean", &[preferred.iter().sum::<f64>() / preferred.len() as f64]);
    outputs.compare_f64("i_band", &preferred);
    // The file rounds the constant to 3.6572.
    let length = case.f64("L") * bands::LARGEST_VARIANCE / 3.6572;
    let exact = bands as f64 * (length / bands::LARGEST_VARIANCE).ln() / case.f64("base").ln();
    outputs.compare_f64("predicted", &[exact]);
    let found = bands::predicted(bands, case.f64("base"), case.f64("L"));
    assert!((found - exact).abs() < 1e-4, "{found} instead of {exact}");
    outputs.done();
}

/// Rows of probabilities `[heads, rows, keys]`.
fn rows(probabilities: &Tensor) -> impl Iterator<Item = (usize, &[f64])> {
    let rows = probabilities.shape[1];
    probabilities.data.chunks(probabilities.shape[2]).enumerate().map(move |(at, row)| (at % rows, row))
}

fn entropy_by_length(case: &Case) {
    let probabilities = case.input("probs");
    let (heads, count) = (probabilities.shape[0], probabilities.shape[1]);
    let (train, window) = (case.usize("L"), case.config["window"].as_u64());
    let visible = |row: usize| window.map_or(row + 1, |window| (row + 1).min(window as usize));
    let spreads: Vec<Spread> =
        rows(&probabilities).map(|(row, given)| Spread::of(given.iter().copied(), visible(row))).collect();
    let first: Vec<f64> = rows(&probabilities).map(|(_, given)| given[0]).collect();
    let beyond: Vec<f64> = rows(&probabilities)
        .map(|(row, given)| given[..(row + 1).saturating_sub(train)].iter().sum())
        .collect();
    let of = |of: &dyn Fn(&Spread) -> f64| spreads.iter().map(of).collect::<Vec<_>>();
    let (entropy, n_eff) = (of(&|it| it.entropy), of(&|it| it.effective_keys));
    let ratio = of(&|it| it.ratio.unwrap_or_default());
    let mut outputs = case.outputs();
    outputs.compare_f64("entropy", &entropy);
    outputs.compare_f64("n_eff", &n_eff);
    outputs.compare_f64("ratio", &ratio);
    outputs.compare_f64("first_token", &first);
    outputs.compare_f64("beyond", &beyond);
    let support = |(_, given): (usize, &[f64])| given.iter().filter(|p| **p > 0.0).count() as f64;
    outputs.compare_f64("support", &rows(&probabilities).map(support).collect::<Vec<_>>());
    let lengths: Vec<usize> =
        case.config["lengths"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as usize).collect();
    let mean = |values: &[f64], head: usize, from: usize, to: usize| {
        values[head * count + from..head * count + to].iter().sum::<f64>() / (to - from) as f64
    };
    let by_length = |values: &[f64], is_ratio: bool| -> Vec<f64> {
        let of_head = |head: usize| {
            let mut from = 0;
            lengths.iter().map(move |&to| {
                // The first row sees one key and has no ratio.
                let begin = if is_ratio && from == 0 { 1 } else { from };
                from = to;
                (begin, to, head)
            })
        };
        (0..heads).flat_map(of_head).map(|(from, to, head)| mean(values, head, from, to)).collect()
    };
    outputs.compare_f64("ratio_by_length", &by_length(&ratio, true));
    outputs.compare_f64("first_token_by_length", &by_length(&first, false));
    outputs.compare_f64("beyond_by_length", &by_length(&beyond, false));
    outputs.compare_f64("n_eff_by_length", &by_length(&n_eff, false));
    let sinks = |&to: &usize| {
        let has = |head: &usize| mean(&first, *head, 0, to) > case.f64("sink");
        (0..heads).filter(has).count() as f64 / heads as f64
    };
    outputs.compare_f64("sink_by_length", &lengths.iter().map(sinks).collect::<Vec<_>>());
    outputs.done();
}

fn unseen_angles(case: &Case) {
    let probabilities = case.input("probs");
    let (heads, length) = (probabilities.shape[0], case.usize("T"));
    let (read, shares) = (case.input("read_frequencies").data, case.input("band_share").data);
    let seen = SeenAngles::up_to(&case.input("frequencies").data, case.f64("L") - 1.0);
    let bands = seen.bands();
    let window = case.config["rerope_window"].as_f64().unwrap_or(f64::INFINITY);
    let angle = |distance: usize, band: usize| (distance as f64).min(window) * read[band];
    let is_unseen = |distance: usize, band: usize| seen.is_unseen(band, angle(distance, band));
    let share = |distance: usize| seen.unseen_share((0..bands).map(|band| angle(distance, band)));
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let mut outputs = case.outputs();
    // Bands that have met every angle.
    let turned = (0..bands).filter(|&band| !seen.is_unseen(band, TAU - 1e-9)).count();
    outputs.compare_f64("turned", &[turned as f64]);
    outputs.compare_f64("plain", &[mean(&(0..length).map(share).collect::<Vec<_>>())]);
    let of_band = |band: usize| {
        (0..length).filter(|&distance| is_unseen(distance, band)).count() as f64 / length as f64
    };
    outputs.compare_f64("plain_per_band", &(0..bands).map(of_band).collect::<Vec<_>>());
    // What a query gives to keys, times what is unseen there.
    let of_row = |(row, given): (usize, &[f64])| -> f64 {
        given[..=row].iter().enumerate().map(|(key, p)| p * share(row - key)).sum()
    };
    let by_row: Vec<f64> = rows(&probabilities).map(of_row).collect();
    outputs.compare_f64("weighted", &[mean(&by_row)]);
    outputs.compare_f64("per_head", &by_row.chunks(length).map(mean).collect::<Vec<_>>());
    let over_heads = |row: usize| by_row.iter().skip(row).step_by(length).sum::<f64>() / heads as f64;
    outputs.compare_f64("by_row", &(0..length).map(over_heads).collect::<Vec<_>>());
    let in_band = |band: usize| {
        let of_row = |(row, given): (usize, &[f64])| -> f64 {
            given[..=row]
                .iter()
                .enumerate()
                .filter(|(key, _)| is_unseen(row - key, band))
                .map(|(_, p)| p)
                .sum()
        };
        rows(&probabilities).map(of_row).sum::<f64>() / (heads * length) as f64
    };
    let per_band: Vec<f64> = (0..bands).map(in_band).collect();
    let by_share = per_band.iter().zip(&shares).map(|(part, share)| part * share).sum();
    outputs.compare_f64("per_band", &per_band);
    outputs.compare_f64("weighted_by_share", &[by_share]);
    outputs.done();
}
