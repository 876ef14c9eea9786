//! `alibi`: a penalty that grows linearly with the distance.
//!
//! `logit_ij += -slope_h (i - j)`, after the scaled q.k (Press et al. 2022, arXiv:2108.12409, section 3).
//! For H heads, H a power of two, `slope_h = 2^(-8h/H)`, h = 1..H; otherwise the slopes of the power of
//! two P below, then every other slope (1st, 3rd, ..) of 2P, as in the authors' code. No parameters, the
//! same in every layer; with `learned_slopes` they are trained, `[layers, heads]`, unclamped (the paper
//! reports that this extrapolates worse). Interpolated by s, every distance is divided by s.
//!
//! `heads = A` gives slopes to the first A heads alone, those of a model of A heads; the others see no distance. With
//! `slopes = "linear"` (`1/h`) or `"exp"` (`2^(-(h - 1))`), h = 1..A, and `heads = "H/2"` this is NAPE (Vasylenko et al. 2025,
//! arXiv:2506.16640; deep-spin/asentmax, `get_nape_slopes`).

use crate::prelude::*;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserializer, Serializer};
use std::borrow::Cow;

keys! {
    /// Keys of `kind = "alibi"`.
    pub struct Config {
        /// Train the slopes, which start at the published ones.
        pub learned_slopes: bool = false,
        /// Heads that have a slope, the first ones: a number, or a share of all heads such as `"H/2"`; all of them unless given.
        pub heads: Option<HeadCount> = None,
        /// How the slopes fall from head to head.
        pub slopes: Slopes = Slopes::default(),
    }
}

/// How slopes fall over A heads, h = 1..A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Slopes {
    /// `2^(-8h/A)`.
    #[default]
    Geometric,
    /// `1/h`.
    Linear,
    /// `2^(-(h - 1))`.
    Exp,
}

impl Slopes {
    fn of(self, heads: usize) -> Vec<f64> {
        match self {
            Self::Geometric => slopes(heads),
            Self::Linear => (1..=heads).map(|h| 1.0 / h as f64).collect(),
            Self::Exp => (0..heads).map(|h| (-(h as f64)).exp2()).collect(),
        }
    }
}

/// A number of heads, or the share `H / divisor` of all H, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadCount {
    Count(usize),
    Share { divisor: usize },
}

impl HeadCount {
    fn of(self, heads: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Share { divisor } => heads / divisor,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let divisor = text.trim().strip_prefix('H')?.trim_start().strip_prefix('/')?.trim().parse().ok()?;
        (divisor > 0).then_some(Self::Share { divisor })
    }
}

impl Serialize for HeadCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => count.serialize(serializer),
            Self::Share { divisor } => serializer.serialize_str(&format!("H/{divisor}")),
        }
    }
}

impl<'de> Deserialize<'de> for HeadCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Count(usize),
            Text(String),
        }
        let read = match Raw::deserialize(deserializer) {
            Ok(Raw::Count(count)) => Some(Self::Count(count)),
            Ok(Raw::Text(text)) => Self::parse(&text),
            Err(_) => None,
        };
        let allowed = "it must be a number of heads, or a share of all heads H such as \"H/2\"";
        read.ok_or_else(|| serde::de::Error::custom(allowed))
    }
}

impl JsonSchema for HeadCount {
    fn schema_name() -> Cow<'static, str> {
        "HeadCount".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": r"^\s*H\s*/\s*[0-9]+\s*$" }
            ]
        })
    }
}

/// The slopes.
#[derive(Module, Debug)]
pub struct Alibi {
    /// `[layers, slopes]`, where they are learned: those of the first heads.
    pub slopes: Option<Param<Tensor<2>>>,
    /// Those of all heads, as they start.
    #[module(skip)]
    fixed: Vec<f64>,
}

pub fn slopes(heads: usize) -> Vec<f64> {
    let of = |heads: usize| (1..=heads).map(move |h| (-8.0 * h as f64 / heads as f64).exp2());
    if heads.is_power_of_two() {
        return of(heads).collect();
    }
    let below = heads.next_power_of_two() / 2;
    of(below).chain(of(2 * below).step_by(2)).take(heads).collect()
}

impl Configure for Config {
    type Encoding = Alibi;
    const KIND: &'static str = "alibi";
    const DESCRIPTION: &'static str = "a penalty that grows linearly with the distance (ALiBi)";
    const SOURCE: &'static str = "arXiv:2108.12409";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d − c_h (m − n)\n\
        c_h = 2^{−8(h+1)/P}, for h < P = 2^{⌊log_2 H⌋}\n\
        c_h = 2^{−4(2(h−P)+1)/P}, for h ≥ P";
    const PYTORCH: Option<&'static str> = Some(include_str!("alibi.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the penalty goes on growing");
    const VARIANTS: &'static [&'static str] =
        &["learned_slopes = true", "heads = 'H/2'\nslopes = 'linear'", "heads = 1\nlearned_slopes = true"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        let Some(heads) = self.heads else { return Ok(()) };
        if (1..=dimensions.heads).contains(&heads.of(dimensions.heads)) {
            return Ok(());
        }
        let value = toml::Value::try_from(heads).map_or_else(|_| String::new(), |value| value.to_string());
        let all = dimensions.heads;
        Err(Error::value(
            &format!("{section}.heads"),
            value,
            format!("of the {all} heads (`model.heads`) at least 1 must have a slope, and at most all"),
        )
        .hint("leave it out: all heads have a slope then"))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Alibi {
        let (layers, heads) = (dimensions.layers, dimensions.heads);
        let sloped = self.heads.map_or(heads, |count| count.of(heads));
        let mut fixed = self.slopes.of(sloped);
        let learned = self.learned_slopes.then(|| init.values([layers, sloped], &fixed));
        fixed.resize(heads, 0.0);
        Alibi { slopes: learned, fixed }
    }
}

impl Alibi {
    /// The slopes of a layer, `[heads]`.
    pub fn of_layer(&self, layer: usize, device: &Device) -> Tensor<1> {
        let Some(slopes) = &self.slopes else { return upload(&self.fixed, device) };
        let sloped = at_layer::<2, 1>(slopes, layer);
        match self.fixed.len() - sloped.dims()[0] {
            0 => sloped,
            others => Tensor::cat(vec![sloped, Tensor::zeros([others], device)], 0),
        }
    }
}

impl DistanceBias for Alibi {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let learned = self.slopes.as_ref();
        learned.map(|_| ParameterSpec::undecayed("slopes", &["layers", "slopes"])).into_iter().collect()
    }

    fn at(&self, layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let slopes = self.of_layer(layer, device);
        upload(distances, device).unsqueeze::<2>() * slopes.neg().unsqueeze_dim::<2>(1)
    }

    fn slopes(&self, layer: usize, device: &Device) -> Option<Tensor<1>> {
        Some(self.of_layer(layer, device))
    }

    fn capabilities(&self) -> Capabilities {
        let bias_use = match self.fixed.iter().filter(|slope| **slope > 0.0).count() {
            sloped if sloped < self.fixed.len() => BiasUse::FirstHeads(sloped),
            _ => BiasUse::AllHeads,
        };
        Capabilities { bias_use, ..Capabilities::BY_DISTANCE }
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        if self.slopes.is_some() {
            return Vec::new();
        }
        let rows =
            self.fixed.iter().enumerate().map(|(head, slope)| vec![head as f64, slope / positions.scale()]);
        vec![Summary::new("slopes", &["head", "slope"], rows.collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dimensions, message_of};

    #[test]
    fn a_part_of_the_heads_has_slopes() {
        let of = |text: &str, heads: usize| {
            let config: Config = toml::from_str(text).unwrap();
            assert_eq!(toml::from_str::<Config>(&toml::to_string(&config).unwrap()).unwrap(), config);
            config.build(&Dimensions { heads, ..dimensions() }, &Init::new(0, &Device::flex())).fixed
        };
        assert_eq!(of("heads = 'H/2'\nslopes = 'linear'", 5), [1.0, 0.5, 0.0, 0.0, 0.0]);
        assert_eq!(of("heads = 3\nslopes = 'exp'", 4), [1.0, 0.5, 0.25, 0.0]);
        assert_eq!(of("heads = 2", 4), [0.0625, 0.003_906_25, 0.0, 0.0]);
        assert_eq!(of("heads = 1", 2), [0.003_906_25, 0.0]);
        for wrong in ["0", "3", "'H/3'", "'H'", "'H/0'", "'L/2'", "0.5"] {
            let message = message_of(&format!("kind = 'alibi'\nheads = {wrong}"));
            assert!(message.contains("position.heads"), "{wrong}: {message}");
        }
    }
}
