//! Updates of the `AdamW` optimizer.
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

/// A parameter, its gradient, m and v.
type Tensors = [Tensor<1>; 4];

/// One update of each of many parameters by its gradient, in few launches on the GPU and in one loop over all on the CPU.
/// `clip` `[1]` is multiplied into every gradient too: the factor of clipping by norm, where that was computed on the device.
///
/// With `g = gradient_scale * gradient`: `m <- beta1 m + (1 - beta1) g`, `v <- beta2 v + (1 - beta2) g²`,
/// `p <- p (1 - learning_rate * weight_decay) - learning_rate * m̂ / (sqrt(v̂) + eps)`, where
/// `m̂ = m / (1 - beta1^step)` and `v̂ = v / (1 - beta2^step)`. Where the new m or v is subnormal, 0 is returned in its
/// place.
///
/// No gradient is tracked: tensors are taken out of autodiff, and the results are plain tensors.
///
/// # Panics
/// The shapes of a parameter and what belongs to it differ, or its `step` is 0.
pub fn adamw_all(given: Vec<(AdamWState, Tensor<1>, AdamW)>, clip: Option<Tensor<1>>) -> Vec<AdamWState> {
    let mut given: Vec<(Tensors, AdamW)> = given.into_iter().map(checked).collect();
    let clip = clip.map(Tensor::without_autodiff);
    let everywhere = |given: &[(Tensors, AdamW)], applies: fn(&Tensor<1>) -> bool| {
        given.iter().flat_map(|(tensors, _)| tensors).all(applies)
    };
    #[cfg(feature = "gpu")]
    if everywhere(&given, autodiff::gpu_kernel_applies) {
        let clip = clip.map(|clip| OpTensor::<Cube>::new(clip).into_data());
        return fused::<Cube>(given, |given| gpu::adamw_all(given, clip.as_ref()));
    }
    if let Some(clip) = clip {
        for ([_, gradient, ..], _) in &mut given {
            *gradient = gradient.clone() * clip.clone();
        }
    }
    if everywhere(&given, autodiff::cpu_kernel_applies) {
        return fused::<Flex>(given, cpu::adamw_all);
    }
    given.into_iter().map(|(tensors, options)| plain(tensors, &options)).collect()
}

/// In plain tensor operations.
fn plain([parameter, gradient, m, v]: Tensors, options: &AdamW) -> AdamWState {
    let (correction1, root_correction2) = options.corrections();
    // Most steps are not clipped, and on a GPU every operation is a launch.
    #[allow(clippy::float_cmp, reason = "exactly 1 where nothing is scaled")]
    let gradient =
        if options.gradient_scale == 1.0 { gradient } else { gradient.mul_scalar(options.gradient_scale) };
    let m = m.mul_scalar(options.beta1) + gradient.clone().mul_scalar(1.0 - options.beta1);
    let v = v.mul_scalar(options.beta2) + (gradient.clone() * gradient).mul_scalar(1.0 - options.beta2);
    let denominator = v.clone().sqrt().div_scalar(root_correction2).add_scalar(options.factors().eps);
    let update = m.clone().mul_scalar(options.learning_rate / correction1) / denominator;
    let decayed = parameter.mul_scalar(1.0 - options.learning_rate * options.weight_decay);
    AdamWState { parameter: decayed - update, m: flushed(m), v: flushed(v) }
}

/// x with 0 in the place of subnormal numbers.
fn flushed(x: Tensor<1>) -> Tensor<1> {
    let subnormal = x.clone().abs().lower_elem(f32::MIN_POSITIVE);
    x.mask_fill(subnormal, 0.0)
}

fn checked((state, gradient, options): (AdamWState, Tensor<1>, AdamW)) -> (Tensors, AdamW) {
    let AdamWState { parameter, m, v } = state;
    assert!(options.step > 0, "adamw: steps count from 1");
    for (name, other) in [("gradient", &gradient), ("m", &m), ("v", &v)] {
        assert_eq!(parameter.dims(), other.dims(), "adamw: {name} has another shape than the parameter");
    }
    ([parameter, gradient, m, v].map(Tensor::without_autodiff), options)
}

/// All updates in one call of a kernel.
fn fused<B: FusedBackend>(
    given: Vec<(Tensors, AdamW)>,
    update: impl FnOnce(Vec<([FloatTensor<B>; 4], AdamW)>) -> Vec<[FloatTensor<B>; 3]>,
) -> Vec<AdamWState> {
    crate::op::count_call();
    let primitives = |(tensors, options): (Tensors, AdamW)| {
        (tensors.map(|tensor| OpTensor::<B>::new(tensor).into_data()), options)
    };
    let state = |updated: [FloatTensor<B>; 3]| {
        let [parameter, m, v] = updated.map(B::from_plain);
        AdamWState { parameter, m, v }
    };
    update(given.into_iter().map(primitives).collect()).into_iter().map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, flat, list, on_devices, padded, tensor};
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

    type Update = fn(Tensors, &AdamW) -> AdamWState;

    /// The update of one parameter by the fused form.
    fn alone([parameter, gradient, m, v]: Tensors, options: &AdamW) -> AdamWState {
        let calls = crate::op::calls();
        let mut updated = adamw_all(vec![(AdamWState { parameter, m, v }, gradient, *options)], None);
        assert!(crate::op::calls() > calls, "the fused form did not run");
        updated.remove(0)
    }

    #[track_caller]
    fn assert_alike(what: &str, updated: AdamWState, expected: AdamWState) {
        assert_close(
            &format!("{what}: parameter"),
            &list(updated.parameter),
            &list(expected.parameter),
            1e-6,
        );
        assert_close(&format!("{what}: m"), &list(updated.m), &list(expected.m), 1e-6);
        assert_close(&format!("{what}: v"), &list(updated.v), &list(expected.v), 1e-6);
    }

    /// More numbers than one task takes.
    fn agrees_over_steps(device: &Device) {
        const COUNT: usize = 301 * 67;
        let start = || {
            [tensor::<1>(1, [COUNT], device), Tensor::zeros([COUNT], device), Tensor::zeros([COUNT], device)]
        };
        let run = |update: Update| {
            (1..=20).fold(start(), |[parameter, m, v], step| {
                let gradient = tensor::<1>(step, [COUNT], device);
                let updated = update([parameter, gradient, m, v], &AdamW { step, ..OPTIONS });
                [updated.parameter, updated.m, updated.v]
            })
        };
        let [updated, expected] =
            [run(alone), run(plain)].map(|[parameter, m, v]| AdamWState { parameter, m, v });
        assert_alike("20 steps", updated, expected);
    }

    /// Sizes that no vector divides, each a part of a longer buffer.
    fn odd_shapes(device: &Device) {
        for count in [1, 3, 37, 37 * 3, 7 * 1001] {
            let tensors = || [1, 2, 3, 4].map(|seed| padded(tensor::<1>(seed, [count], device).abs()));
            let (updated, expected) = (alone(tensors(), &OPTIONS), plain(tensors(), &OPTIONS));
            assert_alike(&format!("{count} numbers"), updated, expected);
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
            for (updated, (AdamWState { parameter, m, v }, gradient, options)) in
                updated.into_iter().zip(given())
            {
                let gradient_scale = options.gradient_scale * factor.unwrap_or(1.0);
                let expected = alone([parameter, gradient, m, v], &AdamW { gradient_scale, ..options });
                assert_alike("one of many", updated, expected);
            }
        }
    }

    /// The first step moves against the gradient's sign by the learning rate, whatever its size.
    #[test]
    fn the_first_step_is_the_learning_rate() {
        let device = Device::flex().autodiff();
        let parameter = flat(vec![1.0, 2.0, -4.0], &device).require_grad();
        let gradient = flat(vec![1e-3, -7.0, 0.0], &device);
        let zeros = Tensor::zeros([3], &device);
        let updated = alone([parameter, gradient, zeros.clone(), zeros], &OPTIONS);
        assert!(!updated.parameter.is_autodiff());
        let decay = 1.0 - 1e-3;
        let expected = [decay - 1e-2, 2.0 * decay + 1e-2, -4.0 * decay];
        assert_close("parameter", &list(updated.parameter), &expected, 2e-6);
        assert_close("m", &list(updated.m), &[5e-5, -0.35, 0.0], 1e-7);
        assert_close("v", &list(updated.v), &[1.25e-8, 0.6125, 0.0], 1e-7);
    }

    /// Without a gradient, moments shrink to exactly 0 and are never subnormal.
    fn moments_become_zero(device: &Device) {
        for (name, update) in [("fused", alone as Update), ("reference", plain)] {
            // m has the factor 0.9 and v 0.95: from 1e-37 both are below every normal f32 after 42 steps.
            let small = || flat(vec![1e-37, 3e-38, 1.2e-38, 5e-39, 5.6e-45], device);
            let (mut parameter, mut m, mut v) = (small(), small().neg(), small());
            for step in 1..=45 {
                let tensors = [parameter, Tensor::zeros([5], device), m, v];
                AdamWState { parameter, m, v } = update(tensors, &AdamW { step, ..OPTIONS });
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
        for update in [alone as Update, plain] {
            let zeros = || Tensor::zeros([3], &Device::flex());
            let tensors = [Tensor::ones([3], &Device::flex()), zeros(), zeros(), zeros()];
            let updated = update(tensors, &AdamW { eps: 1e-60, ..OPTIONS });
            assert_close("parameter", &list(updated.parameter), &[1.0 - 1e-3; 3], 1e-7);
        }
    }

    fn others_stay_as_they_are(device: &Device) {
        let tensors: Tensors = [1, 2, 3, 4].map(|seed| tensor::<1>(seed, [5], device).abs());
        let before = tensors.clone().map(list);
        assert_ne!(list(alone(tensors.clone(), &OPTIONS).parameter), before[0]);
        assert_eq!(tensors.map(list), before);
    }
}
