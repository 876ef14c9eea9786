//! Keys of encodings that are lengths: a multiple of the training length becomes a number of tokens before the encoding
//! reads it, so that a run is identified by the number, however it is written.

use crate::encodings;
use crate::tokens::{Lengths, Tokens, meant};
use longwave_core::{Error, Result};
use toml::Value;

/// A `[position]` value with numbers of tokens in the place of lengths such as `"2L"`; `section` is its place in the
/// file.
pub(super) fn in_tokens(value: &Value, section: &str, lengths: Lengths) -> Result<Value> {
    within(value, section, "", lengths)
}

/// The same of a value inside an encoding of this `kind`.
fn within(value: &Value, section: &str, kind: &str, lengths: Lengths) -> Result<Value> {
    match value {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(index, item)| within(item, &format!("{section}[{index}]"), kind, lengths))
                .collect::<Result<_>>()
                .map(Value::Array)
        }
        Value::Table(table) => {
            let kind = table.get("kind").and_then(Value::as_str).unwrap_or(kind);
            let keys = encodings::lengths(kind);
            let inner = table.iter().map(|(key, value)| {
                let section = format!("{section}.{key}");
                let value = if value.is_str() && keys.contains(&key.as_str()) {
                    Value::Integer(read(value, key, &section)?.whole(&section, lengths)? as i64)
                } else {
                    within(value, &section, kind, lengths)?
                };
                Ok((key.clone(), value))
            });
            inner.collect::<Result<_>>().map(Value::Table)
        }
        other => Ok(other.clone()),
    }
}

/// Reads a text. Of the keys that may be lengths the base of a rotation alone is no number of tokens otherwise.
fn read(value: &Value, key: &str, section: &str) -> Result<Tokens> {
    let read = Tokens::from_value(value, section);
    if key != "base" {
        return read;
    }
    read.map_err(|_| {
        let hint = value.as_str().and_then(meant);
        let hint =
            hint.unwrap_or_else(|| "the usual one is 10000.0; `\"L\"` is the training length".to_owned());
        Error::value(section, value, "it must be a number above 1, or a length such as \"L\" or \"8L\"")
            .hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::PositionConfig;
    use crate::testing::value;

    fn read(text: &str) -> Result<PositionConfig> {
        PositionConfig::for_length(&value(text), "position", 100)
    }

    #[test]
    fn multiples_are_numbers_for_an_encoding() {
        for (multiples, numbers) in [
            ("{ kind = 'learned', table_size = '8L' }", "{ kind = 'learned', table_size = 800 }"),
            (
                "[{ kind = 'tupe', table_size = '1.5L', max_distance = 'L' }, 'rope']",
                "[{ kind = 'tupe', table_size = 150, max_distance = 100 }, 'rope']",
            ),
            ("{ kind = 'xlnet', memory = 'L/3' }", "{ kind = 'xlnet', memory = 33 }"),
            ("{ kind = 'rope', base = '4L' }", "{ kind = 'rope', base = 400.0 }"),
            (
                "{ kind = 'deberta', span = 'L', absolute_layers = 1, absolute = { table_size = '2L' } }",
                "{ kind = 'deberta', span = 100, absolute_layers = 1, absolute = { table_size = 200 } }",
            ),
            (
                "{ kind = 'mixed', layers = [{ kind = 't5', max_distance = '2L', window = 'L' }, 'none'] }",
                "{ kind = 'mixed', layers = [{ kind = 't5', max_distance = 200, window = 'L' }, 'none'] }",
            ),
            (
                "{ kind = 'mixed', layers = [{ encodings = [{ kind = 'learned', table_size = '4L' }, 'rope'] }] }",
                "{ kind = 'mixed', layers = [{ encodings = [{ kind = 'learned', table_size = 400 }, 'rope'] }] }",
            ),
        ] {
            assert_eq!(read(multiples).unwrap(), read(numbers).unwrap(), "{multiples}");
        }
    }

    #[test]
    fn what_is_no_length_is_named() {
        let error = read("{ kind = 'learned', table_size = '8l' }").unwrap_err();
        assert!(
            error.message().starts_with("`position.table_size = \"8l\"` is not allowed: it must be"),
            "{error}"
        );
        assert_eq!(error.hint_text(), Some("did you mean `\"8L\"`?"));
        let base = |text: &str| read(&format!("{{ kind = 'rope', base = '{text}' }}")).unwrap_err();
        let none = base("abc");
        let what = "`position.base = \"abc\"` is not allowed: it must be a number above 1, or a length such as \"L\" or \"8L\"";
        assert_eq!(none.message(), what);
        assert_eq!(none.hint_text(), Some("the usual one is 10000.0; `\"L\"` is the training length"));
        assert_eq!(base("8l").hint_text(), Some("did you mean `\"8L\"`?"));
        assert_eq!(base("10000").hint_text(), Some("write `10000` without quotes"));
        let small = read("['none', { kind = 't5', max_distance = 'L/200' }]").unwrap_err();
        assert!(small.message().starts_with("`position[1].max_distance = \"L/200\"`"), "{small}");
        assert!(read("{ kind = 'xpos', base = 'L' }").unwrap_err().message().contains("position.base"));
    }

    #[test]
    fn every_length_is_a_key_with_its_schema() {
        let schema = schemars::schema_for!(crate::EncodingConfig).to_value();
        let variants = schema["oneOf"].as_array().unwrap();
        let of = |kind: &str| {
            variants[encodings::kinds().iter().position(|entry| entry.kind == kind).unwrap()].clone()
        };
        for (kind, key) in [("learned", "table_size"), ("transformer_xl", "memory"), ("deberta", "span")] {
            let property = &of(kind)["properties"][key];
            assert!(
                property["anyOf"][1]["pattern"].is_string() && property["description"].is_string(),
                "{property}"
            );
            // No tokens at all are the default of the memory alone.
            assert_eq!(property["anyOf"][0]["minimum"], u8::from(key != "memory"), "{property}");
        }
    }
}
