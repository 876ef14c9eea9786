//! Kind `logits`, for encodings that add to scores or change them: `shaw`, `cope` and their like.

use crate::bias;
use crate::build::{Text, config, dimensions, encoding, positions_of_both, reading_of};
use crate::file::{Case, Seen, Tensor, assert_close, numbers};
use burn::tensor::{Device, Tensor as BurnTensor, TensorData};
use longwave_position::Reading;

/// The rows of a case; queries may be rows that follow the keys.
fn text(case: &Case, width: usize) -> Text {
    let queries = case.input("q_positions");
    let positions = positions_of_both(&queries, &case.input("k_positions"));
    if case.has_input("x") {
        return Text::new(positions, queries.data.len(), case.input("x").burn::<2>().unsqueeze::<3>());
    }
    Text::without_input(positions, queries.data.len(), width)
}

/// `[heads, keys, dim]` with zeros for rows that are no keys: `[1, heads, rows, dim]`.
fn padded(x: &Tensor, rows: usize) -> BurnTensor<4> {
    let [heads, keys, dim] = x.shape[..] else { panic!("{:?}", x.shape) };
    if keys == rows {
        return x.burn::<3>().unsqueeze();
    }
    let none = BurnTensor::zeros([heads, rows - keys, dim], &Device::flex());
    BurnTensor::cat(vec![x.burn::<3>(), none], 1).unsqueeze()
}

/// Checks one case of a file; the file's name is the encoding's kind.
pub fn check(name: &str, case: &Case) {
    let [heads, _, dim] = case.input("q").shape[..] else { panic!("q") };
    let width = match case.config.get("width") {
        Some(_) => case.usize("width"),
        None if ["path", "wall"].contains(&name) => case.input("x").shape[1],
        None => heads * dim,
    };
    let dimensions = dimensions(heads, dim, width);
    let encoding = encoding(&config(name, &case.config, &["width", "strong"]), &dimensions, case.params());
    let text = text(case, width);
    encoding.check(&text.positions).unwrap_or_else(|error| panic!("{error}"));
    let reading = reading_of(encoding.clone(), &dimensions);
    let seen = Seen::of(case, heads);
    let mut outputs = case.outputs();

    let rows = text.positions.length();
    let keys = case.input("k").shape[1];
    let found = seen.shares(&numbers(probabilities(&text, case, &reading)), rows, |p, _| p);
    let logits = outputs.take("logits");
    assert_eq!(logits.shape, [heads, text.queries.len(), keys]);
    assert_close("probabilities", &found, &seen.softmax(&logits.data));

    if keys == rows {
        let v = case.input("v").burn::<3>().unsqueeze();
        outputs.compare("out", run(&text, case, &reading, v));
    } else {
        let count = text.queries.len();
        let found: Vec<f32> = found.iter().map(|&p| p as f32).collect();
        let found = BurnTensor::<3>::from_data(TensorData::new(found, [heads, count, keys]), &Device::flex());
        outputs.compare("out", found.matmul(case.input("v").burn::<3>()));
    }
    if outputs.has("forget_bias") {
        let bias = numbers(text.with_block(|block| bias::of_block(&encoding, block)));
        assert_close("forget_bias", &seen.keep(bias), &seen.keep(outputs.take("forget_bias").data));
    }
    if let Some(path) = encoding.get::<longwave_position::encodings::path::Path>() {
        outputs.compare("beta", path.strengths(&text.input, 0).squeeze_dim::<3>(3).squeeze_dim::<2>(0));
    }
    if let Some(wall) = encoding.get::<longwave_position::encodings::wall::Wall>() {
        outputs.compare("log_gates", wall.channel_gates(&text.input, 0).squeeze_dim::<3>(0));
        if let Some(gates) = wall.scalar_gates(&text.input, 0) {
            outputs.compare("scalar_gates", gates.squeeze_dim::<2>(0));
        }
    }
    if let Some(cope) = encoding.get::<longwave_position::encodings::cope::Cope>() {
        let scale = 1.0 / (dim as f64).sqrt();
        let (q, k) = (case.input("q").burn::<3>(), case.input("k").burn::<3>());
        let scores = q.matmul(k.swap_dims(1, 2)).mul_scalar(scale).unsqueeze::<4>();
        let counted = text.with_block(|block| cope.contextual_positions(&scores, scale, block));
        outputs.compare("contextual_positions", counted.squeeze_dim::<3>(0));
    }
    outputs.done();
}

/// The probabilities `[heads, queries, rows]`: the outputs for values that are columns of the identity, less
/// what the encoding adds to any output (Shaw), as many columns at a time as a value has channels.
fn probabilities(text: &Text, case: &Case, reading: &Reading) -> BurnTensor<3> {
    let [heads, _, dim] = case.input("q").shape[..] else { panic!("q") };
    let (rows, device) = (text.positions.length(), Device::flex());
    let padded = rows.next_multiple_of(dim);
    let identity = BurnTensor::<2>::eye(padded, &device).slice_dim(0, 0..rows).unsqueeze::<4>();
    let nothing = run(text, case, reading, BurnTensor::zeros([1, heads, rows, dim], &device));
    let columns = (0..padded).step_by(dim).map(|first| {
        let v = identity.clone().slice_dim(3, first..first + dim).expand([1, heads, rows, dim]);
        run(text, case, reading, v) - nothing.clone()
    });
    BurnTensor::cat(columns.collect(), 2).slice_dim(2, 0..rows)
}

/// The attention of the case's queries, with other values `[1, heads, rows, dim]`.
fn run(text: &Text, case: &Case, reading: &Reading, v: BurnTensor<4>) -> BurnTensor<3> {
    let (q, k) = (case.input("q"), case.input("k"));
    let scale = 1.0 / (q.shape[2] as f64).sqrt();
    let k = padded(&k, text.positions.length());
    text.attended([q.burn::<3>().unsqueeze(), k, v], scale, reading)
}
