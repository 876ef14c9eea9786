//! Llama and its relatives: `RMSNorm`, `RoPE`, and where they differ.

use super::reader::{Fields, divides, only_that, wrong};
use super::{Described, table};
use crate::architecture::Architecture;
use longwave_core::Result;
use serde_json::{Value, json};

/// `sliding_window` of a Mistral or Qwen that does not say it.
const WINDOW: usize = 4096;

/// `rope_theta` of a `SmolLM3` that does not say it; that of the others is 10,000.
const SMOLLM3_BASE: f64 = 2e6;

/// `max_window_layers` of a Qwen that does not say it.
const QWEN_FULL_LAYERS: usize = 28;

/// Every fourth layer of a `SmolLM3` has no rotation, unless it says otherwise.
const SMOLLM3_INTERVAL: usize = 4;

/// How a layer reads positions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layer {
    window: Option<usize>,
    turns: bool,
}

impl Fields {
    pub(super) fn llama(&mut self, architecture: Architecture) -> Result<Described> {
        let default = if architecture == Architecture::SmolLm3 { SMOLLM3_BASE } else { 1e4 };
        let (base, share) = self.rotation(default, 1.0)?;
        let (layers, width, heads) =
            (self.layers("num_hidden_layers")?, self.size("hidden_size")?, self.size("num_attention_heads")?);
        // What is left out means as many as there are heads in a Llama, and a constant in the others; `null` means as many in all.
        let kv_heads = match architecture {
            Architecture::Mistral | Architecture::Qwen2 | Architecture::SmolLm3
                if !self.is_null("num_key_value_heads") =>
            {
                None
            }
            _ => Some(heads),
        };
        let kv_heads = self.size_or("num_key_value_heads", kv_heads)?;
        divides("num_key_value_heads", kv_heads, ("num_attention_heads", heads))?;
        let own = if architecture == Architecture::Qwen3 { 128 } else { (width / heads).max(1) };
        let head_dim = self.size_or("head_dim", Some(own))?;
        let gated = architecture != Architecture::Arcee;
        let feed_forward = if gated {
            self.only("hidden_act", &json!("silu"), true)?;
            "swiglu"
        } else {
            self.arcee_activation()?
        };
        for key in ["attention_bias", "mlp_bias", "rope_interleaved", "use_mrope"] {
            self.only(key, &json!(false), true)?;
        }
        let stack = self.stack(architecture, layers)?;
        let eps = self.eps("rms_norm_eps", if gated { 1e-6 } else { 1e-5 })?;
        if share < 1.0 {
            return Err(only_that("partial_rotary_factor", &json!(share), &json!(1.0)));
        }
        let tied = self.flag("tie_word_embeddings", architecture == Architecture::SmolLm3)?;
        let inner = self.size("intermediate_size")?;
        let mut model = table(&json!({
            "layers": layers, "width": width, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
            "feed_forward_width": inner, "norm": "rms_norm", "norm_eps": eps, "tied": tied,
            "feed_forward": feed_forward,
        }))?;
        if architecture == Architecture::Qwen2 {
            model.insert("qkv_bias".to_owned(), true.into());
        }
        if architecture == Architecture::Qwen3 {
            model.insert("qk_norm".to_owned(), "rms".into());
            model.insert("qk_norm_eps".to_owned(), eps.into());
        }
        self.described(architecture, model, "max_position_embeddings", &position(&stack, base))
    }

    /// The activation of an Arcee, whose published models have the default.
    fn arcee_activation(&mut self) -> Result<&'static str> {
        match self.take("hidden_act") {
            None => Ok("relu_squared"),
            Some(act) if act == "relu2" => Ok("relu_squared"),
            Some(act) if act == "gelu" => Ok("gelu"),
            Some(act) => Err(only_that("hidden_act", &act, &json!("relu2"))),
        }
    }

    fn stack(&mut self, architecture: Architecture, layers: usize) -> Result<Vec<Layer>> {
        let windows = self.windows(architecture, layers)?;
        let turns = match architecture {
            Architecture::SmolLm3 => self.rotated_layers(layers)?,
            _ => vec![true; layers],
        };
        Ok(windows.into_iter().zip(turns).map(|(window, turns)| Layer { window, turns }).collect())
    }

    /// The window of each layer: of those that `layer_types` calls `sliding_attention`, or else, where a window is in use, of
    /// all layers of a Mistral and of those from `max_window_layers` on of the others.
    fn windows(&mut self, architecture: Architecture, layers: usize) -> Result<Vec<Option<usize>>> {
        let always = architecture == Architecture::Mistral;
        let null = self.left.get("sliding_window").is_some_and(Value::is_null);
        let may = always || [Architecture::Qwen2, Architecture::Qwen3].contains(&architecture);
        let (mut window, mut first) = (None, 0);
        if may {
            let given = if self.left.contains_key("sliding_window") && !null {
                Some(self.size("sliding_window")?)
            } else {
                (!null).then_some(WINDOW)
            };
            self.take("sliding_window");
            let used = always || self.flag("use_sliding_window", false)?;
            window = given.filter(|_| used);
            if !always {
                first = self.first_window()?;
            }
        } else {
            self.only("use_sliding_window", &json!(false), true)?;
            if architecture == Architecture::SmolLm3 {
                self.take("sliding_window");
                self.take("max_window_layers");
            }
        }
        let of_layer = |slides: bool| window.filter(|_| slides);
        let Some(types) = self.take("layer_types") else {
            return Ok((0..layers).map(|layer| of_layer(layer >= first)).collect());
        };
        let kinds: Vec<&str> = types.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let known = |kind: &&str| match *kind {
            "full_attention" => Some(None),
            "sliding_attention" if window.is_some() => Some(window),
            _ => None,
        };
        match kinds.iter().map(known).collect::<Option<Vec<_>>>() {
            Some(windows) if windows.len() == layers => Ok(windows),
            _ => Err(only_that("layer_types", &types, &json!(["full_attention", ".."]))),
        }
    }

    /// The first layer of a Qwen with a window.
    fn first_window(&mut self) -> Result<usize> {
        let Some(from) = self.take("max_window_layers") else { return Ok(QWEN_FULL_LAYERS) };
        let layer = from.as_u64().map(|from| from as usize);
        layer.ok_or_else(|| wrong("max_window_layers", &from, "it must be a whole number"))
    }

    /// The layers that turn q and k: those with a 1 in `no_rope_layers`.
    fn rotated_layers(&mut self, layers: usize) -> Result<Vec<bool>> {
        let interval = self.size_or("no_rope_layer_interval", Some(SMOLLM3_INTERVAL))?;
        let Some(listed) = self.take("no_rope_layers") else {
            return Ok((1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect());
        };
        let turns: Vec<bool> = listed
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .map(|turns| turns != 0)
            .collect();
        if turns.len() == layers {
            return Ok(turns);
        }
        let allowed = format!("it must hold a 0 or a 1 for each of the {layers} layers");
        Err(wrong("no_rope_layers", &listed, allowed))
    }
}

/// `[position]`: one encoding, or the kinds of layers with the order in which they come.
fn position(stack: &[Layer], base: f64) -> Value {
    let entry = |layer: &Layer| {
        let mut entry =
            if layer.turns { json!({ "kind": "rope", "base": base }) } else { json!({ "kind": "none" }) };
        if let Some(window) = layer.window {
            entry["window"] = window.into();
        }
        entry
    };
    let mut kinds: Vec<Layer> = Vec::new();
    for layer in stack {
        if !kinds.contains(layer) {
            kinds.push(*layer);
        }
    }
    match kinds.as_slice() {
        [one] if one.window.is_none() => entry(one),
        kinds => {
            let pattern: Vec<usize> =
                stack.iter().filter_map(|layer| kinds.iter().position(|kind| kind == layer)).collect();
            json!({ "kind": "mixed", "layers": kinds.iter().map(entry).collect::<Vec<_>>(), "pattern": pattern })
        }
    }
}
