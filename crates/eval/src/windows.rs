//! Windows that hide no key of any text.
//!
//! A window hides the keys at distances of so many tokens and more, so it means something for longer texts alone. One
//! that no text of a config exceeds reads everything, under a name that says otherwise: the user is told, and goes on,
//! since one of several readings of a sweep may well be whole. Nothing is said of a window of at most L: that it
//! changes nothing at L is what it promises.

use crate::document::{Config, Evaluation};
use longwave_core::Result;
use longwave_position::{ExtensionConfig, Lengths, Tokens};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Windows that layers or stages are trained with, against the longest text that is trained on or read. Nothing is
/// said of a config without evaluations, which leaves open what will be read.
pub(crate) fn trained(config: &Config, evaluations: &[Evaluation]) -> Result<Vec<String>> {
    let run = &config.run;
    let Some(read) = evaluations.iter().flat_map(|it| &it.block.lengths).copied().max() else {
        return Ok(Vec::new());
    };
    let trained = (0..=run.last_stage()).map(|stage| run.stage(stage).length);
    let longest = trained.fold(read, usize::max) + run.position.memory();
    let mut windows = run.position.windows("position");
    for (index, stage) in run.stages.iter().enumerate() {
        windows.extend(Some(format!("stage[{index}].extend.window")).zip(stage.extend.window()));
    }
    let told = format!("the longest text that is trained on or read has {longest} tokens");
    let notes = windows.iter().map(|(key, window)| note(key, *window, run.train.length, longest, &told));
    Ok(notes.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The window of an extension, which stands at `section`, against the lengths of its evaluation.
pub(crate) fn read(
    extension: &ExtensionConfig,
    section: &str,
    train: usize,
    lengths: &[usize],
) -> Result<Option<String>> {
    let (Some(window), Some(&longest)) = (extension.window(), lengths.iter().max()) else { return Ok(None) };
    let told = format!("the longest of `lengths` is {longest}");
    note(&format!("{section}.window"), window, train, longest, &told)
}

fn note(key: &str, window: Tokens, train: usize, longest: usize, told: &str) -> Result<Option<String>> {
    let tokens = window.whole(key, Lengths { train, length: longest })?;
    if tokens <= train || tokens < longest {
        return Ok(None);
    }
    let shown = match window {
        Tokens::Count(_) => tokens.to_string(),
        Tokens::Share { .. } => format!("\"{}\"", window.text()),
    };
    Ok(Some(format!("`{key} = {shown}` hides nothing: a window of {tokens} tokens, and {told}")))
}

/// Tells each note once, however often a config is read.
pub(crate) fn tell(notes: impl IntoIterator<Item = String>) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    for note in notes {
        if !told.contains(&note) {
            tracing::warn!("{note}");
            told.insert(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::entry::Entry;

    /// What is told of a config with L = 128 that is read at up to 512 tokens.
    fn told(position: &str, more: &str, extend: &str) -> Vec<String> {
        let text = format!(
            "name = 'x'\nposition = {position}\n[data]\ncorpus = 'c'\n{more}\n[[evaluate]]\nlengths = [128, 512]\n\
             extend = [{extend}]"
        );
        let config = Config::from_table(text.parse().unwrap()).unwrap();
        let mut notes = trained(&config, &config.evaluations().unwrap()).unwrap();
        for (index, value) in config.evaluate[0].extend.iter().enumerate() {
            let section = format!("evaluate[0].extend[{index}]");
            for extension in Entry::from_value(value, &section).unwrap().extensions() {
                notes.extend(read(extension, &section, 128, &[128, 512]).unwrap());
            }
        }
        notes
    }

    fn stack(window: &str) -> String {
        format!("{{ kind = 'mixed', layers = ['none', {{ kind = 'rope', window = {window} }}] }}")
    }

    #[test]
    fn windows_that_hide_something_are_taken() {
        for window in ["64", "'L'", "128", "511", "'3L'"] {
            assert_eq!(told(&stack(window), "", "'direct'"), [""; 0], "{window}");
            let extend = format!("{{ kind = 'window', window = {window} }}");
            assert_eq!(told("'rope'", "", &extend), [""; 0], "{window}");
        }
        let later = "[[stage]]\nlength = 1024\nsteps = 3";
        assert_eq!(told(&stack("512"), later, "'direct'"), [""; 0], "a stage reads more than the evaluation");
    }

    #[test]
    fn those_that_hide_nothing_are_named() {
        let message = told(&stack("512"), "", "'direct'").remove(0);
        assert!(
            message.starts_with(
                "`position.layers[1].window = 512` hides nothing: a window of 512 tokens, and the longest text that is \
                 trained on or read has 512 tokens"
            ),
            "{message}"
        );
        let message = told(&stack("'4L'"), "", "'direct'").remove(0);
        assert!(message.starts_with("`position.layers[1].window = \"4L\"`"), "{message}");
        for (extend, key) in [
            ("{ kind = 'window', window = 4096 }", "`evaluate[0].extend[1].window = 4096`"),
            ("{ kind = 'window', window = ['L', '4L'] }", "`evaluate[0].extend[1].window = \"4L\"`"),
            ("{ kind = 'sinks', window = 600, reindex = false }", "`evaluate[0].extend[1].window = 600`"),
            (
                "{ kind = 'lambda_mask', window = 512, allow_untrained = true }",
                "`evaluate[0].extend[1].window = 512`",
            ),
        ] {
            let message = told("'rope'", "", &format!("'direct', {extend}")).remove(0);
            assert!(
                message.starts_with(key) && message.contains("the longest of `lengths` is 512"),
                "{message}"
            );
        }
        let stage = "[[stage]]\nlength = 256\nsteps = 3\nextend = { kind = 'window', window = 2048 }";
        let message = told("'rope'", stage, "'direct'").remove(0);
        assert!(message.starts_with("`stage[0].extend.window = 2048`"), "{message}");
    }

    #[test]
    fn nothing_is_told_where_it_is_open_what_will_be_read() {
        let text = format!("name = 'x'\nevaluate = []\nposition = {}\n[data]\ncorpus = 'c'", stack("4096"));
        let config = Config::from_table(text.parse().unwrap()).unwrap();
        assert_eq!(trained(&config, &[]).unwrap(), [""; 0]);
    }
}
