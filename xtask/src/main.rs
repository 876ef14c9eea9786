//! Commands for developers of Longwave; no release carries them.
//!
//! `cargo xtask counts` prints how large the project is, as a Markdown table.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's output")]

mod counts;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["counts"] => match counts::table(root) {
            Ok(table) => {
                print!("{table}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("error: name a command\n\nhint: `cargo xtask counts` prints how large the project is");
            ExitCode::from(2)
        }
    }
}
