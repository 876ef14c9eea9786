//! What the program is built of, held to `deny.toml`: licences, second versions, sources.

use super::docs::repository;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use toml::Table;

const SBOM: &str = env!("CARGO_BIN_EXE_longwave-sbom");

fn read(name: &str) -> Table {
    fs::read_to_string(repository(name)).unwrap().parse().unwrap()
}

fn strings(value: &toml::Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The bill of materials of a build without features.
fn bill() -> Value {
    let output = Command::new(SBOM).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn components(bill: &Value) -> Vec<(&str, &str, &str)> {
    let all = bill["components"].as_array().unwrap().iter();
    all.map(|component| {
        let licence = component["licenses"][0]["expression"].as_str().unwrap_or_default();
        (component["name"].as_str().unwrap(), component["version"].as_str().unwrap(), licence)
    })
    .collect()
}

/// Whether an SPDX expression is fulfilled by what is allowed: `OR` binds less than `AND`.
fn is_allowed(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.trim();
    let top_level = |word: &str| {
        let mut depth = 0;
        expression.char_indices().find_map(|(at, letter)| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            (depth == 0 && expression[at..].starts_with(word))
                .then(|| (&expression[..at], &expression[at + word.len()..]))
        })
    };
    if let Some((left, right)) = top_level(" OR ") {
        return is_allowed(left, allowed) || is_allowed(right, allowed);
    }
    if let Some((left, right)) = top_level(" AND ") {
        return is_allowed(left, allowed) && is_allowed(right, allowed);
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner, allowed),
        None => allowed(expression),
    }
}

#[test]
fn every_licence_is_one_that_is_allowed() {
    let deny = read("deny.toml");
    let general = strings(&deny["licenses"]["allow"]);
    let exceptions: BTreeMap<String, Vec<String>> = deny["licenses"]["exceptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap().to_owned(), strings(&one["allow"])))
        .collect();
    let bill = bill();
    let components = components(&bill);
    assert!(components.len() > 200, "{}", components.len());
    let refused: Vec<_> = components
        .iter()
        .filter(|(name, _, licence)| {
            let own = exceptions.get(*name).cloned().unwrap_or_default();
            let allowed = |word: &str| general.iter().chain(&own).any(|known| known == word);
            !is_allowed(licence, &allowed)
        })
        .collect();
    assert!(refused.is_empty(), "licences that `deny.toml` does not allow: {refused:?}");
}

#[test]
fn licences_are_read_as_expressions() {
    let mit = |word: &str| word == "MIT" || word == "Unicode-3.0";
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(GPL-3.0 OR Apache-2.0) AND Unicode-3.0", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &mit), expected, "{expression}");
    }
}

#[test]
fn no_crate_is_compiled_in_two_versions_but_those_that_are_known() {
    let deny = read("deny.toml");
    let known = deny["bans"]["skip"].as_array().unwrap().iter();
    let known: BTreeSet<&str> = known.map(|one| one["name"].as_str().unwrap()).collect();
    let bill = bill();
    let mut seen = BTreeSet::new();
    let twice = components(&bill).into_iter().map(|(name, ..)| name).filter(|name| !seen.insert(*name));
    let new: Vec<&str> = twice.filter(|name| !known.contains(name)).collect();
    assert!(new.is_empty(), "crates in two versions that `deny.toml` does not name: {new:?}");
}

#[test]
fn every_crate_comes_from_the_registry_with_a_checksum() {
    let registries = strings(&read("deny.toml")["sources"]["allow-registry"]);
    let lock = read("Cargo.lock");
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        match package.get("source").and_then(toml::Value::as_str) {
            None => assert!(name.starts_with("longwave") || name == "xtask", "`{name}` comes from a folder"),
            Some(source) => {
                let registry = source.strip_prefix("registry+").unwrap_or(source);
                assert!(registries.iter().any(|known| known == registry), "`{name}` comes from {source}");
                assert_eq!(package["checksum"].as_str().map(str::len), Some(64), "{name}");
            }
        }
    }
}

#[test]
fn the_bill_of_materials_lists_what_is_built() {
    let bill = bill();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["component"]["name"], "longwave");
    let all = bill["components"].as_array().unwrap();
    let burn = all.iter().find(|component| component["name"] == "burn-core").unwrap();
    assert_eq!(burn["purl"], "pkg:cargo/burn-core@0.22.1");
    assert_eq!(burn["hashes"][0]["content"].as_str().map(str::len), Some(64));
    // Whatever is needed is listed.
    let refs: BTreeSet<&str> = all.iter().map(|component| component["bom-ref"].as_str().unwrap()).collect();
    let needs = bill["dependencies"].as_array().unwrap().iter();
    for needed in needs.flat_map(|one| one["dependsOn"].as_array().unwrap()) {
        assert!(refs.contains(needed.as_str().unwrap()), "{needed}");
    }
    let train =
        bill["dependencies"].as_array().unwrap().iter().find(|one| {
            one["ref"].as_str().is_some_and(|name| name.starts_with("pkg:cargo/longwave-train@"))
        });
    assert!(train.unwrap()["dependsOn"].to_string().contains("pkg:cargo/burn-core@0.22.1"));
}
