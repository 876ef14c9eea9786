//! Kind `bias`: what is added to the logits.

use crate::build::{bias_config, config, dimensions, encoding, positions, with_key};
use crate::file::{Case, Tensor, assert_close, numbers};
use burn::tensor::{Device, Int, Tensor as BurnTensor};
use longwave_kernels::Attention;
use longwave_position::encoding::{Heads, QueryBlock, Rows};
use longwave_position::encodings::t5::Buckets;
use longwave_position::{Encoding, Positions};

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
    let visible: Vec<bool> = (0..heads).flat_map(|_| pairs(&queries, &keys)).map(|(i, j)| i >= j).collect();
    let keep = |values: Vec<f64>| -> Vec<f64> {
        assert_eq!(values.len(), visible.len());
        values.into_iter().zip(&visible).filter_map(|(value, &visible)| visible.then_some(value)).collect()
    };
    let found =
        if name == "grape_a" { of_q_and_k(&encoding, case) } else { found(&encoding, &queries, &keys) };
    if outputs.has("probs") {
        let masked =
            found.iter().zip(&visible).map(|(&bias, &seen)| if seen { bias } else { f64::NEG_INFINITY });
        let masked: Vec<f64> = masked.collect();
        let probabilities = masked.chunks(keys.data.len()).flat_map(|row| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = row.iter().map(|bias| (bias - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(move |weight| weight / sum)
        });
        assert_close("probs", &probabilities.collect::<Vec<_>>(), &outputs.take("probs").data);
    }
    assert_close("bias", &keep(found), &keep(outputs.take("bias").data));
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
    let device = Device::flex();
    let (tokens, input) =
        (BurnTensor::<2, Int>::zeros([1, keys], &device), BurnTensor::zeros([1, keys, 4], &device));
    let block =
        QueryBlock { rows: Rows::new(0, &tokens, &at), queries: &(keys - count..keys), input: &input };
    let scores = BurnTensor::zeros([1, heads, count, keys], &device);
    numbers(encoding.scores(scores, Heads { q: &q, k: &k, scale: 1.0 }, block))
}

/// Every query with every key.
pub fn pairs<'a>(queries: &'a Tensor, keys: &'a Tensor) -> impl Iterator<Item = (f64, f64)> + 'a {
    queries.data.iter().flat_map(|&i| keys.data.iter().map(move |&j| (i, j)))
}

/// The bias `[heads, queries, keys]`.
pub fn found(encoding: &Encoding, queries: &Tensor, keys: &Tensor) -> Vec<f64> {
    let (count, length) = (queries.data.len(), keys.data.len());
    // Queries are rows of the keys' text, or else rows that follow it.
    let at = if keys.data.ends_with(&queries.data) {
        positions(keys)
    } else {
        Positions::explicit(1, [keys.data.as_slice(), queries.data.as_slice()].concat())
    };
    let rows = at.length();
    let device = Device::flex();
    let tokens = BurnTensor::<2, Int>::zeros([1, rows], &device);
    let input = BurnTensor::zeros([1, rows, 4], &device);
    let queries = rows - count..rows;
    let block = QueryBlock { rows: Rows::new(0, &tokens, &at), queries: &queries, input: &input };
    let options =
        Attention { bias: encoding.bias(block), query_offset: rows - count, ..Attention::causal(4) };
    let bias = options.bias_block(count, rows, &device).expect("a bias");
    numbers(bias.slice_dim(3, 0..length))
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
