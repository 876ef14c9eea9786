//! Does the missing runs of a study: here in processes, or through a launcher.

use super::progress::StudyProgress;
use super::{Launcher, StudyRunner, cores, program};
use crate::interrupt;
use crate::output::status;
use longwave_core::{Error, Result};
use longwave_experiment::Machine;
use longwave_study::execute::{self, execute, missing};
use longwave_study::launcher;
use std::collections::HashSet;
use std::time::Duration;

/// Between two looks at what a launcher's tasks have done.
const LOOK: Duration = Duration::from_secs(1);

impl StudyRunner<'_> {
    /// The runs to be done; with `--retry` those that failed are among them.
    fn wanted(&self) -> Result<Vec<usize>> {
        if self.options.retry {
            for (_, job) in self.plan.distinct() {
                self.store.forget_failure(job)?;
            }
        }
        self.needed()
    }

    /// Runs at a time that the machine holds: as many as have cores, or a GPU each.
    fn capacity(&self) -> usize {
        if self.kind == "cpu" { (cores() / self.threads).max(1) } else { self.study.devices.len() }
    }

    pub(super) fn jobs(&self) -> usize {
        let capacity = self.capacity();
        self.options.jobs.map_or(capacity, |jobs| (jobs as usize).min(capacity))
    }

    /// Runs what is missing in processes of this machine: all of it, or look after look, as far as a budget goes.
    /// `machine` measures the speed where there is a budget.
    pub(super) fn run_here(&self, machine: Option<&Machine>) -> Result<()> {
        let jobs = self.jobs();
        self.explain_jobs(jobs);
        let options = execute::Options {
            program: program()?,
            jobs,
            tasks: self.folder.join("tasks"),
            threads: self.threads,
            devices: self.study.devices.clone(),
        };
        let mut wanted = self.wanted()?;
        let mut ledger = match (self.options.budget, machine) {
            (Some(budget), Some(machine)) => self.ledger(budget, machine, &wanted)?,
            _ => None,
        };
        let weights = self.weights();
        while !wanted.is_empty() {
            let portion = match &mut ledger {
                Some(ledger) => self.next_portion(ledger, &wanted)?,
                None => wanted,
            };
            if portion.is_empty() {
                break;
            }
            self.introduce_look(&portion)?;
            let mut progress = StudyProgress::new(&self.plan, &portion, weights.clone());
            let done =
                execute(&self.plan, &self.store, &options, &portion, &interrupt::asked, &mut |event| {
                    progress.show(&event);
                });
            progress.finish();
            done?;
            wanted = self.needed()?;
        }
        Ok(())
    }

    /// Says why fewer runs go at a time than were asked for.
    fn explain_jobs(&self, jobs: usize) {
        let Some(asked) = self.options.jobs.filter(|asked| *asked as usize > jobs) else { return };
        let why = if self.kind == "cpu" {
            format!("{} cores hold no more runs of {} threads", cores(), self.threads)
        } else {
            format!("{} devices hold a run each; list one twice for two at a time", self.study.devices.len())
        };
        status(&format!("jobs      {jobs} at a time instead of {asked}: {why}"));
    }

    /// What each run of the plan costs, for the share of the work that is done.
    fn weights(&self) -> Vec<f64> {
        self.costs().into_iter().map(|cost| cost.map_or(1.0, |cost| cost.flops())).collect()
    }

    /// Hands the missing runs to the launcher; with `--wait` look after look.
    pub(super) fn hand_over(&self) -> Result<()> {
        let program = program()?;
        let study = launcher::Submission {
            name: &self.study.name,
            folder: &self.folder,
            program: &program,
            threads: self.threads,
            devices: &self.study.devices,
        };
        let mut wanted = self.wanted()?;
        loop {
            self.introduce_look(&wanted)?;
            let tasks = launcher::ready(&study, &self.plan, &self.store, &wanted)?;
            if self.options.launcher == Launcher::Slurm {
                self.submit_to_slurm(&study, tasks)?;
            } else {
                let template = self.options.template.as_deref().unwrap_or_default();
                launcher::command(&study, &tasks, template, &self.store, &interrupt::asked)?;
                status(&format!("command   {} tasks handed over", tasks.len()));
            }
            if !self.options.wait {
                return Ok(());
            }
            self.wait(&wanted)?;
            wanted = self.needed()?;
            if wanted.is_empty() {
                return Ok(());
            }
        }
    }

    /// Submits the runs that Slurm does not have already.
    fn submit_to_slurm(
        &self,
        study: &launcher::Submission<'_>,
        mut tasks: Vec<launcher::Ready>,
    ) -> Result<()> {
        let mut submitted = launcher::Submitted::queued(&self.folder)?;
        let all = tasks.len();
        tasks.retain(|task| !submitted.has(task));
        if tasks.len() < all {
            status(&format!("slurm     {} of {all} tasks are queued already", all - tasks.len()));
        }
        if !tasks.is_empty() {
            let jobs = self.options.jobs.map(|jobs| jobs as usize);
            let ids = submitted.submit(study, &tasks, jobs, &self.options.sbatch)?;
            status(&format!("slurm     {} tasks submitted as job {}", tasks.len(), ids.join(", ")));
        }
        Ok(())
    }

    /// Whether somebody may still work on what was handed over: only Slurm tells.
    fn is_worked_on(&self) -> Result<bool> {
        if self.options.launcher != Launcher::Slurm {
            return Ok(true);
        }
        Ok(!launcher::Submitted::queued(&self.folder)?.is_empty())
    }

    fn wait(&self, runs: &[usize]) -> Result<()> {
        let all = runs.len();
        let mut shown = usize::MAX;
        loop {
            // Asked first: what ended in between has left its rows.
            let alive = self.is_worked_on()?;
            let open: HashSet<usize> = missing(&self.plan, &self.store).into_iter().collect();
            let left = runs.iter().filter(|run| open.contains(run)).count();
            if left != shown {
                status(&format!("waiting   {}/{all} runs done", all - left));
                shown = left;
            }
            if left == 0 {
                return Ok(());
            }
            if !alive {
                return Err(Error::failed(format!("{left} runs ended without a result"))
                    .hint(format!("see the messages in `{}`", self.folder.join("slurm").display())));
            }
            if interrupt::asked() {
                return Err(Error::interrupted("stopped waiting; the launcher's tasks go on")
                    .hint("the same command with `--collect` writes what is finished"));
            }
            std::thread::sleep(LOOK);
        }
    }
}
