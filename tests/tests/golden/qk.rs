//! Kind `qk`: rotated or scaled q and k, and their frequencies.

use crate::build::{config, dimensions, encoding, positions, with_key, without_key};
use crate::file::{Case, Tensor};
use burn::tensor::{Device, Int, Tensor as BurnTensor};
use longwave_kernels::rotate;
use longwave_position::encoding::{LayerInput, Rows};
use longwave_position::frequency::Side;
use longwave_position::{Encoding, Positions};

/// Checks one case of a file; `rope_half` and its like are the kind `rope`.
pub fn check(name: &str, case: &Case) {
    if name == "selective_rope" {
        return selective_rope(case);
    }
    let kind = if name.starts_with("rope") { "rope" } else { name };
    let (q, k) = (case.input("q"), case.input("k"));
    let [heads, _, head_dim] = q.shape[..] else { panic!("q {:?}", q.shape) };
    let mut dimensions = dimensions(heads, head_dim, heads * head_dim);
    let mut config = config(kind, &case.config, &["train_length"]);
    match name {
        "rope_hope" => config = with_key(config, "hope", true),
        // A case gives the coefficients, and one layout is all there is.
        "fope" => config = with_key(without_key(config, "layout", "half"), "learned", true),
        _ => {}
    }
    if case.config.get("train_length").is_some() {
        dimensions.train_length = case.usize("train_length");
    }
    let encoding = encoding(&config, &dimensions, case.params());
    let mut outputs = case.outputs();
    if outputs.has("frequencies") {
        let mut frequencies = encoding.frequencies().expect("frequencies").inv_freq.clone();
        if name == "fope" {
            frequencies.retain(|&frequency| frequency > 0.0);
        }
        outputs.compare_f64("frequencies", &frequencies);
    }
    if let Some(xpos) = encoding.get::<longwave_position::encodings::xpos::Xpos>() {
        outputs.compare_f64("zeta", &xpos.decay().zeta);
    }
    let [q_positions, k_positions] = ["q_positions", "k_positions"].map(|name| positions(&case.input(name)));
    let [turned_q, turned_k] = turned(&encoding, [&q, &k], [&q_positions, &k_positions]);
    outputs.compare("q", turned_q);
    outputs.compare("k", turned_k);
    outputs.done();
}

/// Angles that the input of the layer decides.
fn selective_rope(case: &Case) {
    let (q, k, x) = (case.input("q"), case.input("k"), case.input("x"));
    let [heads, queries, head_dim] = q.shape[..] else { panic!("q {:?}", q.shape) };
    let dimensions = dimensions(heads, head_dim, x.shape[1]);
    let config = config("selective_rope", &case.config, &["temp_max", "layout"]);
    let config = with_key(config, "fastest", case.f64("temp_max"));
    let config = with_key(config, "rank", case.params()["w_down"].shape[1] as i64);
    let encoding = encoding(&config, &dimensions, case.params());
    let input = x.burn::<2>().unsqueeze::<3>();
    let mut outputs = case.outputs();
    if let Some(encoding) = encoding.get::<longwave_position::encodings::selective_rope::SelectiveRope>() {
        outputs.compare("angles", encoding.angles(&input, 0).squeeze_dim::<3>(0));
    }
    let length = k.shape[1];
    let tokens = BurnTensor::<2, Int>::zeros([1, length], &Device::flex());
    let rows = |first: usize, positions| Rows {
        input: Some(LayerInput { all: &input, first }),
        ..Rows::new(0, &tokens, positions)
    };
    let of = |tensor: &Tensor| tensor.burn::<3>().unsqueeze::<4>();
    let [query_positions, key_positions] =
        ["q_positions", "k_positions"].map(|name| positions(&case.input(name)));
    let rows = [rows(length - queries, &query_positions), rows(0, &key_positions)];
    let [turned_q, turned_k] = encoding.map_heads([of(&q), of(&k)], rows);
    outputs.compare("q", turned_q.squeeze_dim::<3>(0));
    outputs.compare("k", turned_k.squeeze_dim::<3>(0));
    outputs.done();
}

fn turned(encoding: &Encoding, qk: [&Tensor; 2], [of_q, of_k]: [&Positions; 2]) -> [BurnTensor<3>; 2] {
    let device = Device::flex();
    let [mut q, mut k] = qk.map(|x| x.burn::<3>().unsqueeze::<4>());
    if let Some(rotation) = encoding.rotation(0) {
        q = rotate(q, &rotation.table(of_q, Side::Query, &device));
        k = rotate(k, &rotation.table(of_k, Side::Key, &device));
    }
    let tokens = BurnTensor::<2, Int>::zeros([1, of_k.length()], &device);
    let mapped = encoding.map_heads([q, k], [of_q, of_k].map(|positions| Rows::new(0, &tokens, positions)));
    mapped.map(|x| x.squeeze_dim::<3>(0))
}
