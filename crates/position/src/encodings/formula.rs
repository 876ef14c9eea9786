//! `formula`: an encoding that a config writes as a formula.
//!
//! `bias` is added to the logits after the scale. It is a function of the distance `n = i - j` of a query and a key, or
//! of their positions `i` and `j`, and of `head` (from 1), `heads`, `layer` (from 0), `layers`, `L`, `d` (`head_dim`)
//! and the learned `parameters`. A bias without `i` and `j` is a table by distance for the fused kernels; a multiple
//! of `n` is a slope for them. `inv_freq` is a schedule of rotary frequencies, a function of `band` (from 0, also `i`),
//! `d`, `base` and `L`; every pair of channels of q and k is turned as in [`rope`](super::rope). Without either it is
//! `ALiBi` (Press et al. 2022, arXiv:2108.12409), a formula to start with.
//!
//! What depends on no parameter is computed in f64 on the host. Gradients of parameters follow from the tensor
//! operations of the formula. Interpolated by s, distances, positions and frequencies are divided by s.

use crate::formula::parameter::{Parameter, of_sizes};
use crate::formula::{Formula, Value, is_reserved};
use crate::prelude::*;
use std::collections::BTreeMap;

/// The bias where a config gives no formula.
const ALIBI: &str = "-2^(-8*head/heads) * n";

/// The usual base of rotary frequencies.
const BASE: f64 = 10_000.0;

/// Names that a bias knows beside its parameters.
const OF_BIAS: [&str; 9] = ["n", "i", "j", "head", "heads", "layer", "layers", "L", "d"];
/// Names that a schedule of frequencies knows; `i` is the band too.
const OF_FREQUENCIES: [&str; 5] = ["band", "i", "d", "base", "L"];

/// Distances up to so many times L are checked for values that are no numbers.
const CHECKED: usize = 64;

/// So many of them are computed at once.
const VALUES_AT_ONCE: usize = 1 << 20;

keys! {
    /// Keys of `kind = "formula"`.
    pub struct Config {
        /// What is added to the logits, such as `"-p * log1p(a * n)"`: a function of the distance `n`, or of the positions
        /// `i` and `j` of query and key, of `head` (from 1), `heads`, `layer` (from 0), `layers`, `L`, `d` (`head_dim`) and
        /// of `parameters`. `ALiBi`'s where `inv_freq` is not given either. In a mixed stack, `layer` and `layers` count the layers that
        /// read this encoding.
        pub bias: Option<String> = None,
        /// The frequency of each pair of channels, such as `"base^(-2*band/d)"`: a function of `band` (from 0, also `i`),
        /// `d`, `base` and `L`.
        pub inv_freq: Option<String> = None,
        /// `base` in `inv_freq`.
        pub base: f64 = BASE,
        /// `inv_freq`: which channels make a pair.
        pub layout: Layout = Layout::Half,
        /// The learned parameters of `bias`, by name: a start, or a table.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub parameters: BTreeMap<String, Parameter> = BTreeMap::new(),
    }
}

impl Config {
    fn bias_text(&self) -> Option<&str> {
        let default = self.inv_freq.is_none().then_some(ALIBI);
        self.bias.as_deref().or(default)
    }

    fn read_bias(&self, section: &str) -> Result<Option<Formula>> {
        let Some(text) = self.bias_text() else { return Ok(None) };
        let parameters = self.parameters.keys().map(String::as_str);
        let known: Vec<&str> = OF_BIAS.into_iter().chain(parameters).collect();
        Formula::read(&format!("{section}.bias"), text, &known).map(Some)
    }

    fn frequencies(&self, section: &str, dimensions: &Dimensions) -> Result<Option<Frequencies>> {
        let Some(text) = &self.inv_freq else { return Ok(None) };
        let key = format!("{section}.inv_freq");
        let formula = Formula::read(&key, text, &OF_FREQUENCIES)?;
        let at = |band: usize| {
            let number = formula.number(&|name| match name {
                "band" | "i" => band as f64,
                "base" => self.base,
                other => of_sizes(other, 0, 0, dimensions),
            });
            if number.is_finite() && number >= 0.0 {
                return Ok(number);
            }
            Err(Error::value(&key, format!("{text:?}"), format!("it is {number} for band {band}")).hint(
                "a frequency is a number of at least 0, in radians a position; 0 leaves the band unrotated",
            ))
        };
        let inv_freq = (0..dimensions.head_dim / 2).map(at).collect::<Result<Vec<_>>>()?;
        let given =
            Frequencies { inv_freq, base: self.base, attention_factor: 1.0, start: None, resonance: false };
        // Extensions ask for the base: that of a progression is of its quotients, whatever the formula makes them of.
        let base = if given.is_geometric() { None } else { given.base_of_quotients() };
        Ok(Some(Frequencies { base: base.unwrap_or(self.base), ..given }))
    }

    fn check_parameters(&self, section: &str, bias: Option<&Formula>, dimensions: &Dimensions) -> Result<()> {
        for (name, parameter) in &self.parameters {
            let key = format!("{section}.parameters.{name}");
            let plain = name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
            let begins = name.starts_with(|sign: char| sign.is_ascii_alphabetic());
            if !plain || !begins || is_reserved(name) || OF_BIAS.contains(&name.as_str()) {
                let why = "the name of a parameter is a word that no variable, function or constant has";
                return Err(
                    Error::usage(format!("`{key}`: {why}")).hint("choose another, such as `a` or `slope`")
                );
            }
            if !bias.is_some_and(|bias| bias.has(name)) {
                let text = format!("`{key}`: `bias` does not read it, so it could not learn");
                return Err(Error::usage(text).hint("use it in `bias`, or remove it"));
            }
            let keys = parameter.keys();
            for (bound, given) in [("min", keys.min), ("max", keys.max)] {
                if let Some(given) = given.filter(|given| !given.is_finite()) {
                    let key = format!("{key}.{bound}");
                    return Err(Error::value(&key, given, "a bound is a finite number")
                        .hint(format!("leave `{bound}` out for no bound")));
                }
            }
            let [least, most] = keys.bounds();
            for start in keys.starts(&key, dimensions)? {
                if !start.is_finite() || start < least || start > most {
                    return Err(Error::value(
                        &format!("{key}.start"),
                        start,
                        "it must be a number within its bounds",
                    ));
                }
            }
        }
        let names: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        match bias.and_then(|bias| bias.flat_over(&names)) {
            Some(function) => {
                Err(Error::usage(format!("`{section}.bias`: nothing inside `{function}` can learn"))
                    .hint("its slope is 0 everywhere: take the parameter out of it"))
            }
            None => Ok(()),
        }
    }

    /// Looks for values that are no numbers, with the parameters at their start. They are computed as the model does, in f32:
    /// a power of a number below 0 is none where its exponent is learned, though the host knows one.
    fn check_values(&self, section: &str, bias: &Formula, dimensions: &Dimensions) -> Result<()> {
        let device = Device::flex();
        let formulas = self.build(dimensions, &Init::new(0, &device));
        let far = CHECKED * dimensions.train_length;
        let near = (0..far.min(4096)).chain((4096..far).step_by(997)).chain([far]);
        let pairs: Vec<(f64, f64)> = if bias.has("i") || bias.has("j") {
            near.flat_map(|i| [0, i / 2, i].map(|j| (i as f64, j as f64))).collect()
        } else {
            near.map(|n| (n as f64, 0.0)).collect()
        };
        let at_once = (VALUES_AT_ONCE / dimensions.heads.max(1)).max(1);
        for layer in 0..dimensions.layers {
            for pairs in pairs.chunks(at_once) {
                let values = formulas.at(bias, layer, &|name| of_pairs(name, pairs), pairs.len(), &device);
                let values: Vec<f32> = values.into_data().iter().collect();
                let Some(wrong) = values.iter().position(|value| !value.is_finite()) else { continue };
                let (i, j) = pairs[wrong % pairs.len()];
                let text = self.bias_text().unwrap_or_default();
                let what = format!(
                    "it is {} at distance {} (query at {i}, key at {j}) in layer {layer}, head {}",
                    values[wrong],
                    i - j,
                    wrong / pairs.len() + 1
                );
                return Err(Error::value(&format!("{section}.bias"), format!("{text:?}"), what).hint(
                    "a bias is a number that f32 holds at every distance, 0 included; with a learned exponent no base may be \
                     below 0",
                ));
            }
        }
        Ok(())
    }
}

/// The values of `n`, `i` or `j` at some pairs of positions.
fn of_pairs(name: &str, pairs: &[(f64, f64)]) -> Value {
    let of = |(i, j): &(f64, f64)| match name {
        "i" => *i,
        "j" => *j,
        _ => i - j,
    };
    Value::by_distance(pairs.iter().map(of).collect())
}

/// The formulas with their parameters.
#[derive(Module, Debug)]
pub struct Formulas {
    /// `[layers or 1, heads or 1]` each, in the order of their names.
    pub values: Vec<Param<Tensor<2>>>,
    #[module(skip)]
    names: Vec<String>,
    #[module(skip)]
    specs: Vec<ParameterSpec>,
    #[module(skip)]
    bias: Option<Formula>,
    /// The bias divided by `n`, where it is a multiple of it.
    #[module(skip)]
    slope: Option<Formula>,
    #[module(skip)]
    rotation: Option<Rotation>,
    #[module(skip)]
    dimensions: Dimensions,
}

impl Configure for Config {
    type Encoding = Formulas;
    const KIND: &'static str = "formula";
    const DESCRIPTION: &'static str =
        "a bias, a schedule of frequencies, or both, written as formulas in the config";
    const SOURCE: &'static str = "the config";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d + f_h(m, n), f written in the config\n\
        f_h(m, n) = −2^{−8(h+1)/H} (m − n), if the config writes neither f nor θ\n\
        θ_i written in the config turns q_m and k_n as in rope";
    const PYTORCH: Option<&'static str> = Some(include_str!("formula.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: what the formula gives there");
    const VARIANTS: &'static [&'static str] = &[
        "bias = '-softplus(a) * log1p(softplus(b) * n)'\nparameters = { a = 0.0, b = { start = '-head/heads', per_layer = false } }",
        "inv_freq = 'base^(-2*band/d)'",
        "bias = '-a * n / (1 + j)'\nparameters = { a = { start = 0.1, per_head = false, min = 0.0 } }",
    ];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        if self.inv_freq.is_none() {
            let given = (self.base.to_bits() != BASE.to_bits()).then(|| self.base.to_string());
            check_without(section, "base", given, "inv_freq")?;
            let given = (self.layout != Layout::Half).then(|| "\"interleaved\"".to_owned());
            check_without(section, "layout", given, "inv_freq")?;
        }
        let bias = self.read_bias(section)?;
        self.check_parameters(section, bias.as_ref(), dimensions)?;
        if let Some(bias) = &bias {
            self.check_values(section, bias, dimensions)?;
        }
        if self.inv_freq.is_some() && dimensions.head_dim % 2 == 1 {
            let text = format!(
                "`{section}.inv_freq` turns pairs of channels, and the head dimension {} is odd",
                dimensions.head_dim
            );
            return Err(Error::usage(text).hint("change `model.width`, `model.heads` or `model.head_dim`"));
        }
        self.frequencies(section, dimensions).map(|_| ())
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Formulas {
        // The config is valid: what cannot be read is not there.
        let bias = self.read_bias("position").ok().flatten();
        let (mut values, mut specs) = (Vec::new(), Vec::new());
        for (index, parameter) in self.parameters.values().enumerate() {
            let keys = parameter.keys();
            let starts = keys.starts("position", dimensions).unwrap_or_default();
            values.push(init.values(keys.shape(dimensions), &starts));
            specs.push(keys.spec(index));
        }
        let frequencies = self.frequencies("position", dimensions).ok().flatten();
        Formulas {
            values,
            names: self.parameters.keys().cloned().collect(),
            specs,
            slope: bias
                .as_ref()
                .filter(|bias| !bias.has("i") && !bias.has("j"))
                .and_then(|bias| bias.multiple_of("n")),
            bias,
            rotation: frequencies.map(|frequencies| Rotation::new(frequencies, self.layout)),
            dimensions: *dimensions,
        }
    }
}

impl Formulas {
    /// Whether the bias reads more of the positions than their distance.
    fn reads_positions(&self) -> bool {
        self.bias.as_ref().is_some_and(|bias| bias.has("i") || bias.has("j"))
    }

    /// The value of a name in a layer; `of_pair` has the values of `n`, `i` and `j`.
    fn value(&self, name: &str, layer: usize, of_pair: &dyn Fn(&str) -> Value) -> Value {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            let value = self.values[index].val(); // [layers or 1, heads or 1]
            let layer = layer.min(value.dims()[0] - 1);
            return Value::Learned(value.slice_dim(0, layer..layer + 1).swap_dims(0, 1)); // [heads or 1, 1]
        }
        match name {
            "n" | "i" | "j" => of_pair(name),
            "head" => Value::by_head((1..=self.dimensions.heads).map(|head| head as f64).collect()),
            other => Value::number(of_sizes(other, layer, 0, &self.dimensions)),
        }
    }

    /// `[heads, pairs]`.
    fn at(
        &self,
        formula: &Formula,
        layer: usize,
        of_pair: &dyn Fn(&str) -> Value,
        pairs: usize,
        device: &Device,
    ) -> Tensor<2> {
        let value = formula.value(&|name| self.value(name, layer, of_pair), device);
        value.tensor([self.dimensions.heads, pairs], device)
    }

    /// The bias of a block at the positions of its queries and keys.
    fn by_positions(&self, bias: &Formula, block: QueryBlock<'_>, device: &Device) -> Bias {
        let positions = block.rows.positions;
        let length = positions.length().max(1);
        let pairs: Vec<(f64, f64)> = positions
            .values()
            .chunks(length)
            .flat_map(|row| {
                row[block.queries.clone()].iter().flat_map(move |i| row.iter().map(move |j| (*i, *j)))
            })
            .collect();
        let of_pair = |name: &str| {
            Value::by_distance(match name {
                "i" => pairs.iter().map(|pair| pair.0).collect(),
                // A hidden key is read where its query stands, so that it cannot spoil anything.
                "j" => pairs.iter().map(|(i, j)| j.min(*i)).collect(),
                _ => of_block(block),
            })
        };
        Bias::Block(as_block(self.at(bias, block.rows.layer, &of_pair, pairs.len(), device), block))
    }
}

impl Position for Formulas {
    fn parameters(&self) -> Vec<ParameterSpec> {
        self.specs.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let has = |name: &str| self.bias.as_ref().is_some_and(|bias| bias.has(name));
        let position_use = if self.reads_positions() {
            PositionUse::Positions
        } else if has("n") || self.rotation.is_some() {
            PositionUse::Distances
        } else {
            PositionUse::Order
        };
        Capabilities {
            position_use,
            is_relative_qk: self.rotation.is_some(),
            bias_use: self.bias.is_some().into(),
            scratch_per_score: self.bias.as_ref().map_or(1, Formula::operations).max(1),
            ..Capabilities::default()
        }
    }

    fn rotation(&self, _layer: usize) -> Option<Rotation> {
        self.rotation.clone()
    }

    fn frequencies(&self) -> Option<&Frequencies> {
        self.rotation.as_ref().map(|rotation| &rotation.frequencies)
    }

    fn set_frequencies(&mut self, frequencies: Frequencies) {
        if let Some(rotation) = &mut self.rotation {
            rotation.frequencies = frequencies;
        }
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let Some(bias) = &self.bias else { return Bias::None };
        let (layer, device) = (block.rows.layer, block.input.device());
        if self.reads_positions() {
            return self.by_positions(bias, block, &device);
        }
        if block.rows.positions.consecutive()
            && let Some(slope) = &self.slope
        {
            let slope = self.at(slope, layer, &|_| Value::number(1.0), 1, &device); // [heads, 1]
            return Bias::Slopes(slope.squeeze_dim::<1>(1).div_scalar(-block.rows.positions.scale()));
        }
        bias_by_distance(block, |distances| {
            self.at(bias, layer, &|_| Value::by_distance(distances.to_vec()), distances.len(), &device)
        })
    }

    fn needs_scores(&self, positions: &Positions) -> bool {
        self.bias.is_some() && (self.reads_positions() || !positions.consecutive())
    }

    fn interpolates(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
