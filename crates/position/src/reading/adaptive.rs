//! Scaling of queries by a power of the logarithm of their place, the power and its share from the layer's input.

use crate::encoding::{Dimensions, QueryBlock};
use crate::init::Init;
use crate::parameter::ParameterSpec;
use crate::per_layer::{at_layer, map_rows};
use crate::upload::upload_shaped;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::softplus;

/// What is added to the scaled power, as published.
const DELTA: f64 = 1.0;
/// The power lies between minus this and this, as published.
const GAMMA_RANGE: f64 = 2.0;

/// The adaptive scale of `ASEntmax` (Vasylenko et al. 2025, arXiv:2506.16640; deep-spin/asentmax,
/// `sparse_gemma.py`): the logits of query n (counted from 1) in head h are `(1 + beta ln(n + 1)^gamma) z`.
///
/// From the layer's normalised input x (`log_n = "adaptive"`): `beta = softplus(x w_beta + b_beta)` and
/// `gamma = 2 tanh(x w_gamma + b_gamma)`, with the biases where `log_n_bias` says so (the published commands have them).
/// As numbers of the head (`log_n = "power"`): beta starts uniformly in 0.1..1 and gamma as N(0, 0.1).
///
/// Only heads without an encoding are scaled, where one is for the first heads alone
/// ([`BiasUse::FirstHeads`](crate::encoding::BiasUse::FirstHeads)).
#[derive(Module, Debug)]
pub struct AdaptiveLogN {
    /// `[layers, width, heads]`, here and below of the heads that are scaled.
    pub w_beta: Option<Param<Tensor<3>>>,
    pub w_gamma: Option<Param<Tensor<3>>>,
    /// `[layers, heads]`.
    pub b_beta: Option<Param<Tensor<2>>>,
    pub b_gamma: Option<Param<Tensor<2>>>,
    pub beta: Option<Param<Tensor<2>>>,
    pub gamma: Option<Param<Tensor<2>>>,
}

impl AdaptiveLogN {
    /// Of so many layers, and the heads after the first `encoded`.
    pub(crate) fn new(
        layers: usize,
        encoded: usize,
        [from_input, bias]: [bool; 2],
        dimensions: &Dimensions,
        init: &Init,
    ) -> Self {
        let heads = dimensions.heads - encoded;
        let name = |name: &str| format!("position.log_n.{name}");
        let map = |of| from_input.then(|| init.normal(&name(of), [layers, dimensions.width, heads], 0.02));
        let zeros = || (from_input && bias).then(|| init.constant([layers, heads], 0.0));
        Self {
            w_beta: map("w_beta"),
            w_gamma: map("w_gamma"),
            b_beta: zeros(),
            b_gamma: zeros(),
            beta: (!from_input).then(|| init.uniform(&name("beta"), [layers, heads], [0.1, 1.0])),
            gamma: (!from_input).then(|| init.normal(&name("gamma"), [layers, heads], 0.1)),
        }
    }

    pub(crate) fn parameters(&self) -> Vec<ParameterSpec> {
        let map = |name: &'static str, is_there: bool| {
            is_there.then(|| ParameterSpec::decayed(name, &["layers", "width", "heads"]))
        };
        let numbers = |name: &'static str, is_there: bool| {
            is_there.then(|| ParameterSpec::undecayed(name, &["layers", "heads"]))
        };
        let all = [
            map("w_beta", self.w_beta.is_some()),
            map("w_gamma", self.w_gamma.is_some()),
            numbers("b_beta", self.b_beta.is_some()),
            numbers("b_gamma", self.b_gamma.is_some()),
            numbers("beta", self.beta.is_some()),
            numbers("gamma", self.gamma.is_some()),
        ];
        all.into_iter().flatten().collect()
    }

    /// The factors on the queries of a block by a row of the parameters, `[rows, heads, queries]`: 1 in the first `encoded` heads.
    pub(crate) fn factors(&self, row: usize, encoded: usize, block: QueryBlock<'_>) -> Tensor<3> {
        let (queries, device) = (block.queries, block.input.device());
        let positions = block.rows.positions.columns(queries.clone());
        // ln ln(n + 1): the power is taken of the logarithm.
        let logs = positions.keys_seen().map(|n| (n + 1.0).ln().ln());
        let logs: Tensor<3> = upload_shaped(logs, [positions.rows(), 1, queries.len()], &device);
        let mapped = |weight: &Option<Param<Tensor<3>>>, bias: &Option<Param<Tensor<2>>>| {
            weight.as_ref().map(|weight| of_input(weight, bias.as_ref(), row, block))
        };
        let number = |numbers: &Option<Param<Tensor<2>>>| {
            numbers.as_ref().map(|numbers| at_layer::<2, 1>(numbers, row).reshape([1, -1, 1]))
        };
        let beta =
            mapped(&self.w_beta, &self.b_beta).map(|x| softplus(x, 1.0)).or_else(|| number(&self.beta));
        let gamma = mapped(&self.w_gamma, &self.b_gamma).map(|x| x.tanh().mul_scalar(GAMMA_RANGE));
        let gamma = gamma.or_else(|| number(&self.gamma));
        let (Some(beta), Some(gamma)) = (beta, gamma) else { return logs.ones_like() };
        let scaled = (beta * (gamma * logs).exp()).add_scalar(DELTA);
        if encoded == 0 {
            return scaled;
        }
        let [rows, _, count] = scaled.dims();
        Tensor::cat(vec![Tensor::ones([rows, encoded, count], &device), scaled], 1)
    }
}

/// `x w + b` of the queries of a block, `[batch, heads, queries]`.
fn of_input(
    weight: &Param<Tensor<3>>,
    bias: Option<&Param<Tensor<2>>>,
    row: usize,
    block: QueryBlock<'_>,
) -> Tensor<3> {
    // A text that is read piece by piece may have the input of its last rows alone.
    let before = block.rows.positions.length() - block.input.dims()[1];
    let of_queries = block.queries.start - before..block.queries.end - before;
    map_rows(&block.input.clone().slice_dim(1, of_queries), weight, bias, row).swap_dims(1, 2)
}
