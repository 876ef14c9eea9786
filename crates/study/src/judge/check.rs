//! Whether a claim can be decided by what a plan will measure.

use super::manner::{self, Manner};
use super::selector::Selector;
use crate::claim::{ClaimConfig, Words};
use crate::comparable::Scored;
use crate::extensions::{Extension, Extensions};
use crate::plan::Plan;
use longwave_core::in_order::distinct;
use longwave_core::{Error, Result};
use longwave_eval::{Evaluation, ResolvedEvaluate};
use std::collections::{BTreeSet, HashSet};

/// Checks that every word of a claim means something in a plan, and that both sides will be measured alike.
pub fn check(claim: &ClaimConfig, plan: &Plan) -> Result<()> {
    let Some([of_left, of_right]) = sides(claim, plan)? else { return Ok(()) };
    for (a, b) in pairs(plan, &of_left, &of_right) {
        if let Some((why, hint)) = a.obstacle(&b, claim.metric) {
            return Err(claim.wrong(why).hint(hint));
        }
    }
    Ok(())
}

/// Whether both sides of a claim will score the same tokens, whatever runs are lost; also where that cannot be told.
pub(super) fn is_of_same_tokens(claim: &ClaimConfig, plan: &Plan) -> Result<bool> {
    if !claim.metric.spans_tokenizers() {
        return Ok(true);
    }
    let Some([of_left, of_right]) = sides(claim, plan)? else { return Ok(true) };
    Ok(pairs(plan, &of_left, &of_right).all(|(a, b)| a.same_tokens(&b)))
}

fn pairs<'a>(
    plan: &'a Plan,
    left: &'a [Planned],
    right: &'a [Planned],
) -> impl Iterator<Item = (Scored<'a>, Scored<'a>)> {
    let pairs = left.iter().flat_map(move |a| right.iter().map(move |b| (a, b)));
    pairs.filter_map(move |(a, b)| Some((a.scored(plan)?, b.scored(plan)?)))
}

/// The measurements of both sides that are compared; `None` where no run of a side is allowed, whose reason is reported elsewhere.
fn sides(claim: &ClaimConfig, plan: &Plan) -> Result<Option<[Vec<Planned>; 2]>> {
    let extensions = Extensions::planned(plan);
    let (left, right) = (&claim.sentence.left, &claim.sentence.right);
    let (left, right) =
        (Side::new(claim, plan, &extensions, left)?, Side::new(claim, plan, &extensions, right)?);
    if left.selector.is_same(&right.selector, plan) {
        return Err(claim
            .wrong("both sides are the same readings".to_owned())
            .hint("name another label, extension, length or step on one side"));
    }
    let (Some(of_left), Some(of_right)) = (left.manners()?, right.manners()?) else { return Ok(None) };
    let Some([of_left, of_right]) = manner::shared(&of_left, &of_right) else {
        return Err(measured_differently(claim, &of_left, &of_right));
    };
    let of = |side: Side<'_>, wanted: &Manner| {
        let planned = side.planned.into_iter();
        planned.filter(|it| manner::of_block(&it.block) == *wanted).collect()
    };
    Ok(Some([of(left, &of_left), of(right, &of_right)]))
}

fn measured_differently(claim: &ClaimConfig, of_left: &[Manner], of_right: &[Manner]) -> Error {
    let word = |manners: &[Manner]| {
        distinct(manners.iter().map(|it| format!("{}, {} split", it.protocol, it.split))).join("; ")
    };
    let (of_left, of_right) = (word(of_left), word(of_right));
    let why = format!("its sides are measured differently: {of_left}, and {of_right}");
    claim.wrong(why).hint("read both with one protocol and one split")
}

/// A measurement that a side is read by.
#[derive(Clone)]
struct Planned {
    /// The first run that is measured so.
    run: usize,
    block: ResolvedEvaluate,
    length: usize,
}

impl Planned {
    fn scored<'a>(&'a self, plan: &'a Plan) -> Option<Scored<'a>> {
        Some(Scored::new(&plan.contents, plan.runs[self.run].job.as_ref().ok()?, &self.block, self.length))
    }
}

/// One side of a claim, and the evaluations that read it.
struct Side<'a> {
    claim: &'a ClaimConfig,
    selector: Selector,
    /// For each different evaluation of its runs: manner, length that is meant, lengths that are read with the
    /// extension.
    read: Vec<(Manner, usize, Vec<usize>)>,
    planned: Vec<Planned>,
    others: BTreeSet<String>,
    steps: BTreeSet<u64>,
    any: bool,
}

impl<'a> Side<'a> {
    fn new(claim: &'a ClaimConfig, plan: &Plan, extensions: &Extensions, words: &Words) -> Result<Self> {
        let selector = Selector::new(words, plan, &extensions.labels(), claim)?;
        let (others, steps) = (BTreeSet::new(), BTreeSet::new());
        let mut side =
            Self { claim, selector, read: Vec::new(), planned: Vec::new(), others, steps, any: false };
        let mut seen = HashSet::new();
        for (index, job) in plan.jobs() {
            let train_length = job.config.run.train.length;
            if !side.selector.is_of(&plan.runs[index]) {
                continue;
            }
            side.any = true;
            let (kept, last) = (job.config.run.kept_steps(), job.config.run.total_steps());
            if !seen.insert((&job.evaluation, train_length, kept.clone(), last)) {
                continue;
            }
            for evaluation in job.config.evaluations() {
                // The step of the best validation is known when it is trained.
                let end = if evaluation.reads_best() { Vec::new() } else { vec![last] };
                let steps = [evaluation.steps(&kept)?, end].concat();
                side.add(extensions, evaluation, (index, train_length), steps);
            }
        }
        Ok(side)
    }

    fn add(
        &mut self,
        extensions: &Extensions,
        evaluation: &Evaluation,
        (run, train_length): (usize, usize),
        steps: Vec<u64>,
    ) {
        let block = &evaluation.block;
        let labels: Vec<String> =
            Extension::of_evaluation(evaluation).iter().map(|one| extensions.label(one)).collect();
        let is_read = labels.contains(&self.selector.extend);
        if self.claim.is_about(block.protocol, block.split, block.tokens()) && is_read {
            if self.selector.step.is_none_or(|step| steps.contains(&step)) {
                let length = self.selector.words.length(train_length);
                self.read.push((manner::of_block(block), length, block.lengths.clone()));
                if block.lengths.contains(&length) {
                    self.planned.push(Planned { run, block: block.clone(), length });
                }
            }
            self.steps.extend(steps);
        }
        self.others.extend(labels);
    }

    /// The manners of its rows that hold the metric of the claim, in their order; `None` where no run of the side is allowed.
    fn manners(&self) -> Result<Option<Vec<Manner>>> {
        if !self.any {
            return Ok(None);
        }
        let words = self.selector.words.text();
        if let (true, Some(step)) = (self.read.is_empty() && !self.steps.is_empty(), self.selector.step) {
            let why = format!("no evaluation reads `{words}` at step {step}");
            let steps: Vec<String> = self.steps.iter().map(ToString::to_string).collect();
            return Err(self.claim.wrong(why).hint(format!(
                "its steps are {}; add to `train.keep_checkpoints`, and to `checkpoints` of an `[[evaluate]]`",
                steps.join(", ")
            )));
        }
        if self.read.is_empty() {
            return Err(self.unread(&words));
        }
        let at_length = self.read.iter().filter(|(_, length, read)| read.contains(length));
        let at_length = distinct(at_length.map(|(manner, ..)| manner.clone()));
        if at_length.is_empty() {
            let (_, length, _) = &self.read[0];
            let read: BTreeSet<usize> = self.read.iter().flat_map(|(_, _, read)| read).copied().collect();
            let read: Vec<String> = read.iter().map(ToString::to_string).collect();
            let why = format!("no evaluation reads `{words}` at {length} tokens");
            let hint = format!("its lengths are {}; add to `lengths` of an `[[evaluate]]`", read.join(", "));
            return Err(self.claim.wrong(why).hint(hint));
        }
        let holds = |it: &Manner| self.claim.metric.is_of(it.protocol.material());
        let manners: Vec<Manner> = at_length.into_iter().filter(holds).collect();
        if manners.is_empty() { Err(without_metric(self.claim, &words)) } else { Ok(Some(manners)) }
    }
}

impl Side<'_> {
    /// No evaluation that the claim is about reads this side with its extension.
    fn unread(&self, words: &str) -> Error {
        let extend = &self.selector.extend;
        let why = format!("no evaluation that it is about reads `{words}` with `{extend}`");
        let others: Vec<&str> = self.others.iter().map(String::as_str).collect();
        let hint = if self.others.is_empty() {
            "no `[[evaluate]]` is for its runs; see `only`".to_owned()
        } else if self.others.contains(extend) {
            "its runs are read with it, but not as `protocol`, `split` and `tokens` of the claim say"
                .to_owned()
        } else {
            format!("its runs are read with {}; add to `extend` of an `[[evaluate]]`", others.join(", "))
        };
        self.claim.wrong(why).hint(hint)
    }
}

fn without_metric(claim: &ClaimConfig, rows: &str) -> Error {
    let name = claim.metric.name();
    claim
        .wrong(format!("no row of `{rows}` that it is about will hold `{name}`"))
        .hint(claim.metric.held_by())
}
