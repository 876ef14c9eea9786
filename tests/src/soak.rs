//! Trains and evaluates again and again in one process, and watches its memory.
//!
//! `longwave-soak CONFIG.. [--set KEY=VALUE].. [--minutes N | --rounds N]` runs every config in turn, a round after the other, each in a new
//! folder. After every round it prints the resident memory. It ends with 1 where the most of the last quarter of the rounds exceeds
//! the most of the second quarter by more than 2%, or 8 MiB where that is more: the first quarter fills caches, and the allocator keeps or
//! returns some MiB from one round to the next.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's output")]
#![allow(clippy::unwrap_used, reason = "as in every test")]

use clap::{ArgGroup, Parser};
// The allocator of the program.
use longwave as _;
use longwave_core::{Result, memory_check};
use longwave_experiment::{Config, DeviceChoice, Machine, Silent, run};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How much more memory the end may take than the beginning, once caches are full.
const MOST: f64 = 1.02;
/// What the allocator keeps or returns from one round to the next, in MiB.
const NOISE: f64 = 8.0;

/// Trains and evaluates again and again in one process, and watches its memory
#[derive(Debug, Parser)]
#[command(group(ArgGroup::new("end").required(true).multiple(true).args(["minutes", "rounds"])))]
struct Options {
    /// What is trained and evaluated in each round
    #[arg(value_name = "CONFIG", required = true)]
    configs: Vec<PathBuf>,
    /// Change a key of every config; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Begin no round after so long
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// End after so many rounds
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

fn main() -> ExitCode {
    match watched(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

/// Whether the memory stays flat.
fn watched(options: &Options) -> Result<bool> {
    let machine = Machine::open(DeviceChoice::Cpu, None)?;
    let begin = Instant::now();
    let mut resident = Vec::new();
    let (rounds, time) =
        (options.rounds.unwrap_or(usize::MAX), options.minutes.map_or(Duration::MAX, Duration::from_mins));
    while resident.len() < rounds && begin.elapsed() < time {
        let folder = tempfile::tempdir().unwrap();
        for (index, path) in options.configs.iter().enumerate() {
            trained_and_read(path, &options.set, &folder.path().join(index.to_string()), &machine)?;
        }
        let mebibytes = memory_check::resident().map_or(f64::NAN, |bytes| bytes as f64 / f64::from(1 << 20));
        resident.push(mebibytes);
        println!("round {}, {:.0} s: {mebibytes:.1} MiB", resident.len(), begin.elapsed().as_secs_f64());
    }
    let most = |rounds: &[f64]| rounds.iter().copied().fold(f64::NAN, f64::max);
    let quarter = resident.len() / 4;
    let [second, last] = [most(&resident[quarter..2 * quarter]), most(&resident[resident.len() - quarter..])];
    println!(
        "second quarter at most {second:.1} MiB, last quarter {last:.1} MiB, {:.4} times",
        last / second
    );
    Ok(last <= (MOST * second).max(second + NOISE))
}

fn trained_and_read(path: &Path, set: &[String], folder: &Path, machine: &Machine) -> Result<()> {
    let config = Config::load(path, set)?;
    let rows = run(config, folder, false, machine, &mut Silent)?;
    assert!(!rows.is_empty(), "`{}` evaluates nothing", path.display());
    Ok(())
}
