//! What `[model]` does to attention besides the encoding.

use burn::tensor::Device;
use longwave_core::{Result, written};
use longwave_model::block::Block;
use longwave_model::complex_weights::WeightKind;
use longwave_model::config::{AttentionGate, CanonPlace, ModelConfig, QkNorm};
use longwave_model::resolved::Resolved;
use longwave_position::parameter::shapes;
use longwave_position::reading::{AttentionKind, LearnedKeys, LogNKind, Remainder, StickBreaking};
use longwave_position::{Init, Reading};
use serde::Serialize;
use std::fmt;

/// A key of `[model]` that is not as in the default model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelPart {
    /// Key and value, as a config has them below `[model]`.
    pub setting: String,
    /// What it does, in words.
    pub does: String,
    /// Name and shape of each parameter that it adds.
    pub parameters: Vec<(String, Vec<usize>)>,
    /// In how many layers these are; 1 where a shape counts the layers itself.
    pub copies: usize,
    /// The number of parameters that it adds, in all layers.
    pub added: usize,
}

impl ModelPart {
    /// Those of a model that reads positions so.
    pub fn all(resolved: &Resolved, reading: &Reading) -> Result<Vec<Self>> {
        let weight_kind = WeightKind::of(reading.capabilities().makes_complex());
        let block = shapes(&Block::new(resolved, weight_kind, 0, &Init::counting(&Device::flex())));
        let has_windows = reading.layers().iter().any(|layer| layer.mask.window.is_some());
        let reading = shapes(reading);
        let ModelConfig { attention, attention_gate, canon, log_n, qk_norm, .. } = &resolved.config;
        let is_there = [
            ("attention", of_attention(*attention), &["attention.remainder"][..]),
            ("attention_gate", of_gate(*attention_gate), &["attention.gate", "attention.gate_bias"]),
            ("norm_attention_output", of_norm(&resolved.config), &["attention.output_norm"]),
            ("canon", of_canon(canon), &["attention_canon", "feed_forward_canon"]),
            (
                "qk_norm",
                of_qk_norm(*qk_norm),
                &["attention.logit_scale", "attention.query_gain", "attention.key_gain"],
            ),
            ("log_n", of_log_n(*log_n, resolved.config.log_n_bias), &["log_n", "adaptive_log_n"]),
        ];
        let values = written::toml_table("the keys of `[model]`", &resolved.config)?;
        let part = |(key, does, fields): (&str, Option<String>, &[&str])| {
            let (among, copies) =
                if key == "log_n" { (&reading, 1) } else { (&block, resolved.dimensions.layers) };
            let is_of = |name: &str, field: &str| {
                name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let parameters = among.iter().filter(|(name, _)| fields.iter().any(|field| is_of(name, field)));
            let parameters: Vec<_> = parameters.cloned().collect();
            let of_copy: usize = parameters.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
            let does = if key == "log_n" {
                // Where an encoding is for the first heads alone, adaptive scaling is for the others.
                let scaled = parameters.last().and_then(|(_, shape)| shape.last());
                let some = scaled.filter(|&&scaled| scaled < resolved.dimensions.heads);
                let which =
                    some.map_or(String::new(), |scaled| format!(", in the last {scaled} heads alone"));
                // What a window hides is counted too, but by the learned law.
                let n = if has_windows && !matches!(resolved.config.log_n, LogNKind::Learned(_)) {
                    "tokens up to and with the query's own"
                } else {
                    "keys that a query sees"
                };
                format!("{}{which}; n is the number of {n}", does?)
            } else {
                does?
            };
            let setting = format!("{key} = {}", values[key]);
            Some(Self { setting, does, parameters, copies, added: copies * of_copy })
        };
        Ok(is_there.into_iter().filter_map(part).collect())
    }
}

impl fmt::Display for ModelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.does)?;
        if self.parameters.is_empty() {
            return Ok(());
        }
        let shapes: Vec<String> =
            self.parameters.iter().map(|(name, shape)| format!("{name} {shape:?}")).collect();
        let each =
            if self.copies > 1 { format!(" in each of {} layers", self.copies) } else { String::new() };
        write!(f, "; {}{each}, {} parameters", shapes.join(", "), self.added)
    }
}

fn of_attention(kind: AttentionKind) -> Option<String> {
    let does = match kind {
        AttentionKind::Softmax => return None,
        AttentionKind::Linear => "values are weighed by products of elu(q) + 1 and elu(k) + 1 over their sum",
        AttentionKind::StickBreaking(StickBreaking { remainder, .. }) => match remainder {
            Remainder::Value => {
                "each key takes a share of a stick, the nearest first; the query's own value gets the rest"
            }
            Remainder::Bias => {
                "each key takes a share of a stick, the nearest first; a learned vector of the head gets the rest"
            }
            Remainder::Drop => "each key takes a share of a stick, the nearest first; the rest goes nowhere",
        },
        AttentionKind::Entmax(_) => "a softmax whose small weights are exactly 0",
        AttentionKind::Lssa => {
            "weights are the softplus of cosines of q and k, times ln d ln n, over its sum"
        }
        AttentionKind::Lssar(_) => {
            "weights are the softplus of cosines of q and k, times ln d ln n, over its sum; a power of those above the average"
        }
    };
    Some(does.to_owned())
}

fn of_gate(gate: AttentionGate) -> Option<String> {
    let what = match gate {
        AttentionGate::None => return None,
        AttentionGate::Head => "the output of each head",
        AttentionGate::Channel => "each channel of each head's output",
    };
    Some(format!("{what} times a sigmoid of a linear map of the layer's normalised input"))
}

fn of_norm(config: &ModelConfig) -> Option<String> {
    config.norm_attention_output.then(|| {
        format!("what attention adds to the residual stream is normalised by `{}`", config.norm.name())
    })
}

fn of_canon(places: &[CanonPlace]) -> Option<String> {
    let before: Vec<&str> = places
        .iter()
        .map(|place| match place {
            CanonPlace::Attention => "attention",
            CanonPlace::FeedForward => "the feed-forward layer",
        })
        .collect();
    let before = before.join(" and ");
    (!places.is_empty()).then(|| {
        format!("before {before}, each row gets a causal convolution of it and the three rows before")
    })
}

fn of_qk_norm(norm: QkNorm) -> Option<String> {
    let does = match norm {
        QkNorm::None => return None,
        QkNorm::Key => "logits are s q.k / |k|, s learned for each head",
        QkNorm::Cosine => "logits are s q.k / (|q| |k|), s learned for each head",
        QkNorm::Rms => "q and k are divided by their root mean squares, with a learned gain for each channel",
    };
    Some(does.to_owned())
}

fn of_log_n(kind: LogNKind, bias: bool) -> Option<String> {
    let does = match (kind, bias) {
        (LogNKind::Off, _) => return None,
        (LogNKind::Fixed, _) => "q times ln n / ln L",
        (LogNKind::Learned(LearnedKeys { scale_bias: false }), false) => {
            "q times s ln n, s learned for each head"
        }
        (LogNKind::Learned(LearnedKeys { scale_bias: false }), true) => {
            "q times s ln n + b, s and b learned for each head"
        }
        (LogNKind::Learned(_), false) => "whole logits times s ln n, s learned for each head",
        (LogNKind::Learned(_), true) => "whole logits times s ln n + b, s and b learned for each head",
        (LogNKind::Adaptive, _) => {
            "q times 1 + beta ln(n + 1)^gamma, beta and gamma of each query and head from the layer's input"
        }
        (LogNKind::Power, _) => "q times 1 + beta ln(n + 1)^gamma, beta and gamma learned for each head",
    };
    Some(does.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Module as _;
    use longwave_model::Gpt;
    use longwave_position::PositionConfig;

    fn model(keys: &str, position: &str) -> (Resolved, Gpt) {
        let config: ModelConfig = toml::from_str(keys).unwrap();
        let resolved = config.resolve(16, 32).unwrap();
        let position = PositionConfig::from_value(&toml::Value::Table(position.parse().unwrap()), "position");
        let gpt = Gpt::new(&resolved, &position.unwrap(), &Init::counting(&Device::flex())).unwrap();
        (resolved, gpt)
    }

    /// What is said to be added is what the model has more.
    #[test]
    fn parameters_are_those_that_the_model_has_more() {
        let [rope, complex] = ["kind = 'rope'", "kind = 'complex_order'\ncomplex = true"];
        let half = "kind = 'alibi'\nheads = 'H/2'\nslopes = 'linear'";
        for (keys, position) in [
            ("attention_gate = 'head'\nattention_gate_bias = true", rope),
            ("attention_gate = 'channel'", rope),
            ("norm_attention_output = true", rope),
            ("norm_attention_output = true\nnorm = 'dyt'", rope),
            ("canon = ['attention', 'feed_forward']", rope),
            ("canon = ['feed_forward']", complex),
            ("attention = 'entmax'", rope),
            ("attention = 'linear'", rope),
            ("attention = 'lssa'", rope),
            ("attention = 'lssar'", rope),
            ("attention = { kind = 'stick_breaking', remainder = 'bias' }", rope),
            ("qk_norm = 'key'", rope),
            ("qk_norm = 'cosine'", rope),
            ("qk_norm = 'rms'", rope),
            ("log_n = true", rope),
            ("log_n = { kind = 'learned', scale_bias = true }\nlog_n_bias = true", rope),
            ("log_n = 'adaptive'\nlog_n_bias = true", half),
            ("log_n = 'power'", rope),
        ] {
            let (resolved, with) = model(keys, position);
            let norm = if keys.contains("dyt") { "norm = 'dyt'" } else { "" };
            let (_, without) = model(norm, position);
            let parts = ModelPart::all(&resolved, &with.position).unwrap();
            assert_eq!(parts.len(), 1, "{keys}: {parts:?}");
            assert_eq!(parts[0].added, with.num_params() - without.num_params(), "{keys}: {parts:?}");
        }
        let (resolved, plain) = model("", rope);
        assert_eq!(ModelPart::all(&resolved, &plain.position).unwrap(), []);
    }
}
