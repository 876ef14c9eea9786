//! The README's tables are what the program prints.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::PROGRAM;
use std::path::Path;
use std::process::Command;

const BEGIN: &str = "<!-- longwave inspect --list -->\n";
const END: &str = "<!-- end -->\n";

fn listed(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(["inspect", "--list"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// With `UPDATE_README=1` the tables are written anew.
#[test]
fn the_tables_of_the_readme_are_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let begin = readme.find(BEGIN).unwrap() + BEGIN.len();
    let end = begin + readme[begin..].find(END).unwrap();
    let tables = listed(&[]);
    if std::env::var_os("UPDATE_README").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{}{tables}{}", &readme[..begin], &readme[end..])).unwrap();
        return;
    }
    assert!(
        readme[begin..end] == tables,
        "the README's tables are not what `longwave inspect --list` prints; write them anew with UPDATE_README=1"
    );
}

#[test]
fn the_list_has_numbers_too() {
    let list: serde_json::Value = serde_json::from_str(&listed(&["--json"])).unwrap();
    let of = |part: &str, kind: &str| {
        let entries = list[part].as_array().unwrap();
        entries.iter().find(|entry| entry["kind"] == kind).unwrap().clone()
    };
    assert_eq!(of("encodings", "learned")["acts"], serde_json::json!(["input"]));
    assert_eq!(of("encodings", "learned")["refuses"], true);
    assert_eq!(
        of("extensions", "rerope")["applies_to"],
        serde_json::json!(["rope", "xpos", "pope", "transformer_xl"])
    );
}

#[test]
fn a_list_needs_no_config_and_takes_none() {
    let fails = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).arg("inspect").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = fails(&[]);
    assert!(code == Some(2) && stderr.contains("--config"), "{stderr}");
    let (code, stderr) = fails(&["--list", "--length", "4"]);
    assert!(code == Some(2) && stderr.contains("--list"), "{stderr}");
}
