//! The optimizer of a run with what it keeps of every parameter.

use crate::config::TrainConfig;
use crate::optimizer::{GradientScale, Moved, OptimizerConfig, Step};
use crate::parameters::{self, Parameter};
use crate::stage::TrainedPart;
use burn::tensor::{Device, Tensor};
use longwave_model::Gpt;

/// What is kept of one parameter, by name.
pub type State = Vec<(&'static str, Tensor<1>)>;

#[derive(Clone, Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    /// `train.learning_rate`, of which the rate of a step is a share.
    peak: f64,
    /// What is kept of every parameter, in the order of [`parameters::list`].
    pub state: Vec<State>,
    /// The number of updates of each parameter since its state was zero. It differs where a stage resets the state of some parameters, or trains
    /// only some.
    pub updates: Vec<u64>,
    /// What it updates.
    pub trained: TrainedPart,
}

impl Optimizer {
    /// That of a run with this `[train]`, with nothing kept yet.
    pub fn new(first: &TrainConfig, parameters: &[Parameter], device: &Device) -> Self {
        let zeros = |parameter: &Parameter, _: &str| {
            Ok(Tensor::zeros([parameter.shape.iter().product::<usize>()], device))
        };
        Self::with(first, parameters, vec![0; parameters.len()], zeros)
            .unwrap_or_else(|_: std::convert::Infallible| unreachable!())
    }

    /// The same after `updates` of each parameter, with what `kept` gives for a parameter and the name of what is kept of it.
    pub fn with<E>(
        first: &TrainConfig,
        parameters: &[Parameter],
        updates: Vec<u64>,
        mut kept: impl FnMut(&Parameter, &str) -> Result<Tensor<1>, E>,
    ) -> Result<Self, E> {
        let config = first.optimizer.clone().unwrap_or_default();
        let mut state = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            let names = config.state(parameter).iter();
            state.push(names.map(|&name| Ok((name, kept(parameter, name)?))).collect::<Result<_, E>>()?);
        }
        Ok(Self { config, peak: first.learning_rate, state, updates, trained: TrainedPart::All })
    }

    /// The same, which updates these parameters alone.
    #[must_use]
    pub fn of(self, trained: &TrainedPart) -> Self {
        Self { trained: trained.clone(), ..self }
    }

    /// One update by gradients [in the units of the parameters](crate::optimizer::in_units); `scale` is multiplied
    /// into them first. What it does not train stays as it is.
    pub fn update(
        &mut self,
        model: Gpt,
        gradients: Vec<Tensor<1>>,
        config: &TrainConfig,
        learning_rate: f64,
        scale: GradientScale,
    ) -> Gpt {
        let listed = parameters::list(&model);
        // Values that nothing else holds are written where they lie. Meanwhile the gradients take their places.
        let mut values = Vec::with_capacity(gradients.len());
        let model = parameters::replace(model, |index, value| match gradients.get(index) {
            None => value,
            Some(gradient) => {
                values.push(Some(value));
                gradient.clone()
            }
        });
        let (mut moved, mut places) = (Vec::new(), Vec::new());
        for (index, gradient) in gradients.into_iter().enumerate() {
            let parameter = &listed[index];
            if !self.trained.includes(&parameter.name) {
                continue;
            }
            let Some(value) = values[index].take() else { continue };
            let state = self.state[index].drain(..).map(|(_, kept)| kept).collect();
            self.updates[index] += 1;
            moved.push(Moved { parameter, value, gradient, state, number: self.updates[index] });
            places.push(index);
        }
        let share = learning_rate / self.peak;
        let step = Step {
            betas: [config.beta1, config.beta2],
            eps: config.eps,
            weight_decay: config.weight_decay,
            learning_rate,
            share,
            scale,
        };
        for (index, (value, kept)) in places.into_iter().zip(self.config.update(moved, &step)) {
            let names = self.config.state(&listed[index]);
            self.state[index] = names.iter().copied().zip(kept).collect();
            values[index] = Some(match listed[index].bounds {
                Some(bounds) => projected(value, bounds),
                None => value,
            });
        }
        parameters::replace(model, |index, old| values.get_mut(index).and_then(Option::take).unwrap_or(old))
    }
}

/// The nearest values within `[least, most]`; either may be infinite.
fn projected(value: Tensor<1>, [least, most]: [f64; 2]) -> Tensor<1> {
    let value = if least.is_finite() { value.clamp_min(least) } else { value };
    if most.is_finite() { value.clamp_max(most) } else { value }
}

/// The gradients of what is trained, and zeros in the place of the others, so that these neither count for clipping nor end
/// a step that overflows.
pub fn of_trained(model: &Gpt, trained: &TrainedPart, gradients: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
    if *trained == TrainedPart::All {
        return gradients;
    }
    let listed = parameters::list(model);
    let kept = |(gradient, parameter): (Tensor<1>, &Parameter)| {
        if trained.includes(&parameter.name) { gradient } else { gradient.zeros_like() }
    };
    gradients.into_iter().zip(&listed).map(kept).collect()
}
