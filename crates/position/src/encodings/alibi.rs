//! `alibi`: a penalty that grows linearly with the distance.
//!
//! `logit_ij += -slope_h (i - j)`, after the scaled q.k (Press et al. 2022, arXiv:2108.12409, section 3).
//! For H heads, H a power of two, `slope_h = 2^(-8h/H)`, h = 1..H; otherwise the slopes of the power of
//! two P below, then every other slope (1st, 3rd, ..) of 2P, as in the authors' code. No parameters, the
//! same in every layer; with `learned_slopes` they are trained, `[layers, heads]`, unclamped (the paper
//! reports that this extrapolates worse). Interpolated by s, every distance is divided by s.

use crate::distance::{DistanceBias, upload};
use crate::encoding::{Configure, Dimensions, Extrapolation};
use crate::init::Init;
use crate::parameter::ParameterSpec;
use crate::per_layer::at_layer;
use crate::summary::Summary;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use longwave_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `kind = "alibi"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Train the slopes, which start at the published ones.
    pub learned_slopes: bool,
}

/// The slopes.
#[derive(Module, Debug)]
pub struct Alibi {
    /// `[layers, heads]`, where they are learned.
    pub slopes: Option<Param<Tensor<2>>>,
    #[module(skip)]
    fixed: Vec<f64>,
    #[module(skip)]
    scale: f64,
}

pub fn slopes(heads: usize) -> Vec<f64> {
    let of = |heads: usize| (1..=heads).map(move |h| (-8.0 * h as f64 / heads as f64).exp2());
    if heads.is_power_of_two() {
        return of(heads).collect();
    }
    let below = heads.next_power_of_two() / 2;
    of(below).chain(of(2 * below).step_by(2)).take(heads).collect()
}

impl Configure for Config {
    type Encoding = Alibi;
    const KIND: &'static str = "alibi";
    const DESCRIPTION: &'static str = "a penalty that grows linearly with the distance (ALiBi)";
    const SOURCE: &'static str = "arXiv:2108.12409";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d − c_h (m − n)\n\
        c_h = 2^{−8(h+1)/P}, for h < P = 2^{⌊log_2 H⌋}\n\
        c_h = 2^{−4(2(h−P)+1)/P}, for h ≥ P";
    const PYTORCH: Option<&'static str> = Some(include_str!("alibi.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the penalty goes on growing");
    const VARIANTS: &'static [&'static str] = &["learned_slopes = true"];

    fn validate(&self, _section: &str, _dimensions: &Dimensions) -> Result<()> {
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Alibi {
        let (layers, heads) = (dimensions.layers, dimensions.heads);
        let fixed = slopes(heads);
        let learned = self.learned_slopes.then(|| init.rows([layers, heads], &fixed));
        Alibi { slopes: learned, fixed, scale: 1.0 }
    }
}

impl Alibi {
    /// The slopes of a layer, `[heads]`.
    pub fn of_layer(&self, layer: usize, device: &Device) -> Tensor<1> {
        match &self.slopes {
            Some(slopes) => at_layer(slopes, layer),
            None => upload(&self.fixed, device),
        }
    }
}

impl DistanceBias for Alibi {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let learned = self.slopes.as_ref();
        learned.map(|_| ParameterSpec::undecayed("slopes", &["layers", "heads"])).into_iter().collect()
    }

    fn at(&self, layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let slopes = self.of_layer(layer, device);
        upload(distances, device).unsqueeze::<2>() * slopes.neg().unsqueeze_dim::<2>(1)
    }

    fn slopes(&self, layer: usize, device: &Device) -> Option<Tensor<1>> {
        Some(self.of_layer(layer, device))
    }

    fn scale(&self) -> f64 {
        self.scale
    }

    fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    fn summaries(&self, _positions: &[f64]) -> Vec<Summary> {
        if self.slopes.is_some() {
            return Vec::new();
        }
        let rows = self.fixed.iter().enumerate().map(|(head, slope)| vec![head as f64, slope / self.scale]);
        vec![Summary::new("slopes", &["head", "slope"], rows.collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_any_number_of_heads() {
        assert_eq!(slopes(4), [0.25, 0.0625, 0.015_625, 0.003_906_25]);
        assert_eq!(slopes(6), [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125]);
        assert_eq!(slopes(1), [0.003_906_25]);
        assert_eq!((slopes(12).len(), slopes(12)[8]), (12, 0.5f64.sqrt()));
    }
}
