//! Attention whose weights are no softmax: stick-breaking, entmax, LSSA and LSSAR.

use super::Inputs;
use crate::build::{dimensions, reading, rope_or_none, with_params};
use crate::file::{Case, Outputs, Tensor};
use crate::logits::padded;
use burn::tensor::{Device, Tensor as BurnTensor, TensorData};
use longwave_kernels::{self as kernels, Bias};
use longwave_model::ModelConfig;
use longwave_model::attention::{Attention, Rotations};
use longwave_model::complex_weights::WeightKind;
use longwave_position::Init;
use longwave_position::reading::{AttentionKind, LogN, Remainder};
use std::collections::BTreeMap;
use toml::Value;

pub(super) fn check(name: &str, case: &Case) {
    let inputs = Inputs::new(case);
    let kind = kind(name, case);
    let mut outputs = case.outputs();
    outputs.compare("output", attended(&inputs, case, kind, inputs.value.clone()));
    // Values that are the identity give the weights, of a stick without the rest.
    let weights = attended(&inputs, case, kind.of_keys(), inputs.identity());
    if outputs.has("probs") {
        outputs.compare("probs", weights.clone());
    }
    let of_rows = |x: BurnTensor<3>| x.sum_dim(2).squeeze_dim::<2>(2);
    if outputs.has("support") {
        outputs.compare("support", of_rows(weights.clone().greater_elem(1e-9).float()));
    }
    if outputs.has("row_sums") {
        outputs.compare("row_sums", of_rows(weights));
    }
    if outputs.has("grad_q") {
        compare_gradients(&inputs, case, kind, &mut outputs);
    }
    outputs.done();
}

/// `model.attention` of a case.
fn kind(name: &str, case: &Case) -> AttentionKind {
    let mut table = toml::Table::new();
    let keys = match name {
        "stick_breaking" => &["attend_current", "remainder"][..],
        "lssar" if case.config["power"].is_null() => &[],
        "lssar" => &["power"],
        _ => &["alpha"],
    };
    let name = if name == "lssar" && keys.is_empty() { "lssa" } else { name };
    table.insert("kind".to_owned(), name.into());
    for key in keys {
        table.insert((*key).to_owned(), Value::try_from(&case.config[*key]).unwrap());
    }
    let kind: AttentionKind = Value::Table(table).try_into().unwrap();
    kind.check().unwrap_or_else(|error| panic!("{error}"));
    kind
}

/// `[heads, queries, value_dim]`.
fn attended(inputs: &Inputs, case: &Case, kind: AttentionKind, value: BurnTensor<4>) -> BurnTensor<3> {
    let dim = case.usize("d");
    let sizes = dimensions(inputs.heads, dim, inputs.heads * dim);
    let mut reading = reading(&rope_or_none(case), &sizes, LogN::Off).with_attention(kind).unwrap();
    let layer = &mut reading.layers_mut()[0];
    layer.mask.window = case.config["window"].as_u64().map(|window| window as usize);
    layer.logit_scale = case.config.get("logit_scale").map_or(1.0, |_| case.f64("logit_scale"));
    let config = ModelConfig {
        heads: Some(inputs.heads),
        width: Some(inputs.heads * dim),
        attention: kind,
        ..ModelConfig::default()
    };
    let init = Init::new(0, &Device::flex());
    let fresh = Attention::new(&config.resolve(16, 2).unwrap(), WeightKind::Real, "test", &init);
    let learned = matches!(kind, AttentionKind::StickBreaking(stick) if stick.remainder == Remainder::Bias);
    let attention = if learned { with_params(fresh, &params(case)) } else { fresh };
    // As a model normalises what it projects.
    let [query, key] = ["q", "k"].map(|name| padded(&case.input(name), inputs.length));
    let packed = BurnTensor::cat(vec![query, key.clone(), key], 2);
    let (query, key, _) = attention.unrotated(packed);
    let qkv = [query.slice_dim(2, inputs.text.queries.clone()), key, value];
    inputs
        .text
        .with_block(|block| attention.attend(qkv, block, &reading, &mut Rotations::default()))
        .squeeze_dim::<3>(0)
}

/// Gradients of the output under the weights of the case; those of the scores are those of a bias.
fn compare_gradients(inputs: &Inputs, case: &Case, kind: AttentionKind, outputs: &mut Outputs) {
    let device = Device::flex().autodiff();
    let leaf = |x: &BurnTensor<4>| BurnTensor::<4>::from_data(x.clone().into_data(), &device).require_grad();
    let [q, k, v] = [&inputs.query, &inputs.key, &inputs.value].map(leaf);
    let queries = &inputs.text.queries;
    let zeros = vec![0.0_f32; inputs.heads * queries.len() * inputs.length];
    let zeros = TensorData::new(zeros, [1, inputs.heads, queries.len(), inputs.length]);
    let bias = BurnTensor::<4>::from_data(zeros, &device).require_grad();
    let options = kernels::Attention {
        normaliser: kind.normaliser().unwrap(),
        bias: Bias::Block(bias.clone()),
        query_offset: queries.start,
        ..kernels::Attention::causal(case.usize("d"))
    };
    let output = kernels::attention(q.clone(), k.clone(), v.clone(), &options);
    let weights = BurnTensor::<4>::from_data(
        case.input("output_weights").burn::<3>().unsqueeze::<4>().into_data(),
        &device,
    );
    let gradients = (output * weights).sum().backward();
    for (name, leaf) in [("grad_z", bias), ("grad_q", q), ("grad_k", k), ("grad_v", v)] {
        outputs.compare(name, leaf.grad(&gradients).unwrap().squeeze_dim::<3>(0));
    }
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
