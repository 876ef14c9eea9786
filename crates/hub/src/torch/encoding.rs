//! An encoding as numbers: what its hooks describe, and the keys that its Python class reads.

use super::{linear, no_python};
use burn::tensor::{Device, Int, Tensor};
use longwave_core::{Result, written};
use longwave_kernels::{Bias, Layout};
use longwave_position::encoding::{Dimensions, HeadUse, QueryBlock, Rows, ScoreUse};
use longwave_position::encodings::abacus::Abacus;
use longwave_position::encodings::fope::Fope;
use longwave_position::encodings::radix::Radix;
use longwave_position::encodings::{self, Encoding};
use longwave_position::frequency::{Frequencies, Rotation};
use longwave_position::parameter::{shapes, values};
use longwave_position::{EncodingConfig, Positions};
use serde_json::{Map, Value, json};

/// One encoding of a model, and how it goes into the file.
pub(super) struct Written<'a> {
    trained: &'a Encoding,
    keys: Map<String, Value>,
    /// Its Python class; without one, what is described goes as numbers.
    pub(super) class: Option<&'static str>,
    dimensions: Dimensions,
    /// The longest text that tables by distance or position are written for.
    longest: usize,
}

impl<'a> Written<'a> {
    /// `dimensions` have the layers that read the encoding.
    pub(super) fn new(
        trained: &'a Encoding,
        config: &EncodingConfig,
        dimensions: Dimensions,
        longest: usize,
    ) -> Result<Self> {
        let keys = written::json_value("an encoding", config)?;
        if draws(&keys) {
            return Err(no_python(
                trained.kind(),
                "`past_table = \"random\"` draws vectors from Longwave's own random numbers",
            ));
        }
        let mut written = Self { trained, keys: object(keys), class: None, dimensions, longest };
        let bias = written.bias(trained, 0, 1);
        let by_numbers = matches!(bias, Bias::None | Bias::Slopes(_)) && shapes(trained).is_empty();
        if !(by_numbers && written.obstacle().is_none() && written.vectors(trained, 0, 1)?.is_none()) {
            written.class = encodings::pytorch(trained.kind());
            if let (None, Some(what)) = (written.class, written.obstacle()) {
                return Err(no_python(trained.kind(), what));
            }
        }
        Ok(written)
    }

    /// What of it no numbers describe.
    fn obstacle(&self) -> Option<&'static str> {
        let capabilities = self.trained.capabilities();
        if capabilities.head_use != HeadUse::None {
            Some("it maps q and k")
        } else if capabilities.adds_vectors()
            || capabilities.score_use == ScoreUse::Computes
            || self.trained.needs_scores(&Positions::range(0..self.longest))
        {
            Some("it computes with scores")
        } else if capabilities.replaces_hidden() || capabilities.reads_input {
            Some("it reads the hidden state")
        } else {
            self.trained.sink(0).map(|_| "it adds to the softmax")
        }
    }

    /// The module in `config.json`.
    pub(super) fn module(&self) -> Value {
        let class = self.class.map_or("Encoding", |_| self.trained.type_name());
        let shapes: Map<String, Value> =
            shapes(self.trained).into_iter().map(|(name, shape)| (name, json!(shape))).collect();
        json!({ "class": class, "name": self.trained.type_name(), "shapes": shapes })
    }

    /// Its numbers as `read` has them in a layer.
    pub(super) fn entry(&self, read: &Encoding, layer: usize) -> Result<Map<String, Value>> {
        let mut entry = Map::new();
        if let Some(class) = self.class {
            entry.extend(self.keys.clone());
            if let Some(radix) = read.get::<Radix>() {
                entry.extend(object(written::json_value("an encoding", &radix.config())?));
            }
            if let Some(digits) = read.clone().get_mut().and_then(Abacus::of_tokenizer) {
                entry.insert("digits".to_owned(), json!(digits));
            }
            if let Some(fope) = read.get::<Fope>().filter(|fope| fope.cos_coef.is_none()) {
                let fixed = fope
                    .coefficients(layer, &Device::flex())
                    .map(|coefficients| nested(coefficients.squeeze_dim::<3>(0)));
                entry.insert("coefficients".to_owned(), json!(fixed));
            }
            let d = &self.dimensions;
            let widths = [("heads", d.heads), ("layers", d.layers), ("head_dim", d.head_dim)];
            let sizes = widths.into_iter().chain([("train_length", d.train_length)]);
            let asked = sizes.filter(|(name, _)| class.contains(&format!("[\"{name}\"]")));
            entry.extend(asked.map(|(name, size)| (name.to_owned(), json!(size))));
            let (before, after) = (shapes(self.trained), shapes(read));
            if before != after {
                entry.insert("made".to_owned(), made(read)?);
            }
            entry.insert("interpolation".to_owned(), json!(read.interpolation()));
        } else {
            entry.insert("kind".to_owned(), self.trained.kind().into());
            self.numbers(read, layer, &mut entry)?;
            // What is described is interpolated already.
            entry.insert("interpolation".to_owned(), json!(1.0));
        }
        if let Some(rotation) = read.rotation(layer) {
            entry.extend(frequencies(&rotation.frequencies));
            entry.insert("rotation".to_owned(), rotated(&rotation));
        } else if let Some(read) = read.frequencies() {
            entry.extend(frequencies(read));
        }
        Ok(entry)
    }

    /// Biases by distance and vectors by position.
    fn numbers(&self, read: &Encoding, layer: usize, entry: &mut Map<String, Value>) -> Result<()> {
        let heads = self.dimensions.heads;
        match self.bias(read, layer, self.longest) {
            Bias::None => {}
            Bias::Slopes(slopes) if shapes(read).is_empty() => {
                entry.insert("slopes".to_owned(), json!(flat(slopes)));
            }
            Bias::ByDistance(table) if shapes(read).is_empty() => {
                entry.insert("table".to_owned(), linear::by_head(&flat(table), heads));
            }
            Bias::Slopes(_) | Bias::ByDistance(_) => {
                let of = |encoding: &Encoding| self.by_distance(encoding, layer);
                let (constant, tables) = linear::tables(read, heads, of).ok_or_else(|| {
                    no_python(
                        read.kind(),
                        "its bias is no sum of its parameters, each times a table by distance",
                    )
                })?;
                if constant.iter().any(|x| *x != 0.0) {
                    entry.insert("table".to_owned(), linear::by_head(&constant, heads));
                }
                entry.insert("linear".to_owned(), tables);
            }
            _ => return Err(no_python(read.kind(), "its bias is not a function of the distance")),
        }
        if let Some(vectors) = self.vectors(read, layer, self.longest)? {
            entry.insert("vectors".to_owned(), vectors);
        }
        Ok(())
    }

    fn by_distance(&self, encoding: &Encoding, layer: usize) -> Option<Vec<f32>> {
        match self.bias(encoding, layer, self.longest) {
            Bias::ByDistance(table) => Some(flat(table)),
            Bias::Slopes(slopes) => {
                let of_head = |slope: f32| (0..self.longest).map(move |n| -slope * n as f32);
                Some(flat(slopes).into_iter().flat_map(of_head).collect())
            }
            _ => None,
        }
    }

    /// The bias of a text of `count` tokens.
    fn bias(&self, encoding: &Encoding, layer: usize, count: usize) -> Bias {
        if !encoding.capabilities().adds_bias() || encoding.capabilities().reads_input {
            return Bias::None;
        }
        let device = Device::flex();
        let positions = encoding.reads(&Positions::range(0..count));
        let tokens = Tensor::<2, Int>::zeros([1, count], &device);
        let input = Tensor::<3>::zeros([1, count, self.dimensions.width], &device);
        let rows = Rows::new(layer, &tokens, &positions);
        encoding.bias(QueryBlock { rows, queries: &(0..count), input: &input })
    }

    /// What it adds to the hidden state of a text of `count` tokens, where it changes it.
    fn vectors(&self, encoding: &Encoding, layer: usize, count: usize) -> Result<Option<Value>> {
        let device = Device::flex();
        let positions = encoding.reads(&Positions::range(0..count));
        let tokens = Tensor::<2, Int>::zeros([1, count], &device);
        let shape = [1, count, self.dimensions.width];
        let added = |number: f32| {
            let hidden = Tensor::<3>::full(shape, number, &device);
            encoding.embed(hidden.clone(), Rows::new(layer, &tokens, &positions), &mut None) - hidden
        };
        let (first, second) = (added(0.0), added(1.0));
        if first.clone().abs().max().into_scalar::<f32>() == 0.0
            && second.clone().abs().max().into_scalar::<f32>() == 0.0
        {
            return Ok(None);
        }
        if self.class.is_none() && encodings::pytorch(encoding.kind()).is_none() {
            let same = (first.clone() - second).abs().max().into_scalar::<f32>() < 1e-5;
            if !same || !shapes(encoding).is_empty() {
                return Err(no_python(
                    encoding.kind(),
                    "what it adds to the hidden state is no fixed vector of the position",
                ));
            }
        }
        Ok(Some(nested(first.squeeze_dim::<2>(0))))
    }
}

/// Whether a table of vectors by position is continued by random ones.
fn draws(keys: &Value) -> bool {
    let own = keys.as_object().into_iter().flatten();
    own.into_iter().any(|(key, value)| key == "past_table" && value == "random" || draws(value))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap_or_default()
}

/// A tensor as lists in lists.
fn nested<const D: usize>(tensor: Tensor<D>) -> Value {
    let shape = tensor.dims();
    shaped(flat(tensor), &shape)
}

/// Numbers as lists in lists.
fn shaped(numbers: Vec<f32>, shape: &[usize]) -> Value {
    let mut values: Vec<Value> = numbers.into_iter().map(|x| json!(x)).collect();
    for size in shape.iter().skip(1).rev() {
        values = values.chunks(*size).map(|chunk| Value::Array(chunk.to_vec())).collect();
    }
    Value::Array(values)
}

/// The parameters whose shape an extension has changed.
fn made(read: &Encoding) -> Result<Value> {
    let mut named = shapes(read).into_iter().zip(values(read));
    match named.find(|((name, _), _)| name == "table") {
        Some(((name, shape), table)) => Ok(json!({ name: shaped(flat(table), &shape) })),
        None => Err(no_python(read.kind(), "the extension makes other parameters than a table longer")),
    }
}

/// Frequencies as positions are multiplied with them.
fn frequencies(read: &Frequencies) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("inv_freq".to_owned(), json!(read.as_read()));
    entry.insert("factor".to_owned(), json!(read.attention_factor));
    if let Some(start) = &read.start {
        let first = Frequencies { inv_freq: start.inv_freq.clone(), start: None, ..read.clone() };
        entry.insert("start".to_owned(), json!({ "below": start.below, "inv_freq": first.as_read() }));
    }
    entry
}

fn rotated(rotation: &Rotation) -> Value {
    let mut written = object(json!({ "interleaved": rotation.layout == Layout::Interleaved }));
    if let Some(decay) = &rotation.decay {
        written.insert("zeta".to_owned(), json!(decay.zeta));
        written.insert("scale_base".to_owned(), json!(decay.scale_base));
        if let Some(centre) = decay.centre {
            written.insert("centre".to_owned(), json!(centre));
        }
    }
    Value::Object(written)
}
