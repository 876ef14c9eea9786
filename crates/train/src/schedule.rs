//! The learning rate of every step.
//!
//! The last step of the warm-up has the peak, and so has the first step of all where there is none. From there a cosine falls
//! until the last step that it was made for ([`TrainConfig::schedule_steps`]), which has the last rate, as have those after it.
//! `wsd` stays at the peak and falls in a line over its last steps, of which the last has the last rate.

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
    /// The number of steps before the fall.
    stable: u64,
    /// The number of steps until the last rate.
    end: u64,
}

impl Schedule {
    pub fn new(config: &TrainConfig) -> Self {
        let warmup = config.warmup_steps();
        let (stable, end) = match config.schedule {
            ScheduleKind::Cosine => (warmup.max(1), config.planned_steps()),
            ScheduleKind::Wsd => (config.steps - config.decay_steps().min(config.steps), config.steps),
        };
        let last = config.learning_rate * config.final_ratio;
        Self {
            kind: config.schedule,
            peak: config.learning_rate,
            last,
            steps: config.steps,
            warmup,
            stable,
            end,
        }
    }

    /// The learning rate of step `step`, counted from 0.
    pub fn learning_rate(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let done = share((step + 1).saturating_sub(self.stable), self.end.saturating_sub(self.stable));
        let progress = match self.kind {
            ScheduleKind::Cosine => 0.5 * (1.0 - (PI * done).cos()),
            ScheduleKind::Wsd => done,
        };
        // At the end it is the last rate to the bit.
        if progress < 1.0 { self.peak + (self.last - self.peak) * progress } else { self.last }
    }

    /// The number of steps before the final decay of `wsd`; zero for a cosine, which falls from its warm-up on.
    pub fn stable_end(&self) -> u64 {
        match self.kind {
            ScheduleKind::Cosine => 0,
            ScheduleKind::Wsd => self.stable,
        }
    }

    /// How many steps have the same rates in two schedules before they part.
    pub fn agreement(&self, other: &Self) -> u64 {
        let same = |step: &u64| self.learning_rate(*step).to_bits() == other.learning_rate(*step).to_bits();
        (0..self.steps.min(other.steps)).take_while(same).count() as u64
    }
}

/// `done / of`, at most 1; of nothing, all is done as soon as something is.
fn share(done: u64, of: u64) -> f64 {
    if done == 0 { 0.0 } else { (done as f64 / of as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Steps;

    fn schedule(change: impl FnOnce(&mut TrainConfig)) -> Schedule {
        let mut config = TrainConfig {
            steps: 100,
            learning_rate: 1.0,
            warmup: Steps::Count(10),
            decay: Steps::Share(0.2),
            ..TrainConfig::default()
        };
        change(&mut config);
        Schedule::new(&config)
    }

    fn wsd(config: &mut TrainConfig) {
        config.schedule = ScheduleKind::Wsd;
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    #[test]
    fn a_cosine_falls_from_the_end_of_the_warm_up_to_the_last_step() {
        let cosine = schedule(|_| ());
        close(cosine.learning_rate(0), 0.1);
        close(cosine.learning_rate(8), 0.9);
        close(cosine.learning_rate(9), 1.0);
        // A third of the way: 0.1 + 0.9 (1 + cos 60 degrees) / 2.
        close(cosine.learning_rate(39), 0.775);
        close(cosine.learning_rate(54), 0.55);
        assert_eq!([99, 100, 1000].map(|step| cosine.learning_rate(step)), [0.1; 3]);
        let without = schedule(|config| config.warmup = Steps::Count(0));
        assert_eq!([0, 99].map(|step| without.learning_rate(step)), [1.0, 0.1]);
        let warmup_alone = schedule(|config| config.warmup = Steps::Count(100));
        close(warmup_alone.learning_rate(99), 1.0);
    }

    #[test]
    fn wsd_stays_then_decays_in_a_line_to_the_last_step() {
        let wsd = schedule(wsd);
        assert_eq!(wsd.stable_end(), 80);
        assert_eq!([9, 10, 79].map(|step| wsd.learning_rate(step)), [1.0; 3]);
        close(wsd.learning_rate(80), 1.0 - 0.9 / 20.0);
        close(wsd.learning_rate(89), 0.55);
        assert_eq!(wsd.learning_rate(99), 0.1);
    }

    #[test]
    fn a_longer_schedule_keeps_the_steps_that_it_was_made_for() {
        let longer = |config: &mut TrainConfig| {
            (config.steps, config.schedule_steps, config.warmup) = (200, Some(100), Steps::Share(0.1));
        };
        let [short, long] = [schedule(|config| config.warmup = Steps::Share(0.1)), schedule(longer)];
        assert_eq!(short.agreement(&long), 100);
        assert_eq!([99, 100, 199].map(|step| long.learning_rate(step)), [0.1; 3]);
        let [short, long] = [
            schedule(|config| (config.warmup, config.schedule) = (Steps::Share(0.1), ScheduleKind::Wsd)),
            schedule(|config| {
                longer(config);
                wsd(config);
            }),
        ];
        assert_eq!((short.agreement(&long), long.stable_end()), (80, 160));
        assert_eq!([9, 10, 159].map(|step| long.learning_rate(step)), [1.0; 3]);
        close(long.learning_rate(160), 1.0 - 0.9 / 40.0);
        assert_eq!(long.learning_rate(199), 0.1);
    }
}
