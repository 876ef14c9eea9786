//! Sums of each document, and the findings that they make.

use super::finding::{Diagnostic, Finding, Over};
use crate::statistics::ratio_over_documents;
use std::collections::BTreeMap;

/// What is summed: a diagnostic of a layer and a head, in a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) diagnostic: Diagnostic,
    pub(super) layer: Option<usize>,
    pub(super) head: Option<usize>,
    pub(super) bin: Option<usize>,
}

impl Key {
    /// Of the whole model.
    pub(super) fn whole(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, layer: None, head: None, bin: None }
    }

    pub(super) fn layer(diagnostic: Diagnostic, layer: usize) -> Self {
        Self { layer: Some(layer), ..Self::whole(diagnostic) }
    }

    pub(super) fn head(diagnostic: Diagnostic, layer: usize, head: usize) -> Self {
        Self { head: Some(head), ..Self::layer(diagnostic, layer) }
    }

    pub(super) fn bin(self, bin: usize) -> Self {
        Self { bin: Some(bin), ..self }
    }
}

/// Sums and weights `[documents]` of everything at one reading and length.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    documents: usize,
    over: Over,
    sums: BTreeMap<Key, Vec<(f64, f64)>>,
    /// Findings that are no means over documents, some with an error, and with the documents that they are of.
    others: Vec<(Key, f64, Option<f64>, usize)>,
    /// The first windows that a diagnostic was measured on, where these are not all.
    windows: BTreeMap<Diagnostic, usize>,
}

impl Gathered {
    pub(super) fn new(documents: usize) -> Self {
        let over = Over::default();
        Self { documents, over, sums: BTreeMap::new(), others: Vec::new(), windows: BTreeMap::new() }
    }

    /// The same for what is no document.
    pub(super) fn over(self, over: Over) -> Self {
        Self { over, ..self }
    }

    /// Adds to a sum of a document, and where it is of a head also to those of its layer and of the model.
    pub(super) fn add(&mut self, document: usize, key: Key, sum: f64, weight: f64) {
        let mut add = |key: Key| {
            let sums = self.sums.entry(key).or_insert_with(|| vec![(0.0, 0.0); self.documents]);
            sums[document].0 += sum;
            sums[document].1 += weight;
        };
        add(key);
        if key.head.is_some() {
            add(Key { head: None, ..key });
            add(Key { head: None, layer: None, ..key });
        }
    }

    /// Adds what is no mean over documents.
    pub(super) fn set(&mut self, key: Key, value: f64) {
        self.set_of(key, value, None, self.documents);
    }

    pub(super) fn set_of(&mut self, key: Key, value: f64, se: Option<f64>, documents: usize) {
        self.others.push((key, value, se, documents));
    }

    pub(super) fn of_first_windows(&mut self, diagnostic: Diagnostic, windows: usize) {
        self.windows.insert(diagnostic, windows);
    }

    pub(super) fn has(&self, diagnostic: Diagnostic) -> bool {
        self.sums.keys().any(|key| key.diagnostic == diagnostic)
    }

    pub(super) fn mean(&self, key: &Key) -> Option<f64> {
        ratio_over_documents(self.sums.get(key)?).map(|mean| mean.mean)
    }

    pub(super) fn of_documents(&self, key: &Key) -> Option<Vec<Option<f64>>> {
        let of = |&(sum, weight): &(f64, f64)| (weight > 0.0).then(|| sum / weight);
        Some(self.sums.get(key)?.iter().map(of).collect())
    }

    pub(super) fn heads(&self, diagnostic: Diagnostic) -> impl Iterator<Item = &Key> {
        self.sums.keys().filter(move |key| key.diagnostic == diagnostic && key.head.is_some())
    }

    pub(super) fn findings(self, extend: &str, length: usize) -> Vec<Finding> {
        let finding = |key: Key, value, se, count| Finding {
            diagnostic: key.diagnostic,
            extend: extend.to_owned(),
            length,
            layer: key.layer,
            head: key.head,
            bin: key.bin,
            value,
            se,
            count,
            over: self.over,
            windows: self.windows.get(&key.diagnostic).copied(),
        };
        let means = self.sums.iter().filter_map(|(key, sums)| {
            let mean = ratio_over_documents(sums)?;
            Some(finding(*key, mean.mean, mean.se, mean.documents))
        });
        let others = self.others.iter().map(|&(key, value, se, count)| finding(key, value, se, count));
        let mut all: Vec<Finding> = means.chain(others).collect();
        all.sort_by_key(|finding| (finding.diagnostic, finding.layer, finding.head, finding.bin));
        all
    }
}

/// The mean of each finding over runs, with its standard error over them, of what all runs have; of a single run, what it has over documents.
pub(super) fn over_runs(runs: &[Vec<Finding>]) -> Vec<Finding> {
    let [first, others @ ..] = runs else { return Vec::new() };
    if others.is_empty() {
        return first.clone();
    }
    let others: Vec<BTreeMap<_, f64>> = others
        .iter()
        .map(|findings| findings.iter().map(|finding| (finding.place(), finding.value)).collect())
        .collect();
    let over = |finding: &Finding| {
        let mut values = vec![finding.value];
        values.extend(others.iter().map_while(|other| other.get(&finding.place()).copied()));
        let complete = values.len() == runs.len();
        complete.then(|| {
            let value = values.iter().sum::<f64>() / values.len() as f64;
            let deviation = crate::statistics::standard_deviation(&values);
            let se = deviation.map(|deviation| deviation / (values.len() as f64).sqrt());
            Finding { value, se, count: values.len(), over: Over::Runs, ..finding.clone() }
        })
    };
    first.iter().filter_map(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_counts_for_its_layer_and_for_the_model() {
        let mut gathered = Gathered::new(2);
        for (document, head, sum) in [(0, 0, 1.0), (0, 1, 3.0), (1, 0, 2.0), (1, 1, 6.0)] {
            gathered.add(document, Key::head(Diagnostic::FirstToken, 0, head), sum, 1.0);
        }
        let findings = gathered.findings("direct", 8);
        let value = |layer, head| {
            let found = findings.iter().find(|it| (it.layer, it.head) == (layer, head)).unwrap();
            (found.value, found.se.unwrap(), found.count)
        };
        // Means of two documents: their half difference is the error.
        assert_eq!(value(Some(0), Some(0)), (1.5, 0.5, 2));
        assert_eq!(value(Some(0), None), (3.0, 1.0, 2));
        assert_eq!(value(None, None), (3.0, 1.0, 2));
    }

    #[test]
    fn a_finding_says_what_is_counted_and_which_windows_it_is_of() {
        let mut gathered = Gathered::new(3).over(Over::Windows);
        gathered.add(0, Key::whole(Diagnostic::Loss), 1.0, 1.0);
        gathered.set_of(Key::whole(Diagnostic::ReceptiveField), 7.0, None, 2);
        gathered.of_first_windows(Diagnostic::ReceptiveField, 2);
        let found = gathered.findings("direct", 8);
        let said = |it: &Finding| (it.diagnostic, it.count, it.over, it.windows);
        assert_eq!(
            found.iter().map(said).collect::<Vec<_>>(),
            [
                (Diagnostic::Loss, 1, Over::Windows, None),
                (Diagnostic::ReceptiveField, 2, Over::Windows, Some(2))
            ]
        );
    }

    #[test]
    fn runs_are_averaged_where_all_have_a_number() {
        let finding = |value, length| Finding::of(Diagnostic::Loss, "direct", length, value);
        let runs = [vec![finding(1.0, 8), finding(9.0, 16)], vec![finding(3.0, 8)]];
        let found = over_runs(&runs);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].value, found[0].count, found[0].over), (2.0, 2, Over::Runs));
        assert!((found[0].se.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(over_runs(&runs[1..]), runs[1]);
    }
}
