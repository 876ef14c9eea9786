//! `task`: sequences of the run's task, their answers scored.

use super::keys::{Key, Keys, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::memory_check;
use crate::metrics::{DocumentSums, Metric};
use crate::plan::{Plan, Window};
use crate::source::Source;
use crate::text::{Material, Text};
use longwave_core::memory_check::{product, shortage};
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_model::resolved::Resolved;
use std::ops::Range;

const SEQUENCES: Key = Key::count("sequences", "sequences asked at each length. Default: 256.");

/// The least bytes of a question besides its tokens.
const QUESTION: usize = 48;

/// Every sequence is one window, as long as it is. Its targets go from the first answer to the last; of these, those of
/// answers are scored.
#[derive(Clone, Copy, Debug)]
pub struct Task;

impl Rules for Task {
    fn description(&self) -> &'static str {
        "Sequences of the run's task, their answers scored."
    }

    fn keys(&self) -> &'static [Key] {
        &[SEQUENCES]
    }

    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let sequences = block.get(SEQUENCES).unwrap_or(256);
        if sequences > DocumentSums::MOST {
            let allowed = format!("it must be at most {}", DocumentSums::MOST);
            return Err(block
                .error(SEQUENCES.name, sequences, allowed)
                .hint("256 are asked at every length unless given; 10,000 know a share to one part in 100"));
        }
        Ok(Keys::default().with(SEQUENCES, sequences))
    }

    /// A task makes its own sequences, each with one window.
    fn check_shared(&self, block: &Given<'_>) -> Result<()> {
        let keys = [
            ("corpus", block.corpus.map(|corpus| format!("\"{corpus}\""))),
            ("split", (block.split != Split::default()).then(|| format!("\"{}\"", block.split))),
            (WINDOWS_PER_DOCUMENT.name, block.keys.windows_per_document().map(|count| count.to_string())),
        ];
        match keys.into_iter().find_map(|(key, value)| Some((key, value?))) {
            None => Ok(()),
            Some((key, value)) => {
                let allowed = "it has no meaning for `protocol = \"task\"`";
                Err(block.error(key, value, allowed).hint("remove it: a task makes its own sequences"))
            }
        }
    }

    fn material(&self) -> Material {
        Material::Answers
    }

    fn text(&self, keys: &Keys, length: usize, source: &Source<'_>) -> Result<Text> {
        source.questions(keys.at(SEQUENCES), length)
    }

    fn plan(&self, _keys: &Keys, _length: usize, documents: &Documents<'_>) -> Plan {
        let window = |(document, answers): (usize, &Vec<Range<usize>>)| {
            let (first, last) = (answers.first()?, answers.last()?);
            Some(Window { document, start: 0, first: first.start, end: last.end })
        };
        let windows = documents.answers.iter().enumerate().filter_map(window).collect();
        Plan { windows, skipped_documents: 0 }
    }

    fn check_memory(&self, keys: &Keys, length: usize, model: &Resolved, free: Option<u64>) -> Result<()> {
        memory_check::of_text(length, model, free)?;
        check_questions(keys.at(SEQUENCES), length, free)
    }

    fn shown(&self) -> &'static [Metric] {
        &[Metric::ExactMatch, Metric::Accuracy]
    }

    /// Every length asks sequences of its own.
    fn same_tokens_at_every_length(&self, _keys: &Keys, _lengths: &[usize]) -> bool {
        false
    }

    fn in_words(&self, _keys: &Keys) -> String {
        "new sequences, as long as fits; the answers are scored".into()
    }
}

fn check_questions(sequences: usize, length: usize, free: Option<u64>) -> Result<()> {
    let bytes = product(&[length, size_of::<u32>()]).saturating_add(QUESTION as u64);
    match shortage(bytes.saturating_mul(sequences as u64), free) {
        None => Ok(()),
        Some(shortage) => Err(Error::value("evaluate.sequences", sequences, format!("they take {shortage}"))
            .hint("ask fewer sequences: 256 at every length unless given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_one_window_from_its_first_answer_to_its_last() {
        let keys = Keys::default();
        let alone = 2..3;
        let answers = [vec![3..4, 7..10], vec![alone]];
        let plan = Task.plan(&keys, 16, &Documents { tokens: &[10, 3], answers: &answers });
        let windows: Vec<_> = plan.windows.iter().map(|w| [w.document, w.start, w.first, w.end]).collect();
        assert_eq!(windows, [[0, 0, 3, 10], [1, 0, 2, 3]]);
    }

    #[test]
    fn questions_must_fit_in_memory() {
        let error = check_questions(1 << 50, 16, Some(1 << 30)).unwrap_err();
        assert!(error.message().starts_with("`evaluate.sequences = 1125899906842624`"), "{error}");
        assert!(check_questions(256, 1 << 14, Some(1 << 30)).is_ok());
    }
}
