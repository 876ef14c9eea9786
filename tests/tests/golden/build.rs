//! Encodings, readings and texts as a golden case describes them.

use crate::file::{Case, Tensor};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Int, Tensor as BurnTensor, TensorData};
use longwave_core::Result;
use longwave_model::attention::{Rotations, attend};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::reading::LogN;
use longwave_position::{
    Dimensions, Encoding, EncodingConfig, ExtensionConfig, Init, Lengths, PositionConfig, Positions, Reading,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// Sizes that a case leaves open.
pub fn dimensions(heads: usize, head_dim: usize, width: usize) -> Dimensions {
    Dimensions { layers: 1, width, heads, kv_heads: heads, head_dim, train_length: 2, vocab_size: 16 }
}

/// A config as TOML, with the kind and without the keys that are not the encoding's.
pub fn config(kind: &str, case: &Value, not_ours: &[&str]) -> toml::Value {
    let mut table = toml::Table::new();
    table.insert("kind".to_owned(), toml::Value::String(kind.to_owned()));
    for (key, value) in case.as_object().unwrap() {
        if !not_ours.contains(&key.as_str()) && !value.is_null() {
            table.insert(key.clone(), toml::Value::try_from(value).unwrap());
        }
    }
    toml::Value::Table(table)
}

/// The encoding of a config with the parameters of a case.
pub fn encoding(
    config: &toml::Value,
    dimensions: &Dimensions,
    params: &BTreeMap<String, Tensor>,
) -> Encoding {
    let config = EncodingConfig::from_value(config, "position").unwrap_or_else(|error| panic!("{error}"));
    config.validate("position", dimensions).unwrap_or_else(|error| panic!("{error}"));
    with_params(config.build(dimensions, &Init::new(0, &Device::flex())), params)
}

/// A reading whose only encoding is the one of a config, without parameters.
pub fn reading(config: &toml::Value, dimensions: &Dimensions, log_n: LogN) -> Reading {
    PositionConfig::from_value(config, "position")
        .and_then(|config| config.build("position", dimensions, &Init::new(0, &Device::flex()), log_n))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// `RoPE` in the layout of a case.
pub fn rope(case: &Case, base: f64) -> toml::Value {
    let layout = case.text("layout");
    toml::Value::Table(toml::toml! { kind = "rope" layout = layout base = base })
}

/// The same, or no encoding where a case says that nothing is rotated.
pub fn rope_or_none(case: &Case) -> toml::Value {
    if case.config["rotary"] == true { rope(case, case.f64("base")) } else { "none".into() }
}

/// Reads as the extension of these keys does.
pub fn applied(keys: impl Into<toml::Value>, reading: &Reading, lengths: Lengths) -> Result<Reading> {
    ExtensionConfig::from_value(&keys.into(), "extend")
        .and_then(|extension| extension.apply(reading, lengths))
}

/// Replaces parameters by those of the same name; each must be used.
pub fn with_params<M: Module>(module: M, params: &BTreeMap<String, Tensor>) -> M {
    struct Mapper<'a> {
        path: Vec<String>,
        params: &'a BTreeMap<String, Tensor>,
        used: usize,
    }
    impl ModuleMapper for Mapper<'_> {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn map_float<const D: usize>(&mut self, param: Param<BurnTensor<D>>) -> Param<BurnTensor<D>> {
            // `w1`, or the second of the list `w`.
            let name = self.path.last().cloned().unwrap_or_default();
            let of_list = self.path[self.path.len().saturating_sub(2)..].concat();
            let Some(tensor) = self.params.get(&name).or_else(|| self.params.get(&of_list)) else {
                return param;
            };
            self.used += 1;
            let (id, old, mapper) = param.consume();
            let data: Vec<f32> = tensor.data.iter().map(|&number| number as f32).collect();
            // Parameters of all layers stack the one of a case: a case has one layer.
            let shape: Vec<usize> = if tensor.shape.len() + 1 == D {
                [&[1], tensor.shape.as_slice()].concat()
            } else {
                tensor.shape.clone()
            };
            Param::from_mapped_value(
                id,
                BurnTensor::from_data(TensorData::new(data, shape), &old.device()),
                mapper,
            )
        }
    }
    let mut mapper = Mapper { path: Vec::new(), params, used: 0 };
    let module = module.map(&mut mapper);
    assert_eq!(mapper.used, params.len(), "parameters of the case: {:?}", params.keys());
    module
}

pub fn reading_of(encoding: Encoding, dimensions: &Dimensions) -> Reading {
    let none = toml::Value::String("none".to_owned());
    let mut reading = reading(&none, dimensions, LogN::Off);
    reading.encodings_mut()[0] = encoding;
    reading
}

/// A config with another key.
pub fn with_key(config: toml::Value, key: &str, value: impl Into<toml::Value>) -> toml::Value {
    let toml::Value::Table(mut table) = config else { panic!("{config:?}") };
    table.insert(key.to_owned(), value.into());
    toml::Value::Table(table)
}

/// A config without a key, which must have the one value that the encoding knows.
pub fn without_key(config: toml::Value, key: &str, only: &str) -> toml::Value {
    let toml::Value::Table(mut table) = config else { panic!("{config:?}") };
    let value = table.remove(key);
    assert_eq!(value.as_ref().and_then(toml::Value::as_str), Some(only), "{key}");
    toml::Value::Table(table)
}

/// The config of a bias, from the name of a file such as `kerple_log` or `cpb_interpolated`.
pub fn bias_config(name: &str, case: &Value, not_ours: &[&str]) -> toml::Value {
    let name = name.strip_suffix("_interpolated").unwrap_or(name);
    match name.split_once('_') {
        Some((kind, variant)) => with_key(config(kind, case, not_ours), "variant", variant),
        None => config(name, case, not_ours),
    }
}

/// Positions of a case, shared by the batch.
pub fn positions(tensor: &Tensor) -> Positions {
    Positions::explicit(1, tensor.data.clone())
}

/// Positions of the keys, of which the queries are the last, or of the keys and then the queries.
pub fn positions_of_both(queries: &Tensor, keys: &Tensor) -> Positions {
    if keys.data.ends_with(&queries.data) {
        return positions(keys);
    }
    Positions::explicit(1, [keys.data.as_slice(), queries.data.as_slice()].concat())
}

/// Values that give the probabilities themselves, `[1, heads, length, length]`.
pub fn identity(heads: usize, length: usize) -> BurnTensor<4> {
    BurnTensor::<2>::eye(length, &Device::flex()).unsqueeze::<4>().expand([1, heads, length, length])
}

/// The rows of a case, of which the last are the queries.
pub struct Text {
    pub positions: Positions,
    /// The normalised input `[1, rows, width]`.
    pub input: BurnTensor<3>,
    pub queries: Range<usize>,
}

impl Text {
    pub fn new(positions: Positions, queries: usize, input: BurnTensor<3>) -> Self {
        let rows = positions.length();
        Self { positions, input, queries: rows - queries..rows }
    }

    /// A text whose input, of so many channels, is of no account.
    pub fn without_input(positions: Positions, queries: usize, width: usize) -> Self {
        let input = BurnTensor::zeros([1, positions.length(), width], &Device::flex());
        Self::new(positions, queries, input)
    }

    /// The queries as a block of the first layer.
    pub fn with_block<T>(&self, then: impl FnOnce(QueryBlock<'_>) -> T) -> T {
        self.with_rows(0, &self.queries, then)
    }

    /// Some rows as a block of a layer.
    pub fn with_rows<T>(
        &self,
        layer: usize,
        queries: &Range<usize>,
        then: impl FnOnce(QueryBlock<'_>) -> T,
    ) -> T {
        let tokens = BurnTensor::<2, Int>::zeros([1, self.positions.length()], &Device::flex());
        let rows = Rows::new(layer, &tokens, &self.positions);
        then(QueryBlock { rows, queries, input: &self.input })
    }

    /// The attention of the queries in the first layer, `[heads, queries, dim]`.
    pub fn attended(&self, qkv: [BurnTensor<4>; 3], scale: f64, reading: &Reading) -> BurnTensor<3> {
        self.with_block(|block| attend(qkv, scale, block, reading, &mut Rotations::default()))
            .squeeze_dim::<3>(0)
    }
}
