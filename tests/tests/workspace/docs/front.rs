//! What a reader sees first: the README's figure and table, made from the study of every encoding, and its counts.

use super::atlas::curves::{Line, chart};
use super::results::{Mean, Study};
use super::{hold, program, repository, updates};
use longwave_report::plot;
use serde_json::Value;
use std::fs;
use std::ops::Range;

/// The figure of the README and of the book's first page.
const FIGURE: &str = "docs/src/length.svg";

/// Name, label in the study, and reading; the figure has the window baseline of the first.
const SHOWN: [(&str, &str, &str); 7] = [
    ("RoPE", "rope", "direct"),
    ("RoPE, read with NTK", "rope", "ntk"),
    ("RoPE, read with YaRN", "rope", "yarn"),
    ("RoPE, read with ReRoPE", "rope", "rerope"),
    ("sinusoidal", "sinusoidal", "direct"),
    ("KERPLE", "kerple", "direct"),
    ("Canon", "canon", "direct"),
];

/// With `UPDATE_DOCS=1` the figure, the table and the counts are written again. The figure is compared by a person: its
/// coordinates depend on the processor's last digits.
#[test]
fn the_readme_shows_what_the_study_measured() {
    let study = Study::read("every-encoding");
    if updates() {
        let lines = SHOWN.map(|(name, label, reading)| Line::new(name, label, reading));
        let title = "Which encoding reads past its training length?";
        let figure = chart(&study, title, &lines, &Line::of_labels(&study));
        fs::write(repository(FIGURE), plot::svg(&figure).unwrap()).unwrap();
    }
    assert!(repository(FIGURE).is_file());
    let mut readme = fs::read_to_string(repository("README.md")).unwrap();
    let place = place_of_table(&readme);
    readme.replace_range(place, &table(&study));
    hold("README.md", &counted(readme));
}

/// The lines of the table below its heading.
fn place_of_table(readme: &str) -> Range<usize> {
    let start = readme.find("|---|---:|").unwrap();
    let start = start + readme[start..].find('\n').unwrap() + 1;
    let lines = readme[start..].split_inclusive('\n').take_while(|line| line.starts_with('|'));
    start..start + lines.map(str::len).sum::<usize>()
}

fn table(study: &Study) -> String {
    let row = |(name, label, reading): (&str, &str, &str)| {
        let cells = study.curve(label, reading, "test").into_values().map(Mean::text);
        format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    SHOWN.map(row).concat()
}

/// With the number of encodings and of extensions in its `**26 encodings**` and the like.
fn counted(mut readme: String) -> String {
    let list: Value = serde_json::from_str(&program(&["inspect", "--list", "--json"])).unwrap();
    for part in ["encodings", "extensions"] {
        let end = readme.find(&format!(" {part}**")).unwrap();
        let start = readme[..end].rfind("**").unwrap() + 2;
        readme.replace_range(start..end, &list[part].as_array().unwrap().len().to_string());
    }
    readme
}
