//! One evaluation of a trained model: a checked `[[evaluate]]` block with its extensions.

use crate::block::{Checkpoints, EvaluateConfig, ResolvedEvaluate};
use crate::reference::Reference;
use crate::sweep::{ExtendEntry, Sweep};
use crate::windows;
use longwave_core::in_order::distinct;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Note, Split};
use longwave_position::ExtensionConfig;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    pub block: ResolvedEvaluate,
    /// Its place in the file, as messages name it.
    pub section: String,
    /// The extensions, in the order of the config, without those that are `pending`.
    pub extensions: Vec<ExtensionConfig>,
    /// The entries that the validation split decides, by their places among the extensions, see
    /// [`select()`](crate::select()).
    pub pending: BTreeMap<usize, Sweep>,
    /// What it has decided: the places, and the alternatives as rows record them.
    pub chosen: BTreeMap<usize, serde_json::Value>,
    pub reference: Reference,
    pub baseline: bool,
    /// Values that are allowed and most likely a mistake, one sentence each.
    pub warnings: Vec<String>,
}

impl Evaluation {
    /// Checks one block; `section` is its place in the file.
    pub fn new(config: &EvaluateConfig, section: &str, train_length: usize) -> Result<Self> {
        let block = config.validate(section, train_length)?;
        let mut evaluation =
            Self { section: section.to_owned(), baseline: true, ..Self::fixed(block, Vec::new()) };
        let block = &evaluation.block;
        for (index, value) in block.extend.iter().enumerate() {
            let section = format!("{section}.extend[{index}]");
            let entry = ExtendEntry::from_value(value, &section)?;
            for extension in entry.extensions() {
                let warning = windows::of_extension(extension, &section, train_length, &block.lengths)?;
                evaluation.warnings.extend(warning);
            }
            match entry {
                ExtendEntry::Fixed(extension) => evaluation.extensions.push(extension),
                // On the validation split itself there is nothing to select: every value is reported.
                ExtendEntry::Sweep(Sweep::Values { candidates, .. }) if block.split == Split::Valid => {
                    evaluation.extensions.extend(candidates);
                }
                ExtendEntry::Sweep(Sweep::Search(_)) if block.split == Split::Valid => {
                    let why = "a search reads the validation split, and what it finds there says nothing about that text";
                    return Err(Error::value(&format!("{section}.search"), "{ .. }", why)
                        .hint("read the test split, or give the factors that another evaluation found"));
                }
                ExtendEntry::Sweep(sweep) => {
                    let place = evaluation.extensions.len() + evaluation.pending.len();
                    evaluation.pending.insert(place, sweep);
                }
            }
        }
        if let Some(value) = &config.against {
            let key = format!("{section}.against");
            evaluation.reference = Reference::from_value(value, &key)?;
            let kinds = evaluation.extensions.iter().map(ExtensionConfig::kind);
            let kinds = kinds.chain(evaluation.pending.values().map(Sweep::kind));
            evaluation.reference.check(&evaluation.extensions, &kinds.collect::<Vec<_>>(), &key)?;
        }
        Ok(evaluation)
    }

    /// The steps before the last at which a run's kept checkpoints are read.
    pub fn steps(&self, kept: &[u64]) -> Result<Vec<u64>> {
        self.block.checkpoints.steps(kept, &self.section)
    }

    /// Whether it reads the step of the best validation in the place of the end of training.
    pub fn reads_best(&self) -> bool {
        self.block.checkpoints == Checkpoints::Best
    }

    /// These readings alone, without the window baseline.
    pub fn fixed(block: ResolvedEvaluate, extensions: Vec<ExtensionConfig>) -> Self {
        Self {
            block,
            section: "evaluate".to_owned(),
            extensions,
            pending: BTreeMap::new(),
            chosen: BTreeMap::new(),
            reference: Reference::default(),
            baseline: false,
            warnings: Vec::new(),
        }
    }
}

/// How the other texts that evaluations read were read, each text once.
pub fn notes_of_other_texts(dataset: &Dataset, evaluations: &[Evaluation]) -> Result<Vec<Note>> {
    let mut notes: Vec<Note> = Vec::new();
    for evaluation in evaluations.iter().filter(|evaluation| evaluation.block.corpus.is_some()) {
        let source = evaluation.block.source(dataset)?;
        let named = |note: &Note| Note { text: format!("{}: {}", source.name, note.text), ..note.clone() };
        notes.extend(source.notes.iter().map(named));
    }
    Ok(distinct(notes))
}
