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
use longwave_study::{Failure, Store, StudyTask, Work};
use std::io::Read;
use std::path::PathBuf;
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
    interrupt::install()?;
    warn(&task.job.config.warnings);
    if arguments.follow {
        be_followed();
        stop_with_stdin();
    }
    let store = Store::new(&task.store);
    let Some(_lock) = store.try_lock(&task.job.key)? else {
        status(&format!("another process is working on {}", task.job.key));
        return Ok(if arguments.follow { ExitCode::from(BUSY) } else { ExitCode::SUCCESS });
    };
    // Whoever held the lock before may have finished it.
    if store.work(&task.job) == Work::Finished {
        status(&format!("{} is finished already", task.job.key));
        return Ok(ExitCode::SUCCESS);
    }
    let device = match arguments.device {
        Some(device) => device,
        None => task.device.parse()?,
    };
    store.note(&task.job, "started", Some(&device.to_string()))?;
    store.remove_leftovers(&task.job.key);
    status(&format!("task      {} ({})", task.title, task.job.key));
    match work(&task, device, &store) {
        Ok(()) => {
            store.note(&task.job, "finished", None)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.kind() == Kind::Interrupted => {
            store.note(&task.job, "stopped", None)?;
            Err(error)
        }
        Err(error) => {
            let hint = error.hint_text().map(str::to_owned);
            store.fail(&task.job, &Failure { reason: error.message().to_owned(), hint })?;
            store.note(&task.job, "failed", None)?;
            Err(error)
        }
    }
}

fn work(task: &StudyTask, device: DeviceChoice, store: &Store) -> Result<()> {
    let mut machine = Machine::open_on_main_thread(device, Some(task.threads))?;
    device_check::before_training(&mut machine)?;
    let config = task.job.config.clone();
    let mut terminal = Terminal::default();
    let mut experiment = Experiment::open(config, &store.run(&task.job.key), true, &machine, &mut terminal)?;
    // It may have been removed since the study was planned.
    if let Some(from) = task.from.as_ref().map(|key| store.run(key)).filter(|from| from.is_dir()) {
        experiment = experiment.going_on_from(&from)?;
    }
    let rows = experiment.complete(&mut terminal)?;
    store.finish(&task.job, &rows)?;
    store.forget_failure(&task.job)
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
