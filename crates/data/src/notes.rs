//! What a user should know of how a corpus was read.

use crate::cache::Content;
use crate::config::DataConfig;
use crate::corpus::{Corpus, listed};
use crate::noticed::Noticed;
use crate::split::Split;
use crate::tokenizer::Unread;
use std::fmt;

/// A share of text that is unknown to the tokenizer, or that it leaves out, from which a text is no measure of a model: word lists
/// of `WikiText` and Penn Treebank leave 2.6% and 4.8% of the words unknown.
pub const MANY_UNKNOWN: f64 = 0.05;

/// A share of the text that is worth a note where the tokenizer leaves it out.
const SOME_LOST: f64 = 0.001;

/// One line on how a corpus was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about, in a word or two; `None` of a warning.
    pub label: Option<&'static str>,
    /// The rest of the line.
    pub text: String,
}

impl Note {
    pub(crate) fn new(label: &'static str, text: String) -> Self {
        Self { label: Some(label), text }
    }

    pub(crate) fn warning(text: String) -> Self {
        Self { label: None, text }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label.unwrap_or("warning"), self.text)
    }
}

/// The notes on a corpus that was read by `config`.
pub(crate) fn of(corpus: &Corpus, content: &Content, config: &DataConfig) -> Vec<Note> {
    let Content { noticed, tokenizer, .. } = content;
    let mut notes = Vec::new();
    let mut note = |label, text: String| notes.push(Note::new(label, text));
    note("splits", in_words(corpus, noticed));
    if noticed.parted > 0 {
        let files = counted(noticed.parted, "file");
        note("documents", format!("a line `<|endoftext|>` ends a document, in {files}"));
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
        let why = format!("as `data.skip_bad_lines` says; the first: {first}");
        note("left out", format!("{lines} without a document, {why}"));
    }
    for (split, share) in &corpus.idle {
        let text = format!(
            "`data.split.{split} = {share}` has no effect: files are the {split} split by their names"
        );
        notes.push(Note::warning(text));
    }
    if let Some(separator) = &config.separator {
        notes.push(of_separator(separator));
    }
    for (split, unread) in Split::ALL.into_iter().zip(noticed.unread) {
        let split = if corpus.whole { Split::Test } else { split };
        notes.extend(of_unread(split, unread));
    }
    if let merged @ [_, ..] = tokenizer.merged() {
        let text = format!(
            "the tokenizer reads {}: losses and bits per byte are of a text with less in it, and not to be compared with those of a \
             tokenizer that keeps them apart",
            merged.join(" and ")
        );
        notes.push(Note::warning(text));
    }
    notes
}

/// The separator as it was taken. Where a shell takes the quotes away from `"\n"`, a backslash and an `n` are left.
fn of_separator(separator: &str) -> Note {
    let shown = separator.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
    match ["\\n", "\\t", "\\r"].into_iter().find(|escape| separator.contains(escape)) {
        None => Note::new("separator", format!("`{shown}` between documents to train")),
        Some(escape) => Note::warning(format!(
            "`data.separator` holds a backslash and the letter `{}`, and not the sign that `{escape}` stands for in TOML: write \
             `--set 'data.separator=\"{escape}\"'`, with both kinds of quotes, for that",
            &escape[1..]
        )),
    }
}

/// What to say of the text of a split that the tokenizer does not know or leaves out.
fn of_unread(split: Split, unread: Unread) -> Vec<Note> {
    let [unknown, lost] = unread.shares();
    let mut notes = Vec::new();
    if unknown >= MANY_UNKNOWN {
        notes.push(Note::warning(format!(
            "{:.0}% of the {split} split, in bytes, is text that the tokenizer does not know: one guess serves all of it, so losses \
             and perplexities are too low",
            100.0 * unknown
        )));
    }
    if lost >= MANY_UNKNOWN {
        notes.push(Note::warning(format!(
            "{:.0}% of the {split} split, in bytes, is text that the tokenizer leaves out: nothing predicts it, so losses, \
             perplexities and bits per byte are too low",
            100.0 * lost
        )));
    } else if lost >= SOME_LOST {
        let text = format!("{:.1}% of the {split} split, in bytes, by the tokenizer", 100.0 * lost);
        notes.push(Note::new("left out", text));
    }
    notes
}

fn in_words(corpus: &Corpus, noticed: &Noticed) -> String {
    let [valid, test] = corpus.shares.map(|share| format!("{}%", (10_000.0 * share).round() / 100.0));
    let by_shares = corpus.by_shares();
    match &corpus.words {
        None if noticed.cut => {
            format!(
                "one text, cut: its end to test ({test}), what is before that to validate ({valid}), the rest to train"
            )
        }
        _ if corpus.whole => corpus.only_split().map_or_else(
            || "all to test".to_owned(),
            |split| format!("all to test, though by name it is the {split} split"),
        ),
        None if by_shares => {
            format!("by a hash of each document's name: {valid} to validate, {test} to test")
        }
        None => "all to train".to_owned(),
        Some(words) if by_shares => {
            let parts = [(corpus.shares[0], valid, "validate"), (corpus.shares[1], test, "test")];
            let parts = parts.into_iter().filter(|(share, ..)| *share > 0.0);
            let parts: Vec<String> = parts.map(|(_, percent, verb)| format!("{percent} to {verb}")).collect();
            let how = if noticed.cut { "from its end" } else { "by a hash of their names" };
            format!("by name: {words}; of those to train {}, {how}", parts.join(" and "))
        }
        Some(words) => format!("by name: {words}"),
    }
}

pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
