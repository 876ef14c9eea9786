//! What a ranking says in one sentence.

use super::{ALPHA, Ranked, Ranking};
use crate::difference::Over;
use crate::words::listed;
use longwave_eval::Metric;

impl Ranking<'_> {
    /// The answer in one sentence; `at` is the length as written.
    pub fn sentence(&self, at: &str) -> String {
        let Some(best) = self.ranked.first() else { return String::new() };
        if self.ranked.len() == 1 {
            let same = best.same.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let same = if same.is_empty() { same } else { format!(", which {same} equal by construction") };
            return format!("Only `{}` was measured at {at}{same}.{}", best.name, self.limits());
        }
        // What is equal to the last bit shares the first place.
        let (first, others): (Vec<_>, Vec<_>) =
            self.ranked.iter().partition(|one| one.value.total_cmp(&best.value).is_eq());
        // Where seeds were lost, the means are of other seeds than the difference.
        let sign = if self.metric.lower_is_better() { 1.0 } else { -1.0 };
        let is_worse = |one: &&&Ranked<'_>| {
            one.p.is_some_and(|p| p < ALPHA) && one.difference.as_ref().is_some_and(|it| sign * it.mean > 0.0)
        };
        let worse: Vec<_> = others.iter().filter(is_worse).copied().collect();
        let open: Vec<_> = others.iter().filter(|one| !is_worse(one) && one.p.is_some()).copied().collect();
        let untested: Vec<_> = others.iter().filter(|one| one.p.is_none()).copied().collect();
        let is_best = first.len() == 1 && worse.len() == others.len();
        let mut parts = Vec::new();
        if !worse.is_empty() {
            parts.push(format!("significantly better than {}", named(&worse)));
        }
        if !open.is_empty() {
            parts.push(format!("not significantly better than {}", named(&open)));
        }
        if !untested.is_empty() {
            parts.push(format!("measured too few times for a test against {}", named(&untested)));
        }
        let extreme = if self.metric.lower_is_better() { "lowest" } else { "highest" };
        let value = format!("the {extreme} {} at {at}", self.shown().in_words());
        let lead = match first.len() {
            _ if is_best => format!("`{}` is the best at {at}", best.name),
            1 => format!("`{}` has {value}", best.name),
            _ => format!("{} have {value} alike", named(&first)),
        };
        let subject = if first.len() == 1 { "it".to_owned() } else { format!("`{}`", best.name) };
        let verdict =
            if parts.is_empty() { String::new() } else { format!(": {subject} is {}", parts.join("; ")) };
        format!("{lead}{verdict} ({}).{}", self.test(), self.limits())
    }

    /// What is shown of the metric: the perplexity of a loss.
    pub fn shown(&self) -> Metric {
        if self.metric == Metric::Loss { Metric::Perplexity } else { self.metric }
    }

    fn test(&self) -> String {
        let correction = match self.pairs {
            1 => String::new(),
            pairs => format!("Holm's correction for all {pairs} pairs, "),
        };
        let least = self.ranked.iter().map(|one| one.seeds).min().unwrap_or(self.seeds);
        let count = if least < self.seeds { format!("{least} to {}", self.seeds) } else { least.to_string() };
        let seeds = match (self.seeds, self.over) {
            (1, _) => format!("1 seed, paired by {}", self.unit),
            (_, Over::Both) => format!("{count} seeds, errors over {}", self.over.in_words(self.unit)),
            _ => format!("{count} seeds"),
        };
        let looks =
            if self.looks > 1 { format!(" over {} looks of the claims", self.looks) } else { String::new() };
        format!("at 5%{looks}, {correction}{seeds}")
    }

    fn limits(&self) -> String {
        let lost = |one: &&Ranked<'_>| one.rows.len() < one.seeds;
        let fewer = self.ranked.iter().filter(lost);
        let fewer = fewer.map(|one| format!("`{}` has {} of {} seeds", one.name, one.rows.len(), one.seeds));
        // One that is left alone is in no pair.
        let counts = if self.ranked.len() > 1 { ", and counts among the pairs" } else { "" };
        let none = self.lost.iter().map(|name| format!("`{name}` has no result{counts}"));
        let lost: Vec<String> = fewer.chain(none).collect();
        let mut limits = if lost.is_empty() { String::new() } else { format!(" {}.", lost.join(", ")) };
        if self.over == Over::Documents && self.ranked.iter().any(|one| one.p.is_some()) {
            limits.push_str(" One seed shows how these trained models differ on other ");
            limits.push_str(self.unit);
            limits.push_str("s. It cannot show that other trainings would.");
        }
        limits
    }
}

fn named(list: &[&Ranked<'_>]) -> String {
    listed(&list.iter().map(|one| format!("`{}`", one.name)).collect::<Vec<_>>())
}
