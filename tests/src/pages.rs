//! Writes completions for shells and manual pages, from the command line itself.
//!
//! `cargo run --package longwave-tests --bin longwave-pages -- DIR` writes `DIR/completions` (bash, zsh, fish, PowerShell) and
//! `DIR/man`: a page for the program and one for each command.

#![allow(clippy::print_stderr, reason = "the program's output")]

use clap::Command;
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let Some(folder) = env::args().nth(1).map(PathBuf::from) else {
        eprintln!("error: no folder is named\n\nhint: `longwave-pages DIR`");
        return ExitCode::from(2);
    };
    match written(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write to `{}`: {error}", folder.display());
            ExitCode::from(1)
        }
    }
}

fn written(folder: &Path) -> io::Result<()> {
    let [completions, man] = ["completions", "man"].map(|name| folder.join(name));
    fs::create_dir_all(&completions)?;
    fs::create_dir_all(&man)?;
    let mut line = without_help(longwave::command_line());
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
        clap_complete::generate_to(shell, &mut line, "longwave", &completions)?;
    }
    clap_mangen::generate_to(line, &man)
}

/// Without the commands called `help`, which would have a page for each command once more.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
