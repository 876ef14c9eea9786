//! Every encoding and every extension: what their files state, and what their hooks, parameters and keys show.

use burn::tensor::{Device, Int, Tensor};
use longwave_core::Result;
use longwave_kernels::Bias;
use longwave_position::encoding::{Dimensions, Extrapolation, LayerInput, QueryBlock, Rows};
use longwave_position::encodings::{self, Encoding};
use longwave_position::extensions::{self, examples};
use longwave_position::reading::LogN;
use longwave_position::{
    EncodingConfig, ExtensionConfig, Init, Lengths, ParameterSpec, PositionConfig, Positions,
};
use schemars::SchemaGenerator;
use serde::Serialize;
use serde_json::Value;

/// Sizes of the model that the encodings are built for.
const SIZES: Dimensions =
    Dimensions { layers: 2, width: 32, heads: 4, kv_heads: 4, head_dim: 8, train_length: 64, vocab_size: 16 };

/// Tokens of the text that hooks are called with.
const ROWS: usize = 4;

/// Where an encoding acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// The hidden state before the first block.
    Input,
    /// The hidden state before every block.
    EveryInput,
    /// q and k, turned.
    Rotation,
    /// q and k, mapped otherwise.
    Heads,
    /// The logits, by an addition that knows no score.
    Bias,
    /// The scores themselves.
    Scores,
    /// The softmax, by a logit beside those of the keys.
    Softmax,
    /// The output, by way of the probabilities.
    Values,
}

impl HookPoint {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "the input of the first block",
            Self::EveryInput => "the input of every block",
            Self::Rotation => "q and k, rotated",
            Self::Heads => "q and k",
            Self::Bias => "a bias on the logits",
            Self::Scores => "the scores",
            Self::Softmax => "the softmax",
            Self::Values => "the values",
        }
    }
}

/// An encoding with its default keys.
#[derive(Clone, Debug, Serialize)]
pub struct EncodingInfo {
    /// `position.kind`.
    pub kind: &'static str,
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// What it computes, in the notation of [`typeset`](crate::typeset).
    pub formula: &'static str,
    pub acts: Vec<HookPoint>,
    /// Each parameter and its shape, such as `table [table_size, width]`.
    pub parameters: Vec<String>,
    /// What happens past the training length.
    pub past: &'static str,
    /// Whether longer texts are rejected.
    #[serde(rename = "refuses")]
    pub rejects_longer: bool,
}

/// An extension with its default keys.
#[derive(Clone, Debug, Serialize)]
pub struct ExtensionInfo {
    /// Its name in `extend = [...]`.
    pub kind: &'static str,
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// What it computes, in the notation of [`typeset`](crate::typeset).
    pub formula: &'static str,
    /// The kinds of encodings it applies to.
    pub applies_to: Vec<&'static str>,
    /// Its own keys, each with its default where it has one.
    pub keys: Vec<String>,
}

/// Every encoding, in the order of the list.
pub fn encodings() -> Result<Vec<EncodingInfo>> {
    encodings::kinds()
        .iter()
        .map(|entry| {
            let config = EncodingConfig::from_value(&entry.kind.into(), "position")?;
            config.validate("position", &SIZES)?;
            let encoding = config.build(&SIZES, &Init::new(0, &Device::flex()));
            let (past, rejects_longer) = match config.extrapolation() {
                Extrapolation::Supported(text) => (text, false),
                Extrapolation::Rejected(text) => (text, true),
            };
            Ok(EncodingInfo {
                kind: entry.kind,
                summary: entry.description,
                source: entry.source,
                formula: entry.formula,
                acts: acts(&encoding, &SIZES),
                parameters: encoding.parameters().iter().map(ParameterSpec::to_string).collect(),
                past,
                rejects_longer,
            })
        })
        .collect()
}

/// Where an encoding acts, found by calling its hooks with a short text; it lies on the CPU and was built for these
/// sizes.
pub fn acts(encoding: &Encoding, sizes: &Dimensions) -> Vec<HookPoint> {
    let device = Device::flex();
    let count = ROWS.min(sizes.train_length);
    let tokens = Tensor::<2, Int>::zeros([1, count], &device);
    let positions = Positions::range(0..count);
    // What stands for the block's projection of keys, where the encoding reads it.
    let keys = Tensor::<2>::ones([sizes.width, sizes.kv_heads * sizes.head_dim], &device);
    let key_matrix = encoding.capabilities().reads_key_matrix.then_some(&keys);
    let rows = |layer| Rows { key_matrix, ..Rows::new(layer, &tokens, &positions) };
    let input = Tensor::<3>::ones([1, count, sizes.width], &device);
    let enters = |layer| {
        layer < sizes.layers && changed(&input, &encoding.embed(input.clone(), rows(layer), &mut None))
    };
    let of_block = Rows { input: Some(LayerInput { all: &input, first: 0 }), ..rows(0) };
    let q = Tensor::<4>::ones([1, sizes.heads, count, sizes.head_dim], &device);
    let k = Tensor::<4>::ones([1, sizes.kv_heads, count, sizes.head_dim], &device);
    let [mapped_q, _] = encoding.map_heads([q.clone(), k], [of_block; 2]);
    let block = QueryBlock { rows: rows(0), queries: &(0..count), input: &input };
    let adds = encoding.capabilities().adds_bias() || !matches!(encoding.bias(block), Bias::None);
    let reads_scores = (encoding.needs_scores(&positions) && !adds) || encoding.capabilities().adds_vectors();
    let probabilities = Tensor::<4>::ones([1, sizes.heads, count, count], &device);
    [
        (HookPoint::EveryInput, enters(1)),
        (HookPoint::Input, enters(0) && !enters(1)),
        (HookPoint::Rotation, encoding.rotation(0).is_some()),
        (HookPoint::Heads, changed(&q, &mapped_q)),
        (HookPoint::Bias, adds),
        (HookPoint::Scores, reads_scores),
        (HookPoint::Softmax, encoding.sink(0).is_some()),
        (HookPoint::Values, reads_scores && encoding.values(&probabilities, block).is_some()),
    ]
    .into_iter()
    .filter_map(|(place, acts)| acts.then_some(place))
    .collect()
}

fn changed<const D: usize>(before: &Tensor<D>, after: &Tensor<D>) -> bool {
    before.dims() != after.dims() || (after.clone() - before.clone()).abs().max().into_scalar::<f32>() > 0.0
}

/// Every extension, in the order of the list.
pub fn extensions() -> Result<Vec<ExtensionInfo>> {
    let lengths = Lengths { train: SIZES.train_length, length: 4 * SIZES.train_length };
    // Every example is read from text, so those of an encoding are read once, not for each extension again.
    let readings = encodings::kinds()
        .iter()
        .map(|entry| {
            let config = PositionConfig::from_value(&entry.kind.into(), "position")?;
            let init = Init::new(0, &Device::flex());
            let reading = config.build("position", &SIZES, &init, LogN::Off)?;
            let frequencies = reading.encodings().iter().find_map(|encoding| encoding.frequencies());
            let bands = frequencies.map_or(1, |frequencies| frequencies.inv_freq.len());
            Ok((entry.kind, reading, examples(bands, lengths)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let schemas = ExtensionConfig::schemas(&mut SchemaGenerator::default());
    let mut with_kinds = extensions::kinds().iter().zip(&schemas);
    let direct = with_kinds.find(|(entry, _)| entry.kind == "direct").map(|(_, schema)| schema.as_value());
    let infos = extensions::kinds().iter().zip(&schemas).map(|(entry, schema)| {
        let applies = readings.iter().filter(|(_, reading, examples)| {
            let first = examples.iter().find(|(extension, _)| extension.kind() == entry.kind);
            first.is_some_and(|(extension, _)| extension.apply(reading, lengths).is_ok())
        });
        ExtensionInfo {
            kind: entry.kind,
            summary: entry.description,
            source: entry.source,
            formula: entry.formula,
            applies_to: applies.map(|(kind, ..)| *kind).collect(),
            keys: keys(schema.as_value(), direct),
        }
    });
    Ok(infos.collect())
}

/// The keys of an extension's schema, each with its default, or whether it must be given, but for those that mean what they mean for
/// `direct`, which has no others.
fn keys(schema: &Value, direct: Option<&Value>) -> Vec<String> {
    let of_all =
        |key: &str, property: &Value| direct.is_some_and(|direct| direct["properties"][key] == *property);
    let required = |key: &str| {
        schema["required"].as_array().is_some_and(|keys| keys.iter().any(|required| required == key))
    };
    let text = |(key, property): (&String, &Value)| match property.get("default") {
        Some(default) if !default.is_null() => Some(format!("{key} = {default}")),
        _ if key == "kind" || of_all(key, property) => None,
        _ if required(key) => Some(format!("{key} (required)")),
        _ => Some(key.clone()),
    };
    schema["properties"].as_object().into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_an_encoding_acts_and_its_parameters_are_found() {
        let all = encodings().unwrap();
        let of = |kind: &str| all.iter().find(|info| info.kind == kind).unwrap();
        assert_eq!(of("none").acts, []);
        assert_eq!(of("learned").acts, [HookPoint::Input]);
        assert_eq!(of("learned").parameters, ["table [table_size, width]"]);
        assert_eq!(of("floater").acts, [HookPoint::EveryInput]);
        assert_eq!(of("xpos").acts, [HookPoint::Rotation]);
        assert_eq!(of("transformer_xl").acts, [HookPoint::Heads]);
        assert_eq!(of("kerple").acts, [HookPoint::Bias]);
        assert_eq!(of("kerple").parameters, ["p [layers, heads]", "a [layers, heads]"]);
        assert_eq!(of("shaw").acts, [HookPoint::Scores, HookPoint::Values]);
        assert_eq!(of("cope").acts, [HookPoint::Scores]);
        for info in &all {
            assert_eq!(info.acts.is_empty(), info.kind == "none", "{} acts nowhere", info.kind);
            assert!(!info.past.is_empty(), "{}", info.kind);
        }
    }

    #[test]
    fn the_encodings_of_an_extension_are_found() {
        let all = extensions().unwrap();
        let of = |kind: &str| all.iter().find(|info| info.kind == kind).unwrap();
        assert_eq!(of("direct").applies_to.len(), encodings::kinds().len());
        assert_eq!(of("window").applies_to.len(), encodings::kinds().len());
        assert!(of("ntk").applies_to.contains(&"sinusoidal") && !of("ntk").applies_to.contains(&"alibi"));
        assert_eq!(of("longrope").applies_to, of("frequencies").applies_to);
        assert!(
            of("longrope").keys.contains(&"long_factor (required)".to_owned()),
            "{:?}",
            of("longrope").keys
        );
        assert_eq!(of("ntk").keys, ["scale = \"auto\""]);
        assert!(of("direct").keys.is_empty());
        // `yarn` has a temperature in place of its factor; that of the others is the same for all.
        assert!(of("yarn").keys.contains(&"temperature".to_owned()));
        assert!(all.iter().all(|info| !info.applies_to.is_empty()));
    }
}
