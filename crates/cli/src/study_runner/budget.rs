//! `--budget`: how much of a study fits into a time.

use super::StudyRunner;
use super::estimate::duration;
use super::speed::Speeds;
use crate::output::status;
use longwave_core::{Error, Result};
use longwave_experiment::Machine;
use longwave_study::cost::Cost;
use std::str::FromStr;
use std::time::Instant;

/// A time, written like `90m`, `3h` or `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    pub(super) seconds: f64,
}

impl FromStr for Budget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::value("--budget", text, "it is a time such as `45m`, `3h` or `1h30m`")
                .hint("the units are s, m, h and d")
        };
        let (mut seconds, mut number) = (0.0, String::new());
        for letter in text.chars() {
            let unit = match letter {
                '0'..='9' | '.' => {
                    number.push(letter);
                    continue;
                }
                's' => 1.0,
                'm' => 60.0,
                'h' => 3600.0,
                'd' => 86_400.0,
                _ => return Err(wrong()),
            };
            seconds += unit * number.parse::<f64>().map_err(|_| wrong())?;
            number.clear();
        }
        if number.is_empty() && seconds > 0.0 { Ok(Self { seconds }) } else { Err(wrong()) }
    }
}

#[derive(Debug)]
pub(super) struct Ledger {
    budget: f64,
    begin: Instant,
    speeds: Speeds,
    costs: Vec<Option<Cost>>,
    /// What the runs so far should have taken, by their estimates.
    estimated: f64,
}

impl Ledger {
    fn elapsed(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// What an estimate comes to, by how long the runs so far took.
    fn corrected(&self, estimate: f64) -> f64 {
        if self.estimated > 0.0 { estimate * self.elapsed() / self.estimated } else { estimate }
    }
}

impl StudyRunner<'_> {
    /// Runs in the order in which a budget is spent: those of a look together, or else seed after seed of all combinations.
    pub(super) fn portions(&self, runs: &[usize]) -> Vec<Vec<usize>> {
        if self.plan.looks.are_several() {
            return vec![runs.to_vec()];
        }
        let of = |seed: &u64| runs.iter().copied().filter(|run| self.plan.runs[*run].seed == *seed).collect();
        let portions: Vec<Vec<usize>> = self.plan.seeds.iter().map(of).collect();
        portions.into_iter().filter(|portion| !portion.is_empty()).collect()
    }

    /// A budget, with the speeds that its runs are estimated by; none where no speed could be measured.
    pub(super) fn ledger(&self, budget: Budget, machine: &Machine, runs: &[usize]) -> Result<Option<Ledger>> {
        let costs = self.costs_left(&self.costs(), runs);
        let Some(speeds) = self.speeds(machine, runs, &costs)? else {
            status("budget    no speed was measured: the budget is not kept");
            return Ok(None);
        };
        status(&format!("budget    {}", self.within(budget, runs, &speeds, &costs)));
        Ok(Some(Ledger { budget: budget.seconds, begin: Instant::now(), speeds, costs, estimated: 0.0 }))
    }

    /// The next runs that the budget holds; none where it holds no more.
    pub(super) fn next_portion(&self, ledger: &mut Ledger, wanted: &[usize]) -> Result<Vec<usize>> {
        let left = ledger.budget - ledger.elapsed();
        let estimate = |runs: &[usize]| self.time(&ledger.speeds, runs, &ledger.costs);
        let fits = |runs: &[usize]| ledger.corrected(estimate(runs)) <= left;
        let (_, portion) = together(&self.portions(wanted), self.jobs(), &fits);
        let estimate = estimate(&portion);
        let needed = ledger.corrected(estimate);
        if needed <= left {
            ledger.estimated += estimate;
            return Ok(portion);
        }
        let (runs, needed) = (portion.len(), duration(needed));
        if ledger.estimated > 0.0 {
            let left = duration(left.max(0.0));
            status(&format!(
                "budget    the next {runs} runs take about {needed}, and {left} are left: it stops here"
            ));
            return Ok(Vec::new());
        }
        let budget = duration(ledger.budget);
        Err(Error::value("--budget", budget, format!("the first {runs} runs take about {needed}"))
            .hint("allow more time, or make runs smaller: `--dry-run` says what they take"))
    }

    /// What of the missing runs fits into a budget, as a sentence.
    pub(super) fn within(
        &self,
        budget: Budget,
        left: &[usize],
        speeds: &Speeds,
        costs: &[Option<Cost>],
    ) -> String {
        let (mut used, mut fitting, mut runs) = (0.0_f64, 0, 0);
        let portions = self.portions(left);
        while fitting < portions.len() {
            let after = |runs: &[usize]| used + self.time(speeds, runs, costs);
            let fits = |runs: &[usize]| after(runs) <= budget.seconds;
            let (count, portion) = together(&portions[fitting..], self.jobs(), &fits);
            let after = after(&portion);
            if after > budget.seconds {
                break;
            }
            (used, fitting, runs) = (after, fitting + count, runs + portion.len());
        }
        let (what, all) = (if self.plan.looks.are_several() { "look" } else { "seed" }, portions.len());
        let budget = duration(budget.seconds);
        if fitting == all {
            return format!("a budget of {budget} holds it");
        }
        format!(
            "a budget of {budget} holds {fitting} of {all} {what}s: {runs} runs, about {}",
            duration(used)
        )
    }
}

/// How many of the next portions go together, and their runs: as many as give each of `jobs` places a run, as far as they fit.
fn together(portions: &[Vec<usize>], jobs: usize, fits: &dyn Fn(&[usize]) -> bool) -> (usize, Vec<usize>) {
    let mut runs = portions.first().cloned().unwrap_or_default();
    let mut count = 1;
    for portion in portions.iter().skip(1) {
        if runs.len() >= jobs {
            break;
        }
        let more = [&runs[..], &portion[..]].concat();
        if !fits(&more) {
            break;
        }
        (runs, count) = (more, count + 1);
    }
    (count, runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_go_together_until_each_place_has_a_run() {
        let (one, two) = ([vec![0], vec![1], vec![2]], [vec![0, 1], vec![2, 3]]);
        assert_eq!(together(&one, 2, &|_| true), (2, vec![0, 1]));
        assert_eq!(together(&one, 8, &|_| true), (3, vec![0, 1, 2]));
        assert_eq!(together(&one, 8, &|runs| runs.len() < 3), (2, vec![0, 1]));
        // Who asks learns of the first that it does not fit.
        assert_eq!(together(&one, 8, &|_| false), (1, vec![0]));
        assert_eq!(together(&two, 2, &|_| true), (1, vec![0, 1]));
        assert_eq!(together(&two, 3, &|_| true), (2, vec![0, 1, 2, 3]));
    }

    #[test]
    fn times_are_read_by_their_units() {
        let seconds = |text: &str| text.parse::<Budget>().map(|budget| budget.seconds).ok();
        assert_eq!(seconds("90s"), Some(90.0));
        assert_eq!(seconds("1h30m"), Some(5400.0));
        assert_eq!(seconds("1.5h"), Some(5400.0));
        assert_eq!(seconds("2d"), Some(172_800.0));
        for wrong in ["", "3", "h", "3x", "0m", "1h30", "-1h", "1..5h"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
