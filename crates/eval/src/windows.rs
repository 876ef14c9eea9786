//! Warns when a window is longer than every text.
//!
//! A window hides the keys at its distance and beyond. Where no text of a config is longer than the window, it hides
//! nothing, although its name says otherwise. That is a warning and no error, because one value of a sweep may well be
//! that long. A window of at most L gives no warning: it promises to change nothing at L.

use longwave_core::Result;
use longwave_position::{ExtensionConfig, Lengths, Tokens};
use longwave_train::RunConfig;

/// Warnings about the windows that layers or stages are trained with; `longest` is the longest text that is read.
pub fn of_training(run: &RunConfig, longest: usize) -> Result<Vec<String>> {
    let trained = (0..=run.last_stage()).map(|stage| run.stage(stage).length);
    let longest = trained.fold(longest, usize::max) + run.position.memory();
    let mut windows = run.position.windows("position");
    for (index, stage) in run.stages.iter().enumerate() {
        windows.extend(Some(format!("stage[{index}].extend.window")).zip(stage.extend.window()));
    }
    let why = format!("the longest text that is trained on or read has {longest} tokens");
    let warnings = windows.iter().map(|(key, window)| warning(key, *window, run.train.length, longest, &why));
    Ok(warnings.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The warning about the window of the extension at `section`, which is read at these `lengths`.
pub fn of_extension(
    extension: &ExtensionConfig,
    section: &str,
    train: usize,
    lengths: &[usize],
) -> Result<Option<String>> {
    let (Some(window), Some(&longest)) = (extension.window(), lengths.iter().max()) else { return Ok(None) };
    let why = format!("the longest of `lengths` is {longest}");
    warning(&format!("{section}.window"), window, train, longest, &why)
}

fn warning(key: &str, window: Tokens, train: usize, longest: usize, why: &str) -> Result<Option<String>> {
    let tokens = window.whole(key, Lengths { train, length: longest })?;
    if tokens <= train || tokens < longest {
        return Ok(None);
    }
    let shown = match window {
        Tokens::Count(_) => tokens.to_string(),
        Tokens::Share { .. } => format!("\"{}\"", window.text()),
    };
    Ok(Some(format!("`{key} = {shown}` hides nothing: a window of {tokens} tokens, and {why}")))
}
