//! The learning rates of a study: what it varies beside them is compared at its own best rate.
//!
//! A rate is chosen by the loss on the validation split at the step that is tested, the end of training or the best one, and the test split has no part in it. A seed
//! that was lucky with a rate would be so on both splits. So the reading of a seed is that at the rate which the other seeds
//! choose: no training decides at which rate it is tested.

use crate::plan::{Plan, Planned};
use crate::statistics::{mean, standard_deviation};
use crate::store::Store;
use longwave_core::Result;
use longwave_core::in_order::grouped;
use longwave_eval::Evaluation;
use longwave_report::page::Run;
use std::collections::{BTreeMap, BTreeSet};

/// The runs of a study over learning rates, each with its validation loss.
#[derive(Clone, Debug)]
pub struct Rates {
    pub axis: usize,
    runs: Vec<Trained>,
}

#[derive(Clone, Debug)]
pub(crate) struct Trained {
    /// Its place in the plan.
    pub(crate) run: usize,
    pub(crate) rest: Vec<String>,
    pub(crate) label: String,
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    /// At the step that is tested, in nats per token; `None` of a run that did not end, or has no validation split.
    pub(crate) loss: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) label: String,
    pub(crate) rate: f64,
    /// The mean validation loss over seeds, and its standard deviation.
    pub(crate) loss: f64,
    pub(crate) deviation: Option<f64>,
    /// The rate is the smallest or the largest of the grid.
    pub(crate) at_edge: Option<&'static str>,
    /// Whether another rate has fewer runs, so that it was not chosen from.
    pub(crate) lacks_rates: bool,
}

impl Rates {
    /// Those of a plan whose axis of rates is not its only one; `None` of any other, and where nothing was validated.
    pub fn gather(plan: &Plan, store: &Store) -> Result<Option<Self>> {
        let Some(axis) = plan.rate_axis else { return Ok(None) };
        let of = |(place, run): (usize, &Planned)| -> Result<Option<Trained>> {
            let Ok(job) = &run.job else { return Ok(None) };
            let folder = store.run(&job.key);
            let is_finished = store.rows(job)?.is_some();
            let validated = Run::new(job.key.clone(), Vec::new(), &folder)?.validated();
            let reads_best = job.config.evaluations().iter().any(Evaluation::reads_best);
            // That of the step whose weights are tested.
            let tested = validated.map(|validated| if reads_best { validated.best } else { validated.last });
            let loss = tested.map(|tested| tested.loss).filter(|loss| is_finished && loss.is_finite());
            let rate = job.config.run.train.learning_rate;
            let (rest, label) = apart(&run.labels, axis);
            Ok(Some(Trained { run: place, rest, label, rate, seed: run.seed, loss }))
        };
        let runs: Vec<Trained> =
            plan.runs.iter().enumerate().filter_map(|run| of(run).transpose()).collect::<Result<_>>()?;
        Ok(Some(Self::new(axis, runs)).filter(|rates| rates.runs.iter().any(|run| run.loss.is_some())))
    }

    pub(crate) fn new(axis: usize, runs: Vec<Trained>) -> Self {
        Self { axis, runs }
    }

    /// Those of the seeds that every rate was asked for, where claims ask more of one rate than of another: else a rate would have lost the
    /// seeds that nobody asked of it.
    pub(crate) fn of_asked(&self, asked: &BTreeSet<usize>) -> Self {
        let runs: Vec<&Trained> = self.runs.iter().filter(|run| asked.contains(&run.run)).collect();
        let mut rates: BTreeMap<&[String], BTreeSet<&str>> = BTreeMap::new();
        let mut seeds: BTreeMap<(&[String], u64), usize> = BTreeMap::new();
        for run in &runs {
            rates.entry(&run.rest).or_default().insert(&run.label);
            *seeds.entry((&run.rest, run.seed)).or_default() += 1;
        }
        let of_all =
            |run: &&&Trained| seeds[&(run.rest.as_slice(), run.seed)] == rates[run.rest.as_slice()].len();
        Self::new(self.axis, runs.iter().filter(of_all).map(|run| (*run).clone()).collect())
    }

    pub(crate) fn rest(&self, labels: &[String]) -> Vec<String> {
        apart(labels, self.axis).0
    }

    /// Whether a run is at the rate that the other seeds choose; with one seed there are no others, and it chooses itself.
    pub(crate) fn is_chosen(&self, labels: &[String], seed: u64) -> bool {
        let (rest, label) = apart(labels, self.axis);
        let several = self.runs.iter().any(|run| run.seed != seed);
        self.choose(&rest, Some(seed).filter(|_| several)).is_some_and(|choice| choice.label == label)
    }

    /// The rate with the lowest mean validation loss, over all seeds but `without`. One that lost a seed is not chosen where
    /// another has all.
    pub(crate) fn choose(&self, rest: &[String], without: Option<u64>) -> Option<Choice> {
        let runs = self.runs.iter().filter(|run| run.rest == rest);
        let by_rate =
            grouped(runs.map(|run| ((&run.label, run.rate), run.loss.filter(|_| Some(run.seed) != without))));
        let rates: Vec<(_, Vec<f64>)> = by_rate
            .into_iter()
            .map(|(rate, losses)| (rate, losses.into_iter().flatten().collect()))
            .collect();
        let most = rates.iter().map(|(_, losses)| losses.len()).max().filter(|most| *most > 0)?;
        // A rate beside it that has fewer runs leaves open what lies there.
        let complete = || rates.iter().filter(|(_, losses)| losses.len() == most);
        let mean_of = |losses: &[f64]| mean(losses).unwrap_or(f64::NAN);
        let ((label, rate), losses) = complete().min_by(|a, b| mean_of(&a.1).total_cmp(&mean_of(&b.1)))?;
        let is_end = |beyond: fn(&f64, &f64) -> bool| !complete().any(|((_, other), _)| beyond(other, rate));
        let at_edge = match (rates.len(), is_end(f64::lt), is_end(f64::gt)) {
            (1, ..) => None,
            (_, true, _) => Some("smallest"),
            (_, _, true) => Some("largest"),
            _ => None,
        };
        Some(Choice {
            label: (*label).to_owned(),
            rate: *rate,
            loss: mean(losses)?,
            deviation: standard_deviation(losses),
            at_edge,
            lacks_rates: complete().count() < rates.len(),
        })
    }
}

/// The labels of a run on the other axes, and that on the axis of rates.
fn apart(labels: &[String], axis: usize) -> (Vec<String>, String) {
    let mut rest = labels.to_vec();
    let label = rest.remove(axis);
    (rest, label)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs of `rope` by rate, one loss for each seed.
    pub(crate) fn rates(losses: &[(f64, &[f64])]) -> Rates {
        let of = |(rate, losses): &(f64, &[f64])| -> Vec<Trained> {
            let run = |(seed, loss): (usize, &f64)| Trained {
                run: 0,
                rest: vec!["rope".to_owned()],
                label: rate.to_string(),
                rate: *rate,
                seed: seed as u64,
                loss: Some(*loss).filter(|loss| loss.is_finite()),
            };
            losses.iter().enumerate().map(run).collect()
        };
        let mut runs: Vec<Trained> = losses.iter().flat_map(of).collect();
        runs.iter_mut().enumerate().for_each(|(place, run)| run.run = place);
        Rates::new(1, runs)
    }

    #[test]
    fn a_rate_loses_no_seed_that_nobody_asked_of_it() {
        let (rope, never) = (["rope".to_owned()], f64::NAN);
        // A claim asked 5 seeds of 0.01 and 3 of 0.1; what the store holds beside these of 0.1 is no part of the study.
        for others in [[never; 2], [9.0; 2]] {
            let found = rates(&[(0.01, &[5.0; 5]), (0.1, &[2.0, 2.0, 2.0, others[0], others[1]])]);
            let choice = found.of_asked(&(0..8).collect()).choose(&rope, None).unwrap();
            assert_eq!((choice.rate, choice.loss, choice.lacks_rates), (0.1, 2.0, false), "{others:?}");
        }
        // One of those that were asked for failed.
        let found = rates(&[(0.01, &[5.0; 3]), (0.1, &[2.0, 2.0, never])]).of_asked(&(0..6).collect());
        let choice = found.choose(&rope, None).unwrap();
        assert_eq!((choice.rate, choice.lacks_rates), (0.01, true));
    }

    #[test]
    fn a_seed_is_read_at_the_rate_of_the_others() {
        // Seed 2 alone makes 0.1 look better.
        let found = rates(&[(0.01, &[2.0, 2.0, 2.0]), (0.1, &[2.1, 2.1, 1.0])]);
        let rope = ["rope".to_owned()];
        assert_eq!(found.choose(&rope, None).unwrap().label, "0.1");
        let labels = |rate: &str| ["rope".to_owned(), rate.to_owned()];
        assert!(found.is_chosen(&labels("0.01"), 2) && !found.is_chosen(&labels("0.1"), 2));
        assert!(found.is_chosen(&labels("0.1"), 0));
        let one = rates(&[(0.01, &[2.0]), (0.1, &[1.9])]);
        assert!(one.is_chosen(&labels("0.1"), 0));
    }

    #[test]
    fn edges_and_lost_seeds_are_seen() {
        let rope = ["rope".to_owned()];
        let choose = |losses: &[(f64, &[f64])]| rates(losses).choose(&rope, None).unwrap();
        let inner = choose(&[(0.1, &[3.0]), (0.01, &[2.0]), (0.001, &[2.5])]);
        assert_eq!((inner.rate, inner.at_edge), (0.01, None));
        assert_eq!(choose(&[(0.1, &[1.0]), (0.01, &[2.0])]).at_edge, Some("largest"));
        assert_eq!(choose(&[(0.1, &[3.0]), (0.01, &[2.0])]).at_edge, Some("smallest"));
        // 0.1 diverged once.
        assert_eq!(choose(&[(0.1, &[1.0, f64::NAN]), (0.01, &[2.0, 2.0])]).rate, 0.01);
        assert_eq!(rates(&[(0.1, &[f64::NAN])]).choose(&rope, None), None);
    }
}
