//! Whether a claim can be decided by what a plan will measure.

use super::selector::Selector;
use crate::claim::ClaimConfig;
use crate::plan::Plan;
use crate::results::Extensions;
use longwave_core::{Error, Result};
use longwave_eval::Protocol;
use std::collections::HashSet;

/// Checks that every word of a claim means something in a plan, and that it will be measured.
///
/// # Errors
/// A word names no extension and no label, an axis is left open, or no row of a side will hold the
/// metric.
pub fn check(claim: &ClaimConfig, plan: &Plan) -> Result<()> {
    check_among(claim, plan, &Extensions::planned(plan).labels())
}

pub(super) fn check_among(claim: &ClaimConfig, plan: &Plan, extensions: &[String]) -> Result<()> {
    for side in [&claim.sentence.left, &claim.sentence.right] {
        let selector = Selector::new(side, plan, extensions, &claim.says)?;
        check_metric(claim, plan, &selector, side)?;
    }
    Ok(())
}

fn check_metric(claim: &ClaimConfig, plan: &Plan, selector: &Selector, side: &[String]) -> Result<()> {
    let (mut seen, mut any) = (HashSet::new(), false);
    for (index, job) in plan.jobs() {
        if !selector.is_of(&plan.runs[index]) || !seen.insert(&job.evaluation) {
            continue;
        }
        let holds = |protocol: Protocol| claim.metric.is_of(protocol.material());
        let mut blocks = job.config.evaluate.iter();
        if blocks.any(|block| holds(block.protocol) && claim.is_about(block.protocol, block.split)) {
            return Ok(());
        }
        any = true;
    }
    // Where no run of the side is allowed, that is the reason, and it is reported elsewhere.
    if any { Err(without_metric(claim, &side.join(", "), true)) } else { Ok(()) }
}

/// No row of one side holds the metric of a claim.
pub(super) fn without_metric(claim: &ClaimConfig, rows: &str, planned: bool) -> Error {
    let (name, of) = (claim.metric.name(), if planned { "will hold" } else { "holds" });
    let text = format!("claim \"{}\": no row of `{rows}` that it is about {of} `{name}`", claim.says);
    let error = if planned { Error::usage(text) } else { Error::failed(text) };
    error.hint(claim.metric.held_by())
}
