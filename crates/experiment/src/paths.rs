//! Paths in a file start at its folder.
//!
//! A `~` that begins a path is the home folder. A relative path that leads to something from there is rewritten to start at the current folder. Any other stays as it
//! is, and starts at the current folder itself: `data.corpus = "data/sotu"` means the same in every config of a project.

use longwave_core::file;
use std::path::Path;
use toml::{Table, Value};

/// Keys whose values are paths to read.
const KEYS: [&str; 4] = ["data.corpus", "data.tokenizer.path", "evaluate.corpus", "evaluate.key_tokens"];

/// Rewrites the paths of a config or a study that lies in `folder`.
pub fn resolve(document: &mut Table, folder: &Path) {
    for (key, value) in document.iter_mut() {
        resolve_value(value, key, folder);
    }
}

fn resolve_value(value: &mut Value, key: &str, folder: &Path) {
    match value {
        Value::String(path) if names_path(key) || names_reading(key, path) => {
            *path = file::in_home(path);
            if let Some(found) = beside(path, folder) {
                *path = found;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| resolve_value(item, key, folder)),
        Value::Table(table) => {
            resolve_axis(table, folder);
            for (name, inner) in table.iter_mut() {
                resolve_value(inner, &format!("{key}.{name}"), folder);
            }
        }
        _ => {}
    }
}

/// The `values` of a study's axis are those of its `key`, or of its `keys`.
fn resolve_axis(table: &mut Table, folder: &Path) {
    let keys = match (table.get("key"), table.get("keys")) {
        (Some(Value::String(key)), _) => vec![key.clone()],
        (_, Some(Value::Array(keys))) => {
            keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect()
        }
        _ => return,
    };
    let Some(Value::Array(values)) = table.get_mut("values") else { return };
    for value in values {
        match (value, keys.as_slice()) {
            (Value::Array(row), [_, _, ..]) => {
                row.iter_mut().zip(&keys).for_each(|(item, key)| resolve_value(item, key, folder));
            }
            (value, [key, ..]) => resolve_value(value, key, folder),
            _ => {}
        }
    }
}

/// Whether a key is one of those, also below other tables, as in a study's `set.data.corpus`.
fn names_path(key: &str) -> bool {
    KEYS.iter()
        .any(|known| key.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Whether an entry of `extend` is the path of a `config.json`, and no kind.
fn names_reading(key: &str, value: &str) -> bool {
    key.rsplit('.').next() == Some("extend") && value.to_ascii_lowercase().ends_with(".json")
}

/// The path from the current folder to what `path` names beside the document, if it names anything there.
fn beside(path: &str, folder: &Path) -> Option<String> {
    if path.is_empty() || Path::new(path).is_absolute() {
        return None;
    }
    let joined = folder.join(path);
    if joined.exists() {
        return Some(joined.to_string_lossy().into_owned());
    }
    if path.contains(['*', '?', '[']) { longwave_data::glob_in(folder, path) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_somewhere_start_at_the_documents_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        std::fs::create_dir(folder.join("texts")).unwrap();
        std::fs::write(folder.join("texts/a.txt"), "a").unwrap();
        std::fs::write(folder.join("t.json"), "{}").unwrap();
        let text = r#"
            base = "texts"
            "data.corpus" = "texts"
            set.data = { corpus = "texts/*.txt", tokenizer = { kind = "file", path = "t.json" } }
            evaluate = [{ corpus = "nowhere" }, { corpus = "./texts", extend = ["texts", "t.json", "u.json"] }]
            axis = [
                { key = "data.corpus", values = ["texts", "elsewhere/*"] },
                { keys = ["seed", "data.corpus"], values = [["texts", "texts"]] },
                { points = [{ label = "texts", data.corpus = "texts" }] },
            ]
        "#;
        let mut document: Table = text.parse().unwrap();
        resolve(&mut document, folder);
        let here = |path: &str| Value::String(folder.join(path).to_string_lossy().into_owned());
        assert_eq!(document["base"].as_str(), Some("texts"));
        assert_eq!(document["data.corpus"], here("texts"));
        assert_eq!(document["set"]["data"]["corpus"], here("texts/*.txt"));
        assert_eq!(document["set"]["data"]["tokenizer"]["path"], here("t.json"));
        assert_eq!(document["evaluate"][0]["corpus"].as_str(), Some("nowhere"));
        assert_eq!(document["evaluate"][1]["corpus"], here("./texts"));
        let extend = document["evaluate"][1]["extend"].as_array().unwrap();
        assert_eq!(extend[..], ["texts".into(), here("t.json"), "u.json".into()]);
        assert_eq!(document["axis"][0]["values"][0], here("texts"));
        assert_eq!(document["axis"][0]["values"][1].as_str(), Some("elsewhere/*"));
        assert_eq!(document["axis"][1]["values"][0][0].as_str(), Some("texts"));
        assert_eq!(document["axis"][1]["values"][0][1], here("texts"));
        assert_eq!(document["axis"][2]["points"][0]["data"]["corpus"], here("texts"));
        assert_eq!(document["axis"][2]["points"][0]["label"].as_str(), Some("texts"));
    }

    #[test]
    fn wildcards_in_the_name_of_the_documents_folder_are_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("my [1]");
        std::fs::create_dir_all(folder.join("texts")).unwrap();
        std::fs::write(folder.join("texts/a.txt"), "a").unwrap();
        for (corpus, expected) in [("texts/*.txt", "my [[]1[]]/texts/*.txt"), ("texts", "my [1]/texts")] {
            let mut document: Table = format!("data.corpus = \"{corpus}\"").parse().unwrap();
            resolve(&mut document, &folder);
            let expected = format!("{}/{expected}", place.path().display());
            assert_eq!(document["data"]["corpus"].as_str(), Some(expected.as_str()));
        }
    }
}
