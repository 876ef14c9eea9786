//! `kerple`: kernelised biases with two learned numbers a head.
//!
//! `variant = "log"`: `logit_ij += -p_h ln(1 + a_h n)`; `"power"`: `-a_h n^(p_h)`; n = i - j (Chi et al.
//! 2022, arXiv:2205.09921, equations 5 and 6). p, a `[layers, heads]`; p from U(0, 2), a from U(0, 1).
//! Bounds as in the authors' code: `a >= 0.01`, `p >= 0.01`, for `power` also `p <= 2`. They start within them, and
//! training projects them back after each update, so that a number at its bound still learns; one that was set
//! outside is clamped where it is used.
//!
//! The power is learned, so `n^p = exp(p ln n)` runs in f32 on a device from `ln n` made in f64: at
//! n = 65,535 and p = 2 it is right to about 3e-6 of itself. Interpolated by s, distances are divided by s.

use crate::prelude::*;

/// The least p and a.
pub(super) const LEAST: f64 = 0.01;

/// The largest p of `power`.
const MOST_POWER: f64 = 2.0;

/// Which kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// `-p ln(1 + a n)`.
    #[default]
    Log,
    /// `-a n^p`.
    Power,
}

keys! {
    /// Keys of `kind = "kerple"`.
    pub struct Config {
        /// Which kernel.
        pub variant: Variant = Variant::default(),
    }
}

/// The kernels' numbers.
#[derive(Module, Debug)]
pub struct Kerple {
    /// `[layers, heads]`.
    pub p: Param<Tensor<2>>,
    /// `[layers, heads]`.
    pub a: Param<Tensor<2>>,
    #[module(skip)]
    variant: Variant,
}

impl Configure for Config {
    type Encoding = Kerple;
    const KIND: &'static str = "kerple";
    const DESCRIPTION: &'static str = "a learned penalty, logarithm or power of the distance (KERPLE)";
    const SOURCE: &'static str = "arXiv:2205.09921";
    const FORMULA: &'static str =
        "a_{mn} = q_m · k_n / √d − c_h ln(1 + g_h (m − n)), c_h and g_h ≥ 0.01 learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("kerple.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: the penalty goes on growing, ever more slowly as a logarithm");
    const VARIANTS: &'static [&'static str] = &["variant = 'power'"];

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Kerple {
        let shape = [dimensions.layers, dimensions.heads];
        Kerple {
            p: init.uniform_within("position.kerple.p", shape, [0.0, 2.0], [LEAST, f64::INFINITY]),
            a: init.uniform_within("position.kerple.a", shape, [0.0, 1.0], [LEAST, f64::INFINITY]),
            variant: self.variant,
        }
    }
}

/// `-p ln(1 + a n)` with p and a `[heads]` clamped: `[heads, distances]`.
pub(super) fn logarithmic(p: Tensor<1>, a: Tensor<1>, distances: &[f64]) -> Tensor<2> {
    let n = upload(distances, &p.device()).unsqueeze::<2>();
    let [p, a] = [p, a].map(|x| x.clamp_min(LEAST).unsqueeze_dim::<2>(1));
    (n * a).log1p() * p.neg()
}

/// `-a n^p` with p and a `[heads]` clamped: `[heads, distances]`.
fn power(p: Tensor<1>, a: Tensor<1>, distances: &[f64]) -> Tensor<2> {
    let device = p.device();
    // 0^p is 0, and ln 0 has no gradient: distance 0 is taken out.
    let logs: Vec<f64> = distances.iter().map(|&n| if n > 0.0 { n.ln() } else { 0.0 }).collect();
    let present: Vec<f64> = distances.iter().map(|&n| f64::from(n > 0.0)).collect();
    let [logs, present] = [logs, present].map(|x| upload(&x, &device).unsqueeze::<2>());
    let p = p.clamp(LEAST, MOST_POWER).unsqueeze_dim::<2>(1);
    let a = a.clamp_min(LEAST).unsqueeze_dim::<2>(1);
    (logs * p).exp() * present * a.neg()
}

impl DistanceBias for Kerple {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let p = ParameterSpec::undecayed("p", &["layers", "heads"]);
        let most = match self.variant {
            Variant::Log => f64::INFINITY,
            Variant::Power => MOST_POWER,
        };
        vec![
            p.bounded(LEAST, most),
            ParameterSpec::undecayed("a", &["layers", "heads"]).bounded(LEAST, f64::INFINITY),
        ]
    }

    fn at(&self, layer: usize, distances: &[f64], _device: &Device) -> Tensor<2> {
        let (p, a) = (at_layer(&self.p, layer), at_layer(&self.a, layer));
        match self.variant {
            Variant::Log => logarithmic(p, a, distances),
            Variant::Power => power(p, a, distances),
        }
    }
}
