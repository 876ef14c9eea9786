//! The beginning-of-text token that a tokenizer's files ask for.

use longwave_core::{Error, Result, file};
use serde_json::Value;
use std::path::Path;

/// What a tokenizer's files say of the token before a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begins {
    /// The token that is taken; `None` where none is asked for.
    pub(crate) token: Option<String>,
    /// What the files say besides, which is not taken.
    pub(crate) note: Option<String>,
}

/// The token that transformers 5 puts before a text of the model in this folder: the template of `tokenizer.json`
/// (`post_processor`) decides, and `add_bos_token` of `tokenizer_config.json` has no effect beside a `tokenizer.json`. That of
/// transformers 4 decided for the classes of Llama and of GPT-NeoX.
pub(crate) fn of_folder(folder: &Path) -> Result<Begins> {
    let leading = before_a_text(&file::read_text(&folder.join("tokenizer.json")).unwrap_or_default());
    let token = leading.first().cloned();
    let note = several(&leading).or(disagrees(&leading, folder)?);
    Ok(Begins { token, note })
}

/// What is to be known where other programs put another token before a text than the run did, which began with `bos`.
pub(crate) fn read_otherwise(tokenizer: &str, bos: &str) -> Option<String> {
    let theirs = quoted(&before_a_text(tokenizer));
    let ours = if bos.is_empty() { String::new() } else { format!("`{bos}`") };
    let named = |tokens: &str| if tokens.is_empty() { "no token".to_owned() } else { tokens.to_owned() };
    (theirs != ours).then(|| {
        format!(
            "its tokenizer.json puts {} before a text, as other programs do then, and the texts of this run had {} there (`data.bos`)",
            named(&theirs),
            named(&ours)
        )
    })
}

fn before_a_text(tokenizer: &str) -> Vec<String> {
    let json: Option<Value> = serde_json::from_str(tokenizer).ok();
    json.and_then(|json| Some(leading(json.get("post_processor")?))).unwrap_or_default()
}

fn quoted(tokens: &[String]) -> String {
    tokens.iter().map(|token| format!("`{token}`")).collect::<Vec<_>>().join(", ")
}

fn several(leading: &[String]) -> Option<String> {
    let [first, _, ..] = leading else { return None };
    Some(format!(
        "tokenizer.json puts {} tokens before a text ({}), and `data.bos` holds one: `{first}` alone is taken, so losses are not \
         those of programs that put all of them there",
        leading.len(),
        quoted(leading)
    ))
}

/// What is to be known where `add_bos_token` says otherwise than the template, which begins with these tokens.
fn disagrees(leading: &[String], folder: &Path) -> Result<Option<String>> {
    let path = folder.join("tokenizer_config.json");
    if !path.exists() {
        return Ok(None);
    }
    let config: Value = serde_json::from_str(&file::read_text(&path)?).map_err(|error| {
        Error::failed(format!("`{}` is damaged: {error}", path.display())).hint("download it again")
    })?;
    let token = config.get("bos_token");
    let token = token.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
    let (asked, other) = match (config.get("add_bos_token").and_then(Value::as_bool), token) {
        (Some(true), Some(token)) if leading.first().is_none_or(|first| first != token) => {
            (format!("`add_bos_token = true` (`{token}`)"), token)
        }
        (Some(false), _) if !leading.is_empty() => ("`add_bos_token = false`".to_owned(), ""),
        _ => return Ok(None),
    };
    let template = leading.first().map_or("none".to_owned(), |first| format!("`{first}`"));
    Ok(Some(format!(
        "tokenizer_config.json says {asked}, and `post_processor` of tokenizer.json puts {template} before a text: the latter is \
         taken, as in transformers 5; `--set 'data.bos={other}'` takes the former, as transformers 4 did for some models"
    )))
}

/// The special tokens that a processor puts before a text, in their order.
fn leading(processor: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match processor["type"].as_str() {
        // What a later one puts there is before what an earlier one does.
        Some("Sequence") => list(&processor["processors"]).iter().rev().flat_map(leading).collect(),
        Some("BertProcessing" | "RobertaProcessing") => text(&processor["cls"][0]).into_iter().collect(),
        _ => {
            let pieces = list(&processor["single"]);
            let names = pieces.iter().map_while(|piece| text(&piece["SpecialToken"]["id"]));
            // A name stands for one token, which usually has that name, or for several.
            let tokens = |name: String| match list(&processor["special_tokens"][&name]["tokens"]) {
                tokens if tokens.is_empty() => vec![name],
                tokens => tokens.iter().filter_map(text).collect(),
            };
            names.flat_map(tokens).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is found in a folder with this processor and this `tokenizer_config.json`.
    fn found(processor: &Value, config: Option<&Value>) -> Begins {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, json: &Value| {
            std::fs::write(folder.path().join(name), json.to_string()).unwrap();
        };
        write("tokenizer.json", &json!({ "post_processor": processor }));
        if let Some(config) = config {
            write("tokenizer_config.json", config);
        }
        of_folder(folder.path()).unwrap()
    }

    /// A template with these tokens before the text, and one after it.
    fn template(names: &[&str]) -> Value {
        let special = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
        let mut single: Vec<Value> = names.iter().map(|name| special(name)).collect();
        single.extend([json!({ "Sequence": { "id": "A", "type_id": 0 } }), special("</s>")]);
        json!({ "type": "TemplateProcessing", "single": single })
    }

    /// The ids that transformers 4.57 and 5.24 make of a text with these files are the source of what is expected.
    #[test]
    fn the_processor_says_which_token_comes_first() {
        let of = |kind: &str| json!({ "type": kind, "cls": ["<c>", 7], "sep": ["</s>", 8] });
        let several =
            json!({ "type": "Sequence", "processors": [{ "type": "ByteLevel" }, template(&["<s>"])] });
        for (processor, expected) in [
            (json!(null), None),
            (template(&[]), None),
            (template(&["<s>"]), Some("<s>")),
            (several, Some("<s>")),
            (of("BertProcessing"), Some("<c>")),
            (of("RobertaProcessing"), Some("<c>")),
        ] {
            for config in [None, Some(json!({ "bos_token": "<b>" }))] {
                let found = found(&processor, config.as_ref());
                assert_eq!((found.token.as_deref(), found.note), (expected, None), "{processor}");
            }
        }
    }

    #[test]
    fn what_is_not_taken_is_said() {
        let on = json!({ "add_bos_token": true, "bos_token": { "content": "<b>", "special": true } });
        let off = json!({ "add_bos_token": false, "bos_token": "<s>" });
        let both = ["`add_bos_token = true` (`<b>`)", "puts none before", "`--set 'data.bos=<b>'`"];
        let other = ["`add_bos_token = true` (`<b>`)", "puts `<s>` before", "`--set 'data.bos=<b>'`"];
        let none = ["`add_bos_token = false`", "puts `<s>` before", "`--set 'data.bos='`"];
        for (names, config, expected) in
            [(&[][..], &on, both), (&["<s>"], &on, other), (&["<s>"], &off, none)]
        {
            let Begins { token, note } = found(&template(names), Some(config));
            assert_eq!(token.as_deref(), names.first().copied());
            let note = note.unwrap();
            assert!(expected.iter().all(|part| note.contains(part)), "{note}");
        }
        assert_eq!(found(&template(&["<b>"]), Some(&on)).note, None);
        assert_eq!(found(&template(&[]), Some(&off)).note, None);
        let mut one_name = template(&["<s>"]);
        one_name["special_tokens"] =
            json!({ "<s>": { "id": "<s>", "ids": [1, 2], "tokens": ["<s>", "<x>"] } });
        for two in [template(&["<s>", "<x>"]), one_name] {
            let Begins { token, note } = found(&two, None);
            assert_eq!(token.as_deref(), Some("<s>"));
            assert!(note.is_some_and(|note| note.contains("puts 2 tokens before a text (`<s>`, `<x>`)")));
        }
    }

    #[test]
    fn an_export_names_a_token_that_other_programs_put_elsewhere() {
        let told = |names: &[&str], bos: &str| {
            read_otherwise(&json!({ "post_processor": template(names) }).to_string(), bos)
        };
        assert_eq!([told(&[], ""), told(&["<s>"], "<s>"), read_otherwise("{}", "")], [None, None, None]);
        for (names, bos, expected) in [
            (&[][..], "<s>", ["puts no token before", "had `<s>` there"]),
            (&["<s>"], "", ["puts `<s>` before", "had no token there"]),
            (&["<s>"], "<b>", ["puts `<s>` before", "had `<b>` there"]),
            (&["<s>", "<x>"], "<s>", ["puts `<s>`, `<x>` before", "had `<s>` there"]),
        ] {
            let note = told(names, bos).unwrap();
            assert!(expected.iter().all(|part| note.contains(part)), "{note}");
        }
    }
}
