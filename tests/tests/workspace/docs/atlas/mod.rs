//! The atlas: a page for every encoding and every extension, made from what their files state, from pictures of them, and from
//! the committed results of two studies.
//!
//! `UPDATE_DOCS=1` writes pages and pictures again. With `ATLAS_STORE=DIR`, the store of the studies' runs, it measures `attention.csv` again too.

mod attention;
pub(super) mod curves;
mod overview;
mod page;
mod pictures;

use super::results::Study;
use super::{GENERATED, hold, repository, updates};
use crate::common::PROGRAM;
use attention::Attention;

use longwave_inspect::catalog;
use longwave_position::{ExtensionConfig, Lengths, extensions};
use pictures::Pictures;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Where the pages are.
const ATLAS: &str = "docs/src/atlas";

const STUDIES: [&str; 2] = ["every-encoding", "every-extension"];

/// Their results.
struct Studies {
    encodings: Study,
    extensions: Study,
    attention: Attention,
}

impl Studies {
    fn read() -> Self {
        let [encodings, extensions] = STUDIES.map(Study::read);
        if let Some(store) = env::var_os("ATLAS_STORE").filter(|_| updates()) {
            attention::measure(&encodings, Path::new(&store));
        }
        let attention = Attention::read(&encodings);
        Self { encodings, extensions, attention }
    }
}

/// What the program prints; `None` where it fails.
fn printed(arguments: &[&str]) -> Option<String> {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Pictures are compared by name alone: their coordinates depend on the processor's last digits.
#[test]
fn the_atlas_is_what_code_and_studies_say() {
    let mut pictures = Pictures { is_drawn: updates(), ..Pictures::default() };
    let pages = pages(&mut pictures);
    let there = |folder: &str, end: &str| files(&repository(&format!("{ATLAS}/{folder}")), end);
    if updates() {
        fs::remove_dir_all(repository(ATLAS)).unwrap_or_default();
        for folder in ["encodings", "extensions", "pictures"] {
            fs::create_dir_all(repository(&format!("{ATLAS}/{folder}"))).unwrap();
        }
        for (name, svg) in &pictures.files {
            fs::write(repository(&format!("{ATLAS}/pictures/{name}")), svg).unwrap();
        }
    }
    for (name, text) in &pages {
        hold(&format!("{ATLAS}/{name}"), text);
    }
    assert_eq!(there("pictures", "svg"), pictures.files.keys().cloned().collect::<Vec<_>>());
    for folder in ["encodings", "extensions"] {
        let expected: Vec<String> = pages
            .keys()
            .filter_map(|name| name.strip_prefix(&format!("{folder}/")))
            .map(str::to_owned)
            .collect();
        assert_eq!(there(folder, "md"), expected, "{folder}");
    }
}

/// The names of the files in a folder that end so, in order.
fn files(folder: &Path, end: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(end));
    names.sort();
    names
}

/// Every page by its path in the atlas, and the summary of the book.
fn pages(pictures: &mut Pictures) -> BTreeMap<String, String> {
    let studies = Studies::read();
    let (encodings, extensions) = (catalog::encodings().unwrap(), catalog::extensions().unwrap());
    let mut pages = BTreeMap::new();
    for info in &encodings {
        let text = page::encoding(info, &extensions, &studies, pictures);
        pages.insert(format!("encodings/{}.md", info.kind), text);
    }
    for info in &extensions {
        let text = page::extension(info, &example(info.kind), encodings.len(), &studies, pictures);
        pages.insert(format!("extensions/{}.md", info.kind), text);
    }
    pages.insert("index.md".to_owned(), overview::overview(&encodings, &extensions, &studies, pictures));
    pages.insert("../SUMMARY.md".to_owned(), overview::summary(&encodings, &extensions));
    pages
}

/// An extension with its default keys, or as its own example has them where a key must be given.
fn example(kind: &str) -> ExtensionConfig {
    ExtensionConfig::from_value(&kind.into(), "extend").unwrap_or_else(|_| {
        let all = extensions::examples(16, Lengths { train: 128, length: 512 }).unwrap();
        all.into_iter().map(|(config, _)| config).find(|config| config.kind() == kind).unwrap()
    })
}
