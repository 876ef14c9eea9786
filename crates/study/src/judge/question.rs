//! A claim with the rows that it is about.

use super::check;
use super::selector::Selector;
use crate::claim::{ClaimConfig, Over};
use crate::difference::PairedDifference;
use crate::extensions::Extensions;
use crate::looks::ALPHA;
use crate::plan::Plan;
use crate::results::{Measured, Results};
use crate::sample::Sample;
use crate::statistics::Interval;
use longwave_core::Result;

/// A claim, and which rows its sides mean.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) claim: &'a ClaimConfig,
    sides: [Selector; 2],
}

/// The claims of a study with the rows that their words name in a plan.
///
/// # Errors
/// A word of a claim names nothing.
pub(super) fn questions<'a>(
    claims: &'a [ClaimConfig],
    plan: &Plan,
    results: &Results,
) -> Result<Vec<Question<'a>>> {
    let extensions = Extensions::planned(plan).labels();
    let extensions: Vec<String> =
        extensions.into_iter().chain(results.extensions().into_iter().map(str::to_owned)).collect();
    let of = |claim: &'a ClaimConfig| {
        let side = |words| Selector::new(words, plan, &extensions, claim);
        Ok(Question { claim, sides: [side(&claim.sentence.left)?, side(&claim.sentence.right)?] })
    };
    claims.iter().map(of).collect()
}

impl Question<'_> {
    /// The runs of both sides with the first `seeds` seeds, as places in the plan.
    pub(super) fn runs<'p>(&'p self, plan: &'p Plan, seeds: usize) -> impl Iterator<Item = usize> + 'p {
        let is_of = |run: &usize| self.sides.iter().any(|side| side.is_of(&plan.runs[*run]));
        (0..plan.runs.len()).filter(move |run| plan.is_within(*run, seeds)).filter(is_of)
    }

    /// The difference of the sides over the first `seeds` seeds, and the interval that the claim is judged by.
    ///
    /// # Errors
    /// No row of a side holds the metric.
    pub(super) fn evidence(
        &self,
        results: &Results,
        plan: &Plan,
        seeds: usize,
    ) -> Result<(Option<PairedDifference>, Option<Interval>)> {
        let claim = self.claim;
        let here = |measured: &&Measured| {
            let settings = &measured.row.settings;
            plan.is_within(measured.run, seeds)
                && self.sides.iter().any(|side| side.is_at(&measured.row))
                && claim.is_about(settings.protocol, settings.split)
        };
        let rows: Vec<&Measured> = results.rows.iter().filter(here).collect();
        let samples: Vec<Option<Sample<'_>>> = rows
            .iter()
            .map(|measured| {
                // The window baseline of a row is of the same run.
                let run = rows.iter().filter(|other| other.run == measured.run).map(|other| &other.row);
                Sample::new(claim.metric, &measured.row, run)
            })
            .collect();
        let candidates =
            rows.iter().zip(&samples).filter_map(|(measured, sample)| Some((*measured, (*sample)?)));
        let candidates: Vec<(&Measured, Sample<'_>)> = candidates.collect();
        // Without `protocol` and `split`, the rows are of the first kind that both sides have.
        let kind = |measured: &Measured| (measured.row.settings.protocol, measured.row.settings.split);
        let has = |selector: &Selector, wanted| {
            candidates.iter().any(|(it, _)| kind(it) == wanted && selector.is(it))
        };
        let mut kinds = candidates.iter().map(|(measured, _)| kind(measured));
        let first = kinds.find(|wanted| self.sides.iter().all(|selector| has(selector, *wanted)));
        let side = |index: usize| -> Result<Vec<Sample<'_>>> {
            let selector = &self.sides[index];
            let mut all = candidates.iter().filter(|(it, _)| selector.is(it)).peekable();
            let mut without = rows.iter().zip(&samples).filter(|(_, sample)| sample.is_none());
            if all.peek().is_none() && without.any(|(measured, _)| selector.is(measured)) {
                return Err(check::without_metric(claim, &selector.text(), false));
            }
            Ok(all.filter(|(it, _)| first == Some(kind(it))).map(|(_, sample)| *sample).collect())
        };
        let (left, right) = (side(0)?, side(1)?);
        let difference = PairedDifference::new(&left, &right, 1.0 - ALPHA);
        let interval = difference.as_ref().and_then(|difference| match claim.over {
            Some(Over::Seeds) => difference.by_seed,
            Some(Over::Documents) => difference.by_document,
            None => difference.interval(),
        });
        Ok((difference, interval))
    }
}
