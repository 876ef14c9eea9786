//! `--dry-run`: the plan, what it takes, and how long that is at a speed measured on the spot.

use super::StudyRunner;
use crate::interrupt;
use crate::output::{data, status};
use crate::terminal::Terminal;
use longwave_core::error::Kind;
use longwave_core::{Error, Result};
use longwave_data::{DataConfig, Dataset};
use longwave_eval::{Plan as Windows, ResolvedEvaluate};
use longwave_experiment::{Config, Event, Experiment, Machine, Observer, open_data};
use longwave_model::size::training_flops;
use longwave_study::cost::{Corpora, Cost};
use longwave_study::execute::missing;
use longwave_study::{Job, Study, Work};
use longwave_train::RunConfig;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Encodings whose speed is measured; those that take most of the work.
const PROBES: usize = 6;
/// Steps of a probe; the fastest counts.
const STEPS: u64 = 3;
/// The most operations of a probe's step; of a larger one only as many sequences are computed as come to it.
const STEP_FLOPS: u128 = 100_000_000_000;
/// Seconds after which no further probe begins.
const PROBING: Duration = Duration::from_secs(10);
/// A step that no probe comes to, and that TOML can hold.
const NEVER: u64 = i64::MAX as u64;

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
}

/// What a probe computes with: the study's first device, and the threads of a run.
pub(super) fn machine(study: &Study) -> Result<Machine> {
    Machine::open(study.devices[0].parse()?, Some(study.threads))
}

impl StudyRunner<'_> {
    /// Shows the plan, then measures a few steps to estimate the hours.
    pub(super) fn dry_run(&self, machine: &Machine) -> Result<()> {
        let mut costs = self.costs();
        let left = missing(&self.plan, &self.store);
        let trained = self.trained(&left);
        // What is trained is only to be read.
        for &index in &trained {
            costs[index] =
                costs[index].map(|cost| Cost { training_tokens: 0.0, training_flops: 0.0, ..cost });
        }
        data(&self.listed(&costs, &trained))?;
        let mut sum = Cost::default();
        left.iter().filter_map(|&index| costs[index]).for_each(|cost| sum.add(&cost));
        data(&format!(
            "\n{} runs, {} different, {} to be done ({}): {} training tokens, {} read in evaluations, {:.3e} FLOP\n",
            self.plan.runs.len(),
            self.plan.distinct().len(),
            left.len(),
            to_do(left.len() - trained.len(), trained.len()),
            million(sum.training_tokens),
            million(sum.evaluation_tokens),
            sum.flops(),
        ))?;
        if left.is_empty() {
            return Ok(());
        }
        let Some(seconds) = self.seconds(machine, &left, &costs)? else {
            return data("the hours cannot be estimated: no speed was measured\n");
        };
        let jobs = self.jobs();
        data(&format!(
            "about {} of one run after the other, {} with {jobs} at a time\n",
            duration(seconds),
            duration(seconds / jobs as f64)
        ))
    }

    /// Those of the runs whose training is done.
    fn trained(&self, runs: &[usize]) -> Vec<usize> {
        let is_trained = |index: &usize| match &self.plan.runs[*index].job {
            Ok(job) => self.store.is_trained(job),
            Err(_) => false,
        };
        runs.iter().copied().filter(is_trained).collect()
    }

    /// One line for each run.
    fn listed(&self, costs: &[Option<Cost>], trained: &[usize]) -> String {
        let mut text = format!("{:<16}  {:<8}  {:>10}  {:>10}  run\n", "key", "state", "tokens", "FLOP");
        let trained: HashSet<_> =
            trained.iter().filter_map(|&index| Some(self.plan.runs[index].job.as_ref().ok()?.id())).collect();
        for (run, cost) in self.plan.runs.iter().zip(costs) {
            let (key, state) = match &run.job {
                Ok(job) if trained.contains(&job.id()) => (job.key.as_str(), "trained"),
                Ok(job) => (job.key.as_str(), word(self.store.work(job))),
                Err(_) => ("-", "broken"),
            };
            let tokens = cost.map_or("-".to_owned(), |cost| million(cost.training_tokens));
            let flops = cost.map_or("-".to_owned(), |cost| format!("{:.2e}", cost.flops()));
            // Writing into a string cannot fail.
            let _ = write!(text, "{key:<16}  {state:<8}  {tokens:>10}  {flops:>10}  {}", run.title());
            if let Err(error) = &run.job {
                let _ = write!(text, ": {}", error.message());
            }
            text.push('\n');
        }
        text
    }

    /// Seconds of all these runs, one after the other: each encoding's operations at its speed, and what could
    /// not be measured at the slowest. `None` where no speed was measured.
    fn seconds(&self, machine: &Machine, left: &[usize], costs: &[Option<Cost>]) -> Result<Option<f64>> {
        let mut work: Vec<(String, f64, usize)> = Vec::new();
        for &index in left {
            let (Ok(job), Some(cost)) = (&self.plan.runs[index].job, costs[index]) else { continue };
            let encoding = job.config.run.position.name();
            match work.iter_mut().find(|(known, ..)| *known == encoding) {
                Some((_, flops, _)) => *flops += cost.flops(),
                None => work.push((encoding, cost.flops(), index)),
            }
        }
        work.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut speeds = Vec::new();
        let begin = Instant::now();
        for (place, (encoding, _, index)) in work.iter().enumerate().take(PROBES) {
            if begin.elapsed() > PROBING {
                break;
            }
            let Ok(job) = &self.plan.runs[*index].job else { continue };
            match probe(job, machine, place) {
                Ok(speed) => {
                    let threads = self.study.threads;
                    status(&format!("probe     {encoding}: {:.2} GFLOP/s on {threads} threads", speed / 1e9));
                    speeds.push((place, speed));
                }
                Err(error) if error.kind() == Kind::Interrupted => return Err(error),
                Err(error) => status(&format!("probe     {encoding}: {}", error.message())),
            }
        }
        let Some(slowest) = speeds.iter().map(|(_, speed)| *speed).min_by(f64::total_cmp) else {
            return Ok(None);
        };
        let speed =
            |place| speeds.iter().find(|(known, _)| *known == place).map_or(slowest, |(_, speed)| *speed);
        Ok(Some(work.iter().enumerate().map(|(place, (_, flops, _))| flops / speed(place)).sum()))
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

/// Floating-point operations a second of a few training steps, whose files are thrown away.
fn probe(job: &Job, machine: &Machine, place: usize) -> Result<f64> {
    let folder = Scratch::new(place);
    let mut config = job.config.run.clone();
    // Neither validation nor checkpoints within the probe.
    (config.train.validate_every, config.train.checkpoint_every) = (Some(NEVER), Some(NEVER));
    config.train.steps = config.train.steps.max(STEPS + 2);
    shorten(&mut config)?;
    let config = Config { run: config, evaluate: Vec::new(), ..job.config.clone() };
    let mut probe = Probe { steps: 0, fastest: f64::INFINITY };
    let experiment = Experiment::open(config, &folder.0, false, machine, &mut Terminal::default())?;
    let train = &experiment.run.config.train;
    let flops = train.batch_tokens * training_flops(&experiment.resolved, train.length);
    match experiment.train(&mut probe) {
        Err(error) if error.kind() != Kind::Interrupted || interrupt::asked() => Err(error),
        _ => Ok(flops as f64 / probe.fastest),
    }
}

/// Leaves so many sequences of a step that it takes a few seconds at most: the speed is that of a whole one.
///
/// # Errors
/// One sequence takes longer.
fn shorten(config: &mut RunConfig) -> Result<()> {
    let resolved = config.model.resolve(config.data.vocab_size().unwrap_or(1), config.train.length)?;
    let length = config.train.length;
    let sequence = training_flops(&resolved, length) as u128 * length as u128;
    let sequences = (STEP_FLOPS / sequence.max(1)) as usize;
    if sequences == 0 {
        return Err(Error::failed(format!("a sequence of {length} tokens takes too long to be measured")));
    }
    if sequences < config.train.batch_tokens / length {
        config.train.batch_tokens = sequences * length;
        config.train.accumulation = 1;
    }
    Ok(())
}

/// Stops a training after a few steps, and keeps the time of the fastest.
struct Probe {
    steps: u64,
    fastest: f64,
}

impl Observer for Probe {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Step(_, metric) = event {
            self.steps = metric.step;
            self.fastest = self.fastest.min(metric.seconds);
        }
    }

    fn stop(&self) -> bool {
        self.steps >= STEPS || interrupt::asked()
    }
}

/// A folder that goes away with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(place: usize) -> Self {
        Self(std::env::temp_dir().join(format!("longwave-probe-{}-{place}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("`{}` cannot be removed: {error}", folder.display());
    }
}

/// Tokens in millions, or thousands where there are few.
fn million(tokens: f64) -> String {
    if tokens >= 1e6 { format!("{:.1}M", tokens / 1e6) } else { format!("{:.1}k", tokens / 1e3) }
}

/// Hours, minutes or seconds.
fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 3600.0 => format!("{:.1} hours", long / 3600.0),
        middle if middle >= 60.0 => format!("{:.1} minutes", middle / 60.0),
        short => format!("{short:.0} seconds"),
    }
}
