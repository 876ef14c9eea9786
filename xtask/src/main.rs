//! Commands for developers of Longwave; no release carries them.
//!
//! `cargo xtask counts` prints how large the project is, as a Markdown table.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's output")]

mod counts;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    if !std::env::args().skip(1).eq(["counts".to_owned()]) {
        eprintln!("error: name a command\n\nhint: `cargo xtask counts` prints how large the project is");
        return ExitCode::from(2);
    }
    match counts::table(root) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
