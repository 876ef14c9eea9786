//! What the documents of a corpus have in common, in words.

use crate::grams::N;
use crate::notes::{Note, counted};
use crate::noticed::{HeldOut, Overlap};
use crate::overlap::CONTAINED;
use crate::split::Split;
use crate::tokens::TokenFile;

/// The notes on a corpus that a model is trained on.
pub(crate) fn of(overlap: &Overlap, splits: &[TokenFile; 3]) -> Vec<Note> {
    if splits.iter().all(TokenFile::is_empty) {
        return Vec::new();
    }
    let is_clean = overlap.in_train == [0; 3] && overlap.test_in_valid == 0;
    let repeats = repeats(overlap, splits);
    let repeats = repeats.or_else(|| is_clean.then(|| compared("no two documents are equal", overlap)));
    let notes = [("repeats", repeats), ("overlap", shares(overlap, splits))];
    let notes = notes.into_iter().filter_map(|(label, text)| Some(Note::new(label, text?)));
    let warnings = warnings(overlap, splits).into_iter().map(Note::warning);
    notes.chain(warnings).collect()
}

/// The note on a split of a text that nothing is trained on.
pub(crate) fn of_other(overlap: &Overlap, splits: &[TokenFile; 3], split: Split) -> Option<Note> {
    let (count, all) = (overlap.repeated[split.index()], splits[split.index()].documents());
    let text = format!("{count} of {} {} an earlier one", counted(all as u64, "document"), equal(count));
    (count > 0).then(|| Note::new("repeats", compared(&text, overlap)))
}

/// The documents that are equal to an earlier one of their split.
fn repeats(overlap: &Overlap, splits: &[TokenFile; 3]) -> Option<String> {
    let repeated = Split::ALL.into_iter().zip(overlap.repeated).filter(|(_, count)| *count > 0);
    let repeated: Vec<String> = repeated
        .map(|(split, count)| format!("{} {} an earlier one", count_of(count, split, splits), equal(count)))
        .collect();
    (!repeated.is_empty()).then(|| compared(&repeated.join(", "), overlap))
}

fn equal(count: u64) -> &'static str {
    if count == 1 { "equals" } else { "equal" }
}

/// Says how many documents were compared, where not all were.
fn compared(text: &str, overlap: &Overlap) -> String {
    match overlap.documents_every {
        1 => text.to_owned(),
        every => format!("{text}; one document in {every} was compared"),
    }
}

/// The shares of the held-out n-grams that are in training documents.
fn shares(overlap: &Overlap, splits: &[TokenFile; 3]) -> Option<String> {
    let shares = [Split::Test, Split::Valid].into_iter().filter_map(|split| {
        let HeldOut { grams, found, judged, most: [place, of, most], .. } =
            overlap.held_out[split.index() - 1];
        if grams == 0 {
            return None;
        }
        let share = if found == 0 { "none".to_owned() } else { percent(found, grams) };
        let most = if most > 0 && judged > 1 {
            let name = splits[split.index()].document_name(place as usize);
            format!(", {} of `{name}` at most", percent(most, of))
        } else {
            String::new()
        };
        Some(format!("{share} of {grams} {}{most}", purpose(split)))
    });
    let shares: Vec<String> = shares.collect();
    let sampled = match overlap.grams_every {
        1 => String::new(),
        every => format!("; one n-gram in {every} was looked for"),
    };
    (!shares.is_empty())
        .then(|| format!("{N}-grams of words that are in documents to train: {}{sampled}", shares.join("; ")))
}

/// What makes results on held-out documents others than those on new text.
fn warnings(overlap: &Overlap, splits: &[TokenFile; 3]) -> Vec<String> {
    let are = |count| if count == 1 { "is" } else { "are" };
    let mut warnings = Vec::new();
    for split in [Split::Test, Split::Valid] {
        let mut parts = Vec::new();
        if let count @ 1.. = overlap.in_train[split.index()] {
            parts.push(format!("{} {} equal to one to train", count_of(count, split, splits), are(count)));
        }
        let HeldOut { contained, judged, .. } = overlap.held_out[split.index() - 1];
        if contained > 0 {
            let (has, its) = if contained == 1 { ("has", "its") } else { ("have", "their") };
            let share = 100.0 * CONTAINED;
            let of = counted(judged, "document");
            parts.push(format!(
                "{contained} of {of} {} {has} {share}% or more of {its} {N}-grams in documents to train",
                purpose(split)
            ));
        }
        if !parts.is_empty() {
            warnings.push(format!("{}: losses there are not those of new text", parts.join(", ")));
        }
    }
    if let count @ 1.. = overlap.test_in_valid {
        let equal = count_of(count, Split::Test, splits);
        warnings.push(format!(
            "{equal} {} equal to one to validate, which values and checkpoints are chosen by",
            are(count)
        ));
    }
    warnings
}

fn count_of(count: u64, split: Split, splits: &[TokenFile; 3]) -> String {
    let all = splits[split.index()].documents() as u64;
    format!("{count} of {} {}", counted(all, "document"), purpose(split))
}

fn purpose(split: Split) -> &'static str {
    match split {
        Split::Train => "to train",
        Split::Valid => "to validate",
        Split::Test => "to test",
    }
}

/// A share with two digits that say something.
fn percent(count: u64, all: u64) -> String {
    let percent = 100.0 * count as f64 / all as f64;
    let digits = (1.0 - percent.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{percent:.digits$}%")
}
