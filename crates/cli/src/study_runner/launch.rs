//! Does the missing runs of a study: here in processes, or through a launcher.

use super::progress::StudyProgress;
use super::{StudyRunner, cores};
use crate::interrupt;
use crate::output::status;
use longwave_core::{Error, Result};
use longwave_study::execute::{self, execute, missing};
use longwave_study::launcher;
use std::path::{Path, PathBuf};
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
        Ok(missing(&self.plan, &self.store))
    }

    /// Runs at a time that the machine holds: as many as have cores, or a GPU each.
    fn capacity(&self) -> usize {
        if self.kind == "cpu" { (cores() / self.study.threads).max(1) } else { self.study.devices.len() }
    }

    /// Runs at a time.
    pub(super) fn jobs(&self) -> usize {
        let capacity = self.capacity();
        self.options.jobs.map_or(capacity, |jobs| (jobs as usize).min(capacity))
    }

    /// Runs what is missing in processes of this machine.
    pub(super) fn run_here(&self) -> Result<()> {
        let wanted = self.wanted()?;
        let jobs = self.jobs();
        if let Some(asked) = self.options.jobs.filter(|asked| *asked as usize > jobs) {
            let why = if self.kind == "cpu" {
                format!("{} cores hold no more runs of {} threads", cores(), self.study.threads)
            } else {
                format!(
                    "{} devices hold a run each; list one twice for two at a time",
                    self.study.devices.len()
                )
            };
            status(&format!("jobs      {jobs} at a time instead of {asked}: {why}"));
        }
        let options = execute::Options {
            program: program()?,
            jobs,
            tasks: self.folder.join("tasks"),
            threads: self.study.threads,
            devices: self.study.devices.clone(),
        };
        let mut progress = StudyProgress::new(&self.plan, &wanted, self.weights());
        let done = execute(&self.plan, &self.store, &options, &wanted, &interrupt::asked, &mut |event| {
            progress.show(&event);
        });
        progress.finish();
        done
    }

    /// What each run of the plan costs, for the share of the work that is done.
    fn weights(&self) -> Vec<f64> {
        self.costs().into_iter().map(|cost| cost.map_or(1.0, |cost| cost.flops())).collect()
    }

    /// What a launcher needs to know.
    fn launched<'a>(&'a self, program: &'a Path) -> launcher::Submission<'a> {
        launcher::Submission {
            name: &self.study.name,
            folder: &self.folder,
            program,
            threads: self.study.threads,
            devices: &self.study.devices,
        }
    }

    /// Hands each missing run to the command of `--template`.
    pub(super) fn hand_over(&self) -> Result<()> {
        let template = self.options.template.as_deref().unwrap_or_default();
        let program = program()?;
        let study = self.launched(&program);
        let tasks = launcher::ready(&study, &self.plan, &self.store, &self.wanted()?)?;
        launcher::command(&study, &tasks, template, &interrupt::asked)?;
        status(&format!("command   {} tasks handed over", tasks.len()));
        if self.options.wait { self.wait(&|| Ok(true)) } else { Ok(()) }
    }

    /// Submits the missing runs that Slurm does not have already.
    pub(super) fn submit(&self) -> Result<()> {
        let program = program()?;
        let study = self.launched(&program);
        let mut submitted = launcher::Submitted::load(&self.folder)?;
        let queued = submitted.queued(&self.folder)?;
        let mut tasks = launcher::ready(&study, &self.plan, &self.store, &self.wanted()?)?;
        let all = tasks.len();
        tasks.retain(|task| !queued.contains(&task.key));
        if tasks.len() < all {
            status(&format!("slurm     {} of {all} tasks are queued already", all - tasks.len()));
        }
        if !tasks.is_empty() {
            let jobs = self.options.jobs.map(|jobs| jobs as usize);
            let ids = submitted.submit(&study, &tasks, jobs, &self.options.sbatch)?;
            status(&format!("slurm     {} tasks submitted as job {}", tasks.len(), ids.join(", ")));
        }
        if !self.options.wait {
            return Ok(());
        }
        self.wait(&|| {
            let mut submitted = launcher::Submitted::load(&self.folder)?;
            Ok(!submitted.queued(&self.folder)?.is_empty())
        })
    }

    /// Waits until all runs are finished or failed; `alive` says whether somebody still works on them.
    fn wait(&self, alive: &dyn Fn() -> Result<bool>) -> Result<()> {
        let all = self.plan.distinct().len();
        let mut shown = usize::MAX;
        loop {
            // Asked first: what ended in between has left its rows.
            let alive = alive()?;
            let left = missing(&self.plan, &self.store).len();
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

/// This program, which does the tasks of a study.
fn program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::failed(format!("cannot find this program: {error}")))
}
