//! `model.py`: the template without the parts that a model does not need.
//!
//! `# + a b` begins a part that `a` or `b` needs, `# -` ends it; `a&b` asks for both, `!a` for a model that needs no `a`. A name with a sign, such
//! as `rotate(`, is needed where the classes of the encodings have that text.

use super::reading::Torch;
use longwave_core::{Error, Result};
use longwave_model::config::{AttentionGate, CanonPlace, FeedForwardKind, ModelConfig, NormKind, QkNorm};
use longwave_model::resolved::Resolved;
use longwave_position::reading::{AttentionKind, Remainder};
use longwave_position::{encodings, extensions};
use longwave_train::RunConfig;

const TEMPLATE: &str = include_str!("model.py");

pub(super) fn written(torch: &Torch, resolved: &Resolved, config: &RunConfig) -> Result<String> {
    check(&resolved.config)?;
    let classes: String = torch.classes.iter().flat_map(|class| [*class, "\n\n"]).collect();
    let mut parts: Vec<&str> = torch.parts.iter().copied().collect();
    parts.extend(of_model(resolved));
    let complex = encodings_are_complex(torch);
    if complex {
        parts.push("complex");
    }
    for (hook, part) in [
        ("def embed(", "embed"),
        ("def query(", "query"),
        ("def scores(", "scores"),
        ("def bias(", "bias"),
        ("def from_weights(", "values"),
        ("def sink_logit(", "sink"),
    ] {
        if classes.contains(hook) {
            parts.push(part);
        }
    }
    let implied = [
        ("vectors", "embed"),
        ("slopes", "bias"),
        ("table", "bias"),
        ("linear", "bias"),
        ("rotation", "rotate("),
    ];
    let implied: Vec<&str> =
        implied.iter().filter(|(part, _)| parts.contains(part)).map(|(_, also)| *also).collect();
    parts.extend(implied);
    if classes.contains("table_rows(") {
        parts.push("between(");
    }
    let needs =
        |part: &str| parts.contains(&part) || part.contains(['(', '[', '.']) && classes.contains(part);
    let text = chosen(&needs)?;
    let m = &resolved.config;
    let half = if complex { " // 2" } else { "" };
    let gates = if m.feed_forward.is_gated() { "2" } else { "1" };
    let norm = match m.norm {
        NormKind::RmsNorm => "Rows over their root mean square, times a gain.",
        NormKind::LayerNorm => "Rows with mean 0 and variance 1, times a gain, with a bias.",
        NormKind::Dyt => "The tanh of scaled rows in the place of a norm, times a gain, with a bias.",
    };
    let attention = match m.attention {
        AttentionKind::Softmax => "Causal attention, with the encodings of its layer.",
        AttentionKind::Linear => "Causal linear attention, with the encodings of its layer.",
        AttentionKind::StickBreaking(_) => {
            "Causal stick-breaking attention, with the encodings of its layer."
        }
        // What is checked is not here.
        AttentionKind::Entmax(_) | AttentionKind::Lssa | AttentionKind::Lssar(_) => "",
    };
    let feed_forward = match m.feed_forward {
        FeedForwardKind::Gelu => "Two matrices with GELU between them.",
        FeedForwardKind::Swiglu => "SwiGLU.",
        FeedForwardKind::ReluSquared => "Two matrices with the square of ReLU between them.",
    };
    let text = text
        .replace(" // HALF", half)
        .replace("GATES", gates)
        .replace("@NORM@", norm)
        .replace("@ATTENTION@", attention)
        .replace("@FEED_FORWARD@", feed_forward)
        .replace("@GPT@", "A decoder-only transformer with norms before attention and feed-forward.")
        .replace("@TITLE@", &title(torch, config));
    Ok(spaced(&text.replace("# @ encodings\n", &classes)))
}

/// Refuses what the template has no Python for.
fn check(m: &ModelConfig) -> Result<()> {
    if matches!(m.attention, AttentionKind::Entmax(_) | AttentionKind::Lssa | AttentionKind::Lssar(_)) {
        let why = format!("`{}` cannot be written for PyTorch: model.py has no part for it", m.attention);
        return Err(Error::usage(why).hint("export the run without `torch`"));
    }
    Ok(())
}

/// Whether linear maps are complex.
fn encodings_are_complex(torch: &Torch) -> bool {
    torch.config["readings"][0]["encodings"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|entry| entry["complex"] == true)
}

/// What of the template the sizes and kinds of `[model]` need.
fn of_model(resolved: &Resolved) -> Vec<&'static str> {
    let m = &resolved.config;
    let mut parts = vec![
        m.norm.name(),
        match m.feed_forward {
            FeedForwardKind::Gelu => "gelu",
            FeedForwardKind::Swiglu => "swiglu",
            FeedForwardKind::ReluSquared => "relu_squared",
        },
        match m.qk_norm {
            QkNorm::None => "qk_plain",
            QkNorm::Key => "qk_key",
            QkNorm::Cosine => "qk_cosine",
            QkNorm::Rms => "qk_rms",
        },
    ];
    match m.attention {
        AttentionKind::Softmax => parts.push("softmax"),
        AttentionKind::Linear => parts.push("linear_attention"),
        AttentionKind::StickBreaking(stick) => {
            parts.push("stick_breaking");
            parts.extend(stick.attend_current.then_some("attend_current"));
            parts.extend(match stick.remainder {
                Remainder::Value => Some("remainder_value"),
                Remainder::Bias => Some("remainder_bias"),
                Remainder::Drop => None,
            });
        }
        AttentionKind::Entmax(_) | AttentionKind::Lssa | AttentionKind::Lssar(_) => {}
    }
    parts.extend((!m.tied).then_some("untied"));
    parts.extend((m.attention_gate != AttentionGate::None).then_some("gate"));
    parts.extend(m.attention_gate_bias.then_some("gate_bias"));
    parts.extend(m.norm_attention_output.then_some("output_norm"));
    for (place, part) in
        [(CanonPlace::Attention, "canon_attention"), (CanonPlace::FeedForward, "canon_feed_forward")]
    {
        parts.extend(m.canon.contains(&place).then_some([part, "canon"]).into_iter().flatten());
    }
    parts.extend(m.qkv_bias.then_some("qkv_bias"));
    parts
}

/// The lines of the template that are needed.
fn chosen(needs: &dyn Fn(&str) -> bool) -> Result<String> {
    let holds = |term: &str| match term.strip_prefix('!') {
        Some(part) => !needs(part),
        None => needs(term),
    };
    let mut open: Vec<bool> = Vec::new();
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let sign = line.trim_start();
        if let Some(condition) = sign.strip_prefix("# + ") {
            open.push(condition.split(' ').any(|terms| terms.split('&').all(holds)));
        } else if sign == "# -" {
            open.pop();
        } else if open.iter().all(|holds| *holds) {
            text.push_str(line);
            text.push('\n');
        }
    }
    if open.is_empty() {
        Ok(text)
    } else {
        Err(Error::failed("the template of model.py has a part without an end"))
    }
}

/// Blank lines as Python's style guide has them: two before what begins at the margin, one elsewhere, none behind an opening line.
fn spaced(text: &str) -> String {
    let mut written: Vec<&str> = Vec::new();
    let mut blank = 0;
    for line in text.lines() {
        if line.is_empty() {
            blank += 1;
            continue;
        }
        let opens = written.last().is_none_or(|last| last.ends_with(':') && !last.starts_with("\"\"\""));
        let wanted = if opens { 0 } else { blank.min(if line.starts_with(' ') { 1 } else { 2 }) };
        written.extend(std::iter::repeat_n("", wanted));
        written.push(line);
        blank = 0;
    }
    written.join("\n") + "\n"
}

/// What the file computes, and how it is used.
fn title(torch: &Torch, config: &RunConfig) -> String {
    let mut title = format!(
        "A GPT with the positional encoding `{}`, written by `longwave export`.\n",
        config.position.name()
    );
    let known = encodings::kinds().iter().filter(|info| torch.kinds.contains(&info.kind));
    let read =
        extensions::kinds().iter().filter(|info| info.kind == torch.extension && info.kind != "direct");
    for (info, how) in known.map(|info| (info, "")).chain(read.map(|info| (info, "read with "))) {
        title.extend(["\n", how, info.kind, ": ", info.description, "\n    ", info.source, "\n"]);
        for line in info.formula.lines() {
            title.extend(["    ", line.trim(), "\n"]);
        }
    }
    title
        + "\nThe formulas are those of default keys; the numbers of this model are in config.json, under `torch`.\n\n    \
           model = load(\"DIR\")\n    logits = model(ids)  # [batch, length] -> [batch, length, vocab_size]\n    \
           save(model, \"DIR\")  # after training; `longwave import DIR` reads it\n"
}
