//! What must hold of a model under every extension: no token hears of a later one, and where the method
//! knows distances alone, only distances count.

#![allow(clippy::unwrap_used, missing_docs)]

use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_model::ModelConfig;
use longwave_model::attention::{Rotations, attend};
use longwave_model::gpt::{Gpt, Pass};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::extensions::EXTENSIONS;
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Positions, Reading};

const TRAIN: usize = 16;
const LENGTH: usize = 48;
const LENGTHS: Lengths = Lengths { train: TRAIN, length: LENGTH };

/// Which shifts of all positions leave the scores as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Relative {
    /// All of them.
    Always,
    /// Multiples of the group or the block of positions, which lie on a fixed grid.
    Multiples(usize),
    /// None: the start of the text is a place of its own.
    Never,
}

fn table() -> Vec<(&'static str, Relative)> {
    vec![
        ("'direct'", Relative::Always),
        ("'linear'", Relative::Always),
        ("'dynamic_linear'", Relative::Always),
        ("'ntk'", Relative::Always),
        ("'dynamic_ntk'", Relative::Always),
        ("'su_ntk_old'", Relative::Always),
        ("'su_ntk_fixed'", Relative::Always),
        ("'su_ntk_mixed'", Relative::Always),
        ("'ntk_by_parts'", Relative::Always),
        ("'yarn'", Relative::Always),
        ("{ kind = 'yarn', ramp = 'paper' }", Relative::Always),
        ("'mrrope'", Relative::Always),
        ("'llama3'", Relative::Always),
        ("{ kind = 'longrope', long_factor = [1.0, 2.0, 3.0, 3.0] }", Relative::Always),
        ("{ kind = 'longrope', long_factor = [1.0, 2.0, 3.0, 3.0], n_hat = 4 }", Relative::Never),
        ("'abf'", Relative::Always),
        ("{ kind = 'frequencies', inv_freq = [1.0, 0.5, 0.25, 0.0] }", Relative::Always),
        ("'rerope'", Relative::Always),
        ("'leaky_rerope'", Relative::Always),
        ("{ kind = 'self_extend', group = 6 }", Relative::Multiples(6)),
        ("'dual_chunk'", Relative::Multiples(10)),
        ("'lambda_mask'", Relative::Never),
        ("'sinks'", Relative::Never),
        ("'window'", Relative::Always),
        ("'segments'", Relative::Always),
        ("{ kind = 'segments', length = 10 }", Relative::Always),
        ("{ kind = 'randpos', max_position = 128 }", Relative::Always),
        ("{ kind = 'ntk', log_n = true }", Relative::Never),
    ]
}

fn extension(text: &str) -> ExtensionConfig {
    let value = format!("extend = {text}").parse::<toml::Table>().unwrap().remove("extend").unwrap();
    ExtensionConfig::from_value(&value, "extend").unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn model() -> Gpt {
    let config = ModelConfig { layers: Some(2), width: Some(32), heads: Some(4), ..ModelConfig::default() };
    let position = PositionConfig::from_value(&toml::Value::String("rope".to_owned()), "position").unwrap();
    Gpt::new(&config.resolve(16, TRAIN).unwrap(), &position, &Init::new(0, &Device::flex())).unwrap()
}

fn largest(x: Tensor<3>) -> f32 {
    x.abs().max().into_scalar()
}

#[test]
fn the_table_holds_every_extension() {
    for entry in EXTENSIONS {
        assert!(table().iter().any(|(text, _)| extension(text).kind() == entry.kind), "{}", entry.kind);
    }
}

#[test]
fn a_later_token_changes_nothing_before_it() {
    let model = model();
    let device = Device::flex();
    let hidden = |tokens: &[i32], reading: &Reading| {
        let positions = reading.layout().positions(LENGTH);
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens.to_vec(), [1, LENGTH]), &device);
        model.hidden(&Pass { tokens, positions: &positions, reading, dropout: None })
    };
    let before: Vec<i32> = (0..LENGTH as i32).map(|i| i * i % 13).collect();
    let changed = LENGTH / 2;
    let after: Vec<i32> =
        before.iter().enumerate().map(|(i, &t)| if i == changed { t + 1 } else { t }).collect();
    for (text, _) in table() {
        let reading = extension(text).apply(&model.position, LENGTHS).unwrap();
        let difference = hidden(&before, &reading) - hidden(&after, &reading);
        let earlier = largest(difference.clone().slice_dim(1, 0..changed));
        assert!(earlier < 1e-6, "{text}: {earlier}");
        let later = largest(difference.slice_dim(1, changed + 1..LENGTH));
        assert!(later > 1e-4, "{text}: a change that nobody hears of ({later}) tests nothing");
    }
}

/// Attention of random q, k and v at `LENGTH` positions from `start`.
fn attended(reading: &Reading, qkv: &[Tensor<4>; 3], start: usize) -> Tensor<3> {
    let positions = Positions::range(start..start + LENGTH);
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &Device::flex());
    let input = Tensor::zeros([1, LENGTH, 32], &Device::flex());
    let rows = Rows { layer: 0, tokens: &tokens, positions: &positions };
    let queries = 0..LENGTH;
    let block = QueryBlock { rows, queries: &queries, input: &input };
    attend(qkv.clone(), 0.35, block, reading, &mut Rotations::default()).squeeze_dim::<3>(0)
}

#[test]
fn only_distances_count() {
    let model = model();
    let init = Init::new(1, &Device::flex());
    let qkv = ["q", "k", "v"].map(|name| init.normal::<4>(name, [1, 4, LENGTH, 8], 1.0).val());
    for (text, relative) in table() {
        let reading = extension(text).apply(&model.position, LENGTHS).unwrap();
        let moved_by = |shift: usize| largest(attended(&reading, &qkv, shift) - attended(&reading, &qkv, 0));
        match relative {
            Relative::Always => {
                for shift in [1, 17, 1000] {
                    assert!(moved_by(shift) < 1e-4, "{text}: shifted by {shift}: {}", moved_by(shift));
                }
            }
            Relative::Multiples(grid) => {
                assert!(moved_by(7 * grid) < 1e-4, "{text}: {}", moved_by(7 * grid));
                assert!(moved_by(7 * grid + 1) > 1e-2, "{text}: {}", moved_by(7 * grid + 1));
            }
            Relative::Never => assert!(moved_by(17) > 1e-2, "{text}: {}", moved_by(17)),
        }
    }
}
