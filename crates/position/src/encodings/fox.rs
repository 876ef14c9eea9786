//! `fox`: a forgetting gate.
//!
//! `logit_ij += sum_{t = j+1..i} ln sigmoid(x_t w_f + b_f)_h = F_i - F_j`, F the inclusive cumulative sum
//! and x the normalised input of the layer (Lin et al. 2025, arXiv:2503.02130, equations 5 to 8).
//! `w_f [layers, width, heads]` from N(0, 0.02), `b_f [layers, heads]` starts at 5, so that almost nothing
//! is forgotten at first. Positions do not enter: the order of the rows does.
//!
//! Cable (arXiv:2503.08067) is this encoding: its `-softplus(x_t w + b)` is `ln sigmoid(-(x_t w + b))`. Its released code leaves out
//! `1 / sqrt(d)` too, so its published gain is not that of the bias alone.
//!
//! F is a running sum in f32. Past 256 rows its rounding is corrected (`crate::running_sum`): of equal gates, it is right to 6e-8 of itself
//! at 10,000 rows and to 3e-7 at 65,536; a difference has the errors of both.

use crate::per_layer::map_rows;
use crate::prelude::*;
use crate::running_sum::running_sum;
use burn::tensor::activation::log_sigmoid;

keys! {
    /// `kind = "fox"` takes no keys.
    pub struct Config {}
}

/// The gates.
#[derive(Module, Debug)]
pub struct Fox {
    /// `[layers, width, heads]`.
    pub w_f: Param<Tensor<3>>,
    /// `[layers, heads]`.
    pub b_f: Param<Tensor<2>>,
}

impl Configure for Config {
    type Encoding = Fox;
    const KIND: &'static str = "fox";
    const DESCRIPTION: &'static str = "a learned gate forgets earlier tokens (FoX)";
    const SOURCE: &'static str = "arXiv:2503.02130";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d + Σ_{t=n+1}^{m} ln σ(x_t · w_h + c_h), x_t normalised, w_h and c_h learned\n\
        σ(u) = 1 / (1 + exp(−u))";
    const PYTORCH: Option<&'static str> = Some(include_str!("fox.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the gates go on forgetting");

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Fox {
        let (layers, heads) = (dimensions.layers, dimensions.heads);
        Fox {
            w_f: init.normal("position.fox.w_f", [layers, dimensions.width, heads], 0.02),
            b_f: init.constant([layers, heads], 5.0),
        }
    }
}

impl Position for Fox {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![
            ParameterSpec::decayed("w_f", &["layers", "width", "heads"]),
            ParameterSpec::undecayed("b_f", &["layers", "heads"]),
        ]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Order,
            bias_use: BiasUse::AllHeads,
            reads_input: true,
            ..Capabilities::default()
        }
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let gate = map_rows(block.input, &self.w_f, Some(&self.b_f), block.rows.layer); // [batch, length, heads]
        let forgotten = running_sum(log_sigmoid(gate), 1).swap_dims(1, 2);
        Bias::Pair { query: forgotten.clone().slice_dim(2, block.queries.clone()), key: forgotten }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, dimensions};

    #[test]
    fn equal_gates_add_up_without_drift() {
        let (device, length) = (Device::flex(), 10_000);
        let (tokens, positions) =
            (Tensor::<2, Int>::zeros([1, length], &device), Positions::range(0..length));
        let input = Tensor::<3>::zeros([1, length, dimensions().width], &device);
        let rows = Rows::new(0, &tokens, &positions);
        let block = QueryBlock { rows, queries: &(0..length), input: &input };
        let Bias::Pair { key, .. } = build("kind = 'fox'", &device).bias(block) else {
            panic!("the bias of fox is a pair of vectors")
        };
        let sums: Vec<f32> = key.into_data().try_to_vec().unwrap(); // [1, heads, length]
        let exact = f64::from(sums[0]) * length as f64;
        assert!((f64::from(sums[length - 1]) / exact - 1.0).abs() < 1e-7);
    }
}
