//! The windows that an explanation reads, and what their errors are over.

use super::finding::Over;
use crate::plan::{Plan, Window};
use crate::text::Material;
use longwave_data::Split;
use std::collections::{BTreeMap, BTreeSet};

/// Windows that are read at each length, at most.
pub(super) const WINDOWS: usize = 16;

/// The windows that are read, each with the place of its sums.
pub(super) struct Sampled {
    pub(super) plan: Plan,
    pub(super) documents: Vec<usize>,
    pub(super) count: usize,
    pub(super) over: Over,
}

impl Sampled {
    /// Evenly spread windows of a plan; their documents, or where there is one, themselves.
    pub(super) fn of(plan: &Plan, material: Material) -> Self {
        let taken = plan.windows.len().min(WINDOWS);
        let windows: Vec<Window> =
            (0..taken).map(|index| plan.windows[index * plan.windows.len() / taken]).collect();
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for window in &windows {
            let next = places.len();
            places.entry(window.document).or_insert(next);
        }
        let of_windows = places.len() < 2 && windows.len() > 1;
        let documents = windows.iter().enumerate();
        let documents =
            documents.map(|(at, window)| if of_windows { at } else { places[&window.document] }).collect();
        let count = if of_windows { windows.len() } else { places.len() };
        let over = match material {
            _ if of_windows => Over::Windows,
            Material::Answers => Over::Sequences,
            _ => Over::Documents,
        };
        let plan = Plan { windows, skipped_documents: plan.skipped_documents };
        Self { plan, documents, count, over }
    }

    /// What is read, in words; `corpus` is other text than the run's.
    pub(super) fn in_words(&self, material: Material, split: Split, corpus: Option<&str>) -> String {
        let windows = self.plan.windows.len();
        let documents: BTreeSet<usize> = self.plan.windows.iter().map(|window| window.document).collect();
        let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let [windows, documents] = [counted(windows, "window"), counted(documents.len(), material.unit())];
        let corpus = corpus.map_or_else(String::new, |corpus| format!(" of `{corpus}`"));
        format!("{windows} of {documents} of the split `{split}`{corpus}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(documents: impl Iterator<Item = usize>) -> Plan {
        let window = |(at, document): (usize, usize)| Window {
            document,
            start: 5 * at,
            first: 5 * at + 4,
            end: 5 * at + 5,
        };
        Plan { windows: documents.enumerate().map(window).collect(), skipped_documents: 0 }
    }

    #[test]
    fn windows_are_spread_over_the_documents() {
        let sampled = Sampled::of(&plan((0..40).map(|at| at / 2)), Material::Documents);
        assert_eq!((sampled.plan.windows.len(), sampled.count, sampled.over), (16, 16, Over::Documents));
        let words = sampled.in_words(Material::Documents, Split::Test, None);
        assert_eq!(words, "16 windows of 16 documents of the split `test`");
    }

    #[test]
    fn windows_stand_for_themselves_in_one_document() {
        let sampled = Sampled::of(&plan([7, 7, 7].into_iter()), Material::Documents);
        assert_eq!((sampled.documents.as_slice(), sampled.count), ([0, 1, 2].as_slice(), 3));
        assert_eq!(sampled.over, Over::Windows);
        let words = sampled.in_words(Material::Documents, Split::Valid, Some("texts"));
        assert_eq!(words, "3 windows of 1 document of the split `valid` of `texts`");
    }

    #[test]
    fn one_window_is_its_document_and_a_task_has_sequences() {
        let one = Sampled::of(&plan([7].into_iter()), Material::Documents);
        assert_eq!((one.count, one.over), (1, Over::Documents));
        assert_eq!(
            one.in_words(Material::Documents, Split::Test, None),
            "1 window of 1 document of the split `test`"
        );
        let task = Sampled::of(&plan(0..3), Material::Answers);
        assert_eq!((task.count, task.over), (3, Over::Sequences));
        assert_eq!(
            task.in_words(Material::Answers, Split::Test, None),
            "3 windows of 3 sequences of the split `test`"
        );
    }
}
