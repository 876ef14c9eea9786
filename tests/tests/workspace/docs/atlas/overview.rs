//! The overview: every curve in small, a table, the symbols of the formulas; and the atlas's part of the book's summary.

use super::super::repository;
use super::super::results::Study;
use super::curves::{Line, chart};
use super::page::verdicts;
use super::pictures::Pictures;
use super::{GENERATED, Studies};
use longwave_eval::WINDOW_BASELINE;
use longwave_inspect::catalog::{EncodingInfo, ExtensionInfo};
use longwave_inspect::typeset;
use std::fmt::Write as _;
use std::fs;

/// Curves in a row.
const COLUMNS: usize = 3;

pub(super) fn overview(
    encodings: &[EncodingInfo],
    extensions: &[ExtensionInfo],
    studies: &Studies,
    pictures: &mut Pictures,
) -> String {
    let study = &studies.encodings;
    let mut page = format!(
        "# Atlas\n\n{GENERATED}A page for each of the {} encodings and {} extensions: what it does, its formula and source, pictures, how it reads longer texts, \
         what the studies decided about it, and its config to copy.\n\nThe numbers are of small models: 2 layers, width 64, trained on L = {} tokens, \
         {} seeds. They rank encodings at this size; larger models may rank them otherwise.\n\n",
        encodings.len(),
        extensions.len(),
        study.train_length,
        study.seeds()
    );
    page += "## Encodings at a glance\n\nTest perplexity by tokens of context, read as trained, each among all others in grey. The dashed line is the \
             window baseline: the last L tokens alone. The best at 8L come first.\n\n";
    page += &small_multiples(encodings, study, pictures);
    page += "## Every encoding\n\nA click on a heading sorts the table.\n\n";
    page += &table_of_encodings(study);
    page += "## Every extension, on one RoPE model\n\n";
    page += &table_of_extensions(&studies.extensions);
    for study in [&studies.encodings, &studies.extensions] {
        page += &verdicts(&study.claims().iter().collect::<Vec<_>>(), study);
    }
    page += "## Symbols\n\n| symbol | meaning |\n|---|---|\n";
    for (symbol, meaning) in typeset::SYMBOLS {
        let _ = writeln!(page, "| {} | {meaning} |", typeset::html(symbol).unwrap());
    }
    page
}

/// Every label of the study, the best at 8L first; those that are not defined there last.
fn ranked(study: &Study) -> Vec<(&str, &str)> {
    let mut labels = study.labels();
    labels.sort_by(|a, b| study.at_8(a.0, "direct").total_cmp(&study.at_8(b.0, "direct")));
    labels
}

fn small_multiples(encodings: &[EncodingInfo], study: &Study, pictures: &mut Pictures) -> String {
    let others = Line::of_labels(study);
    let labels: Vec<(&str, &str)> = ranked(study)
        .into_iter()
        .filter(|(label, kind)| label == kind && encodings.iter().any(|info| info.kind == *kind))
        .collect();
    let mut text = format!("|{}\n|{}\n", " |".repeat(COLUMNS), ":---:|".repeat(COLUMNS));
    for row in labels.chunks(COLUMNS) {
        text += "|";
        for (label, kind) in row {
            let file = format!("{kind}-small.svg");
            pictures.small(&file, &chart(study, "", &[Line::new(label, label, "direct")], &others));
            let _ = write!(text, " [![{kind}](pictures/{file})<br>`{kind}`](encodings/{kind}.md) |");
        }
        text += &" |".repeat(COLUMNS - row.len());
        text.push('\n');
    }
    text + "\n"
}

fn table_of_encodings(study: &Study) -> String {
    let train = study.train_length;
    let mut text =
        "| model | encoding | L | 2L | 8L | 16L | window baseline at 8L | best reading | at 8L |\n\
                    |---|---|---:|---:|---:|---:|---:|---|---:|\n"
            .to_owned();
    for (label, kind) in ranked(study) {
        let at_8 = |reading: &str| study.cell(label, reading, 8 * train);
        let best = study.best(label, 8 * train).unwrap_or("-");
        let cells = [1, 2, 8, 16].map(|factor| study.cell(label, "direct", factor * train)).join(" | ");
        let cells = format!("{cells} | {}", at_8(WINDOW_BASELINE));
        // A mixed stack has no page of its own.
        let page =
            if kind.contains('/') { format!("`{kind}`") } else { format!("[`{kind}`](encodings/{kind}.md)") };
        let _ = writeln!(text, "| {label} | {page} | {cells} | {best} | {} |", at_8(best));
    }
    text + "\nThe best reading is the one with the lowest perplexity at 8L on the validation split, among those of the study that apply.\n\n"
}

fn table_of_extensions(study: &Study) -> String {
    let train = study.train_length;
    let mut readings = study.readings("rope");
    readings.sort_by(|a, b| study.at_8("rope", a).total_cmp(&study.at_8("rope", b)));
    let mut text = "| read as | extension | 2L | 4L | 8L | 16L |\n|---|---|---:|---:|---:|---:|\n".to_owned();
    for reading in readings {
        let kind = reading.split(' ').next().unwrap();
        let page = if kind == WINDOW_BASELINE {
            "-".to_owned()
        } else {
            format!("[`{kind}`](extensions/{kind}.md)")
        };
        let cells = [2, 4, 8, 16].map(|factor| study.cell("rope", reading, factor * train)).join(" | ");
        let _ = writeln!(text, "| {reading} | {page} | {cells} |");
    }
    text + "\n"
}

/// The summary of the book, whose last part is the atlas.
pub(super) fn summary(encodings: &[EncodingInfo], extensions: &[ExtensionInfo]) -> String {
    let summary = fs::read_to_string(repository("docs/src/SUMMARY.md")).unwrap();
    let before = summary.split("\n# Atlas\n").next().unwrap().trim_end();
    let mut text = format!(
        "{before}\n\n# Atlas\n\n- [What holds at this scale](results.md)\n- [What we could not reproduce](not-reproduced.md)\n- [Overview](atlas/index.md)\n\n# Atlas: encodings\n\n"
    );
    for info in encodings {
        let _ = writeln!(text, "- [`{0}`](atlas/encodings/{0}.md)", info.kind);
    }
    text += "\n# Atlas: extensions\n\n";
    for info in extensions {
        let _ = writeln!(text, "- [`{0}`](atlas/extensions/{0}.md)", info.kind);
    }
    text
}
