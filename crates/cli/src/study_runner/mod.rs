//! Runs a study: plans it, runs what is missing here or by a launcher, reports the results.

mod budget;
mod conclude;
mod estimate;
mod folder;
mod launch;
mod map;
mod power;
mod progress;
mod speed;
mod threads;

pub(crate) use conclude::{report_again, write_again};

use crate::configs::warn;
use crate::interrupt;
use crate::options::{Compute, parsed};
use crate::output::status;
use budget::Budget;
use clap::{Args, ValueEnum};
use estimate::Opened;
use longwave_core::{Error, Result, file};
use longwave_experiment::Config;
use longwave_kernels::DeviceChoice;
use longwave_report::Format;
use longwave_study::cost::{Cost, check_texts, costs};
use longwave_study::document::studies;
use longwave_study::plan::Content;
use longwave_study::{Plan, Store, Study, Work, declared, judge, ranking, saved};
use std::cell::RefCell;
use std::path::PathBuf;

/// The most evaluations that do not apply and are printed; `study.md` has all.
const MOST_LEFT_OUT: usize = 20;

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
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parsed::<DeviceChoice>)]
    pub(crate) devices: Vec<DeviceChoice>,
    /// Do as many seeds, or looks at the claims, as fit into a time such as `45m` or `3h`
    #[arg(long, value_name = "TIME", value_parser = parsed::<Budget>)]
    pub(crate) budget: Option<Budget>,
    /// Try runs again that failed
    #[arg(long)]
    pub(crate) retry: bool,
    /// Run nothing: write the results of what is finished
    #[arg(long, conflicts_with_all = ["dry_run", "retry"])]
    pub(crate) collect: bool,
    /// Print the tables as `text`, `markdown`, `latex` or `csv`; the whole of `study.md` unless given
    #[arg(long, value_name = "FORMAT", value_parser = parsed::<Format>, conflicts_with = "dry_run")]
    pub(crate) format: Option<Format>,
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

impl Options {
    /// Checks that each option has an effect with the launcher that is chosen: without their launcher, runs that are meant for others
    /// would begin on this machine.
    fn check_launcher(&self) -> Result<()> {
        let launcher = self.launcher;
        if self.budget.is_some() && launcher != Launcher::Local {
            return Err(Error::usage("`--budget` plans for this machine, and the launcher has others")
                .hint("leave `--budget` or `--launcher` out"));
        }
        if self.jobs.is_some() && launcher == Launcher::Command {
            return Err(Error::usage(
                "`--jobs` has no effect with `--launcher command`, which hands over all runs at once",
            )
            .hint("leave `--jobs` out, and limit the runs in the engine"));
        }
        let (option, lacks) = if self.template.is_some() && launcher != Launcher::Command {
            ("--template", "`--launcher command`")
        } else if !self.sbatch.is_empty() && launcher != Launcher::Slurm {
            ("--sbatch", "`--launcher slurm`")
        } else if self.wait && launcher == Launcher::Local {
            ("--wait", "`--launcher slurm` or `--launcher command`")
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("`{option}` has no effect without {lacks}"))
            .hint(format!("add {lacks}, or leave `{option}` out")))
    }
}

/// Trains one config with several seeds: a study without a file.
pub(crate) fn run_seeds(
    config: &Config,
    seeds: u64,
    compute: &Compute,
    format: Option<Format>,
) -> Result<()> {
    let first = config.run.seed;
    check_last_seed(first, seeds)?;
    let threads = compute.threads.unwrap_or_else(|| cores().min(2));
    let study = Study::of_seeds(
        format!("{}-seeds", config.run.name),
        &config.to_table()?,
        (first..first + seeds).collect(),
        threads,
        compute.device.to_string(),
    )?;
    perform(&study, &Options { format, ..Options::default() })
}

/// Every seed must be one that a config can have.
fn check_last_seed(first: u64, seeds: u64) -> Result<()> {
    // TOML has no larger number.
    let most = i64::MAX.unsigned_abs();
    let more = seeds.saturating_sub(1);
    if first <= most.saturating_sub(more) {
        return Ok(());
    }
    let allowed = format!("`--seeds {seeds}` counts up from it, and no seed may be above {most}");
    Err(Error::value("seed", first, allowed).hint(format!("use `seed = {}` or a smaller one", most - more)))
}

/// The runs without results, each work once.
fn unfinished(plan: &Plan, store: &Store) -> Vec<usize> {
    let distinct = plan.distinct().into_iter();
    distinct.filter(|(_, job)| store.work(job) != Work::Finished).map(|(index, _)| index).collect()
}

struct StudyRunner<'a> {
    study: &'a Study,
    options: &'a Options,
    plan: Plan,
    store: Store,
    folder: PathBuf,
    corpora: RefCell<Opened>,
    /// `cpu` or `gpu`.
    kind: &'static str,
    threads: usize,
}

/// Runs a study to its report, or shows what it would take.
pub(crate) fn perform(study: &Study, options: &Options) -> Result<()> {
    interrupt::install()?;
    let kind = device_kind(&study.devices)?;
    options.check_launcher()?;
    let threads = threads::of_a_run(study, kind, options)?;
    // Before anything else takes threads: a probe has as many as a run.
    let measures = options.dry_run || options.budget.is_some() && !options.collect;
    let machine = if measures { Some(speed::machine(study, threads)?) } else { None };
    let mut corpora = Opened::default();
    let mut plan = Plan::new(study, kind, &mut |content| match content {
        Content::Data(config) => corpora.open(config),
        other => other.hash_of_files(),
    });
    warn(plan.jobs().flat_map(|(_, job)| &job.config.warnings));
    plan.check()?;
    for one in plan.left_out().into_iter().take(MOST_LEFT_OUT) {
        status(&format!("left out  {one}"));
    }
    study.claims.iter().try_for_each(|claim| judge::check(claim, &plan)).map_err(|error| {
        // A claim may name what was meant in the config of a run that cannot be done.
        match plan.first_refused() {
            Some(refused) => {
                let hint = error.hint_text().map(|hint| format!("{hint}\n      ")).unwrap_or_default();
                error.hint(format!("{hint}and this run cannot be done: {}", refused.message()))
            }
            None => error,
        }
    })?;
    if let Some(best) = study.best {
        ranking::check(&plan, best)?;
    }
    let store = Store::new(&study.store);
    let folder = options.out.clone().unwrap_or_else(|| studies(store.folder()).join(&study.name));
    plan.check_best(&store)?;
    folder::check(&folder, &study.name)?;
    if !options.collect {
        check_texts(&plan, &unfinished(&plan, &store), &mut corpora)?;
        let hints = [plan.find_sources(&store)?, plan.without_evaluation()];
        hints.iter().flatten().for_each(|hint| status(&format!("hint      {hint}")));
    }
    let runner =
        StudyRunner { study, options, plan, store, folder, corpora: RefCell::new(corpora), kind, threads };
    if let (Some(machine), true) = (&machine, options.dry_run) {
        return runner.dry_run(machine);
    }
    runner.introduce();
    if options.collect {
        runner.keep_plan()?;
    } else {
        runner.note_plan()?;
        match options.launcher {
            Launcher::Local => runner.run_here(machine.as_ref())?,
            Launcher::Command | Launcher::Slurm => runner.hand_over()?,
        }
    }
    runner.conclude()
}

impl StudyRunner<'_> {
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
        if let Some(going_on) = self.plan.going_on() {
            status(&format!("stored    {going_on}"));
        }
    }

    /// Keeps which runs the study needs, so that nobody prunes them.
    fn note_plan(&self) -> Result<()> {
        for folder in [self.folder.join("tasks"), self.folder.join("report"), self.folder.clone()] {
            file::remove_leftovers(&folder);
        }
        self.keep_plan()
    }

    /// Writes which claims and runs the study has, in its folder, and where that is, in the store: nobody removes its runs then.
    fn keep_plan(&self) -> Result<()> {
        // Before the plan: this looks at the runs of the one that is there.
        declared::record(&self.folder, self.study, &self.plan, &self.store)?;
        saved::save(&self.folder, self.study, &self.plan)?;
        self.store.note_study(&self.folder)
    }

    fn costs(&self) -> Vec<Option<Cost>> {
        costs(&self.plan, &mut *self.corpora.borrow_mut())
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
                    let name = longwave_kernels::device::open(DeviceChoice::Auto)?.name;
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
