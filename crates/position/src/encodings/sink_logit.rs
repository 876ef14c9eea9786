//! `sink_logit`: a learned logit that takes a share of every softmax.
//!
//! `p_ij = exp(l_ij) / (exp(t_h) + sum_j exp(l_ij))`: the denominator has one more term than there are keys, and what
//! it takes goes to no value, so that a head may attend to nothing (gpt-oss, `gpt_oss/torch/model.py`; Miller 2023,
//! "Attention is off by one", has t = 0). `t [layers, heads]` starts as N(0, 0.02) and does not decay. A temperature
//! divides it with the other logits; nothing else multiplies it. Positions do not enter: it stands in a list, such as
//! `["rope", "sink_logit"]`. `sinks` of a window are something else: first tokens that stay visible.

use crate::prelude::*;

keys! {
    /// `kind = "sink_logit"` takes no keys.
    pub struct Config {}
}

#[derive(Module, Debug)]
pub struct SinkLogit {
    /// `[layers, heads]`.
    pub sink: Param<Tensor<2>>,
}

impl Configure for Config {
    type Encoding = SinkLogit;
    const KIND: &'static str = "sink_logit";
    const DESCRIPTION: &'static str = "a learned logit per head that takes a share of every softmax";
    const SOURCE: &'static str = "gpt-oss (openai/gpt-oss, gpt_oss/torch/model.py)";
    const FORMULA: &'static str = "p_{mn} = exp(a_{mn}) / (exp(c_h) + Σ_{t=0}^{m} exp(a_{mt})), c_h learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("sink_logit.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: the sink's share falls as keys are added");

    fn build(&self, dimensions: &Dimensions, init: &Init) -> SinkLogit {
        SinkLogit { sink: init.normal("position.sink_logit", [dimensions.layers, dimensions.heads], 0.02) }
    }
}

impl Position for SinkLogit {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("sink", &["layers", "heads"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { position_use: PositionUse::Order, ..Capabilities::default() }
    }

    fn sink(&self, layer: usize) -> Option<Tensor<1>> {
        Some(at_layer(&self.sink, layer))
    }
}
