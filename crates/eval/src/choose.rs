//! Chooses hyper-parameters on the validation split, so that the test split reports a choice it had no part in.
//!
//! Every reading of a list is measured on the validation split at all lengths of the block; the one with the lowest
//! loss, averaged over the lengths, is read on the block's own split. The rows of the validation split are kept
//! like all others, so nothing is measured twice, and a search that was made is found again among them.

use crate::config::ResolvedEvaluate;
use crate::document::Evaluation;
use crate::entry::Among;
use crate::evaluate::{Progress, Subject, evaluate, tasks};
use crate::row::ResultRow;
use crate::search;
use crate::text::Source;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split};
use longwave_model::config::Resolved;
use longwave_position::{ExtensionConfig, Reading};
use std::path::Path;

/// An entry of `extend` that the validation split decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its place among the extensions of the block.
    pub place: usize,
    /// What it is chosen among.
    pub among: Among,
}

impl Open {
    /// What is read of the validation split to decide it, and how many times each of its lengths is.
    pub fn trials(&self, block: &ResolvedEvaluate) -> (ResolvedEvaluate, usize) {
        match &self.among {
            Among::Values { candidates, .. } => {
                (ResolvedEvaluate { split: Split::Valid, ..block.clone() }, candidates.len())
            }
            Among::Search(one) => one.trials(block),
        }
    }
}

/// An extension that the validation split has decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Its place among the extensions of the block.
    pub place: usize,
    /// What it was chosen among, as rows tell it: the keys with their lists, or the search.
    pub among: serde_json::Value,
}

/// An evaluation with nothing left open, and what was measured to get there.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The evaluation, every entry of `extend` one extension.
    pub evaluation: Evaluation,
    /// The rows of the validation split.
    pub tried: Vec<ResultRow>,
}

/// Decides what an evaluation leaves open; one that leaves nothing open comes back as it is.
///
/// `known`, `store` and `show` are as in [`evaluate()`]; `folder` is the run's, where searches keep what they have
/// tried. Other text has its own validation split, and a task asks
/// other questions there.
///
/// # Errors
/// As [`evaluate()`], or no reading of a list gives a loss.
pub fn choose(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    known: &[ResultRow],
    folder: &Path,
    store: &mut dyn FnMut(&ResultRow) -> Result<()>,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Choice> {
    let mut decided = Evaluation { open: Vec::new(), ..evaluation.clone() };
    let mut tried = Vec::new();
    for Open { place, among } in &evaluation.open {
        let (found, among, rows) = match among {
            Among::Values { given, candidates } => {
                let rows =
                    evaluate(subject, &on_validation(evaluation, candidates), known, None, store, show)?;
                (best(candidates, &rows)?.clone(), given.clone(), rows)
            }
            Among::Search(one) => {
                let row = search::run(subject, evaluation, one, known, folder, store, show)?;
                (one.found(&row)?, one.told(&evaluation.block)?, vec![row])
            }
        };
        decided.extensions.insert(*place, found);
        decided.chosen.push(Chosen { place: *place, among });
        tried.extend(rows);
    }
    Ok(Choice { evaluation: decided, tried })
}

/// Checks that everything an evaluation leaves open can be measured and then read, the latter from `source`.
///
/// # Errors
/// As [`crate::check`], or there is no validation split.
pub fn check(
    model: &Reading,
    resolved: &Resolved,
    dataset: &Dataset,
    source: &Source<'_>,
    evaluation: &Evaluation,
) -> Result<()> {
    let choosing = |error: Error| error.context("choosing on the validation split");
    for Open { among, .. } in &evaluation.open {
        let measured = match among {
            Among::Values { candidates, .. } => {
                let read =
                    Evaluation { baseline: false, ..on(evaluation.block.split, evaluation, candidates) };
                tasks(model, resolved, source, &read)?;
                on_validation(evaluation, candidates)
            }
            Among::Search(one) => one.check(model, &evaluation.block)?,
        };
        let validation = measured.block.source(dataset).map_err(|error| {
            choosing(error)
                .hint("give the corpus folders `train`, `valid` and `test`, or one value in place of a list")
        })?;
        tasks(model, resolved, &validation, &measured).map_err(choosing)?;
    }
    Ok(())
}

/// The readings of a list on a split, in the layout of the block.
fn on(split: Split, evaluation: &Evaluation, extensions: &[ExtensionConfig]) -> Evaluation {
    let mut block = evaluation.block.clone();
    block.split = split;
    Evaluation { baseline: false, ..Evaluation::closed(block, extensions.to_vec()) }
}

fn on_validation(evaluation: &Evaluation, extensions: &[ExtensionConfig]) -> Evaluation {
    on(Split::Valid, evaluation, extensions)
}

/// The reading with the lowest loss, averaged over the lengths; of equals the first. Rows come in the order of
/// lengths within extensions.
fn best<'a>(candidates: &'a [ExtensionConfig], rows: &[ResultRow]) -> Result<&'a ExtensionConfig> {
    let lengths = rows.len() / candidates.len();
    let mean = |rows: &[ResultRow]| rows.iter().map(|row| row.nll).sum::<f64>() / lengths as f64;
    let losses = rows.chunks(lengths).map(mean);
    let best = candidates
        .iter()
        .zip(losses)
        .filter(|(_, loss)| !loss.is_nan())
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(candidate, _)| candidate);
    best.ok_or_else(|| {
        Error::failed(format!(
            "no reading of `{}` gives a loss on the validation split",
            candidates[0].kind()
        ))
        .hint("the model's weights may not be numbers: look at the loss in `metrics.jsonl`")
    })
}
