//! `adamw`: a step against the mean of gradients, over the root of the mean of their squares.
//!
//! `m <- beta1 m + (1 - beta1) g`, `v <- beta2 v + (1 - beta2) g^2`, `p <- p (1 - r w) - r m' / (sqrt(v') + eps)` with r the
//! learning rate, w the weight decay and the corrected means m', v' (Loshchilov and Hutter 2019, arXiv:1711.05101). The update of all
//! parameters is one fused kernel ([`longwave_kernels::adamw_all`]). Its keys are those of `[train]`.

use super::{GradientScale, Moved, Step, Update};
use crate::parameters::Parameter;
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_kernels::{AdamW, AdamWState, adamw_all};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `adamw` takes no keys of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adamw {}

impl Update for Adamw {
    fn validate(&self, _section: &str) -> Result<()> {
        Ok(())
    }

    fn state(&self, _parameter: &Parameter) -> &'static [&'static str] {
        &["first", "second"]
    }

    fn update(&self, moved: Vec<Moved<'_>>, step: &Step) -> Vec<(Tensor<1>, Vec<Tensor<1>>)> {
        if moved.is_empty() {
            return Vec::new();
        }
        let (gradient_scale, clip) = match &step.scale {
            GradientScale::Known(factor) => (*factor, None),
            GradientScale::OnDevice(factor) => (1.0, Some((**factor).clone())),
        };
        let given = moved.into_iter().map(|Moved { parameter, value, gradient, state, number }| {
            let options = AdamW {
                learning_rate: step.learning_rate * parameter.unit,
                beta1: step.betas[0],
                beta2: step.betas[1],
                eps: step.eps,
                // The decay is a share of the parameter, whatever the unit.
                weight_decay: if parameter.decays { step.weight_decay / parameter.unit } else { 0.0 },
                step: number,
                gradient_scale,
            };
            let mut kept = state.into_iter();
            let (Some(m), Some(v)) = (kept.next(), kept.next()) else { unreachable!("two are kept") };
            (AdamWState { parameter: value, m, v }, gradient, options)
        });
        let updated = adamw_all(given.collect(), clip);
        updated.into_iter().map(|AdamWState { parameter, m, v }| (parameter, vec![m, v])).collect()
    }
}
