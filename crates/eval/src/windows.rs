//! Windows that hide no key of any text.
//!
//! A window hides the keys at distances of so many tokens and more, so it means something for longer texts alone. One
//! that no text of a config exceeds reads everything, under a name that says otherwise. One of at most L is never
//! refused: that it changes nothing at L is what it promises.

use crate::document::{Config, Evaluation};
use longwave_core::{Error, Result};
use longwave_position::{ExtensionConfig, Lengths, Tokens};

/// Windows that layers or stages are trained with, against the longest text that is trained on or read. Nothing is
/// said of a config without evaluations, which leaves open what will be read.
pub(crate) fn check_trained(config: &Config, evaluations: &[Evaluation]) -> Result<()> {
    let run = &config.run;
    let Some(read) = evaluations.iter().flat_map(|it| &it.block.lengths).copied().max() else {
        return Ok(());
    };
    let trained = (0..=run.last_stage()).map(|stage| run.stage(stage).length);
    let longest = trained.fold(read, usize::max);
    let mut windows = run.position.windows("position");
    for (index, stage) in run.stages.iter().enumerate() {
        windows.extend(Some(format!("stage[{index}].extend.window")).zip(stage.extend.window()));
    }
    let told = format!("the longest text that is trained on or read has {longest} tokens");
    windows.iter().try_for_each(|(key, window)| check(key, *window, run.train.length, longest, &told))
}

/// The window of an extension, which stands at `section`, against the lengths of its evaluation.
pub(crate) fn check_read(
    extension: &ExtensionConfig,
    section: &str,
    train: usize,
    lengths: &[usize],
) -> Result<()> {
    let (Some(window), Some(&longest)) = (extension.window(), lengths.iter().max()) else { return Ok(()) };
    let told = format!("the longest of `lengths` is {longest}");
    check(&format!("{section}.window"), window, train, longest, &told)
}

fn check(key: &str, window: Tokens, train: usize, longest: usize, told: &str) -> Result<()> {
    let tokens = window.whole(key, Lengths { train, length: longest })?;
    if tokens <= train || tokens < longest {
        return Ok(());
    }
    let shown = match window {
        Tokens::Count(_) => tokens.to_string(),
        Tokens::Share { .. } => format!("\"{}\"", window.written()),
    };
    Err(Error::value(key, shown, format!("a window of {tokens} tokens hides nothing: {told}")).hint(format!(
        "take fewer than {longest} tokens, list longer `lengths` to read, or leave the window out to see everything"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message for what is put into a config with L = 128 that is read at up to 512 tokens.
    fn refused(position: &str, more: &str, extend: &str) -> Option<String> {
        let text = format!(
            "name = 'x'\nposition = {position}\n[data]\ncorpus = 'c'\n{more}\n[[evaluate]]\nlengths = [128, 512]\n\
             extend = [{extend}]"
        );
        Config::from_table(text.parse().unwrap()).err().map(|error| error.to_string())
    }

    fn stack(window: &str) -> String {
        format!("{{ kind = 'mixed', layers = ['none', {{ kind = 'rope', window = {window} }}] }}")
    }

    #[test]
    fn windows_that_hide_something_are_taken() {
        for window in ["64", "'L'", "128", "511", "'3L'"] {
            assert_eq!(refused(&stack(window), "", "'direct'"), None, "{window}");
            let extend = format!("{{ kind = 'window', window = {window} }}");
            assert_eq!(refused("'rope'", "", &extend), None, "{window}");
        }
        let later = "[[stage]]\nlength = 1024\nsteps = 3";
        assert_eq!(refused(&stack("512"), later, "'direct'"), None, "a stage reads more than the evaluation");
    }

    #[test]
    fn those_that_hide_nothing_are_named() {
        let message = refused(&stack("512"), "", "'direct'").unwrap();
        assert!(
            message.starts_with(
                "`position.layers[1].window = 512` is not allowed: a window of 512 tokens hides nothing: the longest \
                 text that is trained on or read has 512 tokens"
            ),
            "{message}"
        );
        assert!(message.contains("hint: take fewer than 512 tokens"), "{message}");
        let message = refused(&stack("'4L'"), "", "'direct'").unwrap();
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
            let message = refused("'rope'", "", &format!("'direct', {extend}")).unwrap();
            assert!(
                message.starts_with(key) && message.contains("the longest of `lengths` is 512"),
                "{message}"
            );
        }
        let stage = "[[stage]]\nlength = 256\nsteps = 3\nextend = { kind = 'window', window = 2048 }";
        let message = refused("'rope'", stage, "'direct'").unwrap();
        assert!(message.starts_with("`stage[0].extend.window = 2048`"), "{message}");
    }

    #[test]
    fn what_will_be_read_may_be_left_open() {
        let text = format!("name = 'x'\nevaluate = []\nposition = {}\n[data]\ncorpus = 'c'", stack("4096"));
        assert!(Config::from_table(text.parse().unwrap()).is_ok());
    }
}
