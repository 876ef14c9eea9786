//! The update on the GPU: one launch for all parameters, as far as the device binds as many buffers, where plain tensor
//! operations take 15 for each.
//!
//! The parameters, m and v are written where they lie if nothing else holds them.

// What the macros make of this file is theirs.
#![allow(clippy::too_many_arguments, clippy::pedantic)]

use super::{AdamW, Factors};
use crate::machine::autodiff::Primitive;
use crate::machine::gpu::{copied, cubes, launch, linear};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

/// Numbers that a cube takes.
const CHUNK: usize = 2048;

/// The most parameters of a launch, whatever the device binds.
const PARAMETERS: usize = 32;

/// [`Factors`] that all parameters share, as a kernel takes them.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Step {
    gradient_scale: f32,
    beta1: f32,
    beta2: f32,
    rest1: f32,
    rest2: f32,
    inverse_root_correction: f32,
    eps: f32,
}

impl Factors {
    /// What all parameters of a launch share.
    fn step(&self) -> StepLaunch {
        let ([beta1, beta2], [rest1, rest2]) = (self.betas, self.rests);
        StepLaunch::new(
            self.gradient_scale,
            beta1,
            beta2,
            rest1,
            rest2,
            self.inverse_root_correction,
            self.eps,
        )
    }

    /// Whether a launch can take parameters of these and of others.
    fn share(&self, other: &Self) -> bool {
        let shared = |factors: &Self| {
            let ([beta1, beta2], [rest1, rest2]) = (factors.betas, factors.rests);
            let rest = [factors.gradient_scale, factors.inverse_root_correction, factors.eps];
            ([beta1, beta2, rest1, rest2].map(f32::to_bits), rest.map(f32::to_bits))
        };
        shared(self) == shared(other)
    }
}

/// What differs between parameters.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Own {
    count: usize,
    /// The first of the cubes that take it.
    start: usize,
    learning_rate: f32,
    decay: f32,
}

/// The tensors of some parameters, each in its place.
#[derive(CubeLaunch, CubeType)]
struct States {
    gradients: Sequence<Box<[f32]>>,
    parameters: Sequence<Box<[f32]>>,
    m: Sequence<Box<[f32]>>,
    v: Sequence<Box<[f32]>>,
    own: Sequence<Own>,
}

/// Each cube takes [`CHUNK`] numbers of one parameter.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn update_kernel(states: &mut States, clip: &[f32], step: Step, #[comptime] clipped: bool) {
    let mut scale = step.gradient_scale;
    if comptime!(clipped) {
        scale *= clip[0];
    }
    #[unroll]
    for index in 0..states.own.len() {
        let own = &states.own[index];
        if CUBE_POS >= own.start && (CUBE_POS - own.start) * CHUNK < own.count {
            let end = min(own.count, (CUBE_POS - own.start + 1) * CHUNK);
            let mut at = (CUBE_POS - own.start) * CHUNK + UNIT_POS as usize;
            let gradients = &states.gradients[index];
            let parameters = &mut states.parameters[index];
            let m = &mut states.m[index];
            let v = &mut states.v[index];
            while at < end {
                let g = gradients[at] * scale;
                let first = m[at] * step.beta1 + g * step.rest1;
                let second = v[at] * step.beta2 + g * g * step.rest2;
                let denominator = second.sqrt() * step.inverse_root_correction + step.eps;
                parameters[at] = parameters[at] * own.decay - first * own.learning_rate / denominator;
                m[at] = flushed(first);
                v[at] = flushed(second);
                at += UNITS;
            }
        }
    }
}

/// x, or 0 in the place of a subnormal number.
#[cube]
fn flushed(x: f32) -> f32 {
    select(x.abs() < f32::MIN_POSITIVE, 0.0, x)
}

/// A tensor that may be written to: contiguous, and held by nothing else.
fn writable(tensor: Primitive) -> Primitive {
    let tensor = into_contiguous(tensor);
    if tensor.can_mut() { tensor } else { copied(tensor) }
}

/// [`adamw_all`](crate::adamw_all()): of the parameter, the gradient, m and v of each update, in as few launches as the
/// device's bindings allow.
pub(super) fn adamw_all(
    given: Vec<([Primitive; 4], AdamW)>,
    clip: Option<&Primitive>,
) -> Vec<[Primitive; 3]> {
    let given: Vec<Update> = given.into_iter().map(Update::new).collect();
    let filled: Vec<&Update> = given.iter().filter(|update| update.count() > 0).collect();
    if let Some(first) = filled.first() {
        // One buffer for the factor, and one for the sizes.
        let bindings = first.gradient.client.properties().hardware.max_bindings as usize;
        let most = (bindings.saturating_sub(2) / 4).clamp(1, PARAMETERS);
        for alike in filled.chunk_by(|a, b| a.factors.share(&b.factors)) {
            alike.chunks(most).for_each(|group| update_group(group, clip));
        }
    }
    given.into_iter().map(|update| update.state).collect()
}

/// One update, whose tensors lie as the kernel takes them.
struct Update {
    /// The parameter, m and v.
    state: [Primitive; 3],
    gradient: Primitive,
    factors: Factors,
}

impl Update {
    fn new(([parameter, gradient, m, v], options): ([Primitive; 4], AdamW)) -> Self {
        let state = [parameter, m, v].map(writable);
        Self { state, gradient: into_contiguous(gradient), factors: options.factors() }
    }

    fn count(&self) -> usize {
        self.gradient.meta.num_elements()
    }
}

fn update_group(group: &[&Update], clip: Option<&Primitive>) {
    let (mut gradients, mut parameters) = (SequenceArg::new(), SequenceArg::new());
    let (mut m, mut v) = (SequenceArg::new(), SequenceArg::new());
    let (mut own, mut start) = (SequenceArg::new(), 0);
    for update in group {
        let Update { state, gradient, factors } = update;
        gradients.push(linear(gradient));
        for (all, tensor) in [&mut parameters, &mut m, &mut v].into_iter().zip(state) {
            all.push(linear(tensor));
        }
        own.push(OwnLaunch::new(update.count(), start, factors.learning_rate, factors.decay));
        start += update.count().div_ceil(CHUNK);
    }
    let all: Vec<&Primitive> = group.iter().map(|update| &update.gradient).collect();
    let states = StatesLaunch::new(gradients, parameters, m, v, own);
    let factor = linear(clip.unwrap_or(all[0]));
    let (grid, step) = (cubes(start, UNITS, &all), group[0].factors.step());
    // SAFETY: units stay below the count of the parameter that their cube takes; nothing else holds what is written.
    unsafe {
        launch!(update_kernel, grid, [], [], states, factor, step, clip.is_some());
    }
}
