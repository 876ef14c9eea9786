//! Chooses hyper-parameters on the validation split, so that the test split reports a choice it had no part in.
//!
//! Every reading of a list is measured on the validation split at all lengths of the block; the one with the lowest
//! loss, averaged over the lengths, is read on the block's own split. The rows of the validation split are kept
//! like all others, so nothing is measured twice, and a search that was made is found again among them.

use crate::evaluation::Evaluation;
use crate::measure::{Progress, Subject, evaluate, measurements};
use crate::memory_check::Need;
use crate::row::ResultRow;
use crate::search::run::run;
use crate::source::Source;
use crate::sweep::Sweep;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split};
use longwave_model::resolved::Resolved;
use longwave_position::{ExtensionConfig, Reading};
use std::collections::BTreeMap;
use std::path::Path;

/// An evaluation with nothing left open, and what was measured to get there.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The evaluation, every entry of `extend` one extension.
    pub evaluation: Evaluation,
    pub tried: Vec<ResultRow>,
}

/// Decides what an evaluation leaves open; one that leaves nothing open comes back as it is.
///
/// `known`, `store` and `show` are as in [`evaluate()`]; `folder` is the run's, where searches keep what they have
/// tried. Other text has its own validation split, and a task asks
/// other questions there. Key tokens are those of one split, so a choice is by all tokens.
pub fn select(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    known: &[ResultRow],
    folder: &Path,
    store: &mut dyn FnMut(&ResultRow) -> Result<()>,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Selection> {
    let mut decided = Evaluation { pending: BTreeMap::new(), ..evaluation.clone() };
    let mut tried = Vec::new();
    for (&place, sweep) in &evaluation.pending {
        let (found, rows) = match sweep {
            Sweep::Values { candidates, .. } => {
                let trials = on(Split::Valid, evaluation, candidates);
                let rows = evaluate(subject, &trials, known, None, store, show)?;
                (best(candidates, &rows)?.clone(), rows)
            }
            Sweep::Search(one) => {
                let row = run(subject, evaluation, one, known, folder, store, show)?;
                (one.found(&row)?, vec![row])
            }
        };
        decided.extensions.insert(place, found);
        decided.chosen.insert(place, sweep.among(&evaluation.block));
        tried.extend(rows);
    }
    Ok(Selection { evaluation: decided, tried })
}

/// Checks that every evaluation can be made, before anything is trained, and says what the largest reading of what is
/// reported takes, without the weights.
pub fn check(
    model: &Reading,
    resolved: &Resolved,
    dataset: &Dataset,
    evaluations: &[Evaluation],
) -> Result<Need> {
    let mut most = Need::default();
    for evaluation in evaluations {
        let source = evaluation.block.source(dataset)?;
        let measurements = measurements(model, resolved, &source, evaluation)?;
        most = measurements.iter().map(|it| it.need).fold(most, Need::or_more);
        check_pending(model, resolved, dataset, &source, evaluation)?;
    }
    Ok(most)
}

/// Checks that everything an evaluation leaves open can be measured and then read, the latter from `source`.
fn check_pending(
    model: &Reading,
    resolved: &Resolved,
    dataset: &Dataset,
    source: &Source<'_>,
    evaluation: &Evaluation,
) -> Result<()> {
    let choosing = |error: Error| error.context("choosing on the validation split");
    for sweep in evaluation.pending.values() {
        let measured = match sweep {
            Sweep::Values { candidates, .. } => {
                measurements(model, resolved, source, &on(evaluation.block.split, evaluation, candidates))?;
                on(Split::Valid, evaluation, candidates)
            }
            Sweep::Search(search) => {
                let (block, extension) = search.check(model, &evaluation.block)?;
                Evaluation::fixed(block, vec![extension])
            }
        };
        let validation = measured.block.source(dataset).map_err(|error| {
            choosing(error)
                .hint("give the corpus folders `train`, `valid` and `test`, or one value in place of a list")
        })?;
        measurements(model, resolved, &validation, &measured).map_err(choosing)?;
        if let Sweep::Search(search) = sweep {
            search.check_needles(&measured.block, &validation, resolved)?;
        }
    }
    Ok(())
}

/// The readings of a list on a split, in the layout of the block.
fn on(split: Split, evaluation: &Evaluation, extensions: &[ExtensionConfig]) -> Evaluation {
    Evaluation::fixed(evaluation.block.to_choose_on(split), extensions.to_vec())
}

/// The reading with the lowest loss, averaged over the lengths; of equals the first. Rows come in the order of
/// lengths within extensions.
fn best<'a>(candidates: &'a [ExtensionConfig], rows: &[ResultRow]) -> Result<&'a ExtensionConfig> {
    let lengths = rows.len() / candidates.len();
    let mean = |rows: &[ResultRow]| rows.iter().map(ResultRow::nll).sum::<f64>() / lengths as f64;
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
