//! Kind `attention`: probabilities and output of a reading, end to end.

mod gate;
mod layers;
mod weights;

use crate::build::{
    Text, applied, bias_config, config, dimensions, encoding, identity, positions, reading, reading_of, rope,
    rope_or_none, with_key, with_params,
};
use crate::file::{Case, assert_close, numbers};
use burn::tensor::Tensor;
use longwave_model::attention::{Rotations, attend};
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, Lengths, Reading};
use std::ops::Range;
use toml::{Table, Value};

/// Keys of a case that are the model's or the test's, not the extension's.
const NOT_THE_EXTENSIONS: [&str; 11] = [
    "d",
    "L",
    "base",
    "layout",
    "log_n",
    "logit_scale",
    "method",
    "block",
    "extend",
    "length",
    "base_multiplier",
];

/// Checks one case of a file.
pub fn check(name: &str, case: &Case) {
    match name {
        "attention_gate" => return gate::check(case),
        "stick_breaking" | "entmax" | "lssar" => return weights::check(name, case),
        _ => {}
    }
    let kind = match name {
        "query_chunks" => case.text("method"),
        "attention_linear" | "attention_yarn" => case.text("extend"),
        name => name,
    };
    let reading = match name {
        "layers_selector" => layers::extended(case),
        "hard_alibi" => without_rotation(name, case),
        "head_scale" => scaled_heads(case),
        name if name.ends_with("_interpolated") => interpolated(name, case),
        _ => extended(kind, case),
    };
    let mut outputs = case.outputs();
    let inputs = Inputs::new(case);
    let whole = inputs.attended(&reading, inputs.value.clone());
    if name == "query_chunks" {
        let expected = numbers(whole.clone());
        let block = case.usize("block");
        let found = inputs.in_blocks(&reading, block);
        assert_close("in blocks", &numbers(found), &expected);
    }
    outputs.compare("output", whole);
    if outputs.has("probs") {
        outputs.compare("probs", inputs.attended(&reading, inputs.identity()));
    }
    outputs.done();
}

/// A model whose heads have factors: as temperatures of heads, and as a stage would have trained them.
fn scaled_heads(case: &Case) -> Reading {
    let [heads, _, _] = case.input("q").shape[..] else { panic!("q") };
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let mut keys = toml::toml! { kind = "direct" };
    if case.text("log_n") == "posthoc" {
        keys.insert("log_n".to_owned(), Value::Boolean(true));
    }
    let sizes = Dimensions { train_length: train, ..dimensions(heads, dim, heads * dim) };
    let model = reading(&rope_or_none(case), &sizes, LogN::Off);
    let lengths = Lengths { train, length: case.input("k").shape[1].max(train) };
    let scale = case.f64("logit_scale");
    // As trained factors, with the case's own scale as a temperature.
    let mut shared = keys.clone();
    shared.insert("temperature".to_owned(), Value::Float(1.0 / scale));
    let trained = with_params(model.clone().with_head_scale(1.0).unwrap(), case.params());
    let trained = applied(shared, &trained, lengths).unwrap();
    // As temperatures.
    let row = case.params()["scale"].data.iter().map(|factor| Value::Float(1.0 / (factor * scale)));
    keys.insert("temperature".to_owned(), Value::Array(vec![Value::Array(row.collect())]));
    let divided = applied(keys, &model, lengths).unwrap();
    let inputs = Inputs::new(case);
    let [a, b] = [&trained, &divided].map(|reading| numbers(inputs.attended(reading, inputs.value.clone())));
    assert_close("temperatures of heads", &b, &a);
    trained
}

/// The rotary model of a case, read as `kind` says, with its log-n and logit scale.
fn extended(kind: &str, case: &Case) -> Reading {
    let [heads, _, _] = case.input("q").shape[..] else { panic!("q") };
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let Value::Table(mut keys) = config(kind, &case.config, &NOT_THE_EXTENSIONS) else { unreachable!() };
    let mut base = case.f64("base");
    if kind == "inverse_leaky_rerope" {
        base *= case.f64("base_multiplier");
        keys = inverse_leaky(case);
    }
    if matches!(kind, "rerope" | "leaky_rerope" | "string" | "self_extend" | "dual_chunk" | "lambda_mask")
        || keys.get("reindex") == Some(&Value::Boolean(true))
    {
        // A file states formulas, also where they read distances past L.
        keys.insert("allow_untrained".to_owned(), Value::Boolean(true));
    }
    if matches!(kind, "rope_direct" | "log_n_rope" | "attention_temperature" | "sink_logit") {
        keys = toml::toml! { kind = "direct" };
    }
    // What is trained in belongs to the model, what is added later to the extension.
    let log_n = match case.text("log_n") {
        "none" => LogN::Off,
        "trained" => LogN::Trained { train_length: train },
        "posthoc" => {
            keys.insert("log_n".to_owned(), Value::Boolean(true));
            LogN::Off
        }
        other => panic!("log_n `{other}`"),
    };
    let (rope, sizes) = (rope(case, base), dimensions(heads, dim, heads * dim));
    let mut model =
        if kind == "sink_logit" { with_sink(case, rope, &sizes) } else { reading(&rope, &sizes, log_n) };
    if kind == "yarn" {
        // Its `temperature` takes the place of its formula.
        model.layers_mut()[0].logit_scale = case.f64("logit_scale");
    } else {
        keys.insert("temperature".to_owned(), Value::Float(1.0 / case.f64("logit_scale")));
    }
    let tokens = case.input("k").shape[1];
    let length = case.config.get("length").map_or(tokens, |_| case.usize("length"));
    applied(keys, &model, Lengths { train, length }).unwrap()
}

/// The rotary model of a case with a sink beside its keys.
fn with_sink(case: &Case, rope: Value, sizes: &Dimensions) -> Reading {
    let list = Value::Array(vec![rope, "sink_logit".into()]);
    let mut model = with_params(reading(&list, sizes, LogN::Off), case.params());
    model.layers_mut()[0].mask.window = case.config["window"].as_u64().map(|window| window as usize);
    let rope = &mut model.encodings_mut()[0];
    let mut frequencies = rope.frequencies().unwrap().clone();
    frequencies.attention_factor = case.f64("attention_factor");
    rope.set_frequencies(frequencies);
    model
}

/// An encoding that stands alone.
fn without_rotation(kind: &str, case: &Case) -> Reading {
    let (heads, dim) = (case.usize("heads"), case.usize("d"));
    let dimensions = dimensions(heads, dim, heads * dim);
    let config = config(kind, &case.config, &["heads", "d", "L"]);
    reading_of(encoding(&config, &dimensions, case.params()), &dimensions)
}

/// A bias whose distances are divided by the scale of the case.
fn interpolated(name: &str, case: &Case) -> Reading {
    let (heads, dim) = (case.usize("heads"), case.usize("d"));
    let dimensions = dimensions(heads, dim, heads * dim);
    let mut config = bias_config(name, &case.config, &["heads", "d", "L", "scale"]);
    if case.params().contains_key("slopes") {
        config = with_key(config, "learned_slopes", true);
    }
    let mut encoding = encoding(&config, &dimensions, case.params());
    assert!(encoding.interpolate(case.f64("scale")));
    reading_of(encoding, &dimensions)
}

/// Inverse Leaky `ReRoPE` trains with a `k` below 1 and reads with plain `RoPE`.
fn inverse_leaky(case: &Case) -> Table {
    if case.text("mode") == "infer" {
        return toml::toml! { kind = "direct" };
    }
    let (window, k) = (case.usize("window") as i64, 1.0 / (2.0 * case.f64("scale")));
    toml::toml! { kind = "leaky_rerope" window = window k = k }
}

/// q, k and v of a case; the queries are the last rows of the keys.
struct Inputs {
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    text: Text,
    heads: usize,
    length: usize,
    layer: usize,
}

impl Inputs {
    fn new(case: &Case) -> Self {
        let [query, key, value] = ["q", "k", "v"].map(|name| case.input(name).burn::<3>().unsqueeze::<4>());
        let [_, heads, count, dim] = query.dims();
        let length = key.dims()[2];
        let text = Text::without_input(positions(&case.input("k_positions")), count, heads * dim);
        let of_queries = text.positions.columns(text.queries.clone());
        assert_eq!(of_queries.values(), case.input("q_positions").data);
        let layer = case.config.get("layer").map_or(0, |_| case.usize("layer"));
        Self { query, key, value, text, heads, length, layer }
    }

    /// Values that give the probabilities themselves.
    fn identity(&self) -> Tensor<4> {
        identity(self.heads, self.length)
    }

    /// `[heads, queries, value_dim]`, all queries at once.
    fn attended(&self, reading: &Reading, value: Tensor<4>) -> Tensor<3> {
        self.rows(reading, value, self.text.queries.clone()).squeeze_dim::<3>(0)
    }

    /// The same, `block` queries at a time.
    fn in_blocks(&self, reading: &Reading, block: usize) -> Tensor<3> {
        let blocks = self.text.queries.clone().step_by(block).map(|first| {
            let rows = first..(first + block).min(self.text.queries.end);
            self.rows(reading, self.value.clone(), rows)
        });
        Tensor::cat(blocks.collect(), 2).squeeze_dim::<3>(0)
    }

    fn rows(&self, reading: &Reading, value: Tensor<4>, queries: Range<usize>) -> Tensor<4> {
        let first = self.text.queries.start;
        let query = self.query.clone().slice_dim(2, queries.start - first..queries.end - first);
        let scale = 1.0 / (self.query.dims()[3] as f64).sqrt();
        let qkv = [query, self.key.clone(), value];
        self.text.with_rows(self.layer, &queries, |block| {
            attend(qkv, scale, block, reading, &mut Rotations::default())
        })
    }
}
