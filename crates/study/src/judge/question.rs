//! A claim with the rows that it is about.

use super::manner;
use super::selector::Selector;
use crate::claim::ClaimConfig;
use crate::comparable::obstacle;
use crate::difference::PairedDifference;
use crate::extensions::Extensions;
use crate::looks::ALPHA;
use crate::plan::Plan;
use crate::results::{Measured, Results};
use crate::sample::Sample;
use longwave_core::Result;
use longwave_core::in_order::distinct;

#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) claim: &'a ClaimConfig,
    sides: [Selector; 2],
    plan: &'a Plan,
    results: &'a Results,
}

/// The claims of a study with the rows that their words name in a plan.
pub(super) fn questions<'a>(
    claims: &'a [ClaimConfig],
    plan: &'a Plan,
    results: &'a Results,
) -> Result<Vec<Question<'a>>> {
    let extensions = Extensions::planned(plan).labels();
    let extensions: Vec<String> =
        extensions.into_iter().chain(results.extensions().into_iter().map(str::to_owned)).collect();
    let of = |claim: &'a ClaimConfig| {
        let side = |words| Selector::new(words, plan, &extensions, claim);
        let sides = [side(&claim.sentence.left)?, side(&claim.sentence.right)?];
        Ok(Question { claim, sides, plan, results })
    };
    claims.iter().map(of).collect()
}

impl<'a> Question<'a> {
    /// The runs of both sides with the first `seeds` seeds, as places in the plan.
    pub(super) fn runs(&self, seeds: usize) -> impl Iterator<Item = usize> {
        let plan = self.plan;
        let is_of = move |run: &usize| self.sides.iter().any(|side| side.is_of(&plan.runs[*run]));
        (0..plan.runs.len()).filter(move |run| plan.is_within(*run, seeds)).filter(is_of)
    }

    /// The difference of the sides over the first `seeds` seeds; `None` where they have no seed in common, or do not compare.
    pub(super) fn difference(&self, seeds: usize) -> Option<PairedDifference> {
        let [left, right] = self.samples(seeds);
        let compares = |a: &Sample<'_>, b: &Sample<'_>| obstacle(a.row, b.row, self.claim.metric).is_none();
        let all = left.iter().all(|a| right.iter().filter(|b| a.seed == b.seed).all(|b| compares(a, b)));
        PairedDifference::new(&left, &right, 1.0 - ALPHA).filter(|_| all)
    }

    /// The rows of both sides over the first `seeds` seeds.
    fn samples(&self, seeds: usize) -> [Vec<Sample<'a>>; 2] {
        let Self { claim, plan, results, .. } = *self;
        let here = |measured: &&Measured| {
            let settings = &measured.row.settings;
            plan.is_within(measured.run, seeds)
                && self.sides.iter().any(|side| side.is_at(&measured.row))
                && claim.is_about(settings.protocol, settings.split, settings.tokens())
        };
        let candidates: Vec<(&Measured, Sample<'a>)> = results
            .rows
            .iter()
            .filter(here)
            .filter_map(|measured| Some((measured, results.sample(claim.metric, measured)?)))
            .collect();
        let sides = self.sides.each_ref().map(|selector| {
            let all = candidates.iter().filter(|(it, _)| selector.is(it));
            all.map(|(it, sample)| (manner::of_row(&it.row), *sample)).collect::<Vec<_>>()
        });
        let manners = sides.each_ref().map(|side| distinct(side.iter().map(|(manner, _)| manner.clone())));
        let Some(shared) = manner::shared(&manners[0], &manners[1]) else { return [Vec::new(), Vec::new()] };
        let of_manner = |side: usize| {
            let rows = sides[side].iter().filter(|(manner, _)| *manner == shared[side]);
            rows.map(|(_, sample)| *sample).collect()
        };
        [of_manner(0), of_manner(1)]
    }

    /// Why nothing was compared, where rows of a side are there and none of them holds the metric: an encoding that turns nothing has no
    /// angle that it did not see.
    pub(super) fn lacks(&self) -> Option<String> {
        let Self { claim, results, .. } = *self;
        let rows = |side: &Selector| -> Vec<&Measured> {
            let is_meant = |it: &&Measured| {
                let settings = &it.row.settings;
                side.is(it) && claim.is_about(settings.protocol, settings.split, settings.tokens())
            };
            results.rows.iter().filter(is_meant).collect()
        };
        let lacking = self.sides.iter().find(|side| {
            let rows = rows(side);
            !rows.is_empty() && rows.iter().all(|it| results.sample(claim.metric, it).is_none())
        })?;
        Some(format!("no row of `{}` that it is about holds `{}`", lacking.words.text(), claim.metric.name()))
    }
}
