//! The command line: arguments, progress, messages. Thin; what it calls lives in the other crates.
//!
//! Data goes to stdout, progress and logs to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or
//! config, 130 interrupted with a checkpoint written; `task` alone has 75 for a run that another process works on.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp))]

mod allocator;
mod args;
mod commands;
mod interrupt;
mod output;
mod progress;

use args::{Arguments, Command};
use clap::Parser;
use longwave_core::Result;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    allocator::keep_freed_memory();
    // clap prints help and usage errors itself, and ends with 0 or 2.
    let arguments = Arguments::parse();
    start_logs();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            output::report_error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Train(train) => commands::train::run(train),
        Command::Eval(eval) => commands::eval::run(eval),
        Command::Generate(generate) => commands::generate::run(generate),
        Command::Export(export) => commands::export::run(export),
        Command::Import(import) => commands::import::run(import),
        Command::Study(study) => commands::study::run(study),
        Command::Task(task) => return commands::task::run(task),
        Command::Compare(compare) => commands::compare::run(compare),
        Command::Runs(runs) => commands::runs::run(runs),
        Command::Report(report) => commands::report::run(report),
        Command::Inspect(inspect) => commands::inspect::run(inspect),
        Command::Bench(bench) => commands::bench::run(bench),
        Command::Selfcheck(selfcheck) => commands::bench::selfcheck(selfcheck),
        Command::Validate(validate) => commands::validate::run(validate),
        Command::Schema => commands::schema::run(),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Logs go to stderr; `RUST_LOG` says which, warnings unless set.
fn start_logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colours = std::io::stderr().is_terminal() && output::colours();
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .without_time()
        .try_init();
    // A second start in one process keeps the first one's settings.
    drop(started);
}
