//! One update of the `AdamW` optimizer.
//!
//! **Fused:** the scaling of the gradient (clipping), both means, their correction, the decay and the step,
//! in one pass. Plain operations make 15.
//!
//! **Kept for a backward pass:** nothing; no gradient goes through an update.
//!
//! **Bytes:** 28 for each parameter: p, gradient, m and v in, p, m and v out. These three are written in
//! place where nothing else holds the tensors; where something does, they are copied first.
//!
//! **Subnormal moments become 0.** Without gradients (rows of tokens that no batch holds) a moment shrinks by its
//! beta in every step, and in f32 it never reaches 0: 5.6e-45, 4 times the least subnormal number, times 0.9 rounds
//! to itself. Operations on such numbers are slow: this update takes 1.7 times as long on a Zen 4 processor. It is
//! computed from what the moments were before they were set to 0.
//!
//! `cpu.rs` says how it is done on the CPU, `gpu/` on the GPU.

pub(crate) mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod reference;

use crate::machine::autodiff::{self, FusedBackend, OpTensor};
#[cfg(feature = "gpu")]
use burn::backend::Cube;
use burn::backend::Flex;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

/// The settings of one `AdamW` update (Loshchilov & Hutter 2019).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// The step size of this update.
    pub learning_rate: f64,
    /// The decay of the mean of gradients, m.
    pub beta1: f64,
    /// The decay of the mean of squared gradients, v.
    pub beta2: f64,
    /// Added to the root of v.
    pub eps: f64,
    /// The decoupled decay: the parameter is multiplied by `1 - learning_rate * weight_decay`.
    pub weight_decay: f64,
    /// The number of this update, from 1: it corrects the bias of the two means.
    pub step: u64,
    /// Multiplied into the gradient first (the factor of clipping by norm).
    pub gradient_scale: f64,
}

/// What the kernels multiply by in one update, rounded from f64.
#[derive(Clone, Copy)]
struct Factors {
    gradient_scale: f32,
    betas: [f32; 2],
    /// 1 - beta.
    rests: [f32; 2],
    /// Over the correction of m.
    learning_rate: f32,
    inverse_root_correction: f32,
    eps: f32,
    decay: f32,
}

impl AdamW {
    fn factors(&self) -> Factors {
        let (correction1, root_correction2) = self.corrections();
        Factors {
            gradient_scale: self.gradient_scale as f32,
            betas: [self.beta1 as f32, self.beta2 as f32],
            rests: [(1.0 - self.beta1) as f32, (1.0 - self.beta2) as f32],
            learning_rate: (self.learning_rate / correction1) as f32,
            inverse_root_correction: (1.0 / root_correction2) as f32,
            // An eps that f32 rounds to 0 would divide 0 by 0 where there was no gradient.
            eps: (self.eps as f32).max(f32::MIN_POSITIVE),
            decay: (1.0 - self.learning_rate * self.weight_decay) as f32,
        }
    }

    /// (1 - beta1^step, sqrt(1 - beta2^step)), in f64.
    fn corrections(&self) -> (f64, f64) {
        let step = self.step as f64;
        (1.0 - self.beta1.powf(step), (1.0 - self.beta2.powf(step)).sqrt())
    }
}

/// One `AdamW` update; returns the new parameter, m and v, all of the parameter's shape.
///
/// With `g = gradient_scale * gradient`: `m <- beta1 m + (1 - beta1) g`, `v <- beta2 v + (1 - beta2) g²`,
/// `p <- p (1 - learning_rate * weight_decay) - learning_rate * m̂ / (sqrt(v̂) + eps)`, where
/// `m̂ = m / (1 - beta1^step)` and `v̂ = v / (1 - beta2^step)`. Where the new m or v is subnormal, 0 is returned in its
/// place.
///
/// No gradient is tracked: tensors are taken out of autodiff, and the results are plain tensors.
///
/// # Panics
/// The shapes differ, or `step` is 0.
pub fn adamw<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    m: Tensor<D>,
    v: Tensor<D>,
    options: &AdamW,
) -> (Tensor<D>, Tensor<D>, Tensor<D>) {
    check(options.step, parameter.dims(), [gradient.dims(), m.dims(), v.dims()]);
    let tensors = [parameter, gradient, m, v].map(Tensor::without_autodiff);
    if tensors.iter().all(autodiff::cpu_kernel_applies) {
        return fused::<Flex, D>(tensors, |tensors| {
            let [parameter, m, v] = cpu::adamw_all(vec![(tensors, *options)]).remove(0);
            (parameter, m, v)
        });
    }
    #[cfg(feature = "gpu")]
    if tensors.iter().all(autodiff::gpu_kernel_applies) {
        return fused::<Cube, D>(tensors, |tensors| gpu::adamw(tensors, options));
    }
    let [parameter, gradient, m, v] = tensors;
    reference::adamw(parameter, gradient, m, v, options)
}

/// A parameter and its moments, flat: `[numbers]` each.
#[derive(Clone, Debug)]
pub struct AdamWState {
    /// The parameter.
    pub parameter: Tensor<1>,
    /// The mean of its gradients.
    pub m: Tensor<1>,
    /// The mean of their squares.
    pub v: Tensor<1>,
}

/// The updates ([`adamw`]) of many parameters, each with its gradient, at once: on the GPU in few launches,
/// on the CPU in one loop over all of them. `clip` `[1]` is
/// multiplied into every gradient too: the factor of clipping by norm, where that was computed on the device.
///
/// # Panics
/// As [`adamw`].
pub fn adamw_all(given: Vec<(AdamWState, Tensor<1>, AdamW)>, clip: Option<Tensor<1>>) -> Vec<AdamWState> {
    let everywhere = |applies: fn(&Tensor<1>) -> bool| {
        given.iter().all(|(AdamWState { parameter, m, v }, gradient, _)| {
            [parameter, gradient, m, v].into_iter().all(applies)
        })
    };
    if clip.is_none() && everywhere(autodiff::cpu_kernel_applies) {
        return all_at_once::<Flex>(given, cpu::adamw_all);
    }
    #[cfg(feature = "gpu")]
    if everywhere(autodiff::gpu_kernel_applies) {
        let clip = clip.map(|clip| OpTensor::<Cube>::new(clip.without_autodiff()).into_data());
        return all_at_once::<Cube>(given, |given| gpu::adamw_all(given, clip));
    }
    let one = |(AdamWState { parameter, m, v }, gradient, options): (AdamWState, Tensor<1>, AdamW)| {
        let gradient = match &clip {
            Some(clip) => gradient * clip.clone(),
            None => gradient,
        };
        let (parameter, m, v) = adamw(parameter, gradient, m, v, &options);
        AdamWState { parameter, m, v }
    };
    given.into_iter().map(one).collect()
}

/// All updates in one call of a kernel.
fn all_at_once<B: FusedBackend>(
    given: Vec<(AdamWState, Tensor<1>, AdamW)>,
    update: impl FnOnce(Vec<([FloatTensor<B>; 4], AdamW)>) -> Vec<[FloatTensor<B>; 3]>,
) -> Vec<AdamWState> {
    crate::op::count_call();
    let primitive = |tensor: Tensor<1>| OpTensor::<B>::new(tensor.without_autodiff()).into_data();
    let given = given.into_iter().map(|(AdamWState { parameter, m, v }, gradient, options)| {
        check(options.step, parameter.dims(), [gradient.dims(), m.dims(), v.dims()]);
        ([parameter, gradient, m, v].map(primitive), options)
    });
    let state = |updated: [FloatTensor<B>; 3]| {
        let [parameter, m, v] = updated.map(B::from_plain);
        AdamWState { parameter, m, v }
    };
    update(given.collect()).into_iter().map(state).collect()
}

fn check<const D: usize>(step: u64, shape: [usize; D], others: [[usize; D]; 3]) {
    assert!(step > 0, "adamw: steps count from 1");
    for (name, other) in ["gradient", "m", "v"].into_iter().zip(others) {
        assert_eq!(shape, other, "adamw: {name} has another shape than the parameter");
    }
}

/// The update on tensors of a backend: of the parameter, the gradient, m and v.
fn fused<B: FusedBackend, const D: usize>(
    tensors: [Tensor<D>; 4],
    update: impl FnOnce([FloatTensor<B>; 4]) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
) -> (Tensor<D>, Tensor<D>, Tensor<D>) {
    crate::op::count_call();
    let (parameter, m, v) = update(tensors.map(|tensor| OpTensor::<B>::new(tensor).into_data()));
    (B::from_plain(parameter), B::from_plain(m), B::from_plain(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, list, on_devices, padded, tensor};
    use burn::tensor::Device;

    on_devices! {
        "AdamW":
        agrees_with_the_reference_over_steps => agrees_over_steps,
        odd_shapes_agree_with_the_reference => odd_shapes,
        odd_shapes_of_many_parameters_are_updated_as_each_alone => many_are_as_each,
        moments_without_gradients_become_zero => moments_become_zero,
        what_others_hold_stays_as_it_is => others_stay_as_they_are,
    }

    const OPTIONS: AdamW = AdamW {
        learning_rate: 1e-2,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        weight_decay: 0.1,
        step: 1,
        gradient_scale: 0.5,
    };

    fn agrees_over_steps(device: &Device) {
        // Transposed tensors, and more elements than one task takes.
        let start = || tensor::<2>(1, [301, 67], device).swap_dims(0, 1);
        let zeros = || Tensor::<2>::zeros([67, 301], device);
        let (mut fused, mut expected) = ((start(), zeros(), zeros()), (start(), zeros(), zeros()));
        for step in 1..=20 {
            let gradient = tensor::<2>(step, [67, 301], device);
            let options = AdamW { step, ..OPTIONS };
            let calls = crate::op::calls();
            fused = adamw(fused.0, gradient.clone(), fused.1, fused.2, &options);
            assert!(crate::op::calls() > calls, "the fused form did not run");
            expected = reference::adamw(expected.0, gradient, expected.1, expected.2, &options);
        }
        assert_close("parameter", &list(fused.0), &list(expected.0), 1e-6);
        assert_close("m", &list(fused.1), &list(expected.1), 1e-6);
        assert_close("v", &list(fused.2), &list(expected.2), 1e-6);
    }

    /// Sizes that no vector divides, in rows that lie apart.
    fn odd_shapes(device: &Device) {
        for shape in [[1, 1], [3, 1], [1, 37], [37, 3], [7, 1001]] {
            let tensors = || [1, 2, 3, 4].map(|seed| padded(tensor::<2>(seed, shape, device).abs()));
            let [parameter, gradient, m, v] = tensors();
            let fused = adamw(parameter, gradient, m, v, &OPTIONS);
            let [parameter, gradient, m, v] = tensors();
            let expected = reference::adamw(parameter, gradient, m, v, &OPTIONS);
            let pairs = [(fused.0, expected.0), (fused.1, expected.1), (fused.2, expected.2)];
            for (fused, expected) in pairs {
                assert_close(&format!("{shape:?}"), &list(fused), &list(expected), 1e-6);
            }
        }
    }

    /// More parameters than a launch takes, one without numbers, rates and decays that differ, clipped and not.
    fn many_are_as_each(device: &Device) {
        let counts: Vec<usize> = (0..70).map(|index| index * 67).collect();
        let given = || {
            let states = counts.iter().zip(1..).map(|(&count, seed)| {
                let [parameter, m, v, gradient] =
                    [0, 100, 200, 300].map(|from| tensor::<1>(from + seed, [count], device).abs());
                let weight_decay = if seed % 2 == 0 { 0.0 } else { 0.1 };
                let options = AdamW { learning_rate: 1e-2 / seed as f64, weight_decay, ..OPTIONS };
                (AdamWState { parameter, m, v }, gradient, options)
            });
            states.collect::<Vec<_>>()
        };
        for factor in [None, Some(0.25)] {
            let clip = factor.map(|factor| Tensor::from_floats([factor], device));
            let calls = crate::op::calls();
            let updated = adamw_all(given(), clip);
            assert!(crate::op::calls() > calls, "the fused form did not run");
            for (updated, (state, gradient, options)) in updated.into_iter().zip(given()) {
                let gradient_scale = options.gradient_scale * factor.unwrap_or(1.0);
                let options = AdamW { gradient_scale, ..options };
                let expected = adamw(state.parameter, gradient, state.m, state.v, &options);
                let pairs =
                    [(updated.parameter, expected.0), (updated.m, expected.1), (updated.v, expected.2)];
                for (updated, expected) in pairs {
                    assert_close("one of many", &list(updated), &list(expected), 1e-6);
                }
            }
        }
    }

    /// The first step moves against the gradient's sign by the learning rate, whatever its size.
    #[test]
    fn the_first_step_is_the_learning_rate() {
        let device = Device::flex().autodiff();
        let parameter = Tensor::<1>::from_floats([1.0, 2.0, -4.0], &device).require_grad();
        let gradient = Tensor::<1>::from_floats([1e-3, -7.0, 0.0], &device);
        let zeros = Tensor::<1>::zeros([3], &device);
        let (moved, m, v) = adamw(parameter, gradient, zeros.clone(), zeros, &OPTIONS);
        assert!(!moved.is_autodiff());
        let decay = 1.0 - 1e-3;
        assert_close("parameter", &list(moved), &[decay - 1e-2, 2.0 * decay + 1e-2, -4.0 * decay], 2e-6);
        assert_close("m", &list(m), &[5e-5, -0.35, 0.0], 1e-7);
        assert_close("v", &list(v), &[1.25e-8, 0.6125, 0.0], 1e-7);
    }

    type Update = fn(Tensor<1>, Tensor<1>, Tensor<1>, Tensor<1>, &AdamW) -> (Tensor<1>, Tensor<1>, Tensor<1>);
    /// Without a gradient, moments shrink to exactly 0 and are never subnormal.
    fn moments_become_zero(device: &Device) {
        for (name, update) in [("fused", adamw as Update), ("reference", reference::adamw as Update)] {
            let zeros = || Tensor::<1>::zeros([5], device);
            // m has the factor 0.9 and v 0.95: from 1e-37 both are below every normal f32 after 42 steps.
            let small = || Tensor::<1>::from_floats([1e-37, 3e-38, 1.2e-38, 5e-39, 5.6e-45], device);
            let (mut parameter, mut m, mut v) = (small(), small().neg(), small());
            for step in 1..=45 {
                let options = AdamW { step, ..OPTIONS };
                (parameter, m, v) = update(parameter, zeros(), m, v, &options);
                for (moment, x) in [("m", list(m.clone())), ("v", list(v.clone()))] {
                    assert!(!x.iter().any(|x| x.is_subnormal()), "{name} {step}: {moment} {x:?}");
                }
            }
            let zero = |x: Tensor<1>| list(x).iter().all(|x| *x == 0.0);
            assert!(zero(m) && zero(v) && list(parameter).iter().all(|x| x.is_finite()), "{name}");
        }
    }

    #[test]
    fn an_eps_below_f32_divides_nothing_by_zero() {
        let zeros = || Tensor::<1>::zeros([3], &Device::flex());
        let options = AdamW { eps: 1e-60, ..OPTIONS };
        let expected = [1.0 - 1e-3; 3];
        let (fused, ..) = adamw(Tensor::ones([3], &Device::flex()), zeros(), zeros(), zeros(), &options);
        assert_close("fused", &list(fused), &expected, 1e-7);
        let one = Tensor::ones([3], &Device::flex());
        let (reference, ..) = reference::adamw(one, zeros(), zeros(), zeros(), &options);
        assert_close("reference", &list(reference), &expected, 1e-7);
    }

    fn others_stay_as_they_are(device: &Device) {
        let tensors: [Tensor<1>; 4] = [1, 2, 3, 4].map(|seed| tensor::<1>(seed, [5], device).abs());
        let before = tensors.clone().map(list);
        let [parameter, gradient, m, v] = tensors.clone();
        let (moved, ..) = adamw(parameter, gradient, m, v, &OPTIONS);
        assert_ne!(list(moved), before[0]);
        assert_eq!(tensors.map(list), before);
    }
}
