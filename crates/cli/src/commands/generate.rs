//! `longwave generate`: continues a text with a trained run.

use crate::interrupt;
use crate::options::{RunOptions, introduce, one_extension};
use crate::output::{data, json_lines, status};
use clap::Args;
use longwave_core::memory_check::available;
use longwave_core::{Error, Result};
use longwave_data::{Prompt, TextStream, Unread};
use longwave_eval::memory_check;
use longwave_model::{Cache, Generator, Sampling, Size};
use longwave_position::ExtensionConfig;
use longwave_train::{Trained, VERSION};
use serde::Serialize;
use std::borrow::Cow;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Generated<'a> {
    run: &'a str,
    config_hash: &'a str,
    checkpoint: Cow<'static, str>,
    step: u64,
    encoding: String,
    extend_config: &'a ExtensionConfig,
    /// Context and new tokens in all: what dynamic extensions are fixed at.
    length: usize,
    #[serde(flatten)]
    sampling: Sampling,
    prompt: &'a str,
    prompt_tokens: usize,
    /// What was read in place of an empty prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_instead: Option<&'a str>,
    text: String,
    tokens: &'a [u32],
    device: &'a str,
    version: &'static str,
}

/// Continue a text with a trained run
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The text to continue; an empty one begins a document
    #[arg(long, default_value = "", value_name = "TEXT")]
    prompt: String,
    /// Tokens to sample
    #[arg(long, default_value_t = 200, value_name = "N")]
    max_tokens: usize,
    /// Divides the logits; 0 always takes the most likely token
    #[arg(long, default_value_t = 1.0, value_name = "T", allow_negative_numbers = true)]
    temperature: f64,
    /// Sample from the K most likely tokens only
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Sample from the most likely tokens only: the fewest with this total probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Decides every draw
    #[arg(long, default_value_t = 0, value_name = "S")]
    seed: u64,
    /// The extension it is read with, fixed at prompt plus new tokens: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    extend: Option<String>,
    #[command(flatten)]
    of: RunOptions,
}

/// Says what the model reads, where that is not the prompt as it was given.
fn describe(given: &str, prompt: &Prompt) {
    let Unread { bytes, unknown, lost } = prompt.unread;
    if lost > 0 {
        tracing::warn!(
            "the model does not read {lost} of the {bytes} bytes of the prompt: the tokenizer leaves them out"
        );
    }
    if unknown > 0 {
        tracing::warn!(
            "the model reads the unknown token in the place of {unknown} of the {bytes} bytes of the prompt, which the tokenizer \
             does not know"
        );
    }
    if let Some(substitute) = &prompt.substitute {
        let why = if given.is_empty() {
            "the prompt is empty"
        } else {
            "the tokenizer has no token for the prompt"
        };
        status(&format!("{why}: the text begins as after {substitute:?}"));
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sampling = Sampling {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        seed: arguments.seed,
    };
    sampling.validate()?;
    let extend = one_extension(arguments.extend.as_deref())?;
    let RunOptions { run, checkpoint, json, compute } = &arguments.of;
    let machine = compute.open()?;
    let checkpoint = checkpoint.unwrap_or_default();
    let trained = Trained::open(run, checkpoint, &machine.device)?;
    let Trained { config, resolved, model, meta, tokenizer } = &trained;
    let separator = config.data.separator.as_deref();
    let prompt = Prompt::new(&arguments.prompt, tokenizer, separator, &config.data.bos)?;
    let lengths = [prompt.ids.len(), arguments.max_tokens];
    let length = lengths[0].saturating_add(lengths[1]);
    let needed =
        Size::reading_bytes(resolved, prompt.ids.len(), 1).saturating_add(Cache::bytes(resolved, length));
    memory_check::check(length, needed, available())?;
    let generator = Generator::new(model, &machine.device, &extend, config.train.length, lengths)?
        .of_tokens(tokenizer.ids())
        .begin_segments(tokenizer.bos(&config.data.bos)?);
    introduce(&machine);
    describe(&arguments.prompt, &prompt);
    let stream = !json;
    if stream {
        data(&arguments.prompt)?;
    }
    let mut text = TextStream::new(tokenizer, &prompt.ids)?;
    let mut all = String::new();
    let mut give = |piece: String| -> Result<()> {
        all.push_str(&piece);
        if stream && !piece.is_empty() { data(&piece) } else { Ok(()) }
    };
    let mut count = 0;
    let tokens = generator.generate(&prompt.ids, &sampling, &mut |token| {
        give(text.push(token)?)?;
        count += 1;
        if interrupt::asked() {
            return Err(Error::interrupted(format!("stopped after {count} tokens")));
        }
        Ok(())
    })?;
    give(text.finish()?)?;
    if stream {
        return data("\n");
    }
    let generated = Generated {
        run: &config.name,
        config_hash: &meta.config_hash,
        checkpoint: checkpoint.name(),
        step: meta.step,
        encoding: config.position.name(),
        extend_config: &extend,
        length,
        sampling,
        prompt: &arguments.prompt,
        prompt_tokens: if prompt.substitute.is_some() { 0 } else { prompt.ids.len() },
        read_instead: prompt.substitute.as_deref(),
        text: all,
        tokens: &tokens,
        device: &machine.device_name,
        version: VERSION,
    };
    json_lines([generated])
}
