//! Stick-breaking attention, with each of the places that the rest of the stick may go to.

use super::Inputs;
use crate::build::{dimensions, reading, with_params};
use crate::file::{Case, Tensor};
use burn::tensor::{Device, Tensor as BurnTensor};
use longwave_model::ModelConfig;
use longwave_model::attention::{Attention, Rotations};
use longwave_model::complex_weights::WeightKind;
use longwave_position::Init;
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::reading::{AttentionKind, LogN, Remainder, StickBreaking};
use std::collections::BTreeMap;

pub(super) fn check(case: &Case) {
    let inputs = Inputs::new(case);
    let remainder = serde_json::from_value(case.config["remainder"].clone()).unwrap();
    let stick = StickBreaking { attend_current: case.config["attend_current"] == true, remainder };
    let mut outputs = case.outputs();
    let dim = case.usize("d");
    outputs.compare("output", attended(&inputs, case, dim, stick, inputs.value.clone()));
    if outputs.has("probs") {
        // Nothing goes to the value.
        let stick = StickBreaking { remainder: Remainder::Drop, ..stick };
        outputs.compare("probs", attended(&inputs, case, dim, stick, inputs.identity()));
    }
    outputs.done();
}

/// `[heads, queries, value_dim]`.
fn attended(
    inputs: &Inputs,
    case: &Case,
    dim: usize,
    stick: StickBreaking,
    value: BurnTensor<4>,
) -> BurnTensor<3> {
    let kind = AttentionKind::StickBreaking(stick);
    let none = toml::Value::String("none".to_owned());
    let sizes = dimensions(inputs.heads, dim, inputs.heads * dim);
    let mut reading = reading(&none, &sizes, LogN::Off).with_attention(kind).unwrap();
    reading.layers_mut()[0].mask.window = case.config["window"].as_u64().map(|window| window as usize);
    let config = ModelConfig {
        heads: Some(inputs.heads),
        width: Some(inputs.heads * dim),
        attention: kind,
        ..ModelConfig::default()
    };
    let init = Init::new(0, &Device::flex());
    let fresh = Attention::new(&config.resolve(16, 2).unwrap(), WeightKind::Real, "test", &init);
    let attention = with_params(fresh, &params(case));
    let rows = Rows::new(0, &inputs.tokens, &inputs.positions);
    let block = QueryBlock { rows, queries: &inputs.queries, input: &inputs.input };
    let qkv = [inputs.query.clone(), inputs.key.clone(), value];
    attention.attend(qkv, block, &reading, &mut Rotations::default()).squeeze_dim::<3>(0)
}

/// The vectors of the heads, one after the other.
fn params(case: &Case) -> BTreeMap<String, Tensor> {
    let flat = |tensor: &Tensor| Tensor { shape: vec![tensor.data.len()], data: tensor.data.clone() };
    case.params()
        .iter()
        .map(|(name, tensor)| {
            assert_eq!(name, "head_bias");
            ("remainder".to_owned(), flat(tensor))
        })
        .collect()
}
