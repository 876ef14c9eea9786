//! A study on one screen: a bar for all of it, a map of its grid, and a bar for each run at work; plain lines elsewhere.

use super::map::{Map, State};
use crate::output::status;
use crate::progress::styled;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use longwave_core::text::{shown, shown_lines};
use longwave_study::Plan;
use longwave_study::execute::{Event, Phase, Sign};
use longwave_train::RunConfig;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const QUIET: Duration = Duration::from_secs(30);
/// From so many runs on not each has a line of its own when it is finished.
const MANY: usize = 200;
/// Between two lines of finished runs where there are many.
const PACE: Duration = Duration::from_secs(5);
/// The share of a run that its training is: evaluations come after it and usually take less.
const TRAINING: f64 = 0.8;
/// Steps of the bar of the whole study.
const PARTS: u64 = 1000;

pub(super) struct StudyProgress<'a> {
    plan: &'a Plan,
    /// What each run takes, in any unit.
    weights: Vec<f64>,
    screen: Option<Screen>,
    start: Instant,
    last_line: Instant,
    /// When a finished run last had a line.
    lined: Instant,
    total: usize,
    done: usize,
    failed: usize,
    /// Weight of the runs that ended, and of those to be done here.
    weight: (f64, f64),
    map: Map,
    /// The share done of each run at work.
    shares: HashMap<usize, f64>,
}

struct Screen {
    bars: MultiProgress,
    whole: ProgressBar,
    map: ProgressBar,
    runs: HashMap<usize, ProgressBar>,
}

impl Screen {
    fn new() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let whole = styled(bars.add(ProgressBar::new(PARTS)), "{prefix:>10} {bar:30} {percent:>3}%  {msg}");
        whole.set_prefix("study");
        let map = styled(bars.add(ProgressBar::new(PARTS)), "{msg}");
        Self { bars, whole, map, runs: HashMap::new() }
    }

    fn add(&mut self, index: usize, title: &str) {
        let bar = ProgressBar::new(PARTS);
        let bar = styled(self.bars.add(bar), "{prefix:>10} {bar:14} {percent:>3}%  {msg}");
        bar.set_prefix("run");
        bar.set_message(shown(title).into_owned());
        self.runs.insert(index, bar);
    }
}

impl<'a> StudyProgress<'a> {
    /// The runs in `wanted` are to be done.
    pub(super) fn new(plan: &'a Plan, wanted: &[usize], weights: Vec<f64>) -> Self {
        let now = Instant::now();
        let total = wanted.len();
        let all = wanted.iter().map(|&index| weights[index]).sum();
        Self {
            plan,
            weights,
            screen: (total > 0 && std::io::stderr().is_terminal()).then(Screen::new),
            start: now,
            last_line: now,
            lined: now,
            total,
            done: 0,
            failed: 0,
            weight: (0.0, all),
            map: Map::new(plan.runs.len(), plan.seeds.len(), wanted),
            shares: HashMap::new(),
        }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Started(index) => {
                self.shares.insert(*index, 0.0);
                self.map.set(*index, State::AtWork);
                let title = self.plan.runs[*index].title();
                if let Some(screen) = &mut self.screen {
                    screen.add(*index, &title);
                }
            }
            Event::Sign(index, sign) => self.sign(*index, sign),
            Event::Finished(index, took) => {
                self.end(*index, State::Finished);
                if worth_a_line(self.total, self.done, self.lined.elapsed()) {
                    self.lined = Instant::now();
                    let left = if self.total > MANY { self.left() } else { String::new() };
                    self.line(*index, format!("finished in {:.1} s  {left}", took.as_secs_f64()).trim_end());
                }
            }
            Event::Failed(index, failure) => {
                self.failed += 1;
                self.end(*index, State::Failed);
                self.line(*index, &format!("failed: {}", failure.reason));
            }
            Event::Elsewhere(index) => {
                self.map.set(*index, State::AtWork);
                self.forget(*index);
                self.line(*index, "another process works on it");
            }
        }
        self.whole();
    }

    fn sign(&mut self, index: usize, sign: &Sign) {
        let config = self.plan.runs[index].job.as_ref().ok().map(|job| &job.config.run);
        let before = self.shares.get(&index).copied().unwrap_or(0.0);
        let share = share_of_run(sign, config, before);
        self.shares.insert(index, share);
        let text = format!("{}: {} {}", self.plan.runs[index].title(), sign.what, sign.message);
        if let Some(bar) = self.screen.as_ref().and_then(|screen| screen.runs.get(&index)) {
            bar.set_position((share * PARTS as f64) as u64);
            bar.set_message(shown(&text).into_owned());
        } else if self.last_line.elapsed() >= QUIET {
            self.last_line = Instant::now();
            status(&format!("[{}/{}] {text}  {}", self.done, self.total, self.left()));
        }
    }

    fn end(&mut self, index: usize, state: State) {
        self.done += 1;
        self.map.set(index, state);
        self.weight.0 += self.weights[index];
        self.forget(index);
    }

    fn forget(&mut self, index: usize) {
        self.shares.remove(&index);
        if let Some(screen) = &mut self.screen
            && let Some(bar) = screen.runs.remove(&index)
        {
            bar.finish_and_clear();
            screen.bars.remove(&bar);
        }
    }

    fn line(&self, index: usize, what: &str) {
        let text = format!("[{}/{}] {}: {what}", self.done, self.total, self.plan.runs[index].title());
        match &self.screen {
            // The line stands above the bars; where it cannot be written nobody reads it.
            Some(screen) => {
                let _ = screen.bars.println(shown_lines(&text));
            }
            None => status(&text),
        }
    }

    /// The share of the work that is done.
    fn share(&self) -> f64 {
        let at_work: f64 = self.shares.iter().map(|(&index, share)| share * self.weights[index]).sum();
        (self.weight.0 + at_work) / self.weight.1.max(f64::MIN_POSITIVE)
    }

    fn left(&self) -> String {
        let share = self.share();
        if share <= 0.0 {
            return String::new();
        }
        let seconds = (self.start.elapsed().as_secs_f64() * (1.0 / share - 1.0)).max(0.0) as u64;
        format!("{}:{:02}:{:02} left", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    fn whole(&self) {
        let Some(screen) = &self.screen else { return };
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        screen.whole.set_position((self.share() * PARTS as f64) as u64);
        screen.whole.set_message(format!("{}/{} runs{failed}  {}", self.done, self.total, self.left()));
        screen.map.set_message(indented(&self.map.text()));
    }

    pub(super) fn finish(&self) {
        if let Some(screen) = &self.screen {
            screen.runs.values().for_each(ProgressBar::finish_and_clear);
            screen.map.finish_and_clear();
            screen.whole.finish_and_clear();
        }
    }
}

/// Lines below the bar of the study.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("{:11}{line}", "")).collect::<Vec<_>>().join("\n")
}

/// The share of a run that is done at a sign; `before` it was so much.
fn share_of_run(sign: &Sign, config: Option<&RunConfig>, before: f64) -> f64 {
    let share = sign.done as f64 / sign.total.max(1) as f64;
    match sign.what {
        // Text is read before training, and other text between evaluations: a small part, of which no cost is known.
        Phase::Data => before,
        Phase::Training(stage) => {
            let share_of_all = |config: &RunConfig| {
                // A step of a stage may read more tokens than others do.
                let done = config.tokens_after(config.steps_before(stage) + sign.done);
                done as f64 / config.tokens_after(config.total_steps()).max(1) as f64
            };
            let config = config.filter(|config| stage <= config.last_stage());
            TRAINING * config.map_or(share, share_of_all)
        }
        // How much there is to choose is not known: what is reported is still to be read.
        Phase::Choosing => TRAINING,
        Phase::Evaluating => TRAINING + (1.0 - TRAINING) * share,
    }
}

/// Whether a finished run gets a line of its own: of many, one now and then, and the last.
fn worth_a_line(total: usize, done: usize, since: Duration) -> bool {
    total <= MANY || done == total || since >= PACE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stages_of_a_training_come_before_its_evaluations() {
        let config = "name = \"x\"\n[data]\ncorpus = \"data/sotu\"\n[position]\nkind = \"rope\"\n\
                      [train]\nlength = 16\nsteps = 2\nbatch_tokens = 64\n\
                      [[stage]]\nlength = 32\nsteps = 60\nbatch_tokens = 128\n";
        let config = RunConfig::from_table(config.parse().unwrap()).unwrap();
        let share = |what, done, total| {
            let sign = Sign { what, done, total, message: String::new() };
            share_of_run(&sign, Some(&config), 0.3)
        };
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        // 2 steps of 64 tokens and 60 of 128.
        let all = 2.0 * 64.0 + 60.0 * 128.0;
        near(share(Phase::Training(0), 2, 2), 0.8 * 128.0 / all);
        near(share(Phase::Training(1), 0, 60), 0.8 * 128.0 / all);
        near(share(Phase::Training(1), 30, 60), 0.8 * (128.0 + 30.0 * 128.0) / all);
        near(share(Phase::Training(1), 60, 60), 0.8);
        near(share(Phase::Choosing, 7, 10), 0.8);
        near(share(Phase::Evaluating, 1, 2), 0.9);
        near(share(Phase::Data, 1, 2), 0.3);
    }

    #[test]
    fn of_many_runs_a_line_is_written_now_and_then() {
        assert!(worth_a_line(MANY, 1, Duration::ZERO));
        assert!(!worth_a_line(10_000, 1, Duration::ZERO));
        assert!(worth_a_line(10_000, 1, PACE) && worth_a_line(10_000, 10_000, Duration::ZERO));
    }
}
