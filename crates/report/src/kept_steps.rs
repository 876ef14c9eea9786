//! Which rows are of checkpoints that a run kept along its training, and were read at several of them.

use longwave_eval::ResultRow;
use std::collections::{BTreeMap, BTreeSet};

/// Name, seed and config hash of a run, and how its tokens are scored.
pub(crate) type Source = (String, u64, String, String);

/// What tells histories apart, as text: the run and the scored tokens.
pub(crate) fn source(row: &ResultRow) -> Source {
    let settings = format!("{:?}", row.settings.without_length());
    (row.run.clone(), row.seed, row.config_hash.clone(), settings)
}

/// Where at least two checkpoints were read, one of them a kept step.
pub(crate) fn kept(rows: &[ResultRow]) -> BTreeSet<Source> {
    let mut steps: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
    let candidates: BTreeSet<_> = rows.iter().filter(|row| row.is_of_kept_step()).map(source).collect();
    for row in rows.iter().filter(|row| row.is_of_kept_step() || row.checkpoint == "last") {
        let source = source(row);
        if candidates.contains(&source) {
            steps.entry(source).or_default().insert(row.step);
        }
    }
    steps.into_iter().filter(|(_, steps)| steps.len() > 1).map(|(source, _)| source).collect()
}

/// The rows that stand in tables by length: all but those of kept steps that belong to a history.
pub(crate) fn without_kept_steps(rows: &[ResultRow]) -> impl Iterator<Item = &ResultRow> {
    let has_kept = kept(rows);
    rows.iter().filter(move |row| !(row.is_of_kept_step() && has_kept.contains(&source(row))))
}
