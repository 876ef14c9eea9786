//! How fast runs are on this machine, by a few steps of each encoding.

use super::StudyRunner;
use crate::interrupt;
use crate::output::status;
use crate::terminal::Terminal;
use longwave_core::error::Kind;
use longwave_core::{Error, Result};
use longwave_experiment::{Machine, open_data};
use longwave_model::size::training_flops;
use longwave_study::cost::Cost;
use longwave_study::{Job, Study};
use longwave_train::schedule::Schedule;
use longwave_train::{Run, RunConfig, Trainer, fresh_model, memory_check};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Encodings whose speed is measured; those that take most of the work.
const PROBES: usize = 6;
/// Steps of a probe; the fastest counts.
const STEPS: u64 = 3;
/// The most operations of a probe's step; of a larger one only as many sequences are computed as come to it.
const STEP_FLOPS: u128 = 100_000_000_000;
/// Seconds after which no further probe begins.
const PROBING: Duration = Duration::from_secs(10);

/// What a probe computes with: the study's first device, and the threads of a run.
pub(super) fn machine(study: &Study, threads: usize) -> Result<Machine> {
    Machine::open_on_main_thread(study.devices[0].parse()?, Some(threads))
}

/// Floating-point operations a second by encoding.
#[derive(Debug)]
pub(super) struct Speeds {
    by_encoding: Vec<(String, f64)>,
    /// That of encodings without a measurement.
    slowest: f64,
}

impl StudyRunner<'_> {
    /// Measures the encodings that take most of the work of these runs; `None` where none could be measured.
    pub(super) fn speeds(
        &self,
        machine: &Machine,
        runs: &[usize],
        costs: &[Option<Cost>],
    ) -> Result<Option<Speeds>> {
        let mut work: Vec<(String, f64, &Job)> = Vec::new();
        for &index in runs {
            let (Ok(job), Some(cost)) = (&self.plan.runs[index].job, costs[index]) else { continue };
            let encoding = job.config.run.position.name();
            match work.iter_mut().find(|(known, ..)| *known == encoding) {
                Some((_, flops, _)) => *flops += cost.flops(),
                None => work.push((encoding, cost.flops(), job)),
            }
        }
        work.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut by_encoding = Vec::new();
        let begin = Instant::now();
        for (encoding, _, job) in work.into_iter().take(PROBES) {
            if begin.elapsed() > PROBING {
                break;
            }
            match probe(job, machine) {
                Ok(speed) => {
                    let threads = self.threads;
                    status(&format!("probe     {encoding}: {:.2} GFLOP/s on {threads} threads", speed / 1e9));
                    by_encoding.push((encoding, speed));
                }
                Err(error) if error.kind() == Kind::Interrupted => return Err(error),
                Err(error) => status(&format!("probe     {encoding}: {}", error.message())),
            }
        }
        let slowest = by_encoding.iter().map(|(_, speed)| *speed).min_by(f64::total_cmp);
        Ok(slowest.map(|slowest| Speeds { by_encoding, slowest }))
    }

    /// Seconds of each of these runs: each encoding's operations at its speed, and what was not measured at the slowest.
    pub(super) fn seconds(&self, speeds: &Speeds, runs: &[usize], costs: &[Option<Cost>]) -> Vec<f64> {
        let of = |&index: &usize| -> Option<f64> {
            let encoding = self.plan.runs[index].job.as_ref().ok()?.config.run.position.name();
            let known = speeds.by_encoding.iter().find(|(known, _)| *known == encoding);
            Some(costs[index]?.flops() / known.map_or(speeds.slowest, |(_, speed)| *speed))
        };
        runs.iter().filter_map(of).collect()
    }

    /// Seconds until these runs are done, as many at a time as this machine does.
    pub(super) fn time(&self, speeds: &Speeds, runs: &[usize], costs: &[Option<Cost>]) -> f64 {
        side_by_side(self.seconds(speeds, runs, costs), self.jobs())
    }
}

/// Seconds until runs that take so many each are done, `jobs` at a time: each begins, in order, as soon as there is a place for it. No
/// run is divided among places.
pub(super) fn side_by_side(seconds: impl IntoIterator<Item = f64>, jobs: usize) -> f64 {
    let mut ends: Vec<f64> = Vec::new();
    for run in seconds {
        if ends.len() < jobs {
            ends.push(run);
        } else if let Some(first) = ends.iter_mut().min_by(|a, b| a.total_cmp(b)) {
            *first += run;
        }
    }
    ends.into_iter().fold(0.0, f64::max)
}

/// Floating-point operations a second of a few training steps, of which nothing is written.
fn probe(job: &Job, machine: &Machine) -> Result<f64> {
    let config = shortened(&job.config.run)?;
    config.check_precision(&machine.device)?;
    let dataset = open_data(&config.data, &mut Terminal::default())?;
    let vocab_size = dataset.tokenizer().vocab_size();
    memory_check::check(&config, vocab_size, &machine.device)?;
    let resolved = config.model.resolve(vocab_size, config.train.length)?;
    let mut fresh = fresh_model(&config, &resolved, &machine.device.clone().autodiff())?;
    fresh.position.set_digits(|| dataset.tokenizer().digits())?;
    let schedule = Schedule::new(&config.train);
    let flops = config.train.batch_tokens * training_flops(&resolved, config.train.length);
    let run = Run { folder: PathBuf::new(), config, hash: String::new() };
    let mut trainer = Trainer::new(&run, &dataset, fresh, &machine.device, None)?;
    let mut fastest = f64::INFINITY;
    for _ in 0..STEPS {
        let begin = Instant::now();
        let Some(output) = trainer.advance(&schedule, &interrupt::asked)? else {
            return Err(Error::interrupted("stopped while the speed of the runs was measured"));
        };
        output.stats()?;
        fastest = fastest.min(begin.elapsed().as_secs_f64());
    }
    Ok(flops as f64 / fastest)
}

/// With so many sequences of a step that it takes a few seconds at most: the speed is that of a whole one.
fn shortened(config: &RunConfig) -> Result<RunConfig> {
    let mut config = config.clone();
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
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small model trained on so many tokens a step, as it is measured.
    fn measured(length: usize, batch_tokens: usize, accumulation: usize) -> Result<RunConfig> {
        let text = format!(
            "name = \"x\"\n[data]\ncorpus = \"corpus\"\n[position]\nkind = \"rope\"\n\
             [model]\nlayers = 2\nwidth = 32\nheads = 2\n\
             [train]\nlength = {length}\nbatch_tokens = {batch_tokens}\naccumulation = {accumulation}\n"
        );
        shortened(&RunConfig::from_table(text.parse().unwrap())?)
    }

    #[test]
    fn a_step_that_takes_minutes_is_cut_to_whole_sequences() {
        let train = measured(32, 1 << 25, 1 << 15).unwrap().train;
        // 208,896 operations a token: 6 for each of 32,768 weights, and 12,288 of attention.
        let sequence = 32 * 208_896;
        assert_eq!((train.batch_tokens, train.accumulation), (32 * (100_000_000_000 / sequence), 1));
        let train = measured(32, 256, 2).unwrap().train;
        assert_eq!((train.batch_tokens, train.accumulation), (256, 2), "a short step stays as it is");
        let error = measured(1 << 15, 1 << 15, 1).unwrap_err();
        assert!(error.message().contains("a sequence of 32768 tokens takes too long"), "{error}");
    }

    #[test]
    fn no_run_is_done_in_parts() {
        assert_eq!(side_by_side([90.0], 64), 90.0);
        assert_eq!(side_by_side([1.0, 1.0, 1.0, 1.0], 2), 2.0);
        // The second place has the first run that ends, and then another.
        assert_eq!(side_by_side([5.0, 1.0, 1.0], 2), 5.0);
        assert_eq!(side_by_side([1.0, 1.0, 5.0], 2), 6.0);
        assert_eq!(side_by_side([2.0, 3.0], 1), 5.0);
        assert_eq!(side_by_side([], 2), 0.0);
    }
}
