//! `longwave task`: does one run of a study.

use super::session::warn;
use super::train::complete;
use crate::args::{self, Compute, Kernels};
use crate::interrupt;
use crate::output::{be_followed, status};
use longwave_core::error::Kind;
use longwave_core::{Error, Result};
use longwave_kernels::DeviceChoice;
use longwave_study::execute::BUSY;
use longwave_study::{Failure, Store, Task, Work};
use std::io::Read;
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run(arguments: &args::Task) -> Result<ExitCode> {
    let task = Task::load(&arguments.file)?;
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
    store.sweep(&task.job.key)?;
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

fn work(task: &Task, device: DeviceChoice, store: &Store) -> Result<()> {
    let compute = Compute { device, threads: Some(task.threads), kernels: Kernels::Fused };
    let rows = complete(&task.job.config, &store.run(&task.job.key), true, &compute)?;
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

/// This program, which does the tasks of a study.
///
/// # Errors
/// The system does not say where it is.
pub(super) fn program() -> Result<std::path::PathBuf> {
    std::env::current_exe().map_err(|error| Error::failed(format!("cannot find this program: {error}")))
}
