//! How many seeds a claim needs, estimated from those that are there.

use super::question::questions;
use super::{Judgement, Verdict};
use crate::claim::{ClaimConfig, Relation};
use crate::difference::Over;
use crate::plan::Plan;
use crate::results::Results;
use crate::statistics::{Interval, seeds_needed};
use longwave_core::Result;

/// The probability with which the seeds that a claim needs decide it.
pub const POWER: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    Decided,
    About(usize),
    MoreThan(usize),
    /// More seeds do not help: it is judged over documents.
    OverDocuments,
    /// No number of seeds helps: it is judged over documents, or over both, and fewer than two documents are compared.
    NoInterval(Over),
    /// Fewer than two seeds are there, so that the spread is unknown.
    Unknown,
}

impl Seeds {
    pub fn in_words(self) -> String {
        match self {
            Self::Decided => "decided".to_owned(),
            Self::About(seeds) => format!("about {seeds}"),
            Self::MoreThan(seeds) => format!("more than {seeds}"),
            Self::OverDocuments => "judged over documents".to_owned(),
            Self::NoInterval(_) => "no interval".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    pub says: String,
    /// The difference of its sides over the seeds that are there, as far as there are two.
    pub so_far: Option<Interval>,
    pub seeds: usize,
    pub needed: Seeds,
    /// Its runs with one seed, as places in the plan.
    pub runs: Vec<usize>,
}

/// What each claim needs to be decided with probability [`POWER`], at the level that it has if all that are open now stay so: the
/// difference and its spread are taken to be those of the seeds that are there.
pub fn needs(
    claims: &[ClaimConfig],
    plan: &Plan,
    results: &Results,
    judgement: &Judgement,
) -> Result<Vec<Need>> {
    // What is decided leaves its part of the level to the others.
    let open = judgement.claims.iter().filter(|judged| judged.verdict == Verdict::Undecided).count();
    let alpha = plan.looks.alpha() / open as f64;
    let of = |(question, judged): (_, &super::Judged)| {
        let question: &super::Question<'_> = question;
        let difference = question.difference(plan.seeds.len());
        let so_far = difference.as_ref().and_then(|difference| difference.by_seed);
        let lacks_documents = difference.as_ref().is_some_and(|it| it.by_document.is_none());
        let needed = match so_far {
            _ if judged.verdict != Verdict::Undecided => Seeds::Decided,
            _ if judged.over != Over::Seeds && lacks_documents => Seeds::NoInterval(judged.over),
            _ if judged.over == Over::Documents => Seeds::OverDocuments,
            None => Seeds::Unknown,
            Some(so_far) => {
                // Of `n` seeds the error is the deviation over the root of `n`.
                let deviation = so_far.se * (so_far.df + 1.0).sqrt();
                let of_documents =
                    difference.as_ref().and_then(|it| it.by_document).filter(|_| judged.over == Over::Both);
                match seeds_needed(room(question.claim, so_far.mean), deviation, of_documents, alpha, POWER) {
                    Ok(seeds) => Seeds::About(seeds),
                    Err(most) => Seeds::MoreThan(most),
                }
            }
        };
        Need {
            says: judged.in_words(),
            so_far,
            seeds: difference.map_or(0, |difference| difference.seeds),
            needed,
            runs: question.runs(1).collect(),
        }
    };
    Ok(questions(claims, plan, results)?.iter().zip(&judgement.claims).map(of).collect())
}

/// The claims that cannot be decided as they are judged, since they have no interval, and what gives them one: a sentence for each way of
/// judging.
pub fn without_interval(needs: &[Need]) -> Vec<String> {
    let of = |over: Over, instead: &str| {
        let without = needs.iter().filter(|need| need.needed == Seeds::NoInterval(over));
        let without: Vec<String> = without.map(|need| format!("`{}`", need.says)).collect();
        let over = over.in_words("document");
        (!without.is_empty()).then(|| {
            format!(
                "No interval, since it would be over {over}, and both sides scored fewer than two documents in common: {}. {instead}",
                without.join("; ")
            )
        })
    };
    let documents = "With `seeds = 3`, a claim without an `over` of its own is judged over seeds.";
    let both = "With `over = \"seeds\"`, a claim is judged over seeds alone.";
    [of(Over::Documents, documents), of(Over::Both, both)].into_iter().flatten().collect()
}

/// How far the interval of a difference may reach to either side, for the claim to be decided as the difference says.
fn room(claim: &ClaimConfig, mean: f64) -> (f64, f64) {
    let t = claim.tolerance;
    let one_sided = |distance: f64| (distance.abs(), f64::INFINITY);
    match claim.sentence.relation {
        Relation::Less => one_sided(mean - t),
        Relation::More => one_sided(mean + t),
        Relation::Same if mean.abs() <= t => (mean + t, t - mean),
        Relation::Same => one_sided(mean.abs() - t),
    }
}
