//! Times of several subjects, taken in turn.
//!
//! A machine's speed wanders; subjects that take turns wander together, so that their ratios hold.

use crate::peak_memory;
use burn::tensor::Device;
use longwave_core::{Error, Result};
use std::time::{Duration, Instant};

/// How often a subject is run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Runs that every subject gets, besides one to warm up.
    pub least: usize,
    /// Runs after which a subject is done.
    pub most: usize,
    /// Time after which a subject that has had its least runs is done.
    pub budget: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        Self { least: 3, most: 101, budget: Duration::from_millis(700) }
    }
}

/// Runs a subject once and says how long the part that counts took.
pub type Subject<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// The time of a subject, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The median run (of an even number, the later of the middle two).
    pub median: f64,
    /// The fastest run.
    pub least: f64,
    /// The most memory held during the run that warms up beyond what was held before, in bytes.
    pub peak_bytes: Option<u64>,
}

/// A subject: `run` is timed until the device has finished, on what `prepare` made.
pub fn subject<'a, T, U>(
    device: &'a Device,
    mut prepare: impl FnMut() -> T + 'a,
    mut run: impl FnMut(T) -> U + 'a,
) -> Subject<'a> {
    Box::new(move || {
        let prepared = prepare();
        finish(device)?;
        let start = Instant::now();
        let result = run(prepared);
        finish(device)?;
        let time = start.elapsed();
        drop(result);
        Ok(time)
    })
}

fn finish(device: &Device) -> Result<()> {
    device.sync().map_err(|error| Error::failed(format!("the device failed: {error:?}")))
}

impl Clock {
    /// Times the subjects in turn, after running each once to warm up.
    pub fn time(&self, subjects: &mut [Subject<'_>]) -> Result<Vec<Timing>> {
        let mut peaks = Vec::with_capacity(subjects.len());
        for subject in subjects.iter_mut() {
            let (result, peak) = peak_memory::peak(&mut **subject);
            result?;
            peaks.push(peak);
        }
        let mut runs: Vec<Vec<Duration>> = vec![Vec::new(); subjects.len()];
        let mut spent = vec![Duration::ZERO; subjects.len()];
        loop {
            let mut ran = false;
            for (index, subject) in subjects.iter_mut().enumerate() {
                let done = runs[index].len();
                if done >= self.most.max(1) || (done >= self.least.max(1) && spent[index] >= self.budget) {
                    continue;
                }
                let time = subject()?;
                runs[index].push(time);
                spent[index] += time;
                ran = true;
            }
            if !ran {
                break;
            }
        }
        let timing = |(mut runs, peak_bytes): (Vec<Duration>, Option<u64>)| {
            runs.sort_unstable();
            let seconds = |index: usize| runs[index].as_secs_f64().max(f64::MIN_POSITIVE);
            Timing { median: seconds(runs.len() / 2), least: seconds(0), peak_bytes }
        };
        Ok(runs.into_iter().zip(peaks).map(timing).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;
    use std::cell::Cell;

    fn scripted<'a>(milliseconds: &'a [u64], runs: &'a Cell<usize>) -> Subject<'a> {
        Box::new(move || {
            let run = runs.replace(runs.get() + 1);
            Ok(Duration::from_millis(milliseconds[run % milliseconds.len()]))
        })
    }

    #[test]
    fn the_warm_up_is_left_out_and_the_median_kept() {
        let _alone = alone();
        let (a, b) = (Cell::new(0), Cell::new(0));
        let clock = Clock { least: 3, most: 5, budget: Duration::from_secs(9) };
        // The warm-up takes 900 ms; then 5, 1, 4, 2, 3.
        let mut subjects = [scripted(&[900, 5, 1, 4, 2, 3], &a), scripted(&[7], &b)];
        let times = clock.time(&mut subjects).unwrap();
        assert_eq!((times[0].median, times[0].least), (3e-3, 1e-3));
        assert_eq!((times[1].median, times[1].least), (7e-3, 7e-3));
        drop(subjects);
        assert_eq!((a.get(), b.get()), (6, 6));
    }

    #[test]
    fn a_slow_subject_stops_at_its_budget() {
        let _alone = alone();
        let (slow, fast) = (Cell::new(0), Cell::new(0));
        let clock = Clock { least: 2, most: 10, budget: Duration::from_millis(50) };
        clock.time(&mut [scripted(&[100], &slow), scripted(&[1], &fast)]).unwrap();
        assert_eq!((slow.get(), fast.get()), (1 + 2, 1 + 10));
    }

    #[test]
    fn a_failure_is_passed_on() {
        let _alone = alone();
        let mut subjects: [Subject<'_>; 1] = [Box::new(|| Err(Error::failed("broken")))];
        assert_eq!(Clock::default().time(&mut subjects).unwrap_err().message(), "broken");
    }
}
