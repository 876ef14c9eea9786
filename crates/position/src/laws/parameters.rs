//! Laws of parameters.

use super::inputs::{Inputs, attend, dimensions, random};
use super::{Build, Outcome, ensure, gradients_of, values};
use crate::encoding::Position;
use crate::parameter::{LAYERS, shapes};
use crate::positions::Positions;
use burn::tensor::{Device, Tensor};

/// Every parameter is listed with the axes that it has; `layers` is the first axis, and vectors do not decay.
pub(super) fn are_listed(build: Build<'_>) -> Outcome {
    let sizes = dimensions();
    let known = [
        (LAYERS, sizes.layers),
        ("width", sizes.width),
        ("heads", sizes.heads),
        ("kv_heads", sizes.kv_heads),
        ("head_dim", sizes.head_dim),
        ("vocab_size", sizes.vocab_size),
        ("1", 1),
    ];
    let subject = build(&sizes, &Device::flex());
    let (specs, shapes) = (subject.parameters(), shapes(&subject));
    ensure(specs.len() == shapes.len(), || format!("{} are listed of {shapes:?}", specs.len()))?;
    for (spec, (name, shape)) in specs.iter().zip(shapes) {
        ensure(spec.name == name && spec.axes.len() == shape.len(), || {
            format!("{spec} is listed for {name} {shape:?}")
        })?;
        for (axis, size) in spec.axes.iter().zip(&shape) {
            let expected = known.iter().find(|(name, _)| name == axis).map(|(_, size)| size);
            ensure(expected.is_none_or(|expected| expected == size), || format!("{spec} is {shape:?}"))?;
        }
        ensure(!spec.axes.iter().skip(1).any(|axis| *axis == LAYERS), || {
            format!("{spec}: the layer must be the first axis")
        })?;
        let stacked = spec.axes.iter().filter(|axis| **axis != LAYERS).count();
        ensure(!spec.decays || stacked >= 2, || format!("{spec} is a vector, and vectors do not decay"))?;
    }
    Ok(())
}

/// Initial values lie within the bounds, and what decays towards zero starts around zero.
pub(super) fn start_within_bounds(build: Build<'_>) -> Outcome {
    let subject = build(&dimensions(), &Device::flex());
    for (spec, values) in subject.parameters().iter().zip(values(&subject)) {
        let bounds = spec.bounds.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        let [least, most] = bounds.map(|bound| bound as f32);
        ensure(values.iter().all(|value| (least..=most).contains(value)), || {
            format!("{spec} starts at {values:?}")
        })?;
        // A mean within five standard errors.
        let count = values.len() as f32;
        let mean = values.iter().sum::<f32>() / count;
        let square = values.iter().map(|value| value * value).sum::<f32>() / count;
        ensure(!spec.decays || mean.abs() <= 5.0 * (square / count).sqrt(), || {
            format!("{spec} decays and starts around {mean}")
        })?;
    }
    Ok(())
}

/// A loss of the outputs of one layer.
fn loss(subject: &dyn Position, layer: usize, positions: &Positions, device: &Device) -> Tensor<1> {
    let inputs = Inputs::random("", positions.length(), device);
    let (hidden, out) = attend(subject, layer, positions, &inputs);
    let weigh = random::<3>("weigh h", hidden.dims(), device);
    (hidden * weigh).sum() + (out.clone() * random::<4>("weigh o", out.dims(), device)).sum()
}

/// Every parameter has a finite gradient that is not all zero, also between whole positions.
pub(super) fn have_gradients(build: Build<'_>) -> Outcome {
    let device = Device::flex().autodiff();
    let subject = build(&dimensions(), &device);
    let names = shapes(&subject);
    if names.is_empty() {
        return Ok(());
    }
    for positions in [Positions::range(0..9), Positions::explicit(1, vec![0.0, 0.5, 2.0, 3.5, 4.0])] {
        if subject.check(&positions).is_err() {
            continue;
        }
        let [first, second] = [0, 1].map(|layer| loss(&*subject, layer, &positions, &device));
        let gradients = gradients_of(&subject, &mut (first + second).backward());
        for ((name, _), gradient) in names.iter().zip(gradients) {
            let Some(gradient) = gradient else { return Err(format!("{name} has no gradient")) };
            ensure(gradient.iter().all(|g| g.is_finite()), || {
                format!("the gradient of {name} is {gradient:?}")
            })?;
            ensure(gradient.iter().any(|&g| g != 0.0), || format!("the gradient of {name} is 0"))?;
        }
    }
    Ok(())
}

/// A layer reads its own slice of a parameter that is stacked by layers, and every slice is read.
pub(super) fn are_stacked_by_layer(build: Build<'_>) -> Outcome {
    let device = Device::flex().autodiff();
    let subject = build(&dimensions(), &device);
    let specs = subject.parameters();
    if !specs.iter().any(|spec| spec.axes.first() == Some(&LAYERS)) {
        return Ok(());
    }
    for layer in 0..dimensions().layers {
        let mut gradients = loss(&*subject, layer, &Positions::range(0..9), &device).backward();
        for (spec, gradient) in specs.iter().zip(gradients_of(&subject, &mut gradients)) {
            if spec.axes.first() != Some(&LAYERS) {
                continue;
            }
            let gradient = gradient.unwrap_or_default();
            let slices = gradient.chunks((gradient.len() / dimensions().layers).max(1));
            let read: Vec<bool> = slices.map(|slice| slice.iter().any(|&g| g != 0.0)).collect();
            let expected: Vec<bool> = (0..dimensions().layers).map(|other| other == layer).collect();
            ensure(read == expected, || format!("layer {layer} reads the slices {read:?} of {spec}"))?;
        }
    }
    Ok(())
}
