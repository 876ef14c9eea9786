//! Reading golden files and comparing with them.

use burn::tensor::{Device, Tensor as BurnTensor, TensorData};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Agreement of f32 results, as a share of the largest expected number of the tensor.
const F32_TOLERANCE: f64 = 1e-5;
/// Relative agreement of f64 results.
const F64_TOLERANCE: f64 = 1e-9;

#[derive(Debug, Deserialize)]
pub struct File {
    pub name: String,
    pub kind: String,
    pub cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
pub struct Case {
    pub config: Value,
    inputs: BTreeMap<String, Tensor>,
    params: BTreeMap<String, Tensor>,
    outputs: BTreeMap<String, Tensor>,
}

/// Numbers, row-major.
#[derive(Clone, Debug, Deserialize)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

pub fn read_folder(folder: &Path) -> Vec<File> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

impl Tensor {
    /// The same numbers as f32 on the CPU.
    pub fn burn<const D: usize>(&self) -> BurnTensor<D> {
        let shape: [usize; D] = self.shape.as_slice().try_into().unwrap();
        let data: Vec<f32> = self.data.iter().map(|&number| number as f32).collect();
        BurnTensor::from_data(TensorData::new(data, shape), &Device::flex())
    }
}

impl Case {
    pub fn input(&self, name: &str) -> Tensor {
        self.inputs.get(name).unwrap_or_else(|| panic!("no input `{name}`")).clone()
    }

    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.contains_key(name)
    }

    pub fn params(&self) -> &BTreeMap<String, Tensor> {
        &self.params
    }

    pub fn outputs(&self) -> Outputs {
        Outputs(self.outputs.clone())
    }

    pub fn f64(&self, key: &str) -> f64 {
        self.config[key].as_f64().unwrap_or_else(|| panic!("no number `{key}`"))
    }

    pub fn usize(&self, key: &str) -> usize {
        self.f64(key) as usize
    }

    pub fn text(&self, key: &str) -> &str {
        self.config[key].as_str().unwrap_or_else(|| panic!("no text `{key}`"))
    }
}

/// Expected outputs, each compared once.
pub struct Outputs(BTreeMap<String, Tensor>);

impl Outputs {
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Takes an expected output to compare it in another form.
    pub fn take(&mut self, name: &str) -> Tensor {
        self.0.remove(name).unwrap_or_else(|| panic!("no output `{name}`"))
    }

    /// Compares a result computed in f64.
    pub fn compare_f64(&mut self, name: &str, found: &[f64]) {
        let expected = self.take(name).data;
        assert_eq!(found.len(), expected.len(), "{name}: {found:?} against {expected:?}");
        for (found, expected) in found.iter().zip(&expected) {
            let limit = F64_TOLERANCE * expected.abs().max(F64_TOLERANCE);
            assert!((found - expected).abs() <= limit, "{name}: {found} instead of {expected}");
        }
    }

    /// Compares a result computed in f32.
    pub fn compare<const D: usize>(&mut self, name: &str, found: BurnTensor<D>) {
        let expected = self.take(name);
        assert_eq!(found.dims().to_vec(), expected.shape, "{name}: shape");
        assert_close(name, &numbers(found), &expected.data);
    }

    /// Every output must have been compared.
    pub fn done(self) {
        assert!(self.0.is_empty(), "nobody compared {:?}", self.0.keys());
    }
}

/// Which keys each query of a case sees, for every head.
pub struct Seen {
    seen: Vec<bool>,
    keys: usize,
}

impl Seen {
    pub fn of(case: &Case, heads: usize) -> Self {
        let (queries, keys) = (case.input("q_positions").data, case.input("k_positions").data);
        let window = case.config.get("window").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
        let of_head = |_| queries.iter().flat_map(|&i| keys.iter().map(move |&j| i >= j && i - j < window));
        Self { seen: (0..heads).flat_map(of_head).collect(), keys: keys.len() }
    }

    /// Of numbers `[heads, queries, keys]`, those of the visible keys.
    pub fn keep(&self, values: Vec<f64>) -> Vec<f64> {
        assert_eq!(values.len(), self.seen.len());
        values.into_iter().zip(&self.seen).filter_map(|(value, &seen)| seen.then_some(value)).collect()
    }

    /// The softmax of logits over the visible keys.
    pub fn softmax(&self, logits: &[f64]) -> Vec<f64> {
        self.shares(logits, self.keys, |logit, largest| (logit - largest).exp())
    }

    /// A weight for each visible key, from its number and the largest of its row, over the sum of these weights. A row of `values`
    /// may go on past the keys.
    pub fn shares(&self, values: &[f64], row: usize, weight: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        assert_eq!(values.len() / row, self.seen.len() / self.keys);
        let rows = values.chunks(row).zip(self.seen.chunks(self.keys));
        rows.flat_map(|(values, seen)| {
            let visible = || values.iter().zip(seen).map(|(&value, &seen)| seen.then_some(value));
            let largest = visible().flatten().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> =
                visible().map(|value| value.map_or(0.0, |value| weight(value, largest))).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(move |weight| weight / sum)
        })
        .collect()
    }
}

pub fn numbers<const D: usize>(tensor: BurnTensor<D>) -> Vec<f64> {
    let numbers = tensor.into_data_as::<f32>().try_to_vec::<f32>().unwrap();
    numbers.into_iter().map(f64::from).collect()
}

/// Compares f32 results.
pub fn assert_close(name: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{name}: length");
    let largest = expected.iter().fold(0.0f64, |largest, number| largest.max(number.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Written so that a NaN fails.
        let close = (found - expected).abs() <= F32_TOLERANCE * largest;
        assert!(close, "{name}[{index}]: {found} instead of {expected} (largest {largest})");
    }
}
