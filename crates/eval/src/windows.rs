//! Warns when a window is longer than every text.
//!
//! A window hides the keys at its distance and beyond. Where no text of a config is longer than the window, it hides
//! nothing, although its name says otherwise. That is a warning and no error, because one value of a sweep may well be
//! that long. A window of at most L gives no warning: it promises to change nothing at L.

use longwave_core::Result;
use longwave_position::{ExtensionConfig, Lengths, Tokens};
use longwave_train::RunConfig;

/// Warnings about the windows that layers or stages are trained with; `longest` is the longest text that is read.
pub(crate) fn of_training(run: &RunConfig, longest: usize) -> Result<Vec<String>> {
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
pub(crate) fn of_extension(
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

#[cfg(test)]
mod tests {
    use crate::config::Config;

    /// The warnings of a config with L = 128 that is read at up to 512 tokens.
    fn warnings(position: &str, more: &str, extend: &str) -> Vec<String> {
        let text = format!(
            "name = 'x'\nposition = {position}\n[data]\ncorpus = 'c'\n{more}\n[[evaluate]]\nlengths = [128, 512]\n\
             extend = [{extend}]"
        );
        Config::from_table(text.parse().unwrap()).unwrap().warnings
    }

    fn stack(window: &str) -> String {
        format!("{{ kind = 'mixed', layers = ['none', {{ kind = 'rope', window = {window} }}] }}")
    }

    #[test]
    fn a_window_that_hides_something_has_no_warning() {
        for window in ["64", "'L'", "128", "511", "'3L'"] {
            assert_eq!(warnings(&stack(window), "", "'direct'"), [""; 0], "{window}");
            let extend = format!("{{ kind = 'window', window = {window} }}");
            assert_eq!(warnings("'rope'", "", &extend), [""; 0], "{window}");
        }
        let later = "[[stage]]\nlength = 1024\nsteps = 3";
        assert_eq!(
            warnings(&stack("512"), later, "'direct'"),
            [""; 0],
            "a stage reads more than the evaluation"
        );
    }

    #[test]
    fn a_window_that_hides_nothing_is_named() {
        let message = warnings(&stack("512"), "", "'direct'").remove(0);
        assert!(
            message.starts_with(
                "`position.layers[1].window = 512` hides nothing: a window of 512 tokens, and the longest text that is \
                 trained on or read has 512 tokens"
            ),
            "{message}"
        );
        let message = warnings(&stack("'4L'"), "", "'direct'").remove(0);
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
            let message = warnings("'rope'", "", &format!("'direct', {extend}")).remove(0);
            assert!(
                message.starts_with(key) && message.contains("the longest of `lengths` is 512"),
                "{message}"
            );
        }
        let stage = "[[stage]]\nlength = 256\nsteps = 3\nextend = { kind = 'window', window = 2048 }";
        let message = warnings("'rope'", stage, "'direct'").remove(0);
        assert!(message.starts_with("`stage[0].extend.window = 2048`"), "{message}");
    }

    #[test]
    fn a_config_without_evaluations_has_no_warnings() {
        let text = format!("name = 'x'\nevaluate = []\nposition = {}\n[data]\ncorpus = 'c'", stack("4096"));
        let config = Config::from_table(text.parse().unwrap()).unwrap();
        assert_eq!(config.warnings, [""; 0]);
    }
}
