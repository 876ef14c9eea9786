//! A list that was written as one string, as `--set evaluate.lengths=L,4L` is read.

use super::set::assigned;
use toml::Value;

/// A line of a type's message: a list may stand here as well.
pub(crate) const TAKEN: &str = "a list may stand here";

/// Whether a string was probably meant as a list.
pub(crate) fn is_meant(text: &str) -> bool {
    let text = text.trim();
    text.contains(',') || text.starts_with('[') && text.ends_with(']')
}

/// How the list is written that a string was meant as; `key` is the list's place in the file.
pub(super) fn hint(key: &str, text: &str) -> Option<String> {
    // Tables have commas of their own.
    if !is_meant(text) || text.contains(['{', '=']) {
        return None;
    }
    let items = text.split([',', '[', ']']).map(|item| item.trim().trim_matches(['"', '\'']));
    let list: Vec<Value> = items.filter(|item| !item.is_empty()).map(number_or_word).collect();
    let written = Value::Array(list);
    Some(format!("a list is written `--set '{}={written}'`", assigned(key)))
}

fn number_or_word(item: &str) -> Value {
    let whole = item.parse::<i64>().map(Value::from).ok();
    let number = whole.or_else(|| item.parse::<f64>().map(Value::from).ok());
    number.unwrap_or_else(|| Value::from(item))
}

#[cfg(test)]
mod tests {
    use crate::OneOrMany;
    use crate::config::{read, unknown_kind};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its types are tested")]
    struct Block {
        lengths: Option<OneOrMany<u32>>,
        layers: Option<Vec<String>>,
        steps: Option<u32>,
    }

    fn hint_of(section: &str, text: &str) -> String {
        let error = read::<Block>(&text.parse().unwrap(), section).unwrap_err();
        error.hint_text().unwrap().to_owned()
    }

    #[test]
    fn a_list_that_is_a_string_is_written_out() {
        for (section, text, assignment) in [
            ("evaluate[0]", "lengths = '8L,4L'", r#"evaluate.lengths=["8L", "4L"]"#),
            ("evaluate[0]", "lengths = '[L,2L]'", r#"evaluate.lengths=["L", "2L"]"#),
            ("evaluate[1]", "lengths = '64, 128'", "evaluate.1.lengths=[64, 128]"),
            ("evaluate[0]", "lengths = '[L]'", r#"evaluate.lengths=["L"]"#),
            // Behind `eval`, keys of the evaluation stand alone.
            ("eval", "lengths = 'L,4L'", r#"lengths=["L", "4L"]"#),
            ("position", "layers = 'rope,none'", r#"position.layers=["rope", "none"]"#),
        ] {
            let expected = format!("a list is written `--set '{assignment}'`");
            assert_eq!(hint_of(section, text), expected, "{section}: {text}");
        }
        assert!(!hint_of("train", "steps = '1,000'").contains("a list"), "it takes none");
        assert!(!hint_of("train", "lengths = 'many'").contains("a list"));
    }

    #[test]
    fn kinds_that_are_one_string_are_written_out() {
        let hint =
            |key: &str, kind: &str| unknown_kind(key, kind, ["yarn", "ntk"]).hint_text().unwrap().to_owned();
        assert_eq!(
            hint("evaluate[0].extend[0]", "yarn,ntk"),
            r#"a list is written `--set 'evaluate.extend=["yarn", "ntk"]'`"#
        );
        assert_eq!(hint("position", "yarn,ntk"), r#"a list is written `--set 'position=["yarn", "ntk"]'`"#);
        assert!(!hint("train.optimizer", "yarn,ntk").contains("a list"), "there is one optimizer");
    }
}
