//! What is watched against a computation by hand, on a model of one layer.

mod seen;

use super::attention::Watcher;
use super::finding::{Diagnostic, Finding};
use super::gather::Gathered;
use super::gradient;
use super::shown::{ShownAngles, of_stages};
use burn::module::Module as _;
use burn::tensor::{Device, Tensor};
use longwave_model::config::ModelConfig;
use longwave_model::resolved::Resolved;
use longwave_model::{Gpt, Pass, upload};
use longwave_position::parameter::replaced;
use longwave_position::sampling::Shown;
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Reading};

pub(super) const TRAIN: usize = 16;
const LENGTH: usize = 48;
const FIRST: usize = 32;
const VOCABULARY: usize = 11;

pub(super) fn model(position: &str, keys: &str) -> (Gpt, Resolved) {
    let table = format!("heads = 2\nwidth = 16\n{keys}").parse().unwrap();
    let config: ModelConfig = longwave_core::config::read(&table, "model").unwrap();
    let resolved = config.resolve(VOCABULARY, TRAIN).unwrap();
    let position = PositionConfig::from_value(&toml(position), "position").unwrap();
    let model = Gpt::new(&resolved, &position, &Init::new(3, &Device::flex())).unwrap();
    // Fresh maps are so small that all keys are nearly alike.
    (replaced(model, |_, old| old * 3.0), resolved)
}

pub(super) fn toml(text: &str) -> ::toml::Value {
    format!("value = {text}").parse::<::toml::Table>().unwrap().remove("value").unwrap()
}

pub(super) fn reading(model: &Gpt, extension: &str) -> Reading {
    let extension = ExtensionConfig::from_value(&toml(extension), "extend").unwrap();
    extension.apply(&model.position, Lengths { train: TRAIN, length: LENGTH }).unwrap()
}

/// What training on texts in a row showed, at distances below `below`.
fn shown(model: &Gpt, below: usize) -> Vec<Option<ShownAngles>> {
    of_stages(&[(model.position.clone(), Shown::whole(below))])
}

/// What is found of a model, read with an extension.
fn watched(model: &Gpt, extension: &str, below: usize) -> Vec<Finding> {
    let (reading, shown) = (reading(model, extension), shown(model, below));
    let (mut watcher, mut gathered) = (Watcher::new(model, &reading, TRAIN, &shown), Gathered::new(1));
    watcher.text(&tokens(), FIRST, 0, &mut gathered).unwrap();
    watcher.finish(&mut gathered);
    gathered.findings("x", LENGTH)
}

fn tokens() -> Vec<u32> {
    (0..LENGTH as u32).map(|at| (7 * at + at * at / 3) % VOCABULARY as u32).collect()
}

fn rows<const D: usize>(tensor: Tensor<D>, width: usize) -> Vec<Vec<f64>> {
    let numbers: Vec<f32> = tensor.into_data_as::<f32>().try_to_vec().unwrap();
    numbers.chunks(width).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// q and k of a head at a position, from the embedding on: RMS norm, projection, rotation of channels i and i + 4.
fn turned(model: &Gpt, head: usize, which: usize, token: u32, angles: &[f64]) -> Vec<f64> {
    let embedding = rows(model.embedding.val(), 16);
    let matrix = rows(model.blocks[0].attention.qkv_matrix(), 48);
    let gain =
        rows(model.blocks[0].attention_norm.forward(Tensor::<3>::ones([1, 1, 16], &Device::flex())), 16)
            .remove(0);
    let x = &embedding[token as usize];
    let root = (dot(x, x) / 16.0 + 1e-5).sqrt();
    // The norm of ones has their gain, but for its epsilon.
    let normed: Vec<f64> =
        x.iter().zip(&gain).map(|(x, gain)| x / root * gain * (1.0 + 1e-5_f64).sqrt()).collect();
    let column = |at: usize| (0..16).map(|i| normed[i] * matrix[i][which * 16 + head * 8 + at]).sum::<f64>();
    let mut vector: Vec<f64> = (0..8).map(column).collect();
    for (band, angle) in angles.iter().enumerate() {
        let (a, b, (sin, cos)) = (vector[band], vector[band + 4], angle.sin_cos());
        (vector[band], vector[band + 4]) = (a * cos - b * sin, a * sin + b * cos);
    }
    vector
}

#[test]
fn attention_of_one_layer_is_what_its_weights_say() {
    let (model, _) = model("{ kind = 'rope', base = 100.0 }", "layers = 1");
    let findings = watched(&model, "{ kind = 'linear', scale = 1.5 }", TRAIN);
    let tokens = tokens();
    let frequencies: Vec<f64> = (0..4).map(|i| 100f64.powf(-f64::from(i) / 4.0)).collect();
    let angles = |position: usize| frequencies.iter().map(|f| position as f64 / 1.5 * f).collect::<Vec<_>>();
    for head in 0..2 {
        let keys: Vec<Vec<f64>> =
            (0..LENGTH).map(|at| turned(&model, head, 1, tokens[at], &angles(at))).collect();
        let (mut first, mut beyond, mut entropy, mut effective, mut unseen, mut pairs) =
            (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        let mut share = [0.0; 4];
        for query in FIRST..LENGTH {
            let q = turned(&model, head, 0, tokens[query], &angles(query));
            let logits: Vec<f64> = keys[..=query].iter().map(|key| dot(&q, key) / 8f64.sqrt()).collect();
            let top = logits.iter().copied().fold(f64::MIN, f64::max);
            let powers: Vec<f64> = logits.iter().map(|logit| (logit - top).exp()).collect();
            let p: Vec<f64> = powers.iter().map(|power| power / powers.iter().sum::<f64>()).collect();
            first += p[0];
            beyond += p[..=query - TRAIN].iter().sum::<f64>();
            let h = -p.iter().map(|p| p * p.ln()).sum::<f64>();
            entropy += h / (query as f64 + 1.0).ln();
            effective += h.exp();
            for (key, p) in p.iter().enumerate() {
                let new = frequencies.iter().filter(|f| {
                    let (angle, largest) = ((query - key) as f64 / 1.5 * **f, 15.0 * **f);
                    largest < std::f64::consts::TAU
                        && angle.rem_euclid(std::f64::consts::TAU) > largest * (1.0 + 1e-9)
                });
                let new = new.count() as f64 / 4.0;
                (unseen, pairs) = (unseen + p * new, pairs + new / (query as f64 + 1.0));
            }
            for (band, share) in share.iter_mut().enumerate() {
                let parts: Vec<f64> =
                    keys[..=query].iter().map(|k| q[band] * k[band] + q[band + 4] * k[band + 4]).collect();
                let mean = parts.iter().sum::<f64>() / parts.len() as f64;
                *share += (parts.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / parts.len() as f64).sqrt();
            }
        }
        let queries = (LENGTH - FIRST) as f64;
        let norm = |band: usize| keys.iter().map(|k| k[band].hypot(k[band + 4])).sum::<f64>() / LENGTH as f64;
        let total: f64 = share.iter().sum();
        let mut expected = vec![
            (Diagnostic::FirstToken, None, first / queries),
            (Diagnostic::BeyondLength, None, beyond / queries),
            (Diagnostic::Entropy, None, entropy / queries),
            (Diagnostic::EffectiveKeys, None, effective / queries),
            (Diagnostic::UnseenAngles, None, unseen / queries),
            (Diagnostic::UnseenPairs, None, pairs / queries),
        ];
        expected.extend((0..4).map(|band| (Diagnostic::KeyNorm, Some(band), norm(band))));
        expected.extend((0..4).map(|band| (Diagnostic::BandShare, Some(band), share[band] / total)));
        for (diagnostic, bin, value) in expected {
            let here = |it: &&Finding| (it.diagnostic, it.head, it.bin) == (diagnostic, Some(head), bin);
            let found = findings.iter().find(here).unwrap_or_else(|| panic!("{diagnostic:?}"));
            assert!(
                (found.value - value).abs() < 2e-4 * value.abs().max(0.05),
                "{diagnostic:?} {bin:?}: {} for {value}",
                found.value
            );
            assert_eq!(found.layer, Some(0));
        }
    }
    let unseen = findings.iter().find(|it| it.diagnostic == Diagnostic::UnseenAngles).unwrap();
    assert!(unseen.value > 0.01, "there is something to see: {}", unseen.value);
}

#[test]
fn rerope_meets_no_unseen_angle_and_nothing_turns_without_a_rotation() {
    let value = |position: &str, extension: &str| {
        let (model, _) = model(position, "layers = 1");
        let findings = watched(&model, extension, TRAIN);
        findings.iter().find(|it| it.diagnostic == Diagnostic::UnseenAngles).map(|it| it.value)
    };
    assert_eq!(value("'rope'", "{ kind = 'rerope', window = 'L/2' }"), Some(0.0));
    assert!(value("'rope'", "'direct'").unwrap() > 0.1);
    assert_eq!(value("'alibi'", "'direct'"), None);
}

#[test]
fn a_window_bounds_the_receptive_field() {
    let (model, _) = model("'rope'", "layers = 2");
    let traced: Gpt = model.clone().train();
    let tokens = tokens();
    let window = "{ kind = 'window', window = 5 }";
    let (plain, read) = (reading(&model, window), reading(&traced, window));
    let positions = plain.layout().positions(LENGTH);
    let pass = Pass {
        tokens: upload(&tokens, [1, LENGTH], &Device::flex()),
        positions: &positions,
        reading: &plain,
        dropout: None,
    };
    let loss = model.nll(&pass, upload(&[3], [1, 1], &Device::flex()), LENGTH - 1..LENGTH);
    let known = f64::from(loss.into_scalar::<f32>());
    let found = gradient::by_distance(&model, &traced, &read, &tokens, 3, known).unwrap().unwrap();
    // Two layers of a window of 5 reach 8 tokens back.
    assert!(found[8] > 0.0 && found[9..].iter().all(|part| *part == 0.0), "{found:?}");
    let (field, ..) = gradient::receptive_field(&[found], &[0]).unwrap();
    assert!(field <= 9.0);
    let of_another = gradient::by_distance(&model, &traced, &read, &tokens, 3, known + 1.0).unwrap();
    assert_eq!(of_another, Err("the encoding looks at the tokens themselves"));
}
