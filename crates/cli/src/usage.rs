//! Wrong command lines, told as wrong configs are: one message with one hint.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error as ClapError};
use longwave_core::Error;
use longwave_core::error::Kind;

/// What is wrong with a command line; `None` for what is no mistake: help and the version.
pub(crate) fn mistake(error: &ClapError, program: &Command, arguments: &[String]) -> Option<Error> {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return None;
    }
    let text = error.render().to_string();
    let mut parts = text.split("\n\n").map(str::trim_end);
    let message = parts.next().unwrap_or_default();
    let told = parts.find_map(|part| part.trim_start().strip_prefix("hint: "));
    let near = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| suggestion(error.get(kind)?));
    let key = error.get(ContextKind::InvalidArg).and_then(suggestion).and_then(|option| key_of(&option));
    let takes_keys = explained_command(program, arguments)
        .is_some_and(|command| command.get_arguments().any(|argument| argument.get_id() == "set"));
    let hint = match (told, near) {
        _ if takes_keys && let Some(key) = key => format!("it is a key of the config: `--set {key}=VALUE`"),
        (Some(told), _) => told.to_owned(),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => explained_by(program, arguments),
    };
    Some(Error::usage(in_plain_words(message.strip_prefix("error: ").unwrap_or(message))).hint(hint))
}

fn suggestion(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(several) => several.first().cloned(),
        _ => None,
    }
}

/// The key of a config that an option is named after, of those that people look for first.
fn key_of(option: &str) -> Option<&'static str> {
    let name = option.trim_start_matches('-').split(['=', ' ']).next()?.replace('_', "-");
    let keys = [
        ("batch-size", "train.batch_tokens"),
        ("batch-tokens", "train.batch_tokens"),
        ("corpus", "data.corpus"),
        ("encoding", "position"),
        ("heads", "model.heads"),
        ("layers", "model.layers"),
        ("learning-rate", "train.learning_rate"),
        ("lr", "train.learning_rate"),
        ("name", "name"),
        ("position", "position"),
        ("seed", "seed"),
        ("size", "model.size"),
        ("steps", "train.steps"),
        ("width", "model.width"),
    ];
    keys.into_iter().find(|(known, _)| *known == name).map(|(_, key)| key)
}

/// The command of a command line, where there is such a command.
fn explained_command<'a>(program: &'a Command, arguments: &[String]) -> Option<&'a Command> {
    let command = arguments.iter().skip(1).find(|argument| !argument.starts_with('-'));
    command.and_then(|name| program.find_subcommand(name))
}

/// Which help to read.
fn explained_by(program: &Command, arguments: &[String]) -> String {
    match explained_command(program, arguments) {
        Some(command) => format!("`longwave {} --help` explains its arguments", command.get_name()),
        None => "`longwave --help` lists the commands".to_owned(),
    }
}

/// A message without the words of the parsers of numbers.
fn in_plain_words(message: &str) -> String {
    let Some((about, why)) = message.rsplit_once("': ") else { return message.to_owned() };
    // What a config says of a key; the option is named already.
    let allowed = why.split_once("is not allowed: ").map(|(_, allowed)| allowed.to_owned());
    let why = allowed.or_else(|| of_a_range(why)).unwrap_or_else(|| {
        let known = [
            ("invalid float literal", "it must be a number"),
            ("invalid digit found in string", "it must be a whole number of at least 0"),
            ("number too large to fit in target type", "it is too large"),
        ];
        known.iter().find(|(foreign, _)| *foreign == why).map_or(why, |(_, plain)| plain).to_owned()
    });
    format!("{about}': {why}")
}

/// `0 is not in 1..=9`, in words.
fn of_a_range(why: &str) -> Option<String> {
    let (_, range) = why.split_once(" is not in ")?;
    let (from, to) = range.split_once("..")?;
    let to = to.strip_prefix('=').unwrap_or(to);
    Some(if to.len() > 9 {
        format!("it must be a whole number of at least {from}")
    } else {
        format!("it must be a whole number from {from} to {to}")
    })
}

/// A mistake with a word on where to read more, where it has no hint of its own.
pub(crate) fn with_hint(error: Error) -> Error {
    if error.kind() != Kind::Usage || error.hint_text().is_some() {
        return error;
    }
    let hint = if error.message().starts_with("`--") {
        "`longwave COMMAND --help` explains its options"
    } else {
        "`longwave schema` prints every key and what it allows, `longwave schema --study` those of a study"
    };
    error.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_parsers_are_replaced() {
        for (theirs, ours) in [
            ("invalid value 'hot' for '--t <T>': invalid float literal", "it must be a number"),
            (
                "invalid value '0' for '--jobs <N>': 0 is not in 1..18446744073709551615",
                "it must be a whole number of at least 1",
            ),
            (
                "invalid value '0' for '--seeds <N>': 0 is not in 1..=100000",
                "it must be a whole number from 1 to 100000",
            ),
            (
                "invalid value 'x' for '--device': `--device = x` is not allowed: it must be `cpu`",
                "it must be `cpu`",
            ),
        ] {
            let told = in_plain_words(theirs);
            assert_eq!(told.rsplit_once("': ").unwrap().1, ours);
            assert_eq!(told.split_once(" for ").unwrap().0, theirs.split_once(" for ").unwrap().0);
        }
        assert_eq!(in_plain_words("unexpected argument '-x' found"), "unexpected argument '-x' found");
    }
}
