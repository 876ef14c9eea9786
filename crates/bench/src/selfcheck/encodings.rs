//! A small model with every encoding against plain operations on the CPU, and laws that encodings obey.

use super::small_model::{self, Make, Total, differentiate, losses, names};
use super::{Checked, Each, Finding, gradient_differences, list, within};
use burn::tensor::{Device, Tensor};
use longwave_core::Result;
use longwave_kernels::{Layout, rotate};
use longwave_model::Gpt;
use longwave_position::encoding::PositionUse;
use longwave_position::encodings;
use longwave_position::frequency::{Frequencies, Rotation};
use longwave_position::{ExtensionConfig, Lengths, Positions};
use toml::Value;

const LENGTH: usize = 24;

pub(super) fn all(checked: &Checked, each: &mut Each<'_>) -> Result<()> {
    for entry in encodings::kinds() {
        let fresh = |device: &Device| model(entry.kind, device);
        each(format!("encoding: {}", entry.kind), &mut || against_plain(checked, &fresh))?;
    }
    each("law: rope turns by the position's angle".to_owned(), &mut || angles(checked))?;
    for kind in encodings::kinds().iter().map(|entry| entry.kind).filter(|kind| reads_distances(kind)) {
        each(format!("law: {kind} reads distances alone"), &mut || shifted(checked, kind))?;
    }
    for extension in GEOMETRIES {
        each(format!("geometry: {extension}"), &mut || geometry(checked, extension))?;
    }
    each("law: extensions of rope at length L change nothing".to_owned(), &mut || at_trained_length(checked))
}

/// Extensions that choose between two rotations by distance, one of them by a stretched far one.
const GEOMETRIES: [&str; 4] = [
    "{ kind = 'rerope', window = 'L/4' }",
    "{ kind = 'leaky_rerope', k = 4.0 }",
    "{ kind = 'leaky_rerope', k = 0.5 }",
    "{ kind = 'self_extend', group = 4 }",
];

/// A fresh model on a device.
fn model(kind: &str, device: &Device) -> std::result::Result<Gpt, String> {
    small_model::model(kind, LENGTH, device)
}

/// `rope` under an extension, as plain operations on the CPU read it.
fn geometry(checked: &Checked, extension: &str) -> Finding {
    let message_of = |error: longwave_core::Error| error.to_string();
    let written =
        format!("extension = {extension}").parse::<toml::Table>().map_err(|error| error.to_string())?;
    let extension = ExtensionConfig::from_value(&written["extension"], "extend").map_err(message_of)?;
    let lengths = Lengths { train: LENGTH, length: LENGTH };
    against_plain(checked, &|device: &Device| {
        let mut model = model("rope", device)?;
        model.position = extension.apply(&model.position, lengths).map_err(message_of)?;
        Ok(model)
    })
}

/// Losses and gradients as plain operations on the CPU give them; no loss sees a later token.
fn against_plain(checked: &Checked, model: Make<'_>) -> Finding {
    let positions = Positions::range(0..LENGTH);
    let run = |device: &Device| differentiate(model, &positions, Total::Mean, device);
    let [actual, expected] = checked.both(run);
    let (actual, expected) = (actual?, expected?);
    let mut worst = checked.compare("losses", &actual.losses, &expected.losses)?;
    let gradients = gradient_differences(&actual.gradients, &expected.gradients);
    for (parameter, off) in names(model)?.iter().zip(gradients) {
        worst = worst.max(within(checked.tolerance(), &format!("gradient of {parameter}"), off)?);
    }
    // The last token of each row changes; only the last loss of each may.
    let other =
        checked.here(|device| Ok::<_, String>(list(losses(&model(device)?, &positions, 6, device))))?;
    let before = |losses: &[f32]| [&losses[..LENGTH - 1], &losses[LENGTH..2 * LENGTH - 1]].concat();
    checked.compare("losses before a changed token", &before(&other), &before(&expected.losses))?;
    let count = actual.gradients.iter().map(Vec::len).sum::<usize>();
    Ok(format!("{count} gradients, within {worst:.1e}"))
}

/// The angle that a pair turns by, at positions past 65,536, against f64.
fn angles(checked: &Checked) -> Finding {
    const DIM: usize = 64;
    let positions = Positions::range(65_536..65_536 + 64);
    let frequencies = Frequencies::geometric(10_000.0, DIM);
    let expected: Vec<f64> = frequencies.angles(positions.values()).collect();
    let turned = checked.here(|device| {
        let [table, _] = Rotation::new(frequencies.clone(), Layout::Interleaved).tables(&positions, device);
        let ones = Tensor::<1>::from_floats([1.0, 0.0], device).repeat_dim(0, 64 * DIM / 2);
        list(rotate(ones.reshape([1, 1, 64, DIM]), &table))
    });
    let mut worst = 0.0_f64;
    for (pair, expected) in turned.as_chunks::<2>().0.iter().zip(&expected) {
        let angle = f64::from(pair[1]).atan2(f64::from(pair[0]));
        let turns = (angle - expected) / std::f64::consts::TAU;
        worst = worst.max((turns - turns.round()).abs() * std::f64::consts::TAU);
    }
    if worst < 1e-3 {
        Ok(format!("within {worst:.1e} rad past 65,536"))
    } else {
        Err(format!("off by {worst:.1e} rad"))
    }
}

/// Whether an encoding says that a shift of all positions changes nothing.
fn reads_distances(kind: &str) -> bool {
    model(kind, &Device::flex()).is_ok_and(|model| {
        let mut uses = model.position.encodings().iter().map(|one| one.capabilities().position_use);
        uses.all(|one| one <= PositionUse::Distances)
    })
}

/// All positions moved alike change no loss.
fn shifted(checked: &Checked, kind: &str) -> Finding {
    checked.here(|device| {
        let model = model(kind, device)?;
        let at = |start: usize| list(losses(&model, &Positions::range(start..start + LENGTH), 5, device));
        checked.compare("losses 1,000 further", &at(1000), &at(0)).map(|worst| format!("within {worst:.1e}"))
    })
}

fn at_trained_length(checked: &Checked) -> Finding {
    checked.here(|device| {
        let mut model = model("rope", device)?;
        let positions = Positions::range(0..LENGTH);
        let expected = list(losses(&model, &positions, 5, device));
        let kinds = ["direct", "linear", "ntk", "dynamic_ntk", "ntk_by_parts", "yarn"];
        for kind in kinds {
            let lengths = Lengths { train: LENGTH, length: LENGTH };
            let message_of = |error: longwave_core::Error| error.to_string();
            let extension =
                ExtensionConfig::from_value(&Value::String(kind.to_owned()), "extend").map_err(message_of)?;
            let trained = model.position.clone();
            model.position = extension.apply(&trained, lengths).map_err(message_of)?;
            checked.compare(kind, &list(losses(&model, &positions, 5, device)), &expected)?;
            model.position = trained;
        }
        Ok(kinds.join(", "))
    })
}
