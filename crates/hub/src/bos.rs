//! The beginning-of-text token that a tokenizer's files ask for.

use longwave_core::{Error, Result, file};
use serde_json::Value;
use std::path::Path;

/// The token that programs put before a text of the model in this folder; `None` where none is asked for.
///
/// `add_bos_token` of `tokenizer_config.json` decides where it is given, else the template of `tokenizer.json`
/// (`post_processor`), as transformers reads them.
pub(crate) fn of_folder(folder: &Path) -> Result<Option<String>> {
    let tokenizer: Option<Value> = file::read_text(&folder.join("tokenizer.json"))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    let template = tokenizer.as_ref().and_then(|json| first_of(json.get("post_processor")?));
    let path = folder.join("tokenizer_config.json");
    if !path.exists() {
        return Ok(template);
    }
    let config: Value = serde_json::from_str(&file::read_text(&path)?).map_err(|error| {
        Error::failed(format!("`{}` is damaged: {error}", path.display())).hint("download it again")
    })?;
    let token = config.get("bos_token");
    let token = token.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
    Ok(match (config.get("add_bos_token").and_then(Value::as_bool), token) {
        (Some(true), Some(token)) => Some(token.to_owned()),
        (Some(false), _) => None,
        _ => template,
    })
}

/// The special token that a template, or the first of several processors that has one, puts before a text.
fn first_of(processor: &Value) -> Option<String> {
    if let Some(processors) = processor.get("processors").and_then(Value::as_array) {
        return processors.iter().find_map(first_of);
    }
    let first = processor.get("single")?.as_array()?.first()?;
    first.get("SpecialToken")?.get("id")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_files_say_which_token_comes_first() {
        let template = json!({ "type": "TemplateProcessing", "single": [
            { "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
        ] });
        let bare =
            json!({ "type": "TemplateProcessing", "single": [{ "Sequence": { "id": "A", "type_id": 0 } }] });
        let several = json!({ "type": "Sequence", "processors": [{ "type": "ByteLevel" }, template] });
        let asks = json!({ "add_bos_token": true, "bos_token": { "content": "<b>", "special": true } });
        for (processor, config, expected) in [
            (json!(null), None, None),
            (template.clone(), None, Some("<s>")),
            (several, Some(json!({ "bos_token": "<b>" })), Some("<s>")),
            (bare, None, None),
            (json!(null), Some(asks.clone()), Some("<b>")),
            (template.clone(), Some(asks), Some("<b>")),
            (template, Some(json!({ "add_bos_token": false, "bos_token": "<s>" })), None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, json: &Value| {
                std::fs::write(folder.path().join(name), json.to_string()).unwrap();
            };
            write("tokenizer.json", &json!({ "post_processor": processor }));
            if let Some(config) = &config {
                write("tokenizer_config.json", config);
            }
            assert_eq!(of_folder(folder.path()).unwrap().as_deref(), expected, "{processor} {config:?}");
        }
    }
}
