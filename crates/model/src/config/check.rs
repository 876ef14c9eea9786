//! Fills in what `[model]` leaves open, and checks its values.

use super::{AttentionGate, MAX_LAYERS, ModelConfig, NORM_EPS, NormKind, QK_NORM_EPS, QkNorm};
use crate::resolved::Resolved;
use longwave_core::{Error, Result};
use longwave_position::Dimensions;
use longwave_position::encoding::MAX_SIZE;
use longwave_position::reading::{AttentionKind, LogNKind};

impl ModelConfig {
    /// Fills in the sizes and checks them; `tokens` is the number of tokens that the tokenizer has.
    pub fn resolve(&self, tokens: usize, train_length: usize) -> Result<Resolved> {
        let (layers, width, heads) = self.size.sizes();
        let layers = within("model.layers", self.layers.unwrap_or(layers), MAX_LAYERS)?;
        let width = positive("model.width", self.width.unwrap_or(width))?;
        let heads = positive("model.heads", self.heads.unwrap_or(heads))?;
        let kv_heads = positive("model.kv_heads", self.kv_heads.unwrap_or(heads))?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(Error::value(
                "model.kv_heads",
                kv_heads,
                format!("it must divide `model.heads = {heads}`"),
            ));
        }
        let head_dim = match self.head_dim {
            Some(dim) => positive("model.head_dim", dim)?,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(Error::value(
                    "model.heads",
                    heads,
                    format!("it must divide `model.width = {width}`"),
                )
                .hint("or give `model.head_dim`"));
            }
        };
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(Error::value("model.dropout", self.dropout, "it must be at least 0 and below 1"));
        }
        for (key, eps) in [("model.norm_eps", self.norm_eps), ("model.qk_norm_eps", self.qk_norm_eps)] {
            if !(eps.is_finite() && eps > 0.0) {
                return Err(Error::value(key, eps, "it must be above 0"));
            }
        }
        self.log_n.check("model.log_n", train_length)?;
        if self.log_n_bias && !matches!(self.log_n, LogNKind::Learned(_) | LogNKind::Adaptive) {
            let why = "it belongs to `model.log_n = \"learned\"` and `model.log_n = \"adaptive\"`";
            return Err(
                Error::value("model.log_n_bias", true, why).hint("leave it out, or learn the scaling")
            );
        }
        self.check_attention(head_dim)?;
        self.check_parts()?;
        let feed_forward_width = match self.feed_forward_width {
            Some(inner) => positive("model.feed_forward_width", inner)?,
            // A gate costs a matrix more.
            None if self.feed_forward.is_gated() => (8 * width).div_ceil(24) * 8,
            None => 4 * width,
        };
        let vocab_size = match self.vocab_size {
            Some(entries) => entries_for("model.vocab_size", entries, tokens)?,
            None => tokens,
        };
        let dimensions = Dimensions { layers, width, heads, kv_heads, head_dim, train_length, vocab_size };
        let resolved = Resolved { dimensions, feed_forward_width, config: self.clone() };
        resolved.check_memory()?;
        Ok(resolved)
    }

    /// Rejects keys of gates and convolutions that contradict each other.
    fn check_parts(&self) -> Result<()> {
        if self.attention_gate_bias && self.attention_gate == AttentionGate::None {
            return Err(Error::value("model.attention_gate_bias", true, "there is no gate for it")
                .hint("leave it out, or add `model.attention_gate = \"head\"` or `\"channel\"`"));
        }
        if self.norm == NormKind::Dyt && (self.norm_eps - NORM_EPS).abs() > 0.0 {
            return Err(Error::value(
                "model.norm_eps",
                self.norm_eps,
                "`model.norm = \"dyt\"` divides by no measure",
            )
            .hint("leave it out, or choose a norm that has one, such as `model.norm = \"rms_norm\"`"));
        }
        if self.qk_norm != QkNorm::Rms && (self.qk_norm_eps - QK_NORM_EPS).abs() > 0.0 {
            return Err(Error::value(
                "model.qk_norm_eps",
                self.qk_norm_eps,
                "it belongs to `model.qk_norm = \"rms\"`",
            )
            .hint("leave it out, or add `model.qk_norm = \"rms\"`"));
        }
        if self.canon.len() > 2 || matches!(self.canon[..], [first, second] if first == second) {
            return Err(Error::usage("`model.canon` names a place twice")
                .hint("name each once: `model.canon = [\"attention\", \"feed_forward\"]`"));
        }
        Ok(())
    }

    /// What scales scores belongs to attention that has some and leaves their scale open.
    fn check_attention(&self, head_dim: usize) -> Result<()> {
        self.attention.check()?;
        let cosines = self.attention.reads_cosines();
        let linear = self.attention == AttentionKind::Linear;
        let stick = matches!(self.attention, AttentionKind::StickBreaking(_));
        let qk_norm = match self.qk_norm {
            QkNorm::None => false,
            QkNorm::Rms => cosines,
            QkNorm::Key | QkNorm::Cosine => cosines || linear,
        };
        let log_n = self.log_n != LogNKind::Off && (cosines || linear || stick);
        for (key, scales) in [("qk_norm", qk_norm), ("log_n", log_n)] {
            if scales {
                let why = if cosines { "has a scale of its own" } else { "has none" };
                return Err(Error::usage(format!(
                    "`model.{key}` scales the scores of a softmax, and `{}` {why}",
                    self.attention
                ))
                .hint(format!("leave it out, or write `{}`", AttentionKind::Softmax)));
            }
        }
        if cosines && head_dim == 1 {
            return Err(Error::usage(format!(
                "`{}` multiplies scores by ln of `model.head_dim`, which is 1",
                self.attention
            ))
            .hint("take fewer heads, or give `model.head_dim`"));
        }
        Ok(())
    }
}

fn positive(key: &str, value: usize) -> Result<usize> {
    within(key, value, MAX_SIZE)
}

/// Entries of an embedding that has one for each token at least.
fn entries_for(key: &str, entries: usize, tokens: usize) -> Result<usize> {
    if entries < tokens {
        return Err(Error::value(key, entries, format!("the tokenizer has {tokens} tokens"))
            .hint("leave it out: the embedding then has one entry for each token"));
    }
    positive(key, entries)
}

fn within(key: &str, value: usize, most: usize) -> Result<usize> {
    if value == 0 {
        return Err(Error::value(key, value, "it must be at least 1"));
    }
    if value <= most {
        return Ok(value);
    }
    Err(Error::value(key, value, format!("it must be at most {most}"))
        .hint("no model comes near it: `model.size` names sizes that fit together"))
}
