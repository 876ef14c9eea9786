//! Laws of positions.

use super::inputs::{Inputs, attend, dimensions, random};
use super::{Build, Outcome, apart, ensure};
use crate::encoding::{Dimensions, Domain, Position, PositionUse, Rows};
use crate::frequency::Frequencies;
use crate::positions::Positions;
use burn::tensor::{Device, Int, Tensor};

const LENGTH: usize = 9;

/// How far the outputs of two encodings lie apart in any layer, each at its own positions, with the same inputs.
fn difference(a: (&dyn Position, &Positions), b: (&dyn Position, &Positions)) -> f32 {
    let inputs = Inputs::random("", LENGTH, &Device::flex());
    let of = |layer: usize| {
        let (hidden, out) = attend(a.0, layer, a.1, &inputs);
        let (other_hidden, other_out) = attend(b.0, layer, b.1, &inputs);
        apart(&hidden, &other_hidden).max(apart(&out, &other_out))
    };
    (0..dimensions().layers).map(of).fold(0.0, f32::max)
}

/// Inputs of later rows change nothing before them.
pub(super) fn attention_is_causal(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let subject = build(&dimensions(), &device);
    let positions = Positions::range(0..LENGTH);
    let inputs = Inputs::random("", LENGTH, &device);
    for kept in [1, 5, 8] {
        let changed = inputs.clone().then(kept, Inputs::random("other ", LENGTH, &device));
        for layer in 0..dimensions().layers {
            let [(hidden, out), (other_hidden, other_out)] =
                [&inputs, &changed].map(|inputs| attend(&*subject, layer, &positions, inputs));
            let first = |x: Tensor<3>| x.slice_dim(1, 0..kept);
            let moved = apart(&first(hidden), &first(other_hidden))
                .max(apart(&out.slice_dim(2, 0..kept), &other_out.slice_dim(2, 0..kept)));
            ensure(moved < 1e-5, || format!("rows before {kept} change by {moved} in layer {layer}"))?;
        }
    }
    Ok(())
}

/// `position_use` says what the outputs depend on: nothing, distances, or positions.
pub(super) fn are_read_as_declared(build: Build<'_>) -> Outcome {
    let subject = build(&dimensions(), &Device::flex());
    let position = &*subject;
    let here = Positions::range(0..LENGTH);
    let moved = |positions: Positions| {
        position.check(&positions).is_ok().then(|| difference((position, &here), (position, &positions)))
    };
    // Whole positions, and ones that kernels by distance do not take.
    let shifts = [1.0, 0.5, 7.0, 65_000.0];
    let shifted = |shift: f64| moved(here.map(|m| m + shift));
    let spread = || moved(here.map(|m| 3.0 * m)).or_else(|| moved(here.map(|m| 1.5 * m)));
    let still = |moved: Option<f32>| moved.is_none_or(|moved| moved < 1e-4);
    let moves = |moved: Option<f32>| moved.is_some_and(|moved| moved > 1e-5);
    let declared = position.capabilities().position_use;
    let (shifts_hold, spread_holds) = match declared {
        PositionUse::Order => (shifts.into_iter().all(|shift| still(shifted(shift))), still(spread())),
        PositionUse::Distances => {
            let spread = spread();
            (shifts.into_iter().all(|shift| still(shifted(shift))), spread.is_none() || moves(spread))
        }
        PositionUse::Positions => (shifts.into_iter().any(|shift| moves(shifted(shift))), true),
    };
    ensure(shifts_hold, || {
        format!("{declared:?} are declared, and a shift of all positions says otherwise")
    })?;
    ensure(spread_holds, || format!("{declared:?} is declared, and larger distances say otherwise"))
}

/// `Domain::Whole` says whether distances between the same whole numbers are read alike.
pub(super) fn between_are_read_as_declared(build: Build<'_>) -> Outcome {
    let subject = build(&dimensions(), &Device::flex());
    let position = &*subject;
    let capabilities = position.capabilities();
    let here = Positions::range(0..LENGTH);
    // 8 tokens become 8.16 and 8.24: between the same whole numbers, on both sides of 0.
    let [less, more] = [1.02, 1.03].map(|stretch| here.map(|m| stretch * m));
    if capabilities.position_use == PositionUse::Order || position.check(&less).is_err() {
        return Ok(());
    }
    let moved = difference((position, &less), (position, &more));
    // A table of absolute positions beside whole distances may be read between its rows.
    let still = moved < 1e-6 || capabilities.position_use == PositionUse::Positions;
    ensure(if capabilities.domain == Domain::Whole { still } else { moved > 1e-6 }, || {
        let declared = capabilities.domain;
        format!("`domain` is {declared:?}, and distances that grow by less than a token change {moved}")
    })
}

/// An encoding that can be interpolated reads every position divided by the scale; wavelengths are rounded after that.
pub(super) fn interpolation_divides(build: Build<'_>) -> Outcome {
    let [trained, interpolated] = [1.0, 2.0].map(|scale| {
        let mut subject = build(&dimensions(), &Device::flex());
        if let Some(frequencies) = subject.frequencies().map(|old| old.map(|_, f| f / scale)) {
            subject.set_frequencies(Frequencies { resonance: false, ..frequencies });
        }
        subject
    });
    if !trained.interpolates() {
        return Ok(());
    }
    let far = Positions::range(0..LENGTH).over(2.0);
    let near = Positions::explicit(1, far.values());
    if trained.check(&near).is_err() {
        return Ok(());
    }
    let off = difference((&*interpolated, &far), (&*trained, &near));
    ensure(off < 1e-4, || format!("the outputs differ by {off} from those at positions divided by 2"))
}

/// A prepared encoding gives in pieces what it gives for the whole text.
pub(super) fn pieces_agree(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let [whole, mut prepared] = [0, 1].map(|_| build(&dimensions(), &device));
    let positions = Positions::range(0..LENGTH);
    prepared.prepare(&positions);
    let off = difference((&*whole, &positions), (&*prepared, &positions));
    ensure(off < 1e-5, || format!("`prepare` changes the outputs by {off}"))?;
    let inputs = Inputs::random("", LENGTH, &device);
    for layer in 0..dimensions().layers {
        let mut state = None;
        let pieces = [0..4, 4..5, 5..LENGTH].map(|piece| {
            let tokens = inputs.tokens.clone().slice_dim(1, piece.clone());
            let hidden = inputs.hidden.clone().slice_dim(1, piece.clone());
            let positions = positions.columns(piece);
            prepared.embed(hidden, Rows::new(layer, &tokens, &positions), &mut state)
        });
        let rows = inputs.rows(&*whole, layer, &positions);
        let off =
            apart(&Tensor::cat(pieces.to_vec(), 1), &whole.embed(inputs.hidden.clone(), rows, &mut None));
        ensure(off < 1e-5, || format!("pieces differ by {off} in layer {layer}"))?;
    }
    Ok(())
}

/// What an encoding adds to the hidden state for its positions starts about as large as the embeddings of tokens.
pub(super) fn start_as_large_as_tokens(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let sizes = Dimensions { width: 64, head_dim: 32, train_length: 128, ..dimensions() };
    let subject = build(&sizes, &device);
    let capabilities = subject.capabilities();
    // What reads only the order of the tokens is a network of them, as large as its weights make it.
    if capabilities.replaces_hidden() || capabilities.position_use == PositionUse::Order {
        return Ok(());
    }
    let positions = Positions::range(0..sizes.train_length);
    let tokens = Tensor::<2, Int>::zeros([1, sizes.train_length], &device);
    // The embeddings of a fresh model, N(0, 0.02).
    let x = random::<3>("x", [1, sizes.train_length, sizes.width], &device).mul_scalar(0.02);
    let added = subject.embed(x.clone(), Rows::new(0, &tokens, &positions), &mut None) - x.clone();
    let rms = |x: Tensor<3>| x.square().mean().into_scalar::<f32>().sqrt();
    let ratio = rms(added) / rms(x);
    ensure(ratio == 0.0 || (0.3..=3.0).contains(&ratio), || {
        format!("positions are {ratio} times as large as tokens")
    })
}
