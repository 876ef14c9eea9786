//! The command line: arguments, progress, messages. Thin; what it calls lives in the other crates.
//!
//! Each command is one file below `commands`, with its arguments. `longwave_experiment` runs experiments, and `terminal`
//! shows them. A [`Program`] of another crate runs the same commands with encodings and extensions of its own; what it
//! needs is in [`prelude`].
//!
//! Data goes to stdout, progress and logs to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or
//! config, 130 interrupted with a checkpoint written; `task` alone has 75 for a run that another process works on.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

mod allocator;
mod commands;
mod configs;
mod device_check;
mod interrupt;
mod keys;
mod logs;
#[doc(hidden)]
pub mod measuring;
mod options;
mod output;
mod page_folder;
mod paint;
pub mod prelude;
mod program;
mod progress;
mod shipped;
mod sparkline;
mod study_runner;
mod tables;
mod terminal;
mod usage;

pub use burn;
pub use longwave_core::{Error, Result};
pub use longwave_eval as eval;
pub use longwave_experiment as experiment;
pub use longwave_kernels as kernels;
pub use longwave_position as position;
pub use program::Program;
pub use schemars;
pub use serde;

use clap::builder::NonEmptyStringValueParser;
use clap::{CommandFactory, Parser};
use commands::Command;
use longwave_core::file;
use longwave_data::cache;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Train small GPTs on short sequences with any positional encoding, and measure what happens on longer
/// ones.
#[derive(Debug, Parser)]
#[command(name = "longwave", version, propagate_version = true)]
struct Arguments {
    /// Keep tokens for the next run in this folder, before `LONGWAVE_CACHE` and `data.cache`
    #[arg(long, global = true, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    cache: Option<String>,
    #[command(subcommand)]
    command: Command,
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    Program::new().run()
}

/// The command line with all its commands and options, for what is generated from it, such as manual pages.
#[doc(hidden)]
pub fn command_line() -> clap::Command {
    Arguments::command()
}

fn run_command() -> ExitCode {
    allocator::keep_freed_memory();
    let given: Vec<String> = std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect();
    let arguments = match Arguments::try_parse_from(in_home(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(error) => match usage::mistake(&error, &Arguments::command(), &given) {
            Some(mistake) => return report(mistake),
            // clap prints help and the version itself.
            None => error.exit(),
        },
    };
    start_logs();
    if let Some(folder) = arguments.cache {
        cache::choose(folder.into());
    }
    match arguments.command.run() {
        Ok(code) => code,
        Err(error) => report(error),
    }
}

/// The arguments, with the home folder in the place of a `~` that begins a path: shells leave it in `--out=~/run` and within quotes.
/// The text of a prompt is no path.
fn in_home(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut after_prompt = false;
    let expanded = arguments.into_iter().map(|argument| {
        let is_text = std::mem::replace(&mut after_prompt, argument == "--prompt");
        let Some(text) = argument.to_str().filter(|text| !is_text && !text.starts_with("--prompt=")) else {
            return argument;
        };
        // `--out=~/run`, and `--set data.corpus=~/texts`
        match text.rsplit_once('=') {
            Some((option, path)) if path.starts_with("~/") => {
                OsString::from(format!("{option}={}", file::in_home(path)))
            }
            _ if text.starts_with("~/") => file::in_home(text).into(),
            _ => argument,
        }
    });
    expanded.collect()
}

fn report(error: Error) -> ExitCode {
    let error = usage::with_hint(error);
    output::report_error(&error);
    ExitCode::from(error.exit_code())
}

/// Logs go to stderr; `RUST_LOG` says which, warnings unless set.
fn start_logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colours = std::io::stderr().is_terminal() && output::colours();
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .event_format(logs::Lines)
        .try_init();
    // A second start in one process keeps the first one's settings.
    drop(started);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_that_a_shell_left_is_the_home_folder() {
        let home = file::in_home("~");
        let arguments = [
            ("train", "train"),
            ("--out=~/run", "--out=HOME/run"),
            ("~/a.toml", "HOME/a.toml"),
            ("data.corpus=~/texts", "data.corpus=HOME/texts"),
            ("--prompt", "--prompt"),
            ("~/x", "~/x"),
            ("--prompt=~/y", "--prompt=~/y"),
            ("a~", "a~"),
        ];
        let expanded = in_home(arguments.map(|(given, _)| OsString::from(given)));
        assert_eq!(expanded, arguments.map(|(_, expected)| OsString::from(expected.replace("HOME", &home))));
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
