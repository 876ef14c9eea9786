//! The program that the tests run: the same as `longwave`.

use std::process::ExitCode;

fn main() -> ExitCode {
    longwave::main()
}
