//! Links lead somewhere, and the book holds every page.

use super::markdown::{Page, pages};
use super::repository;
use std::fs;

/// Every relative link names a file, and the heading that it names is there.
#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for page in &pages {
        for link in page.links() {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target =
                if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(file) };
            let found = target.canonicalize().ok();
            let leads = found.as_ref().is_some_and(|found| {
                let same = |page: &&Page| page.path.canonicalize().unwrap() == *found;
                anchor.is_empty()
                    || pages
                        .iter()
                        .find(same)
                        .is_some_and(|page| page.anchors().iter().any(|known| known == anchor))
            });
            if !leads {
                broken.push(format!("{}: {link}", page.name()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// Files are named by their path from the repository's root, as `crates/position/src/encodings/alibi.rs`, or from `crates`, as
/// in tables of `DESIGN.md`. `NAME` and `X` stand for any name, and the changelog names what was there.
#[test]
fn every_file_that_is_named_is_there() {
    let folders = ["crates", "tests", "configs", "experiments", "examples", "docs", "data", "benches"];
    let is_path = |code: &&str| {
        folders.iter().any(|folder| code.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
            && code.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
            && !code.contains("NAME")
            && !code.ends_with("X.toml")
            && !code.starts_with("data/enwik8")
            && *code != "docs/book"
    };
    let is_there =
        |path: &str| ["", "crates/"].iter().any(|top| repository(&format!("{top}{path}")).exists());
    let mut missing = Vec::new();
    for page in pages().iter().filter(|page| page.name() != "CHANGELOG.md") {
        missing.extend(
            page.code()
                .filter(is_path)
                .filter(|path| !is_there(path))
                .map(|path| format!("{}: {path}", page.name())),
        );
    }
    assert!(missing.is_empty(), "files that are not there:\n{}", missing.join("\n"));
}

/// The book has no other files than those in its folder, so its pages cannot link out of it.
#[test]
fn pages_of_the_book_link_to_pages_of_the_book() {
    let book = repository("docs/src").canonicalize().unwrap();
    for page in pages().iter().filter(|page| page.name().starts_with("docs/src")) {
        for link in page.links().iter().filter(|link| !link.starts_with("https://")) {
            let file = link.split('#').next().unwrap();
            let target = page.path.parent().unwrap().join(file).canonicalize().unwrap();
            assert!(file.is_empty() || target.starts_with(&book), "{}: {link} leaves the book", page.name());
        }
    }
}

#[test]
fn the_summary_lists_every_page_once() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.name() == "docs/src/SUMMARY.md").unwrap();
    let mut listed: Vec<String> = summary.links().iter().map(|link| format!("docs/src/{link}")).collect();
    let mut there: Vec<String> =
        pages.iter().map(Page::name).filter(|name| name.starts_with("docs/src/")).collect();
    there.retain(|name| name != "docs/src/SUMMARY.md");
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
}

/// What a newcomer reads first stays short.
#[test]
fn the_readme_is_short() {
    let size = fs::metadata(repository("README.md")).unwrap().len();
    assert!(size <= 8192, "README.md has {size} bytes: move what is more into docs/");
}
