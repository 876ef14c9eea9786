//! Reads damaged and hostile inputs with every reader of the program, in search of a panic, a hang or a leak.
//!
//! `longwave-fuzz [READER..] [--inputs N] [--seconds N] [--seed N] [--keep DIR]`; without a reader all are tried,
//! one after the other. `longwave-fuzz --list` names them.
//!
//! Inputs are real files (configs and studies of the repository, a small run and its export that are made first, and inputs
//! that once failed, in `tests/fuzz`), changed at random in one to eight places: bits, numbers, words of the same reader's
//! other inputs, lines, deep nesting. An input is a function of the reader, the seed and its number, and no coverage guides
//! the choice. It fails where the reader panics, ends the process, takes more than a second, or holds more than 512 MiB.
//! Each one that fails is kept in `target/fuzz`.
//!
//! The reader runs in a process of its own ([`child`]), with 8 GiB of address space. This one ([`supervise`]) starts it again
//! after the input that ended it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's output")]
#![allow(clippy::unwrap_used, reason = "as in every test")]

mod child;
mod mutate;
mod readers;
mod samples;
mod stored;
mod supervise;
mod written;

use clap::Parser;
use clap::builder::PossibleValuesParser;
// The allocator that counts what an input holds.
use longwave as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads damaged and hostile inputs with every reader of the program
#[derive(Debug, Parser)]
struct Options {
    /// Try these alone
    #[arg(value_name = "READER", value_parser = PossibleValuesParser::new(names()))]
    readers: Vec<String>,
    /// Inputs of each reader
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    inputs: u64,
    /// End each reader after so long
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// What decides the inputs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where inputs that fail are kept
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fuzz"))]
    keep: PathBuf,
    /// Name the readers
    #[arg(long)]
    list: bool,
}

fn names() -> impl Iterator<Item = &'static str> {
    readers::ALL.iter().map(|reader| reader.name)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--child") {
        return child::main(&arguments[1..]);
    }
    let mut options = Options::parse();
    if options.list {
        for reader in readers::ALL {
            println!("{:<10} {}", reader.name, reader.about);
        }
        return ExitCode::SUCCESS;
    }
    if options.readers.is_empty() {
        options.readers = names().map(str::to_owned).collect();
    }
    supervise::run(&options)
}
