//! Examples in fences marked `toml` are what the program reads.

use super::markdown::pages;
use super::repository;
use crate::common::{PROGRAM, Project};
use std::fs;
use std::process::Command;

/// A part of a config is read in place of the same part of `rope.toml`, whose tokens are bytes here: encodings of digits need them. A study has `base`, and is read as TOML alone.
#[test]
fn examples_of_configs_are_valid() {
    let project = Project::new();
    let rope = fs::read_to_string(repository("configs/rope.toml")).unwrap();
    let sotu = toml::from_str::<toml::Table>(&rope).unwrap()["data"]["corpus"].clone();
    let mut found = 0;
    for page in pages() {
        for fence in page.fences().iter().filter(|fence| fence.language == "toml") {
            found += 1;
            let part: toml::Table = toml::from_str(&fence.text).unwrap_or_else(|error| {
                panic!("{}: {error}\n{}", page.name(), fence.text);
            });
            if part.contains_key("base") {
                continue;
            }
            let mut config: toml::Table = toml::from_str(&rope).unwrap();
            config["data"]["tokenizer"] =
                toml::Table::from_iter([("kind".to_owned(), "bytes".into())]).into();
            // The extensions of `rope.toml` do not fit every other encoding.
            if !part.contains_key("evaluate") {
                config.remove("evaluate");
            }
            if !part.contains_key("data") {
                // A short text is read sooner.
                for (key, name) in [("corpus", "corpus"), ("cache", ".cache")] {
                    let place = project.path(name).to_string_lossy().into_owned();
                    config["data"].as_table_mut().unwrap().insert(key.to_owned(), place.into());
                }
            }
            config.extend(part);
            // The user's own text is not here.
            let corpus = config["data"].get_mut("corpus");
            if let Some(corpus) = corpus.filter(|corpus| !repository(corpus.as_str().unwrap()).exists()) {
                *corpus = sotu.clone();
            }
            let path = project.path("example.toml");
            fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
            let output = Command::new(PROGRAM)
                .arg("validate")
                .arg(&path)
                .current_dir(repository(""))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}: {}\n{}",
                page.name(),
                String::from_utf8_lossy(&output.stderr),
                fence.text
            );
        }
    }
    assert!(found > 5, "{found} examples: the walk has missed the documentation");
}
