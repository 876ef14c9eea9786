//! The laws of extensions: every example of an extension ([`Extend::examples`]) must keep what it promises.
//!
//! [`Extend::examples`]: longwave_position::Extend::examples

use super::{Outcome, ensure};
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::Result;
use longwave_kernels::rotate;
use longwave_model::ModelConfig;
use longwave_model::attention::{Rotations, attend};
use longwave_model::gpt::{Gpt, Pass};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::extension::{Band, Example, Shifts};
use longwave_position::extensions::examples;
use longwave_position::frequency::{Frequencies, Side};
use longwave_position::reading::LogN;
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Positions, Reading};

const TRAIN: usize = 64;
const LENGTH: usize = 192;
const SCALE: f64 = 3.0;
pub const LENGTHS: Lengths = Lengths { train: TRAIN, length: LENGTH };
/// Bands of a rotary model of the laws.
pub const BANDS: usize = 4;

/// How an extension changes a reading.
pub type Apply<'a> = &'a dyn Fn(&Reading, Lengths) -> Result<Reading>;

/// An extension with its promises, and a model that it applies to.
struct Subject<'a> {
    model: Gpt,
    example: &'a Example,
    apply: Apply<'a>,
}

impl Subject<'_> {
    fn trained(&self) -> &Reading {
        &self.model.position
    }

    fn at(&self, length: usize) -> std::result::Result<Reading, String> {
        (self.apply)(self.trained(), Lengths { train: TRAIN, length }).map_err(|error| error.to_string())
    }
}

/// What must hold of every extension.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// The law in words.
    pub name: &'static str,
    check: fn(&Subject<'_>) -> Outcome,
}

pub const LAWS: &[Law] = &[
    Law { name: "short texts are read as promised", check: short_texts_are_kept },
    Law { name: "bands change as promised", check: bands_change_as_promised },
    Law { name: "rotations keep norms", check: rotations_keep_norms },
    Law { name: "attention is causal", check: attention_is_causal },
    Law { name: "shifts change what is promised", check: shifts_are_as_promised },
];

impl Law {
    /// Checks it for an extension, with what one of its examples promises.
    pub fn check(&self, example: &Example, apply: Apply<'_>) -> Outcome {
        (self.check)(&Subject { model: model(example.encoding)?, example, apply })
    }

    /// Checks it for every example of an extension, by its kind.
    pub fn check_kind(&self, kind: &str) -> Outcome {
        let all = examples(BANDS, LENGTHS).map_err(|error| error.to_string())?;
        for (extension, example) in all.into_iter().filter(|(extension, _)| extension.kind() == kind) {
            self.check(&example, &|reading, lengths| extension.apply(reading, lengths)).map_err(|error| {
                match example.keys.as_str() {
                    "" => format!("with its default keys: {error}"),
                    keys => format!("with `{keys}`: {error}"),
                }
            })?;
        }
        Ok(())
    }
}

/// No token reaches an earlier row of a model with this encoding, under any example of any extension that applies to it.
pub(crate) fn is_causal_under_every_extension(encoding: &str) -> Outcome {
    let frequencies = model(encoding)?.position.encodings()[0].frequencies().map(|f| f.inv_freq.len());
    let all = examples(frequencies.unwrap_or(1), LENGTHS).map_err(|error| error.to_string())?;
    for (extension, example) in all {
        let apply: Apply<'_> = &|reading, lengths| extension.apply(reading, lengths);
        let subject = Subject { model: model(encoding)?, example: &example, apply };
        let defined = |read: &Reading| read.check(&read.layout().positions(LENGTH)).is_ok();
        if subject.at(LENGTH).is_ok_and(|read| defined(&read)) {
            rows_are_causal(&subject).map_err(|error| format!("under {}: {error}", shown(&extension)))?;
        }
    }
    Ok(())
}

fn shown(extension: &ExtensionConfig) -> String {
    serde_json::to_string(extension).unwrap_or_else(|_| extension.kind().to_owned())
}

/// A small model with this encoding.
fn model(kind: &str) -> std::result::Result<Gpt, String> {
    let config = ModelConfig { layers: Some(2), width: Some(32), heads: Some(4), ..ModelConfig::default() };
    let build = || {
        let position = PositionConfig::from_value(&toml::Value::String(kind.to_owned()), "position")?;
        Gpt::new(&config.resolve(16, TRAIN)?, &position, &Init::new(0, &Device::flex()))
    };
    build().map_err(|error| error.to_string())
}

fn largest(x: Tensor<3>) -> f32 {
    x.abs().max().into_scalar()
}

fn frequencies(reading: &Reading) -> Option<&Frequencies> {
    reading.encodings()[0].frequencies()
}

/// What the first block takes of a text of zeros `[1, length, width]`: the vectors of a table.
fn vectors(reading: &Reading, length: usize) -> Tensor<3> {
    let (positions, device) = (Positions::range(0..length), Device::flex());
    let tokens = Tensor::<2, Int>::zeros([1, length], &device);
    let rows = Rows::new(0, &tokens, &positions);
    reading.embed(Tensor::zeros([1, length, 32], &device), rows)
}

/// Whether two readings turn q and k, or add vectors, alike at the positions below `length`.
fn read_alike(new: &Reading, old: &Reading, length: usize) -> bool {
    let positions: Vec<f64> = (0..length).map(|position| position as f64).collect();
    match (frequencies(new), frequencies(old)) {
        (Some(new), Some(old)) => {
            let mut pairs = new.angles(&positions).zip(old.angles(&positions));
            pairs.all(|(new, old)| (new - old).abs() < 1e-12) && (new.attention_factor - 1.0).abs() < 1e-15
        }
        (None, None) => largest(vectors(new, length) - vectors(old, length)) == 0.0,
        _ => false,
    }
}

/// Whether every pair of positions below `length` is seen, and read at its own distance.
fn pairs_are_plain(reading: &Reading, length: usize) -> bool {
    let geometry = reading.geometry(0);
    let mask = reading.layer(0).mask;
    (0..length).all(|i| {
        (0..=i).all(|j| {
            let (i, j) = (i as f64, j as f64);
            let entry = if geometry.maps.len() == 1 { 0 } else { geometry.selector.entry(i, j) };
            let (query, key) = geometry.maps[entry];
            !mask.hides(i, j) && (query.at(i) - key.at(j) - (i - j)).abs() < 1e-12
        })
    })
}

/// Texts of L tokens and fewer are read as trained, where the extension says so, and only there.
fn short_texts_are_kept(subject: &Subject<'_>) -> Outcome {
    let mut same = true;
    for length in [TRAIN, TRAIN / 2] {
        let read = subject.at(length)?;
        same &= read_alike(&read, subject.trained(), length);
        let layer = read.layer(1);
        same &= (layer.logit_scale - 1.0).abs() < 1e-15 && layer.temperature.is_one();
        same &= layer.log_n != LogN::ByEntropy
            && (1..=length).all(|keys| (layer.log_n.factor(keys as f64) - 1.0).abs() < 1e-12);
        same &= pairs_are_plain(&read, length);
        same &= read.layout().positions(length) == Positions::range(0..length);
    }
    ensure(same == subject.example.keeps_short_texts, || format!("short texts are read as trained: {same}"))
}

/// The fastest and the slowest frequency change as promised.
fn bands_change_as_promised(subject: &Subject<'_>) -> Outcome {
    let read = subject.at(LENGTH)?;
    for (band, promised) in [0, BANDS - 1].into_iter().zip(subject.example.bands) {
        let frequency = |reading: &Reading| frequencies(reading).map_or(f64::NAN, |f| f.inv_freq[band]);
        let slowed = frequency(subject.trained()) / frequency(&read);
        let holds = match promised {
            Band::Absent => slowed.is_nan(),
            Band::Same => (slowed - 1.0).abs() < 1e-12,
            Band::ByScale => (slowed - SCALE).abs() < 1e-12,
            Band::By(factor) => (slowed - factor).abs() < 1e-12,
            Band::Between => slowed > 1.01 && slowed < SCALE - 0.01,
            Band::More => slowed > SCALE + 0.01,
        };
        ensure(holds, || format!("band {band} is slowed by {slowed}, not {promised:?}"))?;
    }
    Ok(())
}

/// Rotations keep norms, up to the factor on cos and sin, which is known and acts as a temperature.
fn rotations_keep_norms(subject: &Subject<'_>) -> Outcome {
    let read = subject.at(LENGTH)?;
    let Some(rotation) = read.rotation(0) else {
        return ensure(subject.example.bands == [Band::Absent; 2], || "nothing rotates".to_owned());
    };
    let x = Init::new(2, &Device::flex()).normal::<4>("x", [1, 4, LENGTH, 8], 1.0).val();
    let norms = |x: &Tensor<4>| x.clone().square().sum_dim(3).sqrt();
    for map in read.geometry(0).maps.into_iter().flat_map(|(query, key)| [query, key]) {
        let positions = Positions::range(0..LENGTH).map(|position| map.at(position));
        let turned = rotate(x.clone(), &rotation.table(&positions, Side::Query, &x.device()));
        let ratio = norms(&turned) / norms(&x) - rotation.frequencies.attention_factor;
        let off: f32 = ratio.abs().max().into_scalar();
        ensure(off < 1e-5, || format!("norms change by {off}"))?;
    }
    Ok(())
}

/// A token changes later rows, and none before it.
fn attention_is_causal(subject: &Subject<'_>) -> Outcome {
    let later = rows_are_causal(subject)?;
    ensure(later > 1e-4, || format!("later rows change by {later} only"))
}

/// A token changes no row before it; by how much it changes later ones.
fn rows_are_causal(subject: &Subject<'_>) -> std::result::Result<f32, String> {
    let reading = subject.at(LENGTH)?;
    let changed = LENGTH / 2;
    let hidden = |change: i32| {
        let token = |i: i32| i * i % 13 + if i == changed as i32 { change } else { 0 };
        let tokens: Vec<i32> = (0..LENGTH as i32).map(token).collect();
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [1, LENGTH]), &Device::flex());
        let positions = reading.layout().positions(LENGTH);
        subject.model.hidden(&Pass { tokens, positions: &positions, reading: &reading, dropout: None })
    };
    let difference = hidden(0) - hidden(1);
    let earlier = largest(difference.clone().slice_dim(1, 0..changed));
    ensure(earlier < 1e-6, || format!("earlier rows change by {earlier}"))?;
    Ok(largest(difference.slice_dim(1, changed + 1..LENGTH)))
}

/// Attention of random q, k and v at `LENGTH` positions from `start`.
fn attended(reading: &Reading, qkv: &[Tensor<4>; 3], start: usize) -> Tensor<3> {
    let positions = Positions::range(start..start + LENGTH);
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &Device::flex());
    let input = Tensor::zeros([1, LENGTH, 32], &Device::flex());
    let rows = Rows::new(0, &tokens, &positions);
    let queries = 0..LENGTH;
    let block = QueryBlock { rows, queries: &queries, input: &input };
    attend(qkv.clone(), 0.35, block, reading, &mut Rotations::default()).squeeze_dim::<3>(0)
}

/// The attention follows from distances, on the grid that is promised.
fn shifts_are_as_promised(subject: &Subject<'_>) -> Outcome {
    let init = Init::new(1, &Device::flex());
    let qkv = ["q", "k", "v"].map(|name| init.normal::<4>(name, [1, 4, LENGTH, 8], 1.0).val());
    let reading = subject.at(LENGTH)?;
    let moved_by = |shift: usize| largest(attended(&reading, &qkv, shift) - attended(&reading, &qkv, 0));
    let still = |shift: usize| {
        let moved = moved_by(shift);
        ensure(moved < 1e-4, || format!("a shift by {shift} changes the attention by {moved}"))
    };
    let moves = |shift: usize| {
        let moved = moved_by(shift);
        ensure(moved > 1e-2, || format!("a shift by {shift} changes the attention by {moved} only"))
    };
    match subject.example.shifts {
        Shifts::All => [1, 17, 1000].into_iter().try_for_each(still),
        Shifts::Multiples(grid) => still(7 * grid).and_then(|()| moves(7 * grid + 1)),
        Shifts::None => moves(17),
    }
}
