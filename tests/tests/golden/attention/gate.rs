//! A gate on the outputs of the heads, one number for each head or channel.

use super::Inputs;
use crate::build::{dimensions, reading, with_params};
use crate::file::Case;
use burn::tensor::Device;
use longwave_model::ModelConfig;
use longwave_model::attention::Attention;
use longwave_model::complex_weights::WeightKind;
use longwave_position::Init;
use longwave_position::reading::LogN;

pub(super) fn check(case: &Case) {
    let inputs = Inputs::new(case);
    let (dim, heads) = (case.usize("d"), inputs.heads);
    let x = case.input("x").burn::<2>().unsqueeze::<3>();
    let config = ModelConfig {
        heads: Some(heads),
        head_dim: Some(dim),
        width: Some(x.dims()[2]),
        attention_gate: serde_json::from_value(case.config["gate"].clone()).unwrap(),
        attention_gate_bias: case.config["bias"] == true,
        ..ModelConfig::default()
    };
    let init = Init::new(0, &Device::flex());
    let fresh = Attention::new(&config.resolve(16, 2).unwrap(), WeightKind::Real, "test", &init);
    let ours = |name: &str| if name == "w_gate" { "gate" } else { "gate_bias" }.to_owned();
    let params = case.params().iter().map(|(name, tensor)| (ours(name), tensor.clone())).collect();
    let attention = with_params(fresh, &params);
    let none = reading(&"none".into(), &dimensions(heads, dim, heads * dim), LogN::Off);

    let mut outputs = case.outputs();
    let x = x.slice_dim(1, inputs.text.queries.clone());
    let gates = attention.gates(x.clone()).unwrap().swap_dims(1, 2).squeeze_dim::<3>(0);
    if case.text("gate") == "head" {
        outputs.compare("gate", gates.squeeze_dim::<2>(2));
    } else {
        outputs.compare("gate", gates);
    }
    let plain = inputs.attended(&none, inputs.value.clone()).unsqueeze::<4>();
    outputs.compare("output", attention.gated(plain, x).swap_dims(1, 2).squeeze_dim::<3>(0));
    if outputs.has("probs") {
        outputs.compare("probs", inputs.attended(&none, inputs.identity()));
    }
    outputs.done();
}
