//! `cpb`: a small network of the distance (continuous position bias).
//!
//! `logit_ij += f(u)_h`, u = n (`variant = "linear"`) or ln(1 + n) (`"log"`), n = i - j:
//! `y = silu(u w0 + b0)`, then `y = silu(y w_l + b_l)` for l = 1..depth-1, `f = y w_out + b_out` (Liu et al.
//! 2022, arXiv:2111.09883, section 3.3; x-transformers' `DynamicPositionBias` without its normalisation).
//! `w0 [layers, 1, hidden]`, `w_l [layers, hidden, hidden]`, `w_out [layers, hidden, heads]`: a network of
//! its own in every layer. Interpolated by s, every distance is divided by s.

use crate::per_layer::linear;
use crate::prelude::*;
use burn::tensor::activation::silu;

/// What the network reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// The distance in tokens.
    #[default]
    Linear,
    /// `ln(1 + n)`.
    Log,
}

keys! {
    /// Keys of `kind = "cpb"`.
    pub struct Config {
        /// What the network reads.
        pub variant: Variant = Variant::Linear,
        /// Width of the hidden layers.
        pub hidden: usize = 32,
        /// Number of hidden layers.
        pub depth: usize = 2,
    }
}

/// The network of every layer.
#[derive(Module, Debug)]
pub struct Cpb {
    /// Weights of the hidden layers, `[layers, 1 or hidden, hidden]`.
    pub w: Vec<Param<Tensor<3>>>,
    /// Biases of the hidden layers, `[layers, hidden]`.
    pub b: Vec<Param<Tensor<2>>>,
    /// `[layers, hidden, heads]`.
    pub w_out: Param<Tensor<3>>,
    /// `[layers, heads]`.
    pub b_out: Param<Tensor<2>>,
    #[module(skip)]
    variant: Variant,
}

impl Configure for Config {
    type Encoding = Cpb;
    const KIND: &'static str = "cpb";
    const DESCRIPTION: &'static str = "a small network of the distance, or of its logarithm, as a bias";
    const SOURCE: &'static str = "arXiv:2111.09883, section 3.3";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d + f_h(m − n), f_h entry h of f\n\
        f(r) = SiLU(SiLU(r W_1 + β_1) W_2 + β_2) W_3 + β_3, W and β learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("cpb.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: the network is read at distances that training never showed");
    const VARIANTS: &'static [&'static str] = &["variant = 'log'"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "hidden", self.hidden, 1)?;
        check_at_least(section, "depth", self.depth, 1)?;
        check_at_most(section, "depth", self.depth, 64)
            .map_err(|error| error.hint("the default of 2 is that of `DynamicPositionBias`"))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Cpb {
        let (layers, hidden) = (dimensions.layers, self.hidden);
        let (w, b) = (0..self.depth)
            .map(|index| {
                let names = [format!("cpb.w{index}"), format!("cpb.b{index}")];
                let inputs = if index == 0 { 1 } else { hidden };
                linear(init, [&names[0], &names[1]], [layers, inputs, hidden])
            })
            .unzip();
        let (w_out, b_out) = linear(init, ["cpb.w_out", "cpb.b_out"], [layers, hidden, dimensions.heads]);
        Cpb { w, b, w_out, b_out, variant: self.variant }
    }
}

impl DistanceBias for Cpb {
    fn parameters(&self) -> Vec<ParameterSpec> {
        // Swin V2 leaves its network of biases out of weight decay.
        let weights = (0..self.w.len()).map(|index| {
            let axes: &[&str] =
                if index == 0 { &["layers", "1", "hidden"] } else { &["layers", "hidden", "hidden"] };
            ParameterSpec::undecayed(format!("w.{index}"), axes)
        });
        let biases = (0..self.b.len())
            .map(|index| ParameterSpec::undecayed(format!("b.{index}"), &["layers", "hidden"]));
        let last = [
            ParameterSpec::undecayed("w_out", &["layers", "hidden", "heads"]),
            ParameterSpec::undecayed("b_out", &["layers", "heads"]),
        ];
        weights.chain(biases).chain(last).collect()
    }

    fn at(&self, layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let inputs: Vec<f64> = match self.variant {
            Variant::Linear => distances.to_vec(),
            Variant::Log => distances.iter().map(|n| n.ln_1p()).collect(),
        };
        let mut y = upload(&inputs, device).unsqueeze_dim::<2>(1); // [distances, 1]
        for (w, b) in self.w.iter().zip(&self.b) {
            y = silu(y.matmul(at_layer(w, layer)) + at_layer::<2, 1>(b, layer).unsqueeze());
        }
        let out = y.matmul(at_layer(&self.w_out, layer)) + at_layer::<2, 1>(&self.b_out, layer).unsqueeze();
        out.transpose()
    }

    fn capabilities(&self) -> Capabilities {
        let [_, hidden, heads] = self.w_out.lazy_shape().dims();
        Capabilities { scratch_per_score: 2 * hidden.div_ceil(heads), ..Capabilities::BY_DISTANCE }
    }
}
