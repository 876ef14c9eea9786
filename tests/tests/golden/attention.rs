//! Kind `attention`: probabilities and output, end to end.

use crate::build::{config, dimensions, positions, reading};
use crate::file::Case;
use burn::tensor::{Device, Int, Tensor};
use longwave_model::attention::{Rotations, attend};
use longwave_position::Reading;
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::reading::LogN;

/// Checks one case of a file.
pub fn check(name: &str, case: &Case) {
    let reading = match name {
        "rope_direct" | "log_n_rope" | "attention_temperature" => rope(case),
        other => panic!("no handler for `{other}`"),
    };
    compare(case, &reading);
}

/// The rotary model of a case, with its log-n and logit scale.
fn rope(case: &Case) -> Reading {
    let [heads, _, _] = case.input("q").shape[..] else { panic!("q") };
    let (dim, train_length) = (case.usize("d"), case.usize("L"));
    let log_n = match case.text("log_n") {
        "none" => LogN::Off,
        "trained" => LogN::Trained { train_length },
        "posthoc" => LogN::PostHoc { train_length },
        other => panic!("log_n `{other}`"),
    };
    let config = config("rope", &case.config, &["d", "L", "log_n", "logit_scale"]);
    let mut reading = reading(&config, &dimensions(heads, dim, heads * dim), log_n);
    for layer in reading.layers_mut() {
        layer.logit_scale = case.f64("logit_scale");
    }
    reading
}

/// Attention of the last rows of the keys' positions.
fn compare(case: &Case, reading: &Reading) {
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input(name).burn::<3>().unsqueeze::<4>());
    let [_, heads, queries, dim] = q.dims();
    let length = k.dims()[2];
    let positions = positions(&case.input("k_positions"));
    assert_eq!(positions.columns(length - queries..length).values(), case.input("q_positions").data);
    let tokens = Tensor::<2, Int>::zeros([1, length], &Device::flex());
    let input = Tensor::zeros([1, length, heads * dim], &Device::flex());
    let range = length - queries..length;
    let rows = Rows { layer: 0, tokens: &tokens, positions: &positions };
    let block = QueryBlock { rows, queries: &range, input: &input };
    let attended = |v: Tensor<4>| {
        let scale = 1.0 / (dim as f64).sqrt();
        attend([q.clone(), k.clone(), v], scale, block, reading, &mut Rotations::default())
            .squeeze_dim::<3>(0)
    };
    let mut outputs = case.outputs();
    outputs.compare("output", attended(v));
    if outputs.has("probs") {
        // Values that are the identity give the probabilities themselves.
        let identity =
            Tensor::<2>::eye(length, &Device::flex()).unsqueeze::<4>().expand([1, heads, length, length]);
        outputs.compare("probs", attended(identity));
    }
    outputs.done();
}
