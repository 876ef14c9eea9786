//! Runs a study: plans it, runs what is missing here or by a launcher, reports the results.

mod estimate;
mod progress;

use crate::configs::warn;
use crate::interrupt;
use crate::options::{Compute, parse_device};
use crate::output::{data, status};
use clap::{Args, ValueEnum};
use estimate::Opened;
use longwave_core::{Error, Result, file};
use longwave_eval::ResultRow;
use longwave_experiment::Config;
use longwave_kernels::DeviceChoice;
use longwave_report::page;
use longwave_study::cost::{Cost, costs};
use longwave_study::document::studies;
use longwave_study::execute::{self, execute, missing};
use longwave_study::results::Results;
use longwave_study::{Failure, Plan, Store, Study, Work, claim, launcher, write};
use progress::StudyProgress;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at what a launcher's tasks have done.
const LOOK: Duration = Duration::from_secs(1);
/// The most reasons of failures that are printed; `study.md` has all.
const MOST_REASONS: usize = 20;
/// The most runs that failed for one reason and are printed one by one.
const MOST_ALIKE: usize = 3;

// How a study is run; no doc comment, since clap would show it as the description of the command.
#[derive(Args, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Options {
    /// Show the runs and what they take, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Runs at a time; as many as the cores hold unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) jobs: Option<u64>,
    /// Devices that runs are dealt to, one run each at a time, instead of the study's: `gpu:0,gpu:1`
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_device)]
    pub(crate) devices: Vec<DeviceChoice>,
    /// Try runs again that failed
    #[arg(long)]
    pub(crate) retry: bool,
    /// Run nothing: write the results of what is finished
    #[arg(long, conflicts_with_all = ["dry_run", "retry"])]
    pub(crate) collect: bool,
    /// The study's folder; `studies/NAME` beside the store unless given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What runs the tasks
    #[arg(long, value_enum, default_value_t, value_name = "local|slurm|command")]
    pub(crate) launcher: Launcher,
    /// `--launcher command`: a shell command that is run for each task, with `{command}` or `{task}` in it
    #[arg(long, value_name = "TEMPLATE", required_if_eq("launcher", "command"))]
    pub(crate) template: Option<String>,
    /// `--launcher slurm`: an option for sbatch, such as `--mem=4G`; repeatable
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) sbatch: Vec<String>,
    /// Wait until the launcher's tasks are done, and write the results
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Launcher {
    /// Processes on this machine
    #[default]
    Local,
    /// Job arrays of an existing Slurm
    Slurm,
    /// Any engine, through a command line
    Command,
}

/// Trains one config with several seeds: a study without a file.
pub(crate) fn run_seeds(config: &Config, seeds: u64, compute: &Compute) -> Result<()> {
    let first = config.run.seed;
    let threads = compute.threads.unwrap_or_else(|| cores().min(2));
    let mut study = Study::of_seeds(
        format!("{}-seeds", config.run.name),
        config.to_table()?,
        (first..first + seeds).collect(),
        threads,
    )?;
    study.devices = vec![compute.device.to_string()];
    perform(&study, &Options::default())
}

/// A study on its way.
struct StudyRunner<'a> {
    study: &'a Study,
    options: &'a Options,
    plan: Plan,
    store: Store,
    /// The study's own folder.
    folder: PathBuf,
    corpora: RefCell<Opened>,
    /// `cpu` or `gpu`.
    kind: &'static str,
}

/// Runs a study to its report, or shows what it would take.
pub(crate) fn perform(study: &Study, options: &Options) -> Result<()> {
    interrupt::install()?;
    let kind = device_kind(&study.devices)?;
    // Before anything else takes threads: a probe has as many as a run.
    let machine = if options.dry_run { Some(estimate::machine(study)?) } else { None };
    let mut corpora = Opened::default();
    let plan = Plan::new(study, kind, &mut |config| corpora.open(config));
    warn(plan.jobs().flat_map(|(_, job)| &job.config.warnings));
    plan.check()?;
    study.claims.iter().try_for_each(|claim| claim.check(&plan))?;
    let store = Store::new(&study.store);
    let folder = options.out.clone().unwrap_or_else(|| studies(store.folder()).join(&study.name));
    let runner = StudyRunner { study, options, plan, store, folder, corpora: RefCell::new(corpora), kind };
    if let Some(machine) = &machine {
        return runner.dry_run(machine);
    }
    runner.introduce();
    if !options.collect {
        runner.note_plan()?;
        match options.launcher {
            Launcher::Local => runner.run_here()?,
            Launcher::Command => runner.hand_over()?,
            Launcher::Slurm => runner.submit()?,
        }
    }
    runner.conclude()
}

impl StudyRunner<'_> {
    /// Says what is about to happen.
    fn introduce(&self) {
        let distinct = self.plan.distinct();
        let works: Vec<Work> = distinct.iter().map(|(_, job)| self.store.work(job)).collect();
        let count = |work: Work| works.iter().filter(|found| **found == work).count();
        status(&format!(
            "study     {}: {} runs, {} different; {} finished, {} failed, {} to be done",
            self.study.name,
            self.plan.runs.len(),
            distinct.len(),
            count(Work::Finished),
            count(Work::Failed),
            count(Work::Open),
        ));
    }

    /// Keeps which runs the study needs, so that nobody prunes them.
    fn note_plan(&self) -> Result<()> {
        let mut keys: Vec<&str> = self.plan.jobs().map(|(_, job)| job.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let text = serde_json::to_string_pretty(&keys).map_err(|error| Error::failed(error.to_string()))?;
        file::write(&self.folder.join("plan.json"), text.as_bytes())?;
        let beside = self.options.out.is_none();
        if beside { Ok(()) } else { self.store.note_study(&self.folder) }
    }

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
    fn jobs(&self) -> usize {
        let capacity = self.capacity();
        self.options.jobs.map_or(capacity, |jobs| (jobs as usize).min(capacity))
    }

    /// Runs what is missing in processes of this machine.
    fn run_here(&self) -> Result<()> {
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

    /// The cost of every run of the plan.
    fn costs(&self) -> Vec<Option<Cost>> {
        costs(&self.plan, &mut *self.corpora.borrow_mut())
    }

    /// What each run of the plan costs, for the share of the work that is done.
    fn weights(&self) -> Vec<f64> {
        self.costs().into_iter().map(|cost| cost.map_or(1.0, |cost| cost.flops())).collect()
    }

    /// What a launcher needs to know.
    fn launched<'a>(&'a self, program: &'a Path) -> launcher::Study<'a> {
        launcher::Study {
            name: &self.study.name,
            folder: &self.folder,
            program,
            threads: self.study.threads,
            devices: &self.study.devices,
        }
    }

    /// Hands each missing run to the command of `--template`.
    fn hand_over(&self) -> Result<()> {
        let template = self.options.template.as_deref().unwrap_or_default();
        let program = program()?;
        let study = self.launched(&program);
        let tasks = launcher::ready(&study, &self.plan, &self.store, &self.wanted()?)?;
        launcher::command(&study, &tasks, template, &interrupt::asked)?;
        status(&format!("command   {} tasks handed over", tasks.len()));
        if self.options.wait { self.wait(&|| Ok(true)) } else { Ok(()) }
    }

    /// Submits the missing runs that Slurm does not have already.
    fn submit(&self) -> Result<()> {
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

    /// Writes the results and prints the tables; failures come last.
    fn conclude(&self) -> Result<()> {
        let results = Results::gather(&self.plan, &self.store)?;
        if !results.rows.is_empty() {
            let table = results.table()?;
            write::csv(&self.folder.join("results.csv"), &table)?;
            write::parquet(&self.folder.join("results.parquet"), &table)?;
            self.write_report(&results)?;
        }
        let claims = claim::judge(&self.study.claims, &self.plan, &results)?;
        let text = write::markdown(&self.study.name, &self.plan, &results, &claims);
        file::write(&self.folder.join("study.md"), text.as_bytes())?;
        data(&text)?;
        status(&format!(
            "wrote study.md, results.csv, results.parquet and report/ in {}",
            self.folder.display()
        ));
        self.print_failures(&results);
        if !results.failures.is_empty() {
            return Err(Error::failed(format!(
                "{} of {} runs failed",
                results.failures.len(),
                self.plan.runs.len()
            ))
            .hint("`--retry` tries them again"));
        }
        if !results.missing.is_empty() {
            status(&format!("{} runs are still to be done", results.missing.len()));
        }
        Ok(())
    }

    /// Says why runs failed; many of one reason in one line.
    fn print_failures(&self, results: &Results) {
        let mut groups: Vec<(&Failure, Vec<usize>)> = Vec::new();
        for (run, failure) in &results.failures {
            match groups.iter_mut().find(|(known, _)| *known == failure) {
                Some((_, runs)) => runs.push(*run),
                None => groups.push((failure, vec![*run])),
            }
        }
        let title = |run: usize| self.plan.runs[run].title();
        for (failure, runs) in groups.iter().take(MOST_REASONS) {
            let (alone, more) = if runs.len() > MOST_ALIKE { (1, runs.len() - 1) } else { (runs.len(), 0) };
            for &run in &runs[..alone] {
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                status(&format!("failed    {}{more}: {}", title(run), failure.reason));
            }
            if let Some(hint) = &failure.hint {
                status(&format!("          hint: {hint}"));
            }
        }
        let unprinted: usize = groups.iter().skip(MOST_REASONS).map(|(_, runs)| runs.len()).sum();
        if unprinted > 0 {
            status(&format!(
                "failed    {unprinted} more runs, all listed in {}",
                self.folder.join("study.md").display()
            ));
        }
    }

    /// Tables, plots and page of all rows, one name for each combination of labels.
    fn write_report(&self, results: &Results) -> Result<()> {
        let folder = self.folder.join("report");
        let mut text = String::new();
        for measured in &results.rows {
            let name =
                if measured.labels.is_empty() { self.study.name.clone() } else { measured.labels.join(", ") };
            let row = ResultRow { run: name, ..measured.row.clone() };
            let line = serde_json::to_string(&row)
                .map_err(|error| Error::failed(format!("a result row cannot be written: {error}")))?;
            text.extend([line.as_str(), "\n"]);
        }
        file::write(&folder.join("results.jsonl"), text.as_bytes())?;
        page::write(&folder, None).map(|_| ())
    }
}

/// `cpu` or `gpu`: what decides how results round. A study has one kind.
fn device_kind(devices: &[String]) -> Result<&'static str> {
    let kinds = devices
        .iter()
        .map(|device| {
            let choice = device.parse().map_err(|_| {
                Error::value("devices", format!("\"{device}\""), "each is `auto`, `cpu`, `gpu` or `gpu:N`")
                    .hint("such as `devices = [\"gpu:0\", \"gpu:1\"]`")
            })?;
            Ok(match choice {
                DeviceChoice::Cpu => "cpu",
                DeviceChoice::Gpu(_) => "gpu",
                DeviceChoice::Auto => {
                    let (_, name) = longwave_kernels::device::open(DeviceChoice::Auto)?;
                    if name == "CPU" { "cpu" } else { "gpu" }
                }
            })
        })
        .collect::<Result<Vec<_>>>()?;
    match kinds.as_slice() {
        [first, rest @ ..] if rest.iter().all(|kind| kind == first) => Ok(first),
        _ => Err(Error::value(
            "devices",
            format!("{devices:?}"),
            "results of a CPU and a GPU round differently",
        )
        .hint("list devices of one kind")),
    }
}

/// This program, which does the tasks of a study.
fn program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::failed(format!("cannot find this program: {error}")))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
