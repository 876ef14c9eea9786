//! What a user should know of how a corpus was read.

use crate::corpus::{Corpus, listed};
use crate::noticed::Noticed;
use crate::split::Split;
use crate::tokens::TokenFile;
use std::fmt;

/// A share of unknown tokens from which a text is no measure of a model: word lists of `WikiText` and Penn Treebank leave 2.6%
/// and 4.8% of the words unknown.
pub const MANY_UNKNOWN: f64 = 0.05;

/// One line on how a corpus was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about, in a word or two; `None` of a warning.
    pub label: Option<&'static str>,
    /// The rest of the line.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label.unwrap_or("warning"), self.text)
    }
}

/// The notes on a corpus whose tokens are those of `splits`.
pub(crate) fn of(corpus: &Corpus, noticed: &Noticed, splits: &[TokenFile; 3]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |label, text: String| notes.push(Note { label: Some(label), text });
    note("splits", in_words(corpus, noticed));
    if noticed.parted > 0 {
        note(
            "documents",
            format!("a line `<|endoftext|>` ends a document, in {}", counted(noticed.parted, "file")),
        );
    }
    if !corpus.left_out.is_empty() {
        let names: Vec<&str> = corpus.left_out.iter().map(String::as_str).collect();
        note("left out", format!("{}: {}", counted(names.len() as u64, "file"), listed(&names)));
    }
    if noticed.blank > 0 {
        note("left out", format!("{} of blanks alone", counted(noticed.blank, "document")));
    }
    if let Some(first) = &noticed.first_bad {
        let lines = counted(noticed.bad_lines, "line");
        note(
            "left out",
            format!("{lines} without a document, as `data.skip_bad_lines` says; the first: {first}"),
        );
    }
    for (split, tokens) in Split::ALL.into_iter().zip(splits) {
        let share = noticed.unknown[split.index()] as f64 / tokens.len().max(1) as f64;
        if share >= MANY_UNKNOWN {
            let text = format!(
                "{:.0}% of the tokens of the {split} split stand for text that the tokenizer does not know: one guess serves them \
                 all, so losses and perplexities are too low",
                100.0 * share
            );
            notes.push(Note { label: None, text });
        }
    }
    notes
}

/// Which documents are in which split, and why.
fn in_words(corpus: &Corpus, noticed: &Noticed) -> String {
    let [valid, test] = corpus.shares.map(|share| format!("{}%", (10_000.0 * share).round() / 100.0));
    let by_shares = corpus.by_shares();
    match &corpus.words {
        _ if noticed.cut => {
            format!(
                "one text, cut: its end to test ({test}), what is before that to validate ({valid}), the rest to train"
            )
        }
        None if by_shares => {
            format!("by a hash of each document's name: {valid} to validate, {test} to test")
        }
        None => "all to train".to_owned(),
        Some(words) if by_shares => {
            format!(
                "by name: {words}; of those to train {valid} to validate and {test} to test, by a hash of their names"
            )
        }
        Some(words) => format!("by name: {words}"),
    }
}

pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
