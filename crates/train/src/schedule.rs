//! The learning rate of every step.

use crate::config::{ScheduleKind, TrainConfig};
use std::f64::consts::PI;

/// The learning rate as a pure function of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    kind: ScheduleKind,
    peak: f64,
    last: f64,
    steps: u64,
    warmup: u64,
    decay: u64,
}

impl Schedule {
    /// The schedule of a stage.
    pub fn new(config: &TrainConfig) -> Self {
        let warmup = config.warmup.of(config.steps).min(config.steps);
        Self {
            kind: config.schedule,
            peak: config.learning_rate,
            last: config.learning_rate * config.final_ratio,
            steps: config.steps,
            warmup,
            decay: config.decay.of(config.steps).min(config.steps - warmup),
        }
    }

    /// The learning rate of step `step`, counted from 0.
    pub fn learning_rate(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        match self.kind {
            ScheduleKind::Cosine => {
                let progress = share(step - self.warmup, self.steps - self.warmup);
                self.last + (self.peak - self.last) * 0.5 * (1.0 + (PI * progress).cos())
            }
            ScheduleKind::Wsd => {
                let progress = share(step.saturating_sub(self.stable_end()), self.decay);
                self.peak + (self.last - self.peak) * progress
            }
        }
    }

    /// The number of steps before the final decay of `wsd`; a longer run agrees with this one up to
    /// there. Zero where a longer run agrees nowhere.
    pub fn stable_end(&self) -> u64 {
        match self.kind {
            ScheduleKind::Cosine => 0,
            ScheduleKind::Wsd => self.steps - self.decay,
        }
    }

    /// The steps of the warm-up.
    pub fn warmup(&self) -> u64 {
        self.warmup
    }
}

/// `done / of`, at most 1, and 0 of nothing.
fn share(done: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { (done as f64 / of as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Steps;

    fn schedule(kind: ScheduleKind) -> Schedule {
        Schedule::new(&TrainConfig {
            steps: 100,
            learning_rate: 1.0,
            warmup: Steps::Count(10),
            decay: Steps::Share(0.2),
            schedule: kind,
            ..TrainConfig::default()
        })
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    #[test]
    fn warms_up_peaks_and_falls() {
        let cosine = schedule(ScheduleKind::Cosine);
        close(cosine.learning_rate(0), 0.1);
        close(cosine.learning_rate(9), 1.0);
        close(cosine.learning_rate(10), 1.0);
        close(cosine.learning_rate(55), 0.55);
        close(cosine.learning_rate(100), 0.1);
    }

    #[test]
    fn stays_then_decays_in_a_line() {
        let wsd = schedule(ScheduleKind::Wsd);
        assert_eq!(wsd.stable_end(), 80);
        close(wsd.learning_rate(80), 1.0);
        close(wsd.learning_rate(90), 0.55);
        close(wsd.learning_rate(100), 0.1);
    }
}
