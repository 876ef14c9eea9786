//! `recursive`: each position's vector is a learned function of the one before.
//!
//! `h_t = x_t + p_{position_t}`, `p_0 = p0`, `p_{k+1} = f(p_k)` from position 0 on, whatever the first row's
//! position (kexue.fm/archives/8130, recursive encoding). `variant = "linear"`: `f(p) = p w + b`, w
//! `[width, width]`; it starts as the rotations of a sinusoidal encoding, so that nothing grows at first.
//! `"mlp"`: `f(p) = p + tanh(p w1 + b1) w2 + b2`, w1 `[width, hidden]`, w2 `[hidden, width]` from
//! N(0, 1 / (2 L)), so that L steps do not outgrow the tokens. p0 from N(0, `init_std`), 0.02 by default. Enters once,
//! before the first block; sequential in the position. Whole positions only.
//!
//! `"rnn"` runs over the tokens, after which, the same source says, no other encoding is needed:
//! `h_t = x_t + s_t`, `s_t = tanh(s_{t-1} w + x_t w_x + b)`, `s_{-1} = p0`, w and `w_x` `[width, width]` uniform within
//! `1 / sqrt(width)`, as recurrent networks start in `PyTorch`: the state forgets from the first step on. (As rotations, w would keep the
//! sum of all tokens, which drowns the last one; experiments/log.md.) It is added like the others, so that the token itself stays readable. Positions do not
//! enter: the order of the rows does. Sequential in the rows.

use super::learned::INIT_STD;
use crate::prelude::*;
use crate::table::indices;

/// The usual width of the network's hidden layer.
const HIDDEN: usize = 64;

/// The form of f.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// A linear map.
    #[default]
    Linear,
    /// A residual network with one hidden layer.
    Mlp,
    /// A recurrent network that reads the tokens too.
    Rnn,
}

/// The nonlinearity of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
}

keys! {
    /// Keys of `kind = "recursive"`.
    pub struct Config {
        /// The form of f.
        pub variant: Variant = Variant::Linear,
        /// `mlp`: width of the hidden layer.
        pub hidden: usize = HIDDEN,
        /// `mlp`: its nonlinearity.
        pub activation: Activation = Activation::Tanh,
        /// Standard deviation of `p0` at the start.
        pub init_std: f64 = INIT_STD,
    }
}

/// The start and the step.
#[derive(Module, Debug)]
pub struct Recursive {
    /// `[width]`.
    pub p0: Param<Tensor<1>>,
    /// `linear`, `rnn`: `[width, width]`.
    pub w: Option<Param<Tensor<2>>>,
    /// `linear`, `rnn`: `[width]`.
    pub b: Option<Param<Tensor<1>>>,
    /// `rnn`: `[width, width]`.
    pub w_x: Option<Param<Tensor<2>>>,
    /// `mlp`: `[width, hidden]`.
    pub w1: Option<Param<Tensor<2>>>,
    /// `mlp`: `[hidden]`.
    pub b1: Option<Param<Tensor<1>>>,
    /// `mlp`: `[hidden, width]`.
    pub w2: Option<Param<Tensor<2>>>,
    /// `mlp`: `[width]`.
    pub b2: Option<Param<Tensor<1>>>,
    /// The vectors of the first positions, where they are computed once for many readings.
    #[module(skip)]
    made: Option<Tensor<2>>,
    /// 1 over the number of steps to the last position of training; 1 for `rnn`, which has no such path.
    #[module(skip)]
    unit: f64,
}

/// `[width, width]`: turns channels 2i and 2i + 1 by the sinusoidal frequency of band i.
fn rotations(width: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; width * width];
    for (band, angle) in Frequencies::geometric(1e4, width).inv_freq.into_iter().enumerate() {
        let (sin, cos) = angle.sin_cos();
        let first = 2 * band * width + 2 * band;
        (matrix[first], matrix[first + 1]) = (cos, sin);
        (matrix[first + width], matrix[first + width + 1]) = (-sin, cos);
    }
    if width % 2 == 1 {
        matrix[width * width - 1] = 1.0;
    }
    matrix
}

impl Configure for Config {
    type Encoding = Recursive;
    const KIND: &'static str = "recursive";
    const DESCRIPTION: &'static str =
        "each position's vector is a learned function of the one before, or of the token too (RNN)";
    const SOURCE: &'static str = "kexue.fm/archives/8130";
    const FORMULA: &'static str = "x'_m = x_m + e_m, e_{m+1} = e_m W + c, e_0, W and c learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("recursive.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the recursion goes on");
    const VARIANTS: &'static [&'static str] = &["variant = 'mlp'", "variant = 'rnn'"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "init_std", self.init_std)?;
        let unread = (self.variant != Variant::Mlp && self.hidden != HIDDEN).then(|| self.hidden.to_string());
        check_without(section, "hidden", unread, "variant = \"mlp\"")?;
        check_hidden(section, self.hidden)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Recursive {
        let (width, hidden) = (dimensions.width, self.hidden);
        let mlp = self.variant == Variant::Mlp;
        let reach = 1.0 / (width as f64).sqrt();
        let unit = if self.variant == Variant::Rnn { 1.0 } else { 1.0 / dimensions.train_length as f64 };
        Recursive {
            p0: init.normal("position.recursive.p0", [width], self.init_std),
            w: match self.variant {
                Variant::Linear => Some(init.values([width, width], &rotations(width))),
                Variant::Mlp => None,
                Variant::Rnn => Some(init.uniform("position.recursive.w", [width, width], [-reach, reach])),
            },
            b: (!mlp).then(|| init.constant([width], 0.0)),
            w_x: (self.variant == Variant::Rnn)
                .then(|| init.uniform("position.recursive.w_x", [width, width], [-reach, reach])),
            w1: mlp.then(|| init.normal("position.recursive.w1", [width, hidden], 0.02)),
            b1: mlp.then(|| init.constant([hidden], 0.0)),
            w2: mlp.then(|| init.normal("position.recursive.w2", [hidden, width], 0.5 * unit)),
            b2: mlp.then(|| init.constant([width], 0.0)),
            made: None,
            unit,
        }
    }
}

impl Recursive {
    /// f of `[1, width]`.
    fn step(&self, p: Tensor<2>) -> Tensor<2> {
        if let (Some(w), Some(b)) = (&self.w, &self.b) {
            return p.matmul(w.val()) + b.val().unsqueeze();
        }
        let (Some(w1), Some(b1), Some(w2), Some(b2)) = (&self.w1, &self.b1, &self.w2, &self.b2) else {
            return p;
        };
        let hidden = (p.clone().matmul(w1.val()) + b1.val().unsqueeze()).tanh();
        p + hidden.matmul(w2.val()) + b2.val().unsqueeze()
    }

    /// The vectors of positions 0 to `last` or further, `[positions, width]`.
    fn vectors(&self, last: usize) -> Tensor<2> {
        if let Some(made) = self.made.as_ref().filter(|made| made.dims()[0] > last) {
            return made.clone();
        }
        let mut all = vec![self.p0.val().unsqueeze::<2>()];
        for k in 0..last {
            all.push(self.step(all[k].clone()));
        }
        Tensor::cat(all, 0)
    }
}

/// The states of a network with the weights w, b and `w_x` after all rows that drive it,
/// x `[batch, length, width]`; `state` `[batch, 1, width]` is the one before them and becomes the last.
fn states(x: &Tensor<3>, state: &mut Tensor<3>, [w, b, w_x]: [Tensor<2>; 3]) -> Tensor<3> {
    let [batch, length, width] = x.dims();
    let driven = x.clone().reshape([batch * length, width]).matmul(w_x) + b;
    let driven = driven.reshape([batch, length, width]);
    // The gradient of a slice is as large as what it was cut from: rows are cut from blocks.
    let block = length.isqrt().max(1);
    let mut states = Vec::with_capacity(length);
    for first in (0..length).step_by(block) {
        let count = block.min(length - first);
        let rows = driven.clone().slice_dim(1, first..first + count);
        for row in 0..count {
            let driven = rows.clone().slice_dim(1, row..row + 1).squeeze_dim::<2>(1);
            let next = (state.clone().squeeze_dim::<2>(1).matmul(w.clone()) + driven).tanh();
            *state = next.unsqueeze_dim::<3>(1);
            states.push(state.clone());
        }
    }
    Tensor::cat(states, 1)
}

impl Position for Recursive {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let rnn = self.w_x.is_some();
        let all = [
            (true, ParameterSpec::undecayed("p0", &["width"])),
            // It starts as rotations, and zero would forget the position before.
            (self.w.is_some() && !rnn, ParameterSpec::undecayed("w", &["width", "width"])),
            (rnn, ParameterSpec::decayed("w", &["width", "width"])),
            (self.b.is_some(), ParameterSpec::undecayed("b", &["width"])),
            (self.w_x.is_some(), ParameterSpec::decayed("w_x", &["width", "width"])),
            (self.w1.is_some(), ParameterSpec::decayed("w1", &["width", "hidden"])),
            (self.b1.is_some(), ParameterSpec::undecayed("b1", &["hidden"])),
            (self.w2.is_some(), ParameterSpec::decayed("w2", &["hidden", "width"])),
            (self.b2.is_some(), ParameterSpec::undecayed("b2", &["width"])),
        ];
        // What every step applies again moves the last position as many times over as there are steps.
        let measured =
            |spec: ParameterSpec| if spec.name == "p0" { spec } else { spec.in_units_of(self.unit) };
        all.into_iter().filter_map(|(present, spec)| present.then(|| measured(spec))).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hidden_use: HiddenUse::Enters,
            position_use: if self.w_x.is_some() { PositionUse::Order } else { PositionUse::Positions },
            ..Capabilities::default()
        }
    }

    /// `rnn` carries the last state `[batch, 1, width]`.
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        if let (Some(w), Some(b), Some(w_x)) = (&self.w, &self.b, &self.w_x) {
            let start = || self.p0.val().unsqueeze::<3>().repeat_dim(0, hidden.dims()[0]);
            let mut state = before.take().unwrap_or_else(start);
            let states = states(&hidden, &mut state, [w.val(), b.val().unsqueeze(), w_x.val()]);
            *before = Some(state);
            return hidden + states;
        }
        let positions = rows.positions;
        let last = positions.largest().unwrap_or_default() as usize;
        let at = indices(positions.values().iter().map(|&m| m as usize), &hidden.device());
        let vectors = self.vectors(last).select(0, at);
        let width = hidden.dims()[2];
        hidden + vectors.reshape([positions.rows(), positions.length(), width])
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        if self.w_x.is_some() { Ok(()) } else { whole_positions("recursive", positions) }
    }

    fn interpolates(&self) -> bool {
        false
    }

    fn prepare(&mut self, text: &Positions) {
        if self.w_x.is_none() {
            self.made = Some(self.vectors(text.length().saturating_sub(1)));
        }
    }
}

/// An encoding that steps from position to position has none in between.
fn whole_positions(kind: &str, positions: &Positions) -> Result<()> {
    match positions.values().iter().find(|&&m| m.fract() != 0.0 || m < 0.0) {
        Some(position) => Err(Error::usage(format!(
            "`{kind}` has no vector for position {position}: it steps through whole positions from 0"
        ))
        .hint("use whole positions, or an encoding that is defined between them, such as `sinusoidal`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_runs_over_the_tokens() {
        let device = Device::flex();
        let config = Config { variant: Variant::Rnn, ..Config::default() };
        let encoding = config.build(&crate::testing::dimensions(), &Init::new(0, &device));
        let x = crate::testing::random::<3>("x", [2, 5, 8], &device);
        let (tokens, positions) = (Tensor::zeros([2, 5], &device), Positions::range(0..5));
        let rows = Rows::new(0, &tokens, &positions);
        let numbers = |tensor: Tensor<2>| tensor.into_data().try_to_vec::<f32>().unwrap();
        let of = |parameter: &Option<Param<Tensor<2>>>| numbers(parameter.as_ref().unwrap().val());
        let (w, w_x) = (of(&encoding.w), of(&encoding.w_x));
        let p0 = encoding.p0.val().into_data().try_to_vec::<f32>().unwrap();
        let found = numbers(encoding.embed(x.clone(), rows, &mut None).reshape([10, 8]));
        for (text, x) in numbers(x.reshape([10, 8])).chunks(40).enumerate() {
            let mut state = p0.clone();
            for (row, x) in x.chunks(8).enumerate() {
                let sum =
                    |c: usize| (0..8).map(|i| state[i] * w[8 * i + c] + x[i] * w_x[8 * i + c]).sum::<f32>();
                state = (0..8).map(|c| sum(c).tanh()).collect();
                for c in 0..8 {
                    let found = found[40 * text + 8 * row + c];
                    assert!((found - x[c] - state[c]).abs() < 1e-5, "text {text}, row {row}: {found}");
                }
            }
        }
        assert!(encoding.check(&Positions::explicit(1, vec![0.5])).is_ok(), "positions do not enter");
    }

    #[test]
    fn a_network_starts_with_a_state_that_forgets() {
        let device = Device::flex();
        let config = Config { variant: Variant::Rnn, ..Config::default() };
        let dimensions = Dimensions { width: 64, ..crate::testing::dimensions() };
        let encoding = config.build(&dimensions, &Init::new(0, &device));
        // One token among zeros: what is left of it after a few rows.
        let mut values = vec![0.0f32; 16 * 64];
        values[..64].fill(0.02);
        let x = Tensor::<2>::from_data(TensorData::new(values, [16, 64]), &device).unsqueeze::<3>();
        let (tokens, positions) = (Tensor::zeros([1, 16], &device), Positions::range(0..16));
        let states = encoding.embed(x.clone(), Rows::new(0, &tokens, &positions), &mut None) - x;
        let norms = states.squeeze_dim::<2>(0).square().sum_dim(1).into_data().try_to_vec::<f32>().unwrap();
        assert!(norms[15] < 1e-4 * norms[0], "{norms:?}");
    }

    #[test]
    fn starts_as_rotations_that_keep_the_norm() {
        let dimensions = crate::testing::dimensions();
        let encoding = Config::default().build(&dimensions, &Init::new(0, &Device::flex()));
        let norms = encoding.vectors(200).square().sum_dim(1).into_data().try_to_vec::<f32>().unwrap();
        assert!(norms.iter().all(|norm| (norm / norms[0] - 1.0).abs() < 1e-4), "{norms:?}");
        assert!(encoding.check(&Positions::explicit(1, vec![0.5])).is_err());
    }
}
