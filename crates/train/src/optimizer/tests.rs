//! Clipping, weight decay and bounds.

use super::*;
use crate::TrainConfig;
use crate::optimizer_state::Optimizer;
use burn::tensor::{Device, Int, TensorData};
use longwave_kernels::sums_of_squares;
use longwave_model::{ModelConfig, Pass};
use longwave_position::{Init, PositionConfig, Positions};

#[test]
fn clips_to_the_limit() {
    let clip = Clip::new(&[9.0, 16.0], 1.0);
    assert!((clip.norm - 5.0).abs() < 1e-12 && (clip.factor - 0.2).abs() < 1e-12);
    assert!((Clip::new(&[9.0, 16.0], 0.0).factor - 1.0).abs() < 1e-12);
    assert!((Clip::new(&[9.0, 16.0], 6.0).factor - 1.0).abs() < 1e-12);
    // The same gradient times 1024.
    let scaled = Clip::new(&[9.0 * 1024.0 * 1024.0, 16.0 * 1024.0 * 1024.0], 1024.0).unscaled(1024.0);
    assert_eq!(scaled, Clip { factor: clip.factor / 1024.0, ..clip });
}

#[test]
fn clips_where_the_gradients_lie_as_on_the_host() {
    let device = Device::flex();
    let gradients = [Tensor::<1>::from_floats([3.0], &device), Tensor::from_floats([0.0, 4.0], &device)];
    let list = |tensors: Vec<Tensor<1>>| -> Vec<f32> {
        tensors.into_iter().flat_map(|tensor| tensor.into_data().try_to_vec::<f32>().unwrap()).collect()
    };
    assert_eq!(list(vec![sums_of_squares(&gradients)]), [9.0, 16.0]);
    for (times, limit, expected) in [(1.0, 1.0, 0.2), (1.0, 6.0, 1.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)] {
        let gradients = gradients.clone().map(|gradient| gradient.mul_scalar(times)).to_vec();
        let factor = match clipping(sums_of_squares(&gradients), limit) {
            GradientScale::Known(factor) => factor as f32,
            GradientScale::OnDevice(factor) => list(vec![*factor])[0],
        };
        assert!((factor - expected).abs() < 1e-6, "{times}, {limit}: {factor}");
    }
}

/// A small model with the encoding of a `[position]` table, for 9 tokens of a vocabulary of 11.
fn small(position: &str) -> Gpt {
    let config = ModelConfig { layers: Some(2), width: Some(16), heads: Some(2), ..ModelConfig::default() };
    let position = PositionConfig::from_value(&Value::Table(position.parse().unwrap()), "position").unwrap();
    let init = Init::new(0, &Device::flex().autodiff());
    Gpt::new(&config.resolve(11, 16).unwrap(), &position, &init).unwrap()
}

/// Updates of a model with one gradient throughout.
struct Updates {
    optimizer: Optimizer,
    config: TrainConfig,
}

impl Updates {
    fn new(model: &Gpt) -> Self {
        let config = TrainConfig::default();
        let optimizer = Optimizer::new(&config, &parameters::list(model), &Device::flex());
        Self { optimizer, config }
    }

    fn step(&mut self, model: Gpt, gradients: Vec<Tensor<1>>) -> Gpt {
        let rate = self.config.learning_rate;
        self.optimizer.update(model, gradients, &self.config, rate, GradientScale::Known(1.0))
    }
}

fn host(tensors: Vec<Tensor<1>>) -> Vec<Vec<f32>> {
    tensors.into_iter().map(|tensor| tensor.into_data().try_to_vec::<f32>().unwrap()).collect()
}

#[test]
fn without_gradients_an_encoding_keeps_what_does_not_decay() {
    const STEPS: i32 = 10;
    for position in longwave_position::encodings::every() {
        let model = small(&position);
        let listed = parameters::list(&model);
        let before = host(parameters::values(&model));
        let zeros =
            parameters::values(&model).into_iter().map(|value| value.zeros_like()).collect::<Vec<_>>();
        let mut updates = Updates::new(&model);
        updates.config.weight_decay *= 200.0;
        let model = (0..STEPS).fold(model, |model, _| updates.step(model, zeros.clone()));
        let TrainConfig { learning_rate, weight_decay, .. } = updates.config;
        let decayed = (1.0 - learning_rate * weight_decay).powi(STEPS) as f32;
        let after = host(parameters::values(&model));
        for ((parameter, before), after) in listed.iter().zip(before).zip(after) {
            let factor = if parameter.decays { decayed } else { 1.0 };
            for (before, after) in before.iter().zip(&after) {
                let off = (before * factor - after).abs();
                let allowed = if parameter.decays { 1e-3 * before.abs() } else { 0.0 };
                assert!(off <= allowed, "{position}: {} went from {before} to {after}", parameter.name);
            }
        }
    }
}

#[test]
fn bounded_parameters_come_back() {
    let mut bounded = 0;
    for position in longwave_position::encodings::every() {
        let model = small(&position);
        let listed = parameters::list(&model);
        for (index, parameter) in listed.iter().enumerate() {
            let Some(bounds) = parameter.bounds else { continue };
            for (bound, outwards) in
                bounds.into_iter().zip([-1.0, 1.0]).filter(|(bound, _)| bound.is_finite())
            {
                bounded += 1;
                for start in [bound, bound + outwards] {
                    let what = format!("{position}: {} from {start}", parameter.name);
                    let started = parameters::replace(model.clone(), |at, old| {
                        if at == index { old.zeros_like() + start } else { old }
                    });
                    // The first update, of any gradient, brings back what was set outside.
                    let mut updates = Updates::new(&started);
                    let zeros =
                        parameters::values(&started).into_iter().map(|value| value.zeros_like()).collect();
                    let at_bound = updates.step(started, zeros);
                    let values = &host(parameters::values(&at_bound))[index];
                    assert!(values.iter().all(|&value| value == bound as f32), "{what}: {values:?}");
                    // There the loss has a gradient, and one that points inwards is followed.
                    let gradient = &host(gradients(&at_bound))[index];
                    assert!(gradient.iter().all(|&g| g != 0.0), "{what} has the gradient {gradient:?}");
                    let inwards: Vec<_> = parameters::values(&at_bound)
                        .into_iter()
                        .enumerate()
                        .map(|(at, value)| value.zeros_like() + if at == index { outwards } else { 0.0 })
                        .collect();
                    let back = (0..3).fold(at_bound, |model, _| updates.step(model, inwards.clone()));
                    let values = &host(parameters::values(&back))[index];
                    let inside = |&value: &f32| (f64::from(value) - bound) * outwards < -1e-4;
                    assert!(values.iter().all(inside), "{what}: {values:?}");
                }
            }
        }
    }
    // The two numbers of KERPLE's logarithm and of DAPE, three bounds of KERPLE's power, two of PoPE.
    assert!(bounded >= 9, "{bounded} bounds");
}

#[test]
fn parameters_move_in_their_units() {
    let mut measured = 0;
    for position in longwave_position::encodings::every() {
        let model = small(&position);
        let listed = parameters::list(&model);
        let ones: Vec<_> =
            parameters::values(&model).into_iter().map(|value| value.zeros_like() + 1.0).collect();
        let before = host(parameters::values(&model));
        let gradients = in_units(&model, ones);
        for (parameter, gradient) in listed.iter().zip(host(gradients.clone())) {
            assert!(gradient.iter().all(|&g| g == parameter.unit as f32), "{position}: {}", parameter.name);
        }
        let mut updates = Updates::new(&model);
        updates.config.weight_decay = 0.0;
        let after = host(parameters::values(&updates.step(model, gradients)));
        for (index, parameter) in listed.iter().enumerate().filter(|(_, parameter)| parameter.unit < 1.0) {
            measured += 1;
            // The first step of Adam is the learning rate, whatever the gradient.
            let expected = (updates.config.learning_rate * parameter.unit) as f32;
            for (before, after) in before[index].iter().zip(&after[index]) {
                let moved = before - after;
                assert!(
                    (moved - expected).abs() < 1e-3 * expected + 1e-7,
                    "{position}: {} by {moved}",
                    parameter.name
                );
            }
        }
    }
    // Index, complex order's frequencies, and the recursions.
    assert!(measured >= 5, "{measured} parameters");
}

/// The gradients of the loss of a text of 9 tokens.
fn gradients(model: &Gpt) -> Vec<Tensor<1>> {
    let device = Device::flex().autodiff();
    let tokens = |of: fn(i64) -> i64| -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new((0..9).map(of).collect::<Vec<_>>(), [1, 9]), &device)
    };
    let positions = Positions::range(0..9);
    let pass = Pass {
        tokens: tokens(|t| t * 7 % 11),
        positions: &positions,
        reading: &model.position,
        dropout: None,
    };
    let loss = model.nll(&pass, tokens(|t| t * 5 % 11), 0..9).sum();
    parameters::gradients(model, &mut loss.backward())
}
