//! Which rows one side of a claim means.

use crate::claim::{ClaimConfig, Words};
use crate::extensions::meant;
use crate::plan::{Plan, Planned};
use crate::results::Measured;
use longwave_core::error::nearest;
use longwave_core::{Error, Result};
use longwave_eval::ResultRow;
use std::collections::HashSet;

/// Which rows one side means.
#[derive(Debug)]
pub(super) struct Selector {
    words: Words,
    extend: String,
    /// The step of a kept checkpoint; the end of training unless given.
    step: Option<u64>,
    /// The label on each axis; `None` where the axis has one point.
    labels: Vec<Option<String>>,
}

impl Selector {
    /// What the words of a side of a claim mean.
    pub(super) fn new(
        words: &Words,
        plan: &Plan,
        extensions: &[String],
        claim: &ClaimConfig,
    ) -> Result<Self> {
        let all = all_labels(plan);
        let mut step = None;
        let mut extend: Option<String> = None;
        let mut labels: Vec<Option<String>> = vec![None; plan.axes.len()];
        for word in &words.words {
            if let Some(named) = step_of(word).filter(|_| !plan.axes.iter().any(|axis| axis == STEP)) {
                step = Some(named);
                continue;
            }
            let wrong = |what: String| {
                let labels = all.concat();
                let known = extensions.iter().chain(&labels).map(String::as_str);
                let near = nearest(word, known).filter(|near| *near != word.as_str());
                let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                let extensions = same_kind_first(word, extensions);
                let hint = format!("{near}extensions are {}; labels are {}", few(&extensions), few(&labels));
                Error::value(&claim.key, format!("\"{}\"", claim.says), what).hint(hint)
            };
            let places: Vec<usize> = all
                .iter()
                .enumerate()
                .filter(|(axis, known)| {
                    let named = word.strip_prefix(&format!("{}=", plan.axes[*axis]));
                    known.iter().any(|label| label == named.unwrap_or(word))
                })
                .map(|(axis, _)| axis)
                .collect();
            let named = meant(word, extensions);
            match (places.as_slice(), named.is_some()) {
                ([], true) if extend.is_none() => extend = named.cloned(),
                ([axis], false) if labels[*axis].is_none() => {
                    let label = word.strip_prefix(&format!("{}=", plan.axes[*axis])).unwrap_or(word);
                    labels[*axis] = Some(label.to_owned());
                }
                ([], false) => return Err(wrong(format!("`{word}` is no extension and no label"))),
                ([], true) | ([_], false) => return Err(wrong(format!("`{word}` is one too many"))),
                _ => return Err(wrong(format!("`{word}` may mean two things; write `AXIS={word}`"))),
            }
        }
        for (axis, known) in all.iter().enumerate() {
            if labels[axis].is_none() && known.len() > 1 {
                return Err(Error::value(
                    &claim.key,
                    format!("\"{}\"", claim.says),
                    format!("`{}` leaves `{}` open", words.text(), plan.axes[axis]),
                )
                .hint(format!("add one of {}", few(known))));
            }
        }
        let extend = extend.unwrap_or_else(|| "direct".to_owned());
        Ok(Self { words: words.clone(), extend, step, labels })
    }

    /// Its words, as the claim has them.
    pub(super) fn text(&self) -> String {
        self.words.text()
    }

    /// The length in tokens, where L is `train_length`.
    pub(super) fn length(&self, train_length: usize) -> usize {
        self.words.length(train_length)
    }

    /// Whether it means the same rows as another.
    pub(super) fn is_same(&self, other: &Self, plan: &Plan) -> bool {
        let is_alike = |run: &Planned| self.is_of(run) == other.is_of(run);
        let is_at = |train_length| self.length(train_length) == other.length(train_length);
        (&self.extend, self.step) == (&other.extend, other.step)
            && plan.runs.iter().all(is_alike)
            && plan.jobs().all(|(_, job)| is_at(job.config.run.train.length))
    }

    /// The step of the checkpoint that it names.
    pub(super) fn step(&self) -> Option<u64> {
        self.step
    }

    /// Whether a row was read at its length, from its checkpoint.
    pub(super) fn is_at(&self, row: &ResultRow) -> bool {
        self.words.is_at(row) && self.step.map_or(!row.is_of_kept_step(), |step| row.step == step)
    }

    /// The label of its extension.
    pub(super) fn extend(&self) -> &str {
        &self.extend
    }

    /// Whether a row is of this side.
    pub(super) fn is(&self, measured: &Measured) -> bool {
        measured.extend == self.extend && self.has(&measured.labels) && self.is_at(&measured.row)
    }

    /// Whether a run has rows of this side.
    pub(super) fn is_of(&self, run: &Planned) -> bool {
        self.has(&run.labels)
    }

    fn has(&self, labels: &[String]) -> bool {
        self.labels.iter().zip(labels).all(|(wanted, label)| wanted.as_ref().is_none_or(|it| it == label))
    }
}

/// What stands before the number of a step.
const STEP: &str = "step";

/// The step that a word names: `step=300`.
fn step_of(word: &str) -> Option<u64> {
    word.strip_prefix(STEP)?.strip_prefix('=')?.parse().ok()
}

/// The first of many words, for a hint.
fn few(words: &[String]) -> String {
    const FEW: usize = 12;
    let more = if words.len() > FEW { ", .." } else { "" };
    format!("{}{more}", words[..words.len().min(FEW)].join(", "))
}

/// The labels of extensions, those of the kind that a claim names before the others.
fn same_kind_first(word: &str, labels: &[String]) -> Vec<String> {
    let kind = |label: &str| label.split(' ').next().map(str::to_owned);
    let mut labels = labels.to_vec();
    labels.sort_by_key(|label| kind(label) != kind(word));
    labels
}

/// The labels of each axis, in order.
fn all_labels(plan: &Plan) -> Vec<Vec<String>> {
    (0..plan.axes.len())
        .map(|axis| {
            let mut seen = HashSet::new();
            let labels = plan.runs.iter().map(|run| &run.labels[axis]);
            labels.filter(|label| seen.insert(*label)).cloned().collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_begins_with_what_is_most_alike() {
        let labels = ["direct", "ntk", "rerope window=L/2", "rerope window=L", "yarn"].map(str::to_owned);
        let sorted = same_kind_first("rerope window=L/4", &labels);
        assert_eq!(sorted, ["rerope window=L/2", "rerope window=L", "direct", "ntk", "yarn"]);
    }
}
