//! One side of a comparison, and the readings that it holds.

use super::obstacle::numbers;
use crate::extensions::Extension;
use crate::sample::Sample;
use longwave_core::in_order::distinct;
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_eval::search::keys_of;
use longwave_eval::sweep::is_candidate;
use longwave_eval::{Metric, Reference, ResultRow, WINDOW_BASELINE};
use longwave_position::tokens::{Lengths, Tokens};
use longwave_report::newest::{Newest, Older};
use std::collections::BTreeSet;

/// One run, or several that differ by their seed, and how they are read.
#[derive(Clone, Debug)]
pub struct Side {
    pub name: String,
    pub runs: Vec<Vec<ResultRow>>,
    /// The one extension that is compared; each with its equal unless given.
    pub extend: Option<Reference>,
    /// The checkpoint that was read; equal ones unless given.
    pub checkpoint: Option<String>,
}

/// Which measurements are compared; empty lists keep all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The lengths, in tokens or as multiples of each row's training length.
    pub lengths: Vec<Tokens>,
    pub extend: Vec<Reference>,
}

impl Filter {
    /// Whether a row is among those that are compared, and was read so.
    fn keeps(&self, row: &ResultRow, extend: Option<&Reference>) -> Result<bool> {
        let train = row.settings.train_length;
        let lengths = Lengths { train, length: row.settings.length };
        let wanted = self.lengths.iter().map(|length| length.whole("--lengths", lengths));
        let wanted = wanted.collect::<Result<Vec<usize>>>()?;
        Ok((wanted.is_empty() || wanted.contains(&row.settings.length))
            && (self.extend.is_empty() || self.extend.iter().any(|one| one.is(row)))
            && extend.is_none_or(|one| one.is(row)))
    }
}

/// What was measured alike, one row for each seed.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// Never empty.
    pub(super) rows: Vec<&'a ResultRow>,
    side: &'a Side,
}

impl<'a> Reading<'a> {
    pub(super) fn first(&self) -> &'a ResultRow {
        self.rows[0]
    }

    /// Whether it is of the same rows as another.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let of = |it: &Self| it.rows.iter().map(|row| row.identity().ok()).collect::<Vec<_>>();
        of(self) == of(other)
    }

    pub(super) fn samples(&self, metric: Metric) -> Vec<Sample<'a>> {
        let all = || self.side.runs.iter().flatten();
        self.rows.iter().filter_map(|row| Sample::new(metric, row, all())).collect()
    }
}

impl Side {
    /// One run as it was read each time.
    pub fn new(name: &str, rows: Vec<ResultRow>) -> Self {
        Self { name: name.to_owned(), runs: vec![rows], extend: None, checkpoint: None }
    }

    /// The readings that the filter keeps, in the order of the rows. A run that was trained further is compared as it is now.
    pub(super) fn readings(
        &self,
        extend: Option<&Reference>,
        checkpoint: Option<&str>,
        filter: &Filter,
    ) -> Result<Vec<Reading<'_>>> {
        let mut readings: Vec<Reading<'_>> = Vec::new();
        for (run, rows) in self.runs.iter().enumerate() {
            for row in newest(rows).rows {
                if is_asked(row, extend, checkpoint, filter)? && !is_trial(row, rows) {
                    self.add(row, run, &mut readings)?;
                }
            }
        }
        if !readings.is_empty() {
            return Ok(readings);
        }
        let missed = self.missed(extend, checkpoint, filter)?;
        Err(missed
            .first()
            .map_or_else(|| self.nothing(extend, filter), |older| self.outdated(older, &missed)))
    }

    /// What the filter keeps of the rows from before a run was trained further, where it was not measured again.
    pub(super) fn missed(
        &self,
        extend: Option<&Reference>,
        checkpoint: Option<&str>,
        filter: &Filter,
    ) -> Result<Vec<Older<'_>>> {
        let mut missed = Vec::new();
        for older in self.runs.iter().flat_map(|rows| newest(rows).missed()) {
            if is_asked(older.row, extend, checkpoint, filter)? {
                missed.push(older);
            }
        }
        Ok(missed)
    }

    /// Adds a row to the reading it belongs to. Of one run the row that was measured last stands: it is no second seed.
    fn add<'a>(&'a self, row: &'a ResultRow, run: usize, readings: &mut Vec<Reading<'a>>) -> Result<()> {
        let alike = |other: &ResultRow| {
            other.settings == row.settings
                && other.checkpoint == row.checkpoint
                && Extension::of_row(other) == Extension::of_row(row)
        };
        let Some(reading) = readings.iter_mut().find(|reading| alike(reading.first())) else {
            readings.push(Reading { rows: vec![row], side: self });
            return Ok(());
        };
        let Some(known) = reading.rows.iter_mut().find(|known| known.seed == row.seed) else {
            reading.rows.push(row);
            return Ok(());
        };
        let of_this_run = self.runs[run].iter().any(|own| std::ptr::eq(own, *known));
        if !of_this_run {
            return Err(Error::usage(format!("`{}` has `seed` {} twice", self.name, row.seed))
                .hint("one side is one encoding: name runs that differ by their seed alone"));
        }
        *known = row;
        Ok(())
    }

    fn outdated(&self, Older { row, newer }: &Older<'_>, missed: &[Older<'_>]) -> Error {
        Error::usage(format!(
            "`{}` was measured so at step {} alone, and was trained to step {} since",
            self.name, row.step, newer.step
        ))
        .hint(format!("measure it again: `{}`", again(missed)))
    }

    fn nothing(&self, extend: Option<&Reference>, filter: &Filter) -> Error {
        let rows = || self.runs.iter().flat_map(|rows| newest(rows).rows);
        if rows().next().is_none() {
            return Error::failed(format!("`{}` holds no results", self.name))
                .hint("measure it with `longwave eval RUN`");
        }
        let mut lengths: Vec<usize> = rows().map(|row| row.settings.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let named = |of: fn(&ResultRow) -> &str| distinct(rows().map(of)).join(", ");
        let asked = [
            (!filter.lengths.is_empty()).then_some("lengths"),
            (extend.is_some() || !filter.extend.is_empty()).then_some("extension"),
            self.checkpoint.as_ref().map(|_| "checkpoint"),
        ];
        let asked = asked.into_iter().flatten().collect::<Vec<_>>().join(" and the ");
        Error::usage(format!("`{}` has no measurement with the {asked} that you ask for", self.name)).hint(
            format!(
                "its lengths are {}, its extensions {}, its checkpoints {}",
                numbers(&lengths),
                named(|row| &row.extend),
                named(|row| &row.checkpoint)
            ),
        )
    }
}

fn is_asked(
    row: &ResultRow,
    extend: Option<&Reference>,
    checkpoint: Option<&str>,
    filter: &Filter,
) -> Result<bool> {
    Ok(checkpoint.is_none_or(|checkpoint| *checkpoint == row.checkpoint) && filter.keeps(row, extend)?)
}

/// Whether a row was measured to choose a value, which was then read on another split: a choice is no result.
fn is_trial(row: &ResultRow, rows: &[ResultRow]) -> bool {
    let is_chosen = |other: &ResultRow| {
        let Some(choice) = other.choice() else { return false };
        match choice.as_object().filter(|_| keys_of(choice).is_none()) {
            Some(lists) => {
                let alike = |row: &ResultRow| {
                    let mut config = row.extend_config.as_object().cloned().unwrap_or_default();
                    config.retain(|key, _| !lists.contains_key(key));
                    (config, row.extend.clone(), row.settings.protocol, row.settings.length)
                };
                alike(row) == alike(other) && is_candidate(&row.extend_config, lists)
            }
            // Of a search the best trial has a row, at the length that it is for.
            None => row.chosen_among.as_ref() == Some(choice),
        }
    };
    row.settings.split == Split::Valid && rows.iter().any(is_chosen)
}

/// The rows of one run apart by whether they are of its newest training.
fn newest(rows: &[ResultRow]) -> Newest<'_> {
    Newest::of(rows, |row| row.seed)
}

/// The command that measures rows again.
pub(super) fn again(missed: &[Older<'_>]) -> String {
    let lengths: BTreeSet<usize> = missed.iter().map(|it| it.row.settings.length).collect();
    let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
    let extend = missed.iter().map(|it| it.row.extend.as_str()).filter(|kind| *kind != WINDOW_BASELINE);
    let mut command = format!("longwave eval RUN --lengths {}", lengths.join(","));
    for kind in distinct(extend) {
        command = format!("{command} --extend {kind}");
    }
    command
}
