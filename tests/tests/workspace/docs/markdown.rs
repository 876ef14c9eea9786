//! As much Markdown as the tests read: pages, headings, links and fenced code.

use super::repository;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

/// A block of fenced code.
pub struct Fence {
    pub language: String,
    pub text: String,
}

/// Every Markdown file below these folders, and these files.
pub fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    for place in ["", "docs", "experiments", "data", "tests/golden", "benches/peers"] {
        collect(&repository(place), !place.is_empty(), &mut paths);
    }
    paths.sort();
    paths.into_iter().map(|path| Page { text: fs::read_to_string(&path).unwrap(), path }).collect()
}

fn collect(folder: &Path, deep: bool, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && deep && !path.ends_with("book") {
            collect(&path, deep, paths);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

impl Page {
    /// The path in the repository.
    pub fn name(&self) -> String {
        self.path.strip_prefix(repository("")).unwrap().to_string_lossy().replace('\\', "/")
    }

    /// The lines outside of fenced and indented code.
    pub fn prose(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            inside ^= is_fence;
            !inside && !is_fence && !line.starts_with("    ")
        })
    }

    /// The targets of links and pictures.
    pub fn links(&self) -> Vec<String> {
        let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        self.prose()
            .flat_map(|line| {
                let line = without_code(line);
                line.split("](")
                    .skip(1)
                    .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// What stands in backticks in a line.
    pub fn code(&self) -> impl Iterator<Item = &str> {
        self.prose().flat_map(|line| line.split('`').skip(1).step_by(2))
    }

    /// The anchors of the headings.
    pub fn anchors(&self) -> Vec<String> {
        self.prose()
            .filter(|line| line.starts_with('#'))
            .map(|line| anchor(line.trim_start_matches('#')))
            .collect()
    }

    /// The fenced code.
    pub fn fences(&self) -> Vec<Fence> {
        let mut fences: Vec<Fence> = Vec::new();
        let mut inside = false;
        for line in self.text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                if !inside {
                    fences.push(Fence { language: language.to_owned(), text: String::new() });
                }
                inside = !inside;
            } else if inside {
                let text = &mut fences.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            }
        }
        fences
    }
}

/// A heading as a link names it: small letters, digits, `_` and `-`, with `-` for a space.
pub fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim().chars().filter_map(kept).collect()
}
