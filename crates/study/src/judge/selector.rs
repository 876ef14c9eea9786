//! Which rows one side of a claim means.

use crate::claim::{ClaimConfig, Words};
use crate::extensions::meant;
use crate::plan::{Plan, Planned};
use crate::results::Measured;
use longwave_core::Result;
use longwave_core::error::nearest;
use longwave_eval::ResultRow;
use std::collections::HashSet;

#[derive(Debug)]
pub(super) struct Selector {
    pub(super) words: Words,
    pub(super) extend: String,
    /// The step of a kept checkpoint; the end of training unless given.
    pub(super) step: Option<u64>,
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
                claim.wrong(what).hint(hint)
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
            if let ([], [one, other, ..]) = (places.as_slice(), named.as_slice()) {
                let why = format!("`{word}` may mean `{one}` or `{other}`");
                return Err(claim.wrong(why).hint("write the one that is meant in full"));
            }
            match (places.as_slice(), !named.is_empty()) {
                ([], true) if extend.is_none() => extend = named.first().map(|label| (*label).clone()),
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
                let why = format!("`{}` leaves `{}` open", words.text(), plan.axes[axis]);
                return Err(claim.wrong(why).hint(format!("add one of {}", few(known))));
            }
        }
        let extend = extend.unwrap_or_else(|| "direct".to_owned());
        Ok(Self { words: words.clone(), extend, step, labels })
    }

    pub(super) fn is_same(&self, other: &Self, plan: &Plan) -> bool {
        let is_alike = |run: &Planned| self.is_of(run) == other.is_of(run);
        let is_at = |train_length| self.words.length(train_length) == other.words.length(train_length);
        (&self.extend, self.step) == (&other.extend, other.step)
            && plan.runs.iter().all(is_alike)
            && plan.jobs().all(|(_, job)| is_at(job.config.run.train.length))
    }

    /// Whether a row was read at its length, from its checkpoint.
    pub(super) fn is_at(&self, row: &ResultRow) -> bool {
        self.words.is_at(row) && self.step.map_or(!row.is_of_kept_step(), |step| row.step == step)
    }

    pub(super) fn is(&self, measured: &Measured) -> bool {
        measured.extend == self.extend && self.has(&measured.labels) && self.is_at(&measured.row)
    }

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
