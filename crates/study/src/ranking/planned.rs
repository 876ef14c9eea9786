//! What a study measures at the length of a ranking, whatever of it was lost.

use super::check::{read, scored};
use crate::best::Best;
use crate::extensions::Extension;
use crate::plan::Plan;
use crate::results::{Measured, Results};
use longwave_core::in_order::grouped;
use longwave_eval::WINDOW_BASELINE;
use std::collections::BTreeSet;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Whether all of it scores the same tokens.
    pub(super) are_of_same_tokens: bool,
    /// Each combination of labels, its runs as places in the plan, and how many readings it has.
    combinations: Vec<(Vec<String>, Vec<usize>, usize)>,
}

/// A combination without any row.
pub(super) struct Lost {
    pub(super) name: String,
    pub(super) readings: usize,
}

impl Default for Planned {
    /// Of a study that lost nothing, and reads one text by one tokenizer.
    fn default() -> Self {
        Self { are_of_same_tokens: true, combinations: Vec::new() }
    }
}

impl Planned {
    /// Of a study that lost nothing, and whose readings score other tokens each.
    #[cfg(test)]
    pub(crate) fn of_other_tokens() -> Self {
        Self { are_of_same_tokens: false, ..Self::default() }
    }

    pub fn new(plan: &Plan, best: Best) -> Self {
        let read = read(plan, best);
        let scored = scored(plan, &read);
        let are_of_same_tokens = scored.iter().all(|one| one.same_tokens(&scored[0]));
        let labels = |run: usize| {
            let without_rate = plan.runs[run].labels.iter().enumerate();
            let kept = without_rate.filter(|(axis, _)| Some(*axis) != plan.rate_axis);
            kept.map(|(_, label)| label.clone()).collect::<Vec<_>>()
        };
        let combinations = grouped(read.iter().map(|it| (labels(it.run), it)));
        let combinations = combinations.into_iter().map(|(labels, read)| {
            let mut readings: Vec<Extension> = Vec::new();
            for one in read.iter().flat_map(|it| Extension::of_evaluation(it.evaluation)) {
                if !one.is(WINDOW_BASELINE) && !readings.contains(&one) {
                    readings.push(one);
                }
            }
            (labels, read.iter().map(|it| it.run).collect(), readings.len())
        });
        Self { are_of_same_tokens, combinations: combinations.collect() }
    }

    /// The combinations of which no run has rows that can be ranked, where some run failed or is still to be done.
    pub(super) fn lost(&self, results: &Results) -> Vec<Lost> {
        // A row at a rate that no other seed chooses ranks nothing.
        let rates = results.rates.as_ref();
        let is_ranked = |it: &&Measured| rates.is_none_or(|rates| rates.is_chosen(&it.labels, it.row.seed));
        let measured: BTreeSet<usize> = results.rows.iter().filter(is_ranked).map(|it| it.run).collect();
        let failed = results.failures.iter().map(|(run, _)| run);
        let without: BTreeSet<usize> = failed.chain(&results.missing).copied().collect();
        let is_lost = |runs: &[usize]| {
            runs.iter().all(|run| !measured.contains(run)) && runs.iter().any(|run| without.contains(run))
        };
        let lost = self.combinations.iter().filter(|(_, runs, _)| is_lost(runs));
        lost.map(|(labels, _, readings)| Lost { name: labels.join(", "), readings: *readings }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::set_key;
    use crate::plan::tests::plan;
    use crate::ranking::rank;
    use crate::rates::tests::rates;
    use crate::results::tests::results;
    use crate::store::Failure;

    const STUDY: &str = "seeds = 3\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\", \"none\"]\n\
                         [[evaluate]]\nlengths = [256, 512]\nextend = [{ kind = \"window\", window = 128 }, \"direct\"]";

    fn at_4l() -> Best {
        Best { at: "4L".parse().unwrap(), metric: None }
    }

    #[test]
    fn what_was_lost_counts_among_the_pairs() {
        let mut results = results();
        let planned = Planned::new(&plan(STUDY), at_4l());
        let of = |results: &Results| {
            let ranking = rank(results, at_4l(), &planned).unwrap();
            (ranking.pairs, ranking.ranked[1].p.unwrap(), ranking.sentence("4L"))
        };
        let (pairs, before, _) = of(&results);
        assert_eq!(pairs, 6);
        let failure = || Failure { reason: "killed".to_owned(), hint: None };
        results.failures = vec![(6, failure()), (7, failure())];
        results.missing = vec![8];
        let (pairs, after, sentence) = of(&results);
        // Two readings of `none` beside the four that there are: 6 * 5 / 2.
        assert_eq!(pairs, 15);
        assert!(after > before, "{after} {before}");
        assert!(sentence.contains("`none` has no result, and counts among the pairs."), "{sentence}");
        // One whose runs are no part of the results, as after looks that did not ask for them, is not lost.
        (results.failures, results.missing) = (Vec::new(), Vec::new());
        assert_eq!(of(&results).0, 6);
    }

    #[test]
    fn what_was_lost_is_named_beside_the_one_that_is_left() {
        let mut results = results();
        results.rows.retain(|it| it.labels[0] == "rope" && it.extend == "ntk" && it.row.seed < 2);
        let failure = || Failure { reason: "killed".to_owned(), hint: None };
        results.failures = (2..8).map(|run| (run, failure())).collect();
        results.missing = vec![8];
        let planned = Planned::new(&plan(STUDY), at_4l());
        assert_eq!(
            rank(&results, at_4l(), &planned).unwrap().sentence("4L"),
            "Only `rope, ntk` was measured at 4L. `rope, ntk` has 2 of 3 seeds, `alibi` has no result, `none` has no result."
        );
    }

    /// Each seed that is left is at the rate that the other one has no run of.
    #[test]
    fn what_is_left_at_rates_that_no_other_seed_chooses_is_lost() {
        let study = "seeds = 2\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n[[axis]]\n\
                     key = \"train.learning_rate\"\nvalues = [0.01, 0.1]\n[[evaluate]]\nlengths = [512]";
        let planned = Planned::new(&plan(study), at_4l());
        let mut results = results();
        let first = results.rows[0].clone();
        let left = |run: usize, rate: &str, seed: u64| {
            let mut one = Measured { run, labels: vec!["rope".into(), rate.into()], ..first.clone() };
            one.row.seed = seed;
            one
        };
        results.rows = vec![left(1, "0.01", 1), left(2, "0.1", 0)];
        results.rates = Some(rates(&[(0.01, &[f64::NAN, 2.0]), (0.1, &[2.0, f64::NAN])]));
        let failure = || Failure { reason: "killed".to_owned(), hint: None };
        (results.failures, results.missing) = (vec![(0, failure()), (3, failure())], Vec::new());
        let lost: Vec<String> = planned.lost(&results).into_iter().map(|lost| lost.name).collect();
        assert_eq!(lost, ["rope"]);
    }

    #[test]
    fn the_baseline_is_measured_as_what_stands_beside_it() {
        let mut results = results();
        let mut others = Vec::new();
        for (windows, loss) in [(2, 1.0), (5, 3.0)] {
            let read = results.rows.iter().filter(|it| it.row.settings.length == 512);
            for mut baseline in read.filter(|it| it.extend == "ntk").cloned() {
                baseline.extend = WINDOW_BASELINE.to_owned();
                baseline.row.extend = WINDOW_BASELINE.to_owned();
                baseline.row.values.set("nll", Some(loss));
                set_key(&mut baseline.row, "windows_per_document", windows);
                others.push(baseline);
            }
        }
        for it in &mut results.rows {
            set_key(&mut it.row, "windows_per_document", 2);
        }
        results.rows.extend(others);
        let ranking = rank(&results, at_4l(), &Planned::default()).unwrap();
        let best = &ranking.ranked[0];
        assert_eq!(best.baseline.iter().map(|row| row.nll()).collect::<Vec<_>>(), [1.0; 3]);
    }

    #[test]
    fn errors_are_of_the_kind_that_the_plan_asks_for() {
        let axis = "[[axis]]\nkey = \"data.tokenizer\"\nlabels = [\"bytes\", \"bpe\"]\n\
                    values = [{ kind = \"bytes\" }, { kind = \"bpe\", vocab_size = 300 }]\n";
        let bits = Best { metric: Some(longwave_eval::Metric::BitsPerByte), ..at_4l() };
        assert!(
            !Planned::new(&plan(&format!("{axis}[[evaluate]]\nlengths = [512]")), bits).are_of_same_tokens
        );
        assert!(Planned::new(&plan(STUDY), bits).are_of_same_tokens);
    }
}
