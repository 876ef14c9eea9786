//! `fire`: a small network of the distance, measured against the query's position.
//!
//! `logit_ij += f(psi(n) / (psi(max(i, T)) + eps))_h`, n = i - j, `psi(x) = ln(|c x| + 1)`,
//! `T = |multiplier init_length|`, `f(u) = relu(u w1 + b1) w2 + b2` (Li et al. 2024, arXiv:2310.04418,
//! equations 7 to 9 and the listing of the appendix). c, multiplier `[layers, 1]` start at 0.1 and 1;
//! `w1 [layers, 1, hidden]`, `w2 [layers, hidden, heads]`. All of it is learned, in every layer.
//!
//! Up to the threshold T the normaliser is a constant and the bias a table by distance; past it the bias
//! depends on the query too, and is computed for one block of queries at a time. c is learned, so psi
//! runs in f32 on a device, from distances made in f64. Interpolated by s, both positions are divided by s.

use crate::per_layer::linear;
use crate::prelude::*;
use burn::tensor::activation::relu;

keys! {
    /// Keys of `kind = "fire"`.
    pub struct Config {
        /// The threshold's constant factor; the training length unless given.
        pub init_length: Option<f64> = None,
        /// Width of the hidden layer.
        pub hidden: usize = 32,
        /// Added to the normaliser.
        pub eps: f64 = 1e-6,
    }
}

/// The network of every layer.
#[derive(Module, Debug)]
pub struct Fire {
    /// `[layers, 1]`.
    pub c: Param<Tensor<2>>,
    /// `[layers, 1]`.
    pub multiplier: Param<Tensor<2>>,
    /// `[layers, 1, hidden]`.
    pub w1: Param<Tensor<3>>,
    /// `[layers, hidden]`.
    pub b1: Param<Tensor<2>>,
    /// `[layers, hidden, heads]`.
    pub w2: Param<Tensor<3>>,
    /// `[layers, heads]`.
    pub b2: Param<Tensor<2>>,
    #[module(skip)]
    init_length: f64,
    #[module(skip)]
    eps: f64,
}

impl Configure for Config {
    type Encoding = Fire;
    const KIND: &'static str = "fire";
    const DESCRIPTION: &'static str = "a small network of the distance over the query's position (FIRE)";
    const SOURCE: &'static str = "arXiv:2310.04418";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d + f_h(ψ(m − n) / (ψ(max(m, |g| L)) + 10^{−6})), f_h entry h of f\n\
        ψ(r) = ln(1 + |c r|), c and g learned\n\
        f(u) = ReLU(u W_1 + β_1) W_2 + β_2, W and β learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("fire.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: past the threshold, distances are shares of the query's position");
    const VARIANTS: &'static [&'static str] = &["init_length = 5.0"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        if let Some(length) = self.init_length {
            check_positive(section, "init_length", length)?;
        }
        check_positive(section, "eps", self.eps)?;
        check_hidden(section, self.hidden)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Fire {
        let layers = dimensions.layers;
        let (w1, b1) = linear(init, ["fire.w1", "fire.b1"], [layers, 1, self.hidden]);
        let (w2, b2) = linear(init, ["fire.w2", "fire.b2"], [layers, self.hidden, dimensions.heads]);
        Fire {
            c: init.constant([layers, 1], 0.1),
            multiplier: init.constant([layers, 1], 1.0),
            w1,
            b1,
            w2,
            b2,
            init_length: self.init_length.unwrap_or(dimensions.train_length as f64),
            eps: self.eps,
        }
    }
}

impl Fire {
    /// T of a layer, `[1]`.
    fn threshold(&self, layer: usize) -> Tensor<1> {
        at_layer::<2, 1>(&self.multiplier, layer).abs().mul_scalar(self.init_length)
    }

    /// `ln(|c x| + 1)` for x `[count]`.
    fn psi(&self, layer: usize, x: Tensor<1>) -> Tensor<1> {
        (x * at_layer::<2, 1>(&self.c, layer)).abs().log1p()
    }

    /// The network at inputs `[count]`: `[heads, count]`.
    fn network(&self, layer: usize, u: Tensor<1>) -> Tensor<2> {
        let first = u.unsqueeze_dim::<2>(1).matmul(at_layer(&self.w1, layer));
        let hidden = relu(first + at_layer::<2, 1>(&self.b1, layer).unsqueeze());
        (hidden.matmul(at_layer(&self.w2, layer)) + at_layer::<2, 1>(&self.b2, layer).unsqueeze()).transpose()
    }
}

impl Position for Fire {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![
            ParameterSpec::undecayed("c", &["layers", "1"]),
            ParameterSpec::undecayed("multiplier", &["layers", "1"]),
            ParameterSpec::decayed("w1", &["layers", "1", "hidden"]),
            ParameterSpec::undecayed("b1", &["layers", "hidden"]),
            ParameterSpec::decayed("w2", &["layers", "hidden", "heads"]),
            ParameterSpec::undecayed("b2", &["layers", "heads"]),
        ]
    }

    fn capabilities(&self) -> Capabilities {
        let [_, hidden, heads] = self.w2.lazy_shape().dims();
        Capabilities {
            bias_use: BiasUse::AllHeads,
            scratch_per_score: 2 * hidden.div_ceil(heads),
            ..Capabilities::default()
        }
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let (layer, device) = (block.rows.layer, block.input.device());
        if !self.needs_scores(block.rows.positions) {
            let normaliser = self.psi(layer, self.threshold(layer)).add_scalar(self.eps);
            let distances = upload(&consecutive(block), &device);
            return Bias::ByDistance(self.network(layer, self.psi(layer, distances) / normaliser));
        }
        let queries = block.rows.positions.columns(block.queries.clone());
        let at = queries.values();
        let keys = block.rows.positions.length();
        let reach = upload(at, &device);
        let reach = reach.clone().max_pair(self.threshold(layer).expand(reach.dims()));
        let normaliser = self.psi(layer, reach).add_scalar(self.eps).unsqueeze_dim::<2>(1);
        let distances = self.psi(layer, upload(&of_block(block), &device));
        let u = distances.reshape([at.len(), keys]) / normaliser; // [rows * queries, keys]
        Bias::Block(as_block(self.network(layer, u.reshape([at.len() * keys])), block))
    }

    /// Past the least threshold of all layers, or where positions are not consecutive.
    fn needs_scores(&self, positions: &Positions) -> bool {
        if !positions.consecutive() {
            return true;
        }
        let least = self.multiplier.val().detach().abs().min().into_scalar::<f32>();
        let largest = positions.largest().unwrap_or_default() / positions.scale();
        largest > f64::from(least) * self.init_length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bias, build};

    #[test]
    fn within_the_threshold_distances_alone_count() {
        // The threshold starts at the training length, 16.
        let fire = build("kind = \"fire\"", &Device::flex());
        let at = |shift: f64| bias(&*fire, &Positions::range(0..9).map(|m| m + shift));
        for (index, (a, b)) in at(0.0).iter().zip(at(7.0)).enumerate() {
            assert!(index % 9 > index / 9 % 9 || (a - b).abs() < 1e-5, "{index}: {a} and {b}");
        }
        let apart = at(0.0).iter().zip(at(200.0)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart > 1e-3, "{apart}");
    }
}
