//! What every extension promises, in one table: what it does to short texts and to the ends of the spectrum, and which
//! shifts of all positions its scores do not see; and what holds of all of them: rotations keep norms, and no
//! token hears of a later one (`causality.rs` has the other encodings).

#![allow(clippy::unwrap_used, missing_docs)]

use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_kernels::rotate;
use longwave_model::ModelConfig;
use longwave_model::attention::{Rotations, attend};
use longwave_model::gpt::{Gpt, Pass};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::extensions::EXTENSIONS;
use longwave_position::frequency::{Frequencies, Side};
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Positions, Reading};

const TRAIN: usize = 64;
const LENGTH: usize = 192;
const SCALE: f64 = 3.0;
const LENGTHS: Lengths = Lengths { train: TRAIN, length: LENGTH };

/// What an extension leaves alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keeps {
    /// A text of L tokens and shorter is read as trained: scale 1 is the identity.
    Trained,
    /// It changes readings of L tokens too, for a reason.
    Nothing(&'static str),
}

/// What happens to an end of the spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Band {
    Same,
    /// By the scale, exactly.
    Divided,
    Between,
    /// By more than the scale.
    More,
    /// A table has no frequencies.
    Absent,
}

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

/// What an extension promises.
struct Promise {
    extend: &'static str,
    keeps: Keeps,
    fastest: Band,
    slowest: Band,
    relative: Relative,
}

/// An extension that keeps short texts and knows distances alone.
const fn plain(extend: &'static str, fastest: Band, slowest: Band) -> Promise {
    Promise { extend, keeps: Keeps::Trained, fastest, slowest, relative: Relative::Always }
}

/// One that leaves the frequencies alone.
const fn geometry(extend: &'static str, keeps: Keeps, relative: Relative) -> Promise {
    Promise { extend, keeps, fastest: Band::Same, slowest: Band::Same, relative }
}

fn table() -> Vec<Promise> {
    use Band::{Absent, Between, Divided, More, Same};
    use Keeps::{Nothing, Trained};
    use Relative::{Always, Multiples, Never};
    const NAMED: Keeps = Nothing("it names frequencies and says nothing of a scale");
    const GIVEN: Keeps = Nothing("it names a base, whatever the length");
    const SHORT: Keeps = Nothing("segments are shorter than L, whatever the length");
    const DRAWN: Keeps = Nothing("positions are drawn, whatever the length");
    const BOUNDED: Keeps = Nothing("distances are bounded well below L, whatever the length");
    vec![
        plain("'direct'", Same, Same),
        plain("'linear'", Divided, Divided),
        plain("'dynamic_linear'", Divided, Divided),
        plain("'ntk'", Same, Divided),
        plain("'dynamic_ntk'", Same, Divided),
        plain("'su_ntk_old'", Same, Between),
        plain("'su_ntk_fixed'", Between, Divided),
        plain("'su_ntk_mixed'", Between, Divided),
        plain("'ntk_by_parts'", Same, Divided),
        plain("{ kind = 'ntk_by_parts', ramp = 'paper' }", Between, Divided),
        plain("'yarn'", Same, Divided),
        plain("{ kind = 'yarn', ramp = 'paper' }", Between, Divided),
        plain("'mrrope'", Same, Divided),
        plain("{ kind = 'mrrope', variant = 'uni' }", Same, Divided),
        plain("'llama3'", Same, Divided),
        plain("{ kind = 'longrope', long_factor = [1.0, 2.0, 3.0, 3.0] }", Same, Divided),
        Promise {
            relative: Never,
            ..plain("{ kind = 'longrope', long_factor = [1.0, 2.0, 3.0, 3.0], n_hat = 4 }", Same, Divided)
        },
        Promise { keeps: NAMED, ..plain("'abf'", Same, More) },
        Promise {
            keeps: NAMED,
            ..plain("{ kind = 'frequencies', inv_freq = [1.0, 0.5, 0.25, 0.0] }", Same, More)
        },
        Promise { relative: Never, ..plain("{ kind = 'ntk', log_n = true }", Same, Divided) },
        geometry("'rerope'", BOUNDED, Always),
        geometry("'leaky_rerope'", BOUNDED, Always),
        geometry("{ kind = 'self_extend', group = 6 }", BOUNDED, Multiples(6)),
        // Eight tokens share a far position: twice the least group that reaches.
        geometry("'self_extend'", Trained, Multiples(8)),
        geometry("'dual_chunk'", BOUNDED, Multiples(40)),
        geometry("'lambda_mask'", Trained, Never),
        geometry("'sinks'", Trained, Never),
        geometry("'window'", Trained, Always),
        geometry("'segments'", Trained, Always),
        geometry("{ kind = 'segments', length = 10 }", SHORT, Always),
        geometry("'randpos'", DRAWN, Always),
        plain("'table'", Absent, Absent),
        plain("'convert'", Absent, Absent),
        Promise { keeps: GIVEN, ..plain("{ kind = 'convert', beta_new = 16 }", Absent, Absent) },
    ]
}

fn extension(text: &str) -> ExtensionConfig {
    let value = format!("extend = {text}").parse::<toml::Table>().unwrap().remove("extend").unwrap();
    ExtensionConfig::from_value(&value, "extend").unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A rotary model; one with what the extension acts on where that is none.
fn model(text: &str) -> Gpt {
    let kind = match extension(text).kind() {
        "table" => "learned",
        "convert" => "radix",
        _ => "rope",
    };
    let config = ModelConfig { layers: Some(2), width: Some(32), heads: Some(4), ..ModelConfig::default() };
    let position = PositionConfig::from_value(&toml::Value::String(kind.to_owned()), "position").unwrap();
    Gpt::new(&config.resolve(16, TRAIN).unwrap(), &position, &Init::new(0, &Device::flex())).unwrap()
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

#[test]
fn the_table_holds_every_extension() {
    for entry in EXTENSIONS {
        assert!(table().iter().any(|row| extension(row.extend).kind() == entry.kind), "{}", entry.kind);
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

#[test]
fn scale_one_is_the_identity_where_the_method_says_so() {
    for Promise { extend, keeps, .. } in table() {
        let trained = model(extend).position;
        let mut same = true;
        for length in [TRAIN, TRAIN / 2] {
            let read = extension(extend).apply(&trained, Lengths { train: TRAIN, length }).unwrap();
            same &= read_alike(&read, &trained, length);
            let layer = read.layer(1);
            same &= [layer.logit_scale, layer.temperature].iter().all(|scale| (scale - 1.0).abs() < 1e-15);
            same &= pairs_are_plain(&read, length);
            same &= read.layout().positions(length) == Positions::range(0..length);
        }
        assert_eq!(same, keeps == Keeps::Trained, "{extend}: {keeps:?}");
    }
}

#[test]
fn ends_of_the_spectrum() {
    for Promise { extend, fastest, slowest, .. } in table() {
        let trained = model(extend).position;
        let read = extension(extend).apply(&trained, LENGTHS).unwrap();
        for (name, band, expected) in [("fastest", 0, fastest), ("slowest", 3, slowest)] {
            let frequency = |reading: &Reading| frequencies(reading).map_or(f64::NAN, |f| f.inv_freq[band]);
            let slowed = frequency(&trained) / frequency(&read);
            let holds = match expected {
                Band::Absent => slowed.is_nan(),
                Band::Same => (slowed - 1.0).abs() < 1e-12,
                Band::Divided => (slowed - SCALE).abs() < 1e-12,
                Band::Between => slowed > 1.01 && slowed < SCALE - 0.01,
                Band::More => slowed > SCALE + 0.01,
            };
            assert!(holds, "{extend}: the {name} band is slowed by {slowed}, not {expected:?}");
        }
    }
}

#[test]
fn rotations_keep_norms() {
    // Up to the one factor on cos and sin that is a temperature, and is known.
    let x = Init::new(2, &Device::flex()).normal::<4>("x", [1, 4, LENGTH, 8], 1.0).val();
    let norms = |x: &Tensor<4>| x.clone().square().sum_dim(3).sqrt();
    for Promise { extend, fastest, .. } in table() {
        let read = extension(extend).apply(&model(extend).position, LENGTHS).unwrap();
        let Some(rotation) = read.rotation(0) else {
            assert_eq!(fastest, Band::Absent, "{extend} turns nothing");
            continue;
        };
        for (query_map, key_map) in read.geometry(0).maps {
            for map in [query_map, key_map] {
                let positions = Positions::range(0..LENGTH).map(|position| map.at(position));
                let turned = rotate(x.clone(), &rotation.table(&positions, Side::Query, &x.device()));
                let ratio = norms(&turned) / norms(&x) - rotation.frequencies.attention_factor;
                let off: f32 = ratio.abs().max().into_scalar();
                assert!(off < 1e-5, "{extend}: {off}");
            }
        }
    }
}

#[test]
fn a_later_token_changes_nothing_before_it() {
    let device = Device::flex();
    let hidden = |model: &Gpt, tokens: &[i32], reading: &Reading| {
        let positions = reading.layout().positions(LENGTH);
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens.to_vec(), [1, LENGTH]), &device);
        model.hidden(&Pass { tokens, positions: &positions, reading, dropout: None })
    };
    let before: Vec<i32> = (0..LENGTH as i32).map(|i| i * i % 13).collect();
    let changed = LENGTH / 2;
    let after: Vec<i32> =
        before.iter().enumerate().map(|(i, &t)| if i == changed { t + 1 } else { t }).collect();
    for Promise { extend: text, .. } in table() {
        let model = model(text);
        let reading = extension(text).apply(&model.position, LENGTHS).unwrap();
        let difference = hidden(&model, &before, &reading) - hidden(&model, &after, &reading);
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
    let rows = Rows::new(0, &tokens, &positions);
    let queries = 0..LENGTH;
    let block = QueryBlock { rows, queries: &queries, input: &input };
    attend(qkv.clone(), 0.35, block, reading, &mut Rotations::default()).squeeze_dim::<3>(0)
}

#[test]
fn only_distances_count() {
    let init = Init::new(1, &Device::flex());
    let qkv = ["q", "k", "v"].map(|name| init.normal::<4>(name, [1, 4, LENGTH, 8], 1.0).val());
    for Promise { extend: text, relative, .. } in table() {
        let reading = extension(text).apply(&model(text).position, LENGTHS).unwrap();
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
