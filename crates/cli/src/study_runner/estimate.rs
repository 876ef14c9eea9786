//! `--dry-run`: the plan, what it takes and how long that is, and how many seeds its claims need.

use super::StudyRunner;
use super::speed::side_by_side;
use crate::output::lines;
use crate::terminal::Terminal;
use longwave_core::{Error, Result};
use longwave_data::{DataConfig, Dataset};
use longwave_eval::{Plan as Windows, ResolvedEvaluate};
use longwave_experiment::{Config, Machine, check_validation, open_data};
use longwave_report::grid::{Grid, Header};
use longwave_study::cost::{Corpora, Cost, training_after};
use longwave_study::{Planned, Work};
use std::collections::HashSet;

/// The corpora and tasks of a plan, opened, and the windows of its evaluations.
#[derive(Debug, Default)]
pub(super) struct Opened {
    datasets: Vec<(DataConfig, Dataset)>,
    windows: Vec<(DataConfig, ResolvedEvaluate, usize, Windows)>,
}

impl Opened {
    /// Opens a corpus, so that every run finds it in the cache, and gives its content hash.
    pub(super) fn open(&mut self, config: &DataConfig) -> Result<String> {
        let dataset = open_data(config, &mut Terminal::default())?;
        let hash = dataset.content_hash().to_owned();
        self.datasets.push((config.clone(), dataset));
        Ok(hash)
    }

    fn find(&self, config: &DataConfig) -> Result<&Dataset> {
        let found = self.datasets.iter().find(|(known, _)| known == config);
        found.map(|(_, dataset)| dataset).ok_or_else(|| Error::failed("the corpus was not opened"))
    }
}

impl Corpora for Opened {
    fn vocab_size(&mut self, data: &DataConfig) -> Result<usize> {
        self.find(data).map(|dataset| dataset.tokenizer().vocab_size())
    }

    fn windows(&mut self, data: &DataConfig, block: &ResolvedEvaluate, length: usize) -> Result<Windows> {
        // Extensions read the same windows.
        let block = &ResolvedEvaluate { extend: Vec::new(), ..block.clone() };
        let known = self.windows.iter().find(|(of, it, at, _)| *at == length && it == block && of == data);
        if let Some((.., windows)) = known {
            return Ok(windows.clone());
        }
        let source = block.source(self.find(data)?)?;
        let windows = block.windows(length, &block.text(length, &source)?)?;
        self.windows.push((data.clone(), block.clone(), length, windows.clone()));
        Ok(windows)
    }

    fn check_validation(&mut self, config: &Config) -> Result<()> {
        check_validation(&config.run, self.find(&config.run.data)?, config.evaluations())
    }
}

impl StudyRunner<'_> {
    /// Shows the plan, what it takes, and what its claims need; measures a few steps to estimate the hours.
    pub(super) fn dry_run(&self, machine: &Machine) -> Result<()> {
        let left = self.needed()?;
        let trained = self.trained(&left);
        let whole = self.costs();
        let costs = self.costs_left(&whole, &left);
        lines(&self.listed(&costs, &trained))?;
        let mut sum = Cost::default();
        left.iter().filter_map(|&index| costs[index]).for_each(|cost| sum.add(&cost));
        let several = self.plan.looks.are_several();
        lines(&format!(
            "\n{}{} runs, {} different, {} to be done{} ({}): {} training tokens, {} read in evaluations, {:.3e} FLOP\n",
            if several { "at most " } else { "" },
            self.plan.runs.len(),
            self.plan.distinct().len(),
            left.len(),
            if several { " for the next look" } else { "" },
            to_do(left.len() - trained.len(), trained.len()),
            million(sum.training_tokens),
            million(sum.evaluation_tokens),
            sum.flops(),
        ))?;
        let needs = self.needs()?;
        let asked: Vec<usize> =
            left.iter().copied().chain(needs.iter().flat_map(|need| need.runs.iter().copied())).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let speeds = self.speeds(machine, &asked, &whole)?;
        if !left.is_empty() {
            match &speeds {
                Some(speeds) => self.show_time(&self.seconds(speeds, &left, &costs))?,
                None => lines("the hours cannot be estimated: no speed was measured\n")?,
            }
        }
        if let (Some(speeds), Some(budget)) = (&speeds, self.options.budget) {
            lines(&format!("{}\n", self.within(budget, &left, speeds, &costs)))?;
        }
        self.show_needs(&needs, speeds.as_ref(), &whole)
    }

    /// Prints how long runs take that take so many seconds each.
    fn show_time(&self, seconds: &[f64]) -> Result<()> {
        let all = duration(seconds.iter().sum());
        if seconds.len() == 1 {
            return lines(&format!("about {all} for one run\n"));
        }
        let jobs = self.jobs().min(seconds.len().max(1));
        let at_a_time = duration(side_by_side(seconds.iter().copied(), jobs));
        lines(&format!("about {all} of one run after the other, {at_a_time} with {jobs} at a time\n"))
    }

    /// The cost of every run, of `left` without what is done: what is trained is only to be read, and what a stored run shares is not
    /// trained again.
    pub(super) fn costs_left(&self, whole: &[Option<Cost>], left: &[usize]) -> Vec<Option<Cost>> {
        let mut costs = whole.to_vec();
        let trained = self.trained(left);
        for &run in left {
            let Planned { job: Ok(job), from, .. } = &self.plan.runs[run] else { continue };
            if trained.contains(&run) {
                costs[run] =
                    costs[run].map(|cost| Cost { training_tokens: 0.0, training_flops: 0.0, ..cost });
                continue;
            }
            let step = from.as_ref().map_or_else(|| self.store.trained_step(job), |source| source.step);
            let config = &job.config.run;
            let vocab_size = self.corpora.borrow_mut().vocab_size(&config.data).ok();
            let left = vocab_size.and_then(|vocab_size| training_after(step, config, vocab_size));
            let Some([training_tokens, training_flops]) = left else { continue };
            costs[run] = costs[run].map(|cost| Cost { training_tokens, training_flops, ..cost });
        }
        costs
    }

    fn trained(&self, runs: &[usize]) -> Vec<usize> {
        let is_trained = |index: &usize| match &self.plan.runs[*index].job {
            Ok(job) => self.store.is_trained(job),
            Err(_) => false,
        };
        runs.iter().copied().filter(is_trained).collect()
    }

    fn listed(&self, costs: &[Option<Cost>], trained: &[usize]) -> String {
        let trained: HashSet<_> =
            trained.iter().filter_map(|&index| Some(self.plan.runs[index].job.as_ref().ok()?.id())).collect();
        let row = |(run, cost): (&Planned, &Option<Cost>)| {
            let (key, state) = match &run.job {
                Ok(job) if trained.contains(&job.id()) => (job.key.as_str(), "trained"),
                Ok(job) => (job.key.as_str(), word(self.store.work(job))),
                Err(_) => ("-", "broken"),
            };
            let tokens = cost.map_or("-".to_owned(), |cost| million(cost.training_tokens));
            let flops = cost.map_or("-".to_owned(), |cost| format!("{:.2e}", cost.flops()));
            let from = run.from.as_ref().map(|it| format!(": goes on from step {} of {}", it.step, it.key));
            let why = run.job.as_ref().err().map(|error| format!(": {}", error.message()));
            let title = [Some(run.title()), from, why].into_iter().flatten().collect::<String>();
            [key.to_owned(), state.to_owned(), tokens, flops, title]
        };
        let names = [
            Header::words("key").at_least(16),
            Header::words("state").at_least(8),
            Header::number("tokens").at_least(10),
            Header::number("FLOP").at_least(10),
            Header::words("run"),
        ];
        Grid::of(names, self.plan.runs.iter().zip(costs).map(row)).lines()
    }
}

/// What is left: trainings, each with its evaluations, and evaluations of trained runs.
fn to_do(trainings: usize, evaluations: usize) -> String {
    let some = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    match (trainings, evaluations) {
        (0, 0) => "nothing".to_owned(),
        (0, _) => format!("trained; {} to do", some(evaluations, "evaluation")),
        (_, 0) => format!("{} to do", some(trainings, "training")),
        _ => format!("{} and {} to do", some(trainings, "training"), some(evaluations, "evaluation")),
    }
}

fn word(work: Work) -> &'static str {
    match work {
        Work::Finished => "finished",
        Work::Failed => "failed",
        Work::Open => "open",
    }
}

/// Tokens in millions, or thousands where there are few.
fn million(tokens: f64) -> String {
    if tokens >= 1e6 { format!("{:.1}M", tokens / 1e6) } else { format!("{:.1}k", tokens / 1e3) }
}

pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 3600.0 => format!("{:.1} hours", long / 3600.0),
        middle if middle >= 60.0 => format!("{:.1} minutes", middle / 60.0),
        short => format!("{short:.0} seconds"),
    }
}
