//! Kind `bias`: what is added to the logits.

use crate::build::{Text, bias_config, config, dimensions, encoding, positions, positions_of_both, with_key};
use crate::file::{Case, Seen, Tensor, assert_close, numbers};
use burn::tensor::{Device, Tensor as BurnTensor};
use longwave_kernels::Attention;
use longwave_position::Encoding;
use longwave_position::encoding::{Heads, QueryBlock};
use longwave_position::encodings::t5::Buckets;

/// Checks one case of a file; `kerple_log` is the variant `log` of `kerple`.
pub fn check(name: &str, case: &Case) {
    if name == "t5_table" {
        return buckets_of_distances(case);
    }
    let heads = case.usize("heads");
    let dim = if name == "grape_a" { case.usize("d") } else { 4 };
    let encoding = encoding(&config_of(name, case), &dimensions(heads, dim, dim * heads), case.params());
    let (queries, keys) = (case.input("q_positions"), case.input("k_positions"));
    let mut outputs = case.outputs();
    if let Some(alibi) = encoding.get::<longwave_position::encodings::alibi::Alibi>() {
        outputs.compare("slopes", alibi.of_layer(0, &Device::flex()));
    }
    if outputs.has("buckets") {
        let buckets = pairs(&queries, &keys).map(|(i, j)| if i < j { 0 } else { buckets(case).of(i - j) });
        outputs.compare_f64("buckets", &buckets.map(|bucket| bucket as f64).collect::<Vec<_>>());
    }
    let seen = Seen::of(case, heads);
    let found =
        if name == "grape_a" { of_q_and_k(&encoding, case) } else { found(&encoding, &queries, &keys) };
    if outputs.has("probs") {
        assert_close("probs", &seen.softmax(&found), &outputs.take("probs").data);
    }
    assert_close("bias", &seen.keep(found), &seen.keep(outputs.take("bias").data));
    outputs.done();
}

/// The config of a case; the file `nape` is `alibi` for a part of the heads.
fn config_of(name: &str, case: &Case) -> toml::Value {
    match name {
        "nape" => {
            let config = config("alibi", &case.config, &["heads", "alibi_heads"]);
            let heads = case.config.get("alibi_heads").and_then(serde_json::Value::as_i64);
            let heads = heads.map_or_else(|| toml::Value::from("H/2"), toml::Value::from);
            let slopes = config.get("slopes").cloned().unwrap_or_else(|| "linear".into());
            with_key(with_key(config, "heads", heads), "slopes", slopes)
        }
        "bam" => {
            with_key(config(name, &case.config, &["heads"]), "learned_mu", case.params().contains_key("mu"))
        }
        "grape_a" => config(name, &case.config, &["heads", "d"]),
        _ => bias_config(name, &case.config, &["heads"]),
    }
}

/// What an encoding adds to scores of 0, from q and k, `[heads, queries, keys]`.
fn of_q_and_k(encoding: &Encoding, case: &Case) -> Vec<f64> {
    let [q, k] = ["q", "k"].map(|name| case.input(name).burn::<3>().unsqueeze::<4>());
    let ([_, heads, count, _], keys) = (q.dims(), k.dims()[2]);
    let at = positions(&case.input("k_positions"));
    assert!(at.values().ends_with(&case.input("q_positions").data));
    let scores = BurnTensor::zeros([1, heads, count, keys], &Device::flex());
    let text = Text::without_input(at, count, 4);
    let heads = Heads { q: &q, k: &k, scale: 1.0 };
    numbers(text.with_block(|block| encoding.scores(scores, heads, block)))
}

/// Every query with every key.
fn pairs<'a>(queries: &'a Tensor, keys: &'a Tensor) -> impl Iterator<Item = (f64, f64)> + 'a {
    queries.data.iter().flat_map(|&i| keys.data.iter().map(move |&j| (i, j)))
}

/// The bias `[heads, queries, keys]`.
pub fn found(encoding: &Encoding, queries: &Tensor, keys: &Tensor) -> Vec<f64> {
    let text = Text::without_input(positions_of_both(queries, keys), queries.data.len(), 4);
    let bias = text.with_block(|block| of_block(encoding, block));
    numbers(bias.slice_dim(3, 0..keys.data.len()))
}

/// The bias of a block, `[1, heads, queries, keys]`.
pub fn of_block(encoding: &Encoding, block: QueryBlock<'_>) -> BurnTensor<4> {
    let (queries, keys) = (block.queries.len(), block.rows.positions.length());
    let bias = encoding.bias(block);
    let options = Attention { bias, query_offset: block.queries.start, ..Attention::causal(1) };
    options.bias_block(queries, keys, &Device::flex()).expect("a bias")
}

fn buckets(case: &Case) -> Buckets {
    Buckets { buckets: case.usize("buckets"), max_distance: case.usize("max_distance") }
}

fn buckets_of_distances(case: &Case) {
    let mut outputs = case.outputs();
    let found: Vec<f64> = case.input("distances").data.iter().map(|&n| buckets(case).of(n) as f64).collect();
    outputs.compare_f64("buckets", &found);
    outputs.done();
}
