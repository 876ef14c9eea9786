//! The distances that training showed to each layer of a model, and with them the angles.
//!
//! A stage reads its rows at the positions of `train.positions`, so that a text of L tokens may show distances far above L. Of these
//! a layer meets what its window leaves, each at the distance that its geometry reads it at. What an earlier stage showed counts too, at
//! the angles that it had then.

use super::angles::SeenAngles;
use super::bands;
use crate::measure::Subject;
use burn::tensor::Device;
use longwave_core::Result;
use longwave_position::reading::LayerReading;
use longwave_position::sampling::Shown;
use longwave_position::{Init, Reading};
use longwave_train::reading_after;

/// What training showed to a layer that turns its queries and keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownAngles {
    pub(crate) angles: SeenAngles,
    /// The band that its keys should prefer, where the frequencies foretell one.
    pub(crate) predicted: Option<f64>,
}

/// What the stages of a run have shown so far, by layer; none where a layer turns nothing.
pub(crate) fn of_run(subject: &Subject<'_>) -> Result<Vec<Option<ShownAngles>>> {
    let Subject { config, model, resolved, stage, .. } = *subject;
    let distances = |stage: usize| config.stage(stage).positions.shown(config.lengths(stage));
    let mut stages = Vec::new();
    if stage > 0 {
        // Frequencies and geometries alone are looked at, so that no weights are needed.
        let init = Init::counting(&Device::flex());
        let fresh = config.position.build("position", &resolved.dimensions, &init, resolved.log_n())?;
        for earlier in 0..stage {
            stages.push((reading_after(config, &fresh, earlier)?, distances(earlier)));
        }
    }
    stages.push((model.position.clone(), distances(stage)));
    Ok(of_stages(&stages))
}

/// The same of the reading of each stage and the distances of its rows; the last is that of the model.
pub(crate) fn of_stages(stages: &[(Reading, Shown)]) -> Vec<Option<ShownAngles>> {
    let layers = stages.last().map_or(0, |(reading, _)| reading.layers().len());
    (0..layers).map(|layer| of_layer(layer, stages)).collect()
}

fn of_layer(layer: usize, stages: &[(Reading, Shown)]) -> Option<ShownAngles> {
    let mut longest: Option<Shown> = None;
    let mut angles: Option<SeenAngles> = None;
    for (reading, shown) in stages {
        let Some(rotation) = reading.rotation(layer) else { continue };
        let shown = read_by(reading.layer(layer), shown.after(reading.memory()));
        let here = SeenAngles::up_to(&rotation.frequencies.as_read(), shown.farthest);
        longest = longest.filter(|longest| longest.farthest >= shown.farthest).or(Some(shown));
        angles = Some(match angles.filter(|angles| angles.bands() == here.bands()) {
            Some(angles) => angles.and(&here),
            None => here,
        });
    }
    let rotation = stages.last()?.0.rotation(layer)?;
    let predicted = bands::predicted_among(&rotation.frequencies, longest?.below);
    Some(ShownAngles { angles: angles?, predicted })
}

/// What is left of the distances between positions where a layer reads them.
fn read_by(layer: &LayerReading, shown: Shown) -> Shown {
    let LayerReading { geometry, mask, .. } = layer;
    let Some(geometry) = geometry.as_ref().filter(|geometry| !geometry.is_plain()) else {
        return match mask.window {
            Some(window) if mask.sinks == 0 => shown.within(window),
            _ => shown,
        };
    };
    // Groups and chunks read a distance at several others, depending on where the pair lies.
    let last = shown.farthest.floor() as usize;
    let mut farthest = 0.0_f64;
    for query in 0..=last {
        for key in 0..=query {
            let (query, key) = (query as f64, key as f64);
            if !mask.hides(query, key) {
                let (of_query, of_key) = geometry.maps_of(query, key);
                farthest = farthest.max(of_query.at(query) - of_key.at(key));
            }
        }
    }
    Shown { farthest, below: farthest + 1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TRAIN, model, reading};
    use super::*;
    use longwave_position::Lengths;
    use longwave_position::sampling::TrainingPositions;

    /// The largest angle of the slowest band in tokens, for rows of 16 of these positions.
    fn farthest(stages: &[(&str, &str)]) -> f64 {
        let (model, _) = model("{ kind = 'rope', base = 1e6 }", "layers = 1");
        let slowest = 1e6_f64.powf(-0.75);
        let stages: Vec<(Reading, Shown)> = stages
            .iter()
            .map(|(positions, extension)| {
                let positions: TrainingPositions =
                    toml::Value::try_into(super::super::tests::toml(positions)).unwrap();
                let shown = positions.shown(Lengths { train: TRAIN, length: TRAIN });
                (reading(&model, extension), shown)
            })
            .collect();
        let shown = of_stages(&stages).remove(0).unwrap();
        // Halving finds where it ends.
        let (mut seen, mut unseen) = (0.0, 1e4);
        for _ in 0..60 {
            let middle = f64::midpoint(seen, unseen);
            if shown.angles.is_unseen(3, middle * slowest) { unseen = middle } else { seen = middle }
        }
        seen
    }

    #[test]
    fn drawn_positions_show_the_distances_of_their_range() {
        // The last of 128 positions is 127 from the first, however few tokens a row has.
        for (positions, expected) in [
            ("{ kind = 'contiguous' }", 15.0),
            ("{ kind = 'randpos', max_position = '8L' }", 127.0),
            ("{ kind = 'pose', max_position = '8L' }", 127.0),
            ("{ kind = 'float', span = '8L' }", 128.0),
            // A shift of all positions leaves distances as they are.
            ("{ kind = 'offset', max_position = '8L' }", 15.0),
            ("{ kind = 'segments', count = 4, max_position = '8L' }", 15.0),
        ] {
            let found = farthest(&[(positions, "'direct'")]);
            assert!((found - expected).abs() < 1e-4, "{positions}: {found}");
        }
    }

    #[test]
    fn a_layer_is_shown_what_its_window_and_its_geometry_leave() {
        let contiguous = "{ kind = 'contiguous' }";
        for (extension, expected) in [
            ("{ kind = 'window', window = 6 }", 5.0),
            // min(n, 8) of distances up to 15.
            ("{ kind = 'rerope', window = 8 }", 8.0),
            // 4 + (n - 4) / (1/4) at n = 15.
            ("{ kind = 'leaky_rerope', window = 4, k = 0.25, allow_untrained = true }", 48.0),
        ] {
            let found = farthest(&[(contiguous, extension)]);
            assert!((found - expected).abs() < 1e-4, "{extension}: {found}");
        }
    }

    #[test]
    fn what_an_earlier_stage_showed_is_known() {
        let (drawn, contiguous) = ("{ kind = 'randpos', max_position = '8L' }", "{ kind = 'contiguous' }");
        let found = farthest(&[(drawn, "'direct'"), (contiguous, "'direct'")]);
        assert!((found - 127.0).abs() < 1e-4, "{found}");
        // The second stage turns four times slower, so that its 15 tokens show less than the first had shown.
        let found = farthest(&[(contiguous, "'direct'"), (contiguous, "{ kind = 'linear', scale = 4 }")]);
        assert!((found - 15.0).abs() < 1e-4, "{found}");
    }
}
