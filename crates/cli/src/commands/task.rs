//! `longwave task`: does one run of a study.

use crate::configs::warn;
use crate::device_check;
use crate::interrupt;
use crate::options::parsed;
use crate::output::{be_followed, status};
use crate::terminal::Terminal;
use clap::Args;
use longwave_core::error::Kind;
use longwave_core::{Error, Result};
use longwave_experiment::{Experiment, Machine};
use longwave_kernels::DeviceChoice;
use longwave_study::execute::BUSY;
use longwave_study::store::Lock;
use longwave_study::{Failure, Job, Store, StudyTask, Work};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks at a run that another process works on.
const LOOK: Duration = Duration::from_millis(500);

/// Do one run of a study; what `longwave study` and its launchers start
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A task file that `longwave study` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Device instead of the task's own
    #[arg(long, value_name = "auto|cpu|gpu|gpu:N", value_parser = parsed::<DeviceChoice>)]
    device: Option<DeviceChoice>,
    /// Tell progress on stdout as JSON lines, and stop when stdin ends
    #[arg(long)]
    follow: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let task = StudyTask::load(&arguments.file)?;
    let job = task.job()?;
    interrupt::install()?;
    warn(&job.config.warnings);
    if arguments.follow {
        be_followed();
        stop_with_stdin();
    }
    let store = Store::new(Path::new(&task.store));
    let lock = if arguments.follow { store.try_lock(&job.key)? } else { waited_for(&store, &job)? };
    let Some(_lock) = lock else { return ended_elsewhere(&store, &job, arguments.follow) };
    // Whoever held the lock before may have finished it.
    if store.work(&job) == Work::Finished {
        status(&format!("{} is finished already", job.key));
        return Ok(ExitCode::SUCCESS);
    }
    let device = match arguments.device {
        Some(device) => device,
        None => task.device.parse()?,
    };
    store.note(&job, "started", Some(&device.to_string()))?;
    store.remove_leftovers(&job.key);
    status(&format!("task      {} ({})", task.title, job.key));
    match work(&task, &job, device, &store) {
        Ok(()) => {
            store.note(&job, "finished", None)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.kind() == Kind::Interrupted => {
            store.note(&job, "stopped", None)?;
            Err(error)
        }
        Err(error) => {
            let hint = error.hint_text().map(str::to_owned);
            store.fail(&job, &Failure { reason: error.message().to_owned(), hint })?;
            store.note(&job, "failed", None)?;
            Err(error)
        }
    }
}

/// Takes the right to work on the run once nobody else has it. Whoever has it may evaluate the run in another way, for another study, and leave this
/// work open. `None` where the work was done meanwhile, or has failed.
fn waited_for(store: &Store, job: &Job) -> Result<Option<Lock>> {
    let mut lock = store.try_lock(&job.key)?;
    if lock.is_some() {
        return Ok(lock);
    }
    status(&format!("waiting   another process is working on {}", job.key));
    while lock.is_none() && store.work(job) == Work::Open {
        if interrupt::asked() {
            return Err(Error::interrupted("stopped waiting for the process that works on the run")
                .hint("the same command waits again"));
        }
        std::thread::sleep(LOOK);
        lock = store.try_lock(&job.key)?;
    }
    // It may have ended between the two looks.
    Ok(lock.filter(|_| store.work(job) == Work::Open))
}

/// The end of a task whose run another process has, or had until this work was done.
fn ended_elsewhere(store: &Store, job: &Job, follow: bool) -> Result<ExitCode> {
    if follow {
        status(&format!("another process is working on {}", job.key));
        return Ok(ExitCode::from(BUSY));
    }
    let Some(Failure { reason, hint }) = store.failure(job)?.filter(|_| store.work(job) == Work::Failed)
    else {
        status(&format!("another process has finished {}", job.key));
        return Ok(ExitCode::SUCCESS);
    };
    let hint = hint.unwrap_or_else(|| "`longwave study` with `--retry` tries it again".to_owned());
    Err(Error::failed(format!("{} failed in another process: {reason}", job.key)).hint(hint))
}

fn work(task: &StudyTask, job: &Job, device: DeviceChoice, store: &Store) -> Result<()> {
    let mut machine = Machine::open_on_main_thread(device, Some(task.threads))?;
    device_check::before_training(&mut machine)?;
    let config = job.config.clone();
    let mut terminal = Terminal::default();
    let mut experiment = Experiment::open(config, &store.run(&job.key), true, &machine, &mut terminal)?;
    // It may have been removed since the study was planned.
    if let Some(from) = task.from.as_ref().map(|key| store.run(key)).filter(|from| from.is_dir()) {
        experiment = experiment.going_on_from(&from)?;
    }
    // A text may have changed since the study was planned, and while this one trained.
    let (content_hash, kind) = (experiment.content_hash().to_owned(), machine.kind());
    job.check_planned(&content_hash, kind)?;
    let rows = experiment.complete(&mut terminal)?;
    job.check_planned(&content_hash, kind)?;
    store.finish(job, &rows)?;
    store.forget_failure(job)
}

/// Stops at the next safe place once stdin ends: the process that holds its other end has gone.
fn stop_with_stdin() {
    std::thread::spawn(|| {
        let mut buffer = [0; 64];
        let mut stdin = std::io::stdin().lock();
        // Nothing is ever sent: an end and an error mean the same.
        while stdin.read(&mut buffer).is_ok_and(|count| count > 0) {}
        interrupt::ask();
    });
}
