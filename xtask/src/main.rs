//! Commands for developers of Longwave; no release carries them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's output")]
// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp))]

mod bench;
mod counts;

use clap::Parser;
use longwave_core::{Error, Result};
use std::path::Path;
use std::process::ExitCode;

/// Commands for developers of Longwave
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
enum Command {
    /// Print how large the project is, as a Markdown table
    Counts,
    /// Measure the parts of the program on this machine
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Counts => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
            let table = counts::table(root).map_err(|error| Error::io("read", root, &error))?;
            print!("{table}");
            Ok(())
        }
        Command::Bench(bench) => bench::run(bench),
    }
}

fn main() -> ExitCode {
    match run(&Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
