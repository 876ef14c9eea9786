//! Kind `logits`: scores before the softmax, every scale included, and the attention output.

use crate::build::{Text, dimensions, identity, positions, reading, with_params};
use crate::file::{Case, Outputs, Seen, Tensor, assert_close};
use burn::tensor::{Device, Tensor as BurnTensor};
use longwave_model::ModelConfig;
use longwave_model::attention::Attention;
use longwave_model::complex_weights::WeightKind;
use longwave_model::config::QkNorm;
use longwave_position::reading::{AttentionKind, EntmaxKeys, LogN};
use longwave_position::{Init, Positions, Reading};
use std::collections::BTreeMap;

/// Checks one case of a file.
pub fn check(name: &str, case: &Case) {
    match name {
        "ssmax" | "bam_ssmax" => return scalable_softmax(name, case),
        "asentmax" => return adaptive_entmax(case),
        "log_n" | "qk_norm" | "key_norm" => {}
        _ => return crate::encoded::check(name, case),
    }
    let [heads, queries, dim] = case.input("q").shape[..] else { panic!("q") };
    let length = case.input("k").shape[1];
    let mut outputs = case.outputs();
    let mut log_n = LogN::Off;
    let mut model = ModelConfig::default();
    match name {
        "log_n" => {
            let train_length = case.usize("train_length");
            log_n = match case.text("variant") {
                "trained" => LogN::Trained { train_length },
                _ => LogN::PostHoc { train_length },
            };
            let factors: Vec<f64> =
                positions(&case.input("q_positions")).keys_seen().map(|keys| log_n.factor(keys)).collect();
            outputs.compare_f64("factors", &factors);
        }
        "qk_norm" => {
            model.qk_norm = QkNorm::Rms;
            model.qk_norm_eps = case.f64("eps");
        }
        _ => model.qk_norm = if case.text("normalise") == "k" { QkNorm::Key } else { QkNorm::Cosine },
    }
    let attention = attention(&model, heads, dim, case);
    let rows = |name: &str, length: usize| padded(&case.input(name), length);
    let packed = BurnTensor::cat(vec![rows("q", length), rows("k", length), rows("v", length)], 2);
    let (q, k, v) = attention.unrotated(packed);
    let q = q.slice_dim(2, length - queries..length);
    let none = toml::Value::String("none".to_owned());
    let reading = reading(&none, &dimensions(heads, dim, heads * dim), log_n);
    compare([q, k, v], attention.scale(), case, &reading, outputs);
}

/// Log-n scaling with learned factors, by itself or with the bias of `bam`.
fn scalable_softmax(name: &str, case: &Case) {
    let [heads, queries, dim] = case.input("q").shape[..] else { panic!("q") };
    let bias = case.config["bias"] == true;
    let kind = if name == "bam_ssmax" { "bam" } else { "none" };
    let sizes = dimensions(heads, dim, heads * dim);
    let log_n = LogN::Learned { row: 0, bias, scale_bias: case.config["scales_prior"] == true };
    let mut reading =
        with_params(reading(&toml::Value::String(kind.to_owned()), &sizes, log_n), case.params());
    reading.layers_mut()[0].mask.window = case.config["window"].as_u64().map(|window| window as usize);
    let mut outputs = case.outputs();
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input(name).burn::<3>().unsqueeze::<4>());
    if outputs.has("factors") {
        let text = Text::without_input(text_positions(case), queries, heads * dim);
        let factors = text.with_block(|block| reading.learned_query_scale(block).unwrap());
        outputs.compare("factors", factors.squeeze_dim::<2>(0));
    }
    compare([q, k, v], 1.0 / (dim as f64).sqrt(), case, &reading, outputs);
}

/// Entmax whose scale is adaptive, in the heads after those that a bias is for.
fn adaptive_entmax(case: &Case) {
    let [heads, queries, dim] = case.input("q").shape[..] else { panic!("q") };
    assert_eq!((case.f64("delta"), case.f64("gamma_range")), (1.0, 2.0), "as published");
    let (biased, alpha) = (case.usize("alibi_heads"), case.f64("alpha"));
    let slopes = (0..biased).map(|head| match case.text("slopes") {
        "linear" => 1.0 / (head + 1) as f64,
        _ => (-(head as f64)).exp2(),
    });
    let slopes: Vec<f64> = slopes.collect();
    let mut outputs = case.outputs();
    let all = slopes.iter().copied().chain(std::iter::repeat(0.0)).take(heads);
    outputs.compare_f64("slopes", &all.collect::<Vec<_>>());

    let input = case.input("x").burn::<2>().unsqueeze::<3>();
    let width = input.dims()[2];
    let text = Text::new(positions(&case.input("k_positions")), queries, input);
    let from_input = case.text("scale") == "adaptive";
    let log_n = LogN::Adaptive { row: 0, from_input, bias: case.config["proj_bias"] == true };
    let (of_bias, slopes) = (biased as i64, case.text("slopes"));
    let alibi = toml::toml! { kind = "alibi" heads = of_bias slopes = slopes };
    let encoding: toml::Value = if biased > 0 { alibi.into() } else { "none".into() };
    let reading = with_params(reading(&encoding, &dimensions(heads, dim, width), log_n), case.params());
    // The heads with a slope have the factor 1.
    let factors = text.with_block(|block| reading.learned_query_scale(block).unwrap()).squeeze_dim::<2>(0);
    outputs.compare("factors", factors.clone().slice_dim(0, biased..heads));
    assert!(biased == 0 || (factors.slice_dim(0, 0..biased) - 1.0).abs().max().into_scalar::<f32>() == 0.0);
    let [q, k, v] = ["q", "k", "v"].map(|name| case.input(name).burn::<3>().unsqueeze::<4>());
    let identity = identity(heads, text.positions.length());
    let attended = |v: &BurnTensor<4>, alpha: f64| {
        let kind = AttentionKind::Entmax(EntmaxKeys { alpha });
        let reading = reading.clone().with_attention(kind).unwrap();
        text.attended([&q, &k, v].map(Clone::clone), 1.0 / (dim as f64).sqrt(), &reading)
    };
    outputs.compare("out", attended(&v, alpha));
    outputs.compare("probs", attended(&identity, alpha));
    same_probabilities(&outputs.take("logits"), attended(&identity, 1.0), case);
    outputs.done();
}

/// Compares output and probabilities.
fn compare([q, k, v]: [BurnTensor<4>; 3], scale: f64, case: &Case, reading: &Reading, mut outputs: Outputs) {
    let (heads, length) = (q.dims()[1], k.dims()[2]);
    let attended = |v| run([q.clone(), k.clone(), v], scale, case, reading);
    outputs.compare("out", attended(v));
    same_probabilities(&outputs.take("logits"), attended(identity(heads, length)), case);
    outputs.done();
}

/// Positions of all rows. Of learned scaling, those with gaps were drawn: they do not count the keys.
fn text_positions(case: &Case) -> Positions {
    let listed = positions(&case.input("k_positions"));
    if listed.consecutive() || !case.params().contains_key("s") {
        return listed;
    }
    Positions::drawn(1, listed.values().to_vec())
}

/// The model's attention with the parameters of a case.
fn attention(model: &ModelConfig, heads: usize, dim: usize, case: &Case) -> Attention {
    let model = ModelConfig { heads: Some(heads), width: Some(heads * dim), ..model.clone() };
    let fresh = Attention::new(
        &model.resolve(16, 2).unwrap(),
        WeightKind::Real,
        "test",
        &Init::new(0, &Device::flex()),
    );
    let names = [("gain_q", "query_gain"), ("gain_k", "key_gain"), ("scale", "logit_scale")];
    let params: BTreeMap<String, Tensor> = names
        .iter()
        .filter_map(|(theirs, ours)| Some(((*ours).to_owned(), case.params().get(*theirs)?.clone())))
        .collect();
    assert_eq!(params.len(), case.params().len());
    with_params(fresh, &params)
}

/// `[heads, rows, dim]` -> `[1, length, heads dim]`, rows at the end and zeros before them.
pub(crate) fn padded(tensor: &Tensor, length: usize) -> BurnTensor<3> {
    let x = tensor.burn::<3>();
    let [heads, rows, dim] = x.dims();
    let before = BurnTensor::zeros([heads, length - rows, dim], &x.device());
    let x = if rows == length { x } else { BurnTensor::cat(vec![before, x], 1) };
    x.swap_dims(0, 1).reshape([1, length, heads * dim])
}

fn run(qkv: [BurnTensor<4>; 3], scale: f64, case: &Case, reading: &Reading) -> BurnTensor<3> {
    let [_, heads, queries, dim] = qkv[0].dims();
    let text = Text::without_input(text_positions(case), queries, heads * dim);
    let of_queries = text.positions.columns(text.queries.clone());
    assert_eq!(of_queries.values(), case.input("q_positions").data);
    text.attended(qkv, scale, reading)
}

/// The softmax of the expected logits over the visible keys must be the probabilities found: a softmax
/// hides nothing but a constant per row.
fn same_probabilities(logits: &Tensor, found: BurnTensor<3>, case: &Case) {
    // Attention hides by place, the softmax by position.
    assert!(case.input("k_positions").data.is_sorted_by(|one, next| one < next));
    let expected = Seen::of(case, logits.shape[0]).softmax(&logits.data);
    assert_close("probabilities", &crate::file::numbers(found), &expected);
}
