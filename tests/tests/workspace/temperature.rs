//! `temperature` divides the logits: the scaled q.k and all that an encoding adds to it, whatever the encoding, the
//! extension and the path. The lists of encodings and extensions are walked, so the next one is tested too.

use crate::common::models::{self, largest};
use crate::common::training::{LENGTH, every};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor};
use longwave_model::Gpt;
use longwave_model::attention::{Rotations, attend};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::layout::TextLayout;
use longwave_position::{ExtensionConfig, Init, Lengths, Positions, Reading};
use std::ops::Range;

/// Twice L: extensions have something to do.
const LONGER: usize = 2 * LENGTH;
const HEADS: usize = 2;
const DIM: usize = 8;
const WIDTH: usize = HEADS * DIM;
const TEMPERATURES: [f64; 2] = [0.5, 2.5];

/// Every encoding alone, and lists in which several add to the logits.
fn encodings() -> Vec<String> {
    let lists = [
        "['alibi', 'rope']",
        "['alibi', 'kerple']",
        "['fox', 't5', 'rope']",
        "['alibi', 'cope']",
        "['dape', { kind = 'rope', fraction = 0.5 }]",
        "['sinusoidal', 'fire']",
    ];
    let inline = |text: String| format!("{{ {} }}", text.replace('\n', ", "));
    every().into_iter().map(inline).chain(lists.map(str::to_owned)).collect()
}

/// A model with noise on every parameter: some begin at 0, and would add nothing to the logits.
fn model(position: &str) -> Gpt {
    let keys = format!("layers = 2\nwidth = {WIDTH}\nheads = {HEADS}");
    models::noisy(models::gpt(&keys, &models::position(position), [12, LENGTH], 7, &Device::flex()), 5, 0.3)
}

/// Every example of every extension that has no temperature yet, and applies to the model.
fn extensions(model: &Gpt, lengths: Lengths) -> Vec<toml::Table> {
    let examples = models::extensions(model, lengths).into_iter();
    let keys = examples.map(|(extension, _)| toml::Table::try_from(extension).unwrap());
    // Where `yarn` has a factor in place of its formula, a temperature has no place.
    let own = ["temperature", "mscale_all_dim"];
    let has_factor =
        |keys: &toml::Table| keys["kind"].as_str() == Some("yarn") && keys.contains_key("attention_factor");
    // What this law makes of logits depends on how large they are.
    let by_entropy =
        |keys: &toml::Table| keys.get("temperature_law").and_then(toml::Value::as_str) == Some("entropy");
    let divides = |keys: &toml::Table| {
        !own.iter().any(|key| keys.contains_key(*key)) && !has_factor(keys) && !by_entropy(keys)
    };
    keys.filter(divides).collect()
}

/// A model as an extension of these keys reads it at a temperature, where that is defined.
fn read(model: &Gpt, keys: &toml::Table, temperature: f64, lengths: Lengths) -> Option<Reading> {
    let mut keys = keys.clone();
    keys.insert("temperature".to_owned(), temperature.into());
    let config = ExtensionConfig::from_value(&toml::Value::Table(keys), "extend").unwrap();
    let reading = config.apply(&model.position, lengths).ok()?;
    // Segments are rows of their own: attention never meets a border.
    let whole = !matches!(reading.layout(), TextLayout::Segments { .. });
    (whole && reading.check(&reading.layout().positions(lengths.length)).is_ok()).then_some(reading)
}

/// The probabilities `[1, heads, queries, keys]` of random queries and keys in a layer: what is paid to values that
/// are the columns of the identity, less what an encoding adds to an output of zeros.
fn probabilities(reading: &Reading, layer: usize, positions: &Positions, queries: Range<usize>) -> Tensor<4> {
    let device = Device::flex();
    let init = Init::new(1, &device);
    let length = positions.length();
    let tokens = Tensor::<2, Int>::zeros([1, length], &device);
    let input = init.normal::<3>("input", [1, length, WIDTH], 1.0).val();
    let key_matrix = init.normal::<2>("key matrix", [WIDTH, HEADS * DIM], 0.2).val();
    let [q, k] = ["q", "k"].map(|name| init.normal::<4>(name, [1, HEADS, length, DIM], 1.0).val());
    let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(layer, &tokens, positions) };
    let block = QueryBlock { rows, queries: &queries, input: &input };
    let of = |v: Tensor<4>| {
        let q = q.clone().slice_dim(2, queries.clone());
        attend([q, k.clone(), v], 0.35, block, reading, &mut Rotations::default())
    };
    let nothing = of(Tensor::zeros([1, HEADS, length, DIM], &device));
    let padded = length.next_multiple_of(DIM);
    let identity = Tensor::<2>::eye(padded, &device).slice_dim(0, 0..length).unsqueeze::<4>();
    let columns = (0..padded).step_by(DIM).map(|first| {
        let v = identity.clone().slice_dim(3, first..first + DIM).expand([1, HEADS, length, DIM]);
        of(v) - nothing.clone()
    });
    Tensor::cat(columns.collect(), 3).slice_dim(3, 0..length)
}

/// `softmax(power ln p)`: the probabilities of logits that are multiplied by `power`, at least 1. What a row lacks to 1 is
/// the share of its sink, which has a logit too.
fn sharpened(probabilities: Tensor<4>, power: f64) -> Tensor<4> {
    let keys = probabilities.dims()[3];
    let sink = probabilities.clone().sum_dim(3).neg().add_scalar(1.0);
    let all = Tensor::cat(vec![probabilities, sink], 3).clamp_min(0.0);
    softmax(all.log().clamp_min(-1e30).mul_scalar(power), 3).slice_dim(3, 0..keys)
}

/// The temperature must turn `plain` into `divided`. They are compared where rounding errors shrink: after the larger
/// power.
#[track_caller]
fn assert_divided(plain: Tensor<4>, divided: Tensor<4>, temperature: f64, what: &str) {
    let off = if temperature > 1.0 {
        sharpened(divided, temperature) - plain
    } else {
        sharpened(plain, 1.0 / temperature) - divided
    };
    let off = largest(off);
    assert!(off < 2e-5, "{what}: {off}");
}

#[test]
fn a_temperature_divides_the_logits_of_every_encoding_under_every_extension() {
    let (mut read_in_all, encodings) = (0, encodings());
    for encoding in &encodings {
        let model = model(encoding);
        for length in [LENGTH, LONGER] {
            let lengths = Lengths { train: LENGTH, length };
            let longer = Lengths { train: LENGTH, length: LONGER };
            for keys in extensions(&model, lengths) {
                // `yarn` has a factor of its own where no temperature is given.
                let Some(plain) = read(&model, &keys, 1.0, lengths) else { continue };
                let positions = plain.layout().positions(length);
                // All rows, and the last ones, as a cache reads them. Where the same is read of a longer text too, one temperature and
                // all rows are enough here.
                let blocks = [0..length, length - 2..length];
                let is_read_longer = length < LONGER && read(&model, &keys, 1.0, longer).is_some();
                let count = if is_read_longer { 1 } else { 2 };
                let divided: Vec<(f64, Reading)> = TEMPERATURES[..count]
                    .iter()
                    .map(|&temperature| (temperature, read(&model, &keys, temperature, lengths).unwrap()))
                    .collect();
                for queries in &blocks[..count] {
                    let of = |reading| probabilities(reading, 1, &positions, queries.clone());
                    let expected = of(&plain);
                    for (temperature, hot) in &divided {
                        let what = format!("{encoding} with {keys} at {length}, {temperature}, {queries:?}");
                        assert_divided(expected.clone(), of(hot), *temperature, &what);
                    }
                }
                read_in_all += 1;
            }
        }
    }
    assert!(read_in_all > 5 * encodings.len(), "{read_in_all} readings");
}

/// Where positions do not count up by one, biases are blocks, and attention is read one block at a time.
#[test]
fn a_temperature_divides_the_logits_at_any_positions() {
    let apart = Positions::explicit(1, (0..LENGTH).map(|row| 0.75 * row as f64).collect::<Vec<_>>());
    for encoding in encodings() {
        let model = model(&encoding);
        if model.position.check(&apart).is_err() {
            continue;
        }
        for temperature in TEMPERATURES {
            let direct = toml::Table::from_iter([("kind".to_owned(), "direct".into())]);
            let lengths = Lengths { train: LENGTH, length: LENGTH };
            let hot = read(&model, &direct, temperature, lengths).unwrap();
            for layer in [0, 1] {
                let of = |reading| probabilities(reading, layer, &apart, 0..LENGTH);
                let moved = largest(of(&model.position) - of(&hot));
                assert!(moved > 1e-2, "{encoding}: {temperature} changes next to nothing ({moved})");
                assert_divided(
                    of(&model.position),
                    of(&hot),
                    temperature,
                    &format!("{encoding}, {temperature}"),
                );
            }
        }
    }
}
