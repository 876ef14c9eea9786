//! `floater`: positions as the path of a learned flow.
//!
//! `dp/dt = f(t, p) = tanh([p, t / scale] w1 + b1) w2 + b2`, `p_layer(0) = start[layer]`, position k at time
//! `t = k delta` (Liu et al. 2020, arXiv:2003.09229, equations 5 and 6); layer l adds `p_l` to its input.
//! start `[layers, width]` from N(0, 0.02); w1 `[width + 1, hidden]` and w2 `[hidden, width]` from N(0, 0.02),
//! shared by all layers. Integrated by the classical Runge-Kutta method (RK4) with `steps` steps for each
//! position: sequential in the position, and slow for long texts. Whole positions only.

use super::recursive::whole_positions;
use super::{Configure, Past, check_at_least, check_positive};
use crate::encoding::{Dimensions, Position, Rows};
use crate::init::Init;
use crate::positions::Positions;
use crate::table::indices;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `kind = "floater"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Time from one position to the next.
    pub delta: f64,
    /// Integration steps for each position.
    pub steps: usize,
    /// Time is divided by this before the network reads it.
    pub scale: f64,
    /// Width of the hidden layer.
    pub hidden: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { delta: 0.1, steps: 1, scale: 10.0, hidden: 32 }
    }
}

/// The starts and the flow.
#[derive(Module, Debug)]
pub struct Floater {
    /// `[layers, width]`.
    pub start: Param<Tensor<2>>,
    /// `[width + 1, hidden]`, shared by all layers.
    pub w1: Param<Tensor<2>>,
    /// `[hidden]`.
    pub b1: Param<Tensor<1>>,
    /// `[hidden, width]`.
    pub w2: Param<Tensor<2>>,
    /// `[width]`.
    pub b2: Param<Tensor<1>>,
    #[module(skip)]
    config: Config,
    /// The vectors of every layer at the first positions, where they are computed once for many readings.
    #[module(skip)]
    made: Vec<Tensor<2>>,
}

impl Configure for Config {
    type Encoding = Floater;
    const KIND: &'static str = "floater";
    const SUMMARY: &'static str = "positions as the path of a learned flow, one start per layer (FLOATER)";
    const SOURCE: &'static str = "arXiv:2003.09229";
    const PAST: Past = Past::Reads("defined: the flow goes on");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "delta", self.delta)?;
        check_positive(section, "scale", self.scale)?;
        check_at_least(section, "steps", self.steps, 1)?;
        check_at_least(section, "hidden", self.hidden, 1)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Floater {
        let Dimensions { layers, width, .. } = *dimensions;
        Floater {
            start: init.normal("position.floater.start", [layers, width], 0.02),
            w1: init.normal("position.floater.w1", [width + 1, self.hidden], 0.02),
            b1: init.constant([self.hidden], 0.0),
            w2: init.normal("position.floater.w2", [self.hidden, width], 0.02),
            b2: init.constant([width], 0.0),
            config: self.clone(),
            made: Vec::new(),
        }
    }
}

impl Floater {
    /// f of p `[1, width]` at a time.
    fn flow(&self, time: f64, p: Tensor<2>) -> Tensor<2> {
        let width = p.dims()[1];
        let w1 = self.w1.val();
        let of_time = w1.clone().slice_dim(0, width..=width).mul_scalar(time / self.config.scale);
        let first = p.matmul(w1.slice_dim(0, 0..width)) + of_time + self.b1.val().unsqueeze();
        first.tanh().matmul(self.w2.val()) + self.b2.val().unsqueeze()
    }

    /// One Runge-Kutta step of length `h` from `time`.
    fn step(&self, time: f64, h: f64, p: &Tensor<2>) -> Tensor<2> {
        let at = |share: f64, k: &Tensor<2>| p.clone() + k.clone().mul_scalar(share * h);
        let k1 = self.flow(time, p.clone());
        let k2 = self.flow(time + h / 2.0, at(0.5, &k1));
        let k3 = self.flow(time + h / 2.0, at(0.5, &k2));
        let k4 = self.flow(time + h, at(1.0, &k3));
        at(1.0 / 6.0, &(k1 + (k2 + k3).mul_scalar(2.0) + k4))
    }

    /// The vectors of a layer at positions 0 to `last` or further, `[positions, width]`.
    fn vectors(&self, layer: usize, last: usize) -> Tensor<2> {
        if let Some(made) = self.made.get(layer).filter(|made| made.dims()[0] > last) {
            return made.clone();
        }
        let Config { delta, steps, .. } = self.config;
        let h = delta / steps as f64;
        let mut p = self.start.val().slice_dim(0, layer..=layer);
        let mut all = vec![p.clone()];
        for step in 0..last * steps {
            p = self.step(step as f64 * h, h, &p);
            if (step + 1) % steps == 0 {
                all.push(p.clone());
            }
        }
        Tensor::cat(all, 0)
    }

    /// The vectors of a layer at the positions, `[rows, length, width]`.
    pub fn path(&self, layer: usize, positions: &Positions) -> Tensor<3> {
        let vectors = self.vectors(layer, positions.largest().unwrap_or_default() as usize);
        let width = vectors.dims()[1];
        let at = indices(positions.values().iter().map(|&m| m as usize), &vectors.device());
        vectors.select(0, at).reshape([positions.rows(), positions.length(), width])
    }
}

impl Position for Floater {
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>) -> Tensor<3> {
        hidden + self.path(rows.layer, rows.positions)
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        whole_positions("floater", positions)
    }

    fn prepare(&mut self, length: usize) {
        let layers = self.start.dims()[0];
        self.made = (0..layers).map(|layer| self.vectors(layer, length.saturating_sub(1))).collect();
    }
}
