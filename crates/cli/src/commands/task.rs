//! `longwave task`: does one run of a study.

use crate::configs::warn;
use crate::device_check;
use crate::interrupt;
use crate::options::parsed;
use crate::output::{be_followed, status};
use crate::terminal::Terminal;
use clap::Args;
use longwave_core::Result;
use longwave_core::error::Kind;
use longwave_experiment::{Experiment, Machine};
use longwave_kernels::DeviceChoice;
use longwave_study::execute::BUSY;
use longwave_study::{Failure, Job, Store, StudyTask, Work};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    let Some(_lock) = store.try_lock(&job.key)? else {
        status(&format!("another process is working on {}", job.key));
        return Ok(if arguments.follow { ExitCode::from(BUSY) } else { ExitCode::SUCCESS });
    };
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
    let rows = experiment.complete(&mut terminal)?;
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
