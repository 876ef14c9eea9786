//! Progress: one live bar on a terminal, a line now and then elsewhere.

use crate::output::{self, grouped, status};
use crate::sparkline::Sparkline;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longwave_core::text::shown;
use longwave_study::execute::{Phase, Sign};
use longwave_train::RunConfig;
use longwave_train::metrics::Metric;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between lines where there is no terminal, unless `LONGWAVE_PROGRESS` gives seconds: whoever reads them may show a bar.
const QUIET: Duration = Duration::from_secs(15);
/// Between two signs to a process that follows this one.
const SIGN: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: Phase,
    unit: &'static str,
    total: u64,
    start: Instant,
    first: u64,
    quiet: Duration,
    last_line: Instant,
}

impl Progress {
    /// Starts at `done` of `total` units.
    pub(crate) fn new(what: Phase, unit: &'static str, done: u64, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
            let bar = styled(bar, "{prefix:>10} {bar:10}  {wide_msg}");
            bar.set_prefix(what.to_string());
            bar.set_position(done);
            bar
        });
        let asked =
            || Duration::try_from_secs_f64(std::env::var("LONGWAVE_PROGRESS").ok()?.parse().ok()?).ok();
        let (now, quiet) = (Instant::now(), asked().unwrap_or(QUIET));
        Self { bar, what, unit, total, start: now, first: done, quiet, last_line: now }
    }

    fn left(&self, done: u64) -> String {
        let (since, all) = (done - self.first.min(done), self.total - done.min(self.total));
        if since == 0 {
            return String::new();
        }
        let seconds = self.start.elapsed().as_secs_f64() * all as f64 / since as f64;
        format!("{} left", clock(seconds as u64))
    }

    /// `done` units are done; `message` says what they showed. `always` prints a line without a terminal
    /// too, where others are kept apart in time.
    pub(crate) fn at(&mut self, done: u64, message: &str, always: bool) {
        if output::followed() {
            self.sign(done, message);
            return;
        }
        let left = self.left(done);
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            // What must be seen comes first: the rest is cut off where the terminal ends.
            bar.set_message(shown(&joined(&[&self.count(done), &left, message])).into_owned());
        } else if always || self.last_line.elapsed() >= self.quiet {
            self.last_line = Instant::now();
            status(&format!("{} {}", self.what, joined(&[&self.count(done), message, &left])));
        }
    }

    fn count(&self, done: u64) -> String {
        format!("{} {}/{}", self.unit, grouped(done as usize), grouped(self.total as usize))
    }

    /// Tells the process that follows this one, a few times a second.
    fn sign(&mut self, done: u64, message: &str) {
        if self.last_line.elapsed() < SIGN && done < self.total {
            return;
        }
        self.last_line = Instant::now();
        let sign = Sign { what: self.what, done, total: self.total, message: message.to_owned() };
        // Who does not read it any more has gone, and this process stops at the end of its stdin.
        if let Ok(line) = serde_json::to_string(&sign) {
            let _ = output::data(&(line + "\n"));
        }
    }
}

/// A bar that is drawn by a template.
pub(crate) fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("━╸ ")),
        Err(_) => bar,
    }
}

/// The parts that say something, apart from each other.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows training of one stage: steps, loss, perplexity, tokens a second.
#[derive(Debug)]
pub(crate) struct Training {
    progress: Progress,
    stage: usize,
    /// Steps of the stages before.
    before: u64,
    batch_tokens: usize,
    all_steps: u64,
    /// The step that was shown last, counted over all stages, and its loss.
    last: (u64, f64),
    /// A moving average of the loss: one batch's jumps too much to read.
    smoothed: f64,
    course: Sparkline,
    valid: Option<f64>,
}

impl Training {
    pub(crate) fn new(config: &RunConfig, metric: &Metric) -> Self {
        let (stage, before) = (metric.stage, config.steps_before(metric.stage));
        let (done, all) = (metric.step - 1 - before, config.stage(stage).steps);
        let mut progress = Progress::new(Phase::Training(stage), "step", done, all);
        // The step has been made already: its time belongs to the pace.
        let began = progress.start.checked_sub(Duration::from_secs_f64(metric.seconds));
        progress.start = began.unwrap_or(progress.start);
        Self {
            progress,
            stage,
            before,
            batch_tokens: config.stage(stage).batch_tokens,
            all_steps: config.total_steps(),
            last: (metric.step - 1, f64::NAN),
            smoothed: f64::NAN,
            course: Sparkline::default(),
            valid: None,
        }
    }

    pub(crate) fn stage(&self) -> usize {
        self.stage
    }

    pub(crate) fn step(&mut self, metric: &Metric) {
        let step = metric.step - self.before;
        self.last = (metric.step, metric.loss);
        self.smoothed = if self.smoothed.is_nan() {
            metric.loss
        } else {
            0.95f64.mul_add(self.smoothed, 0.05 * metric.loss)
        };
        self.course.push(metric.loss);
        self.valid = metric.valid_loss.or(self.valid);
        let since = (step - self.progress.first) as f64 * self.batch_tokens as f64;
        let rate = since / self.progress.start.elapsed().as_secs_f64().max(1e-9);
        let rate = format!("{} tokens/s", grouped(rate.round() as usize));
        let held = metric.resident_mib.map(|mib| format!("memory {mib:.0} MiB")).unwrap_or_default();
        let smoothed = format!("smoothed {}", loss(self.smoothed));
        // A line of a log has no room for a picture, and none that moves.
        let course = if self.progress.bar.is_some() { self.course.text() } else { String::new() };
        let message = joined(&[&smoothed, &self.validation(), &course, &rate, &held]);
        self.progress.at(step, &message, metric.valid_loss.is_some());
    }

    /// How training ended, after so many seconds.
    pub(crate) fn summary(&self, seconds: u64) -> String {
        let (step, last) = self.last;
        let [step, all] = [step, self.all_steps].map(|steps| grouped(steps as usize));
        let losses =
            [format!("{} in the last step", loss(last)), format!("smoothed {}", loss(self.smoothed))];
        let losses = joined(&[&losses[0], &losses[1], &self.validation()]).replace("  ", ", ");
        format!("trained   to step {step} of {all} in {}; {losses}", clock(seconds))
    }

    fn validation(&self) -> String {
        self.valid.map(|valid| format!("validation {}", loss(valid))).unwrap_or_default()
    }
}

fn loss(nats: f64) -> String {
    format!("loss {nats:.3} (ppl {:.1})", nats.exp())
}

fn clock(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
