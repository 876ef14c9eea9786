//! Prints what the program is built of as JSON of `CycloneDX` 1.5 (a software bill of materials): every crate with its version,
//! licence, source and the SHA-256 of its archive, and which crate needs which.
//!
//! `cargo run --package longwave-tests --bin longwave-sbom > sbom.json`; `--features gpu` lists those of that feature
//! too. It reads `cargo tree` and `Cargo.lock`, so it needs no network, and the same lock file gives the same text.

#![allow(clippy::print_stdout, reason = "the program's output")]
#![allow(clippy::unwrap_used, reason = "as in every test")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cli/Cargo.toml");
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");

fn main() {
    let features: Vec<String> = std::env::args().skip(1).collect();
    let lock: toml::Table = std::fs::read_to_string(LOCK).unwrap().parse().unwrap();
    let locked: BTreeMap<(String, String), &toml::Table> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| package.as_table().unwrap())
        .map(|package| ((text(package, "name"), text(package, "version")), package))
        .collect();
    let crates = crates(&features);
    let components: Vec<Value> =
        crates.iter().map(|(name, version, licence)| component(name, version, licence, &locked)).collect();
    let dependencies: Vec<Value> =
        crates.iter().map(|(name, version, _)| needs(name, version, &crates, &locked)).collect();
    let (own, rest): (Vec<Value>, Vec<Value>) =
        components.into_iter().partition(|component| component["name"] == "longwave");
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": own[0] },
        "components": rest,
        "dependencies": dependencies,
    });
    println!("{}", serde_json::to_string_pretty(&bom).unwrap());
}

fn text(package: &toml::Table, key: &str) -> String {
    package.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
}

type Crate = (String, String, String);

/// Name, version and licence of every crate that is compiled into the program or while it is built.
fn crates(features: &[String]) -> BTreeSet<Crate> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--manifest-path", MANIFEST, "--edges", "normal,build", "--locked", "--offline"]);
    tree.args(["--prefix", "none", "--format", "{p}|{l}"]).args(features);
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let of = |line: &str| {
        let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned(), licence.trim().replace('/', " OR ")))
    };
    lines.lines().filter_map(of).collect()
}

fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn component(
    name: &str,
    version: &str,
    licence: &str,
    locked: &BTreeMap<(String, String), &toml::Table>,
) -> Value {
    let reference = reference(name, version);
    let kind = if name == "longwave" { "application" } else { "library" };
    let mut component =
        json!({ "type": kind, "bom-ref": reference, "name": name, "version": version, "purl": reference });
    if !licence.is_empty() {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    let package = locked[&(name.to_owned(), version.to_owned())];
    let checksum = text(package, "checksum");
    if !checksum.is_empty() {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        component["externalReferences"] = json!([{ "type": "distribution", "url": text(package, "source") }]);
    }
    component
}

/// Which of the crates a crate needs.
fn needs(
    name: &str,
    version: &str,
    crates: &BTreeSet<Crate>,
    locked: &BTreeMap<(String, String), &toml::Table>,
) -> Value {
    let package = locked[&(name.to_owned(), version.to_owned())];
    let listed = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
    let on = listed.filter_map(|needed| {
        // The version stands there where there are several.
        let mut words = needed.as_str()?.split(' ');
        let (name, version) = (words.next()?, words.next());
        let is_it = |known: &&Crate| known.0 == name && version.is_none_or(|version| known.1 == version);
        crates.iter().find(is_it).map(|(name, version, _)| reference(name, version))
    });
    json!({ "ref": reference(name, version), "dependsOn": on.collect::<Vec<_>>() })
}
