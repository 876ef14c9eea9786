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

// The allocator that counts what an input holds.
use longwave as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What the arguments ask for.
#[derive(Clone, Debug)]
struct Options {
    readers: Vec<String>,
    inputs: u64,
    seconds: Option<Duration>,
    seed: u64,
    keep: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--child") {
        return child::main(&arguments[1..]);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        for reader in readers::ALL {
            println!("{:<10} {}", reader.name, reader.about);
        }
        return ExitCode::SUCCESS;
    }
    match options(&arguments) {
        Ok(options) => supervise::run(&options),
        Err(wrong) => {
            eprintln!("error: {wrong}\n\nhint: `longwave-fuzz --list` names the readers");
            ExitCode::from(2)
        }
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let keep = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/fuzz"));
    let mut options = Options { readers: Vec::new(), inputs: 100_000, seconds: None, seed: 1, keep };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        let number = |text: &String| text.parse().map_err(|_| format!("`{text}` is no number"));
        match argument.as_str() {
            "--inputs" => options.inputs = number(value()?)?,
            "--seconds" => options.seconds = Some(Duration::from_secs(number(value()?)?)),
            "--seed" => options.seed = number(value()?)?,
            "--keep" => options.keep = PathBuf::from(value()?),
            name if readers::find(name).is_some() => options.readers.push(name.to_owned()),
            other => return Err(format!("`{other}` is no option and no reader")),
        }
    }
    if options.readers.is_empty() {
        options.readers = readers::ALL.iter().map(|reader| reader.name.to_owned()).collect();
    }
    Ok(options)
}
