//! `longwave selfcheck`: whether this machine computes right.

use crate::interrupt;
use crate::options::{Compute, introduce};
use crate::output::{self, data};
use clap::Args;
use longwave_bench::selfcheck::{self, Checked};
use longwave_core::{Error, Result};

/// Check in seconds that this machine computes right
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    compute: Compute,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let machine = arguments.compute.open()?;
    introduce(&machine);
    let (green, red, off) = if output::stdout_has_colours() { ("\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "", "") };
    let checked = Checked { device: machine.device, reference: longwave_kernels::reference_in_use() };
    let mut count = 0;
    let failed = selfcheck::run(&checked, &mut |outcome| {
        if interrupt::asked() {
            return Err(Error::interrupted("stopped; nothing is written"));
        }
        count += 1;
        let line = match &outcome.finding {
            Ok(seen) => format!("{green}pass{off}  {:52} {seen}", outcome.name),
            Err(wrong) => format!("{red}FAIL{off}  {:52} {wrong}", outcome.name),
        };
        data(&(line.trim_end().to_owned() + "\n"))
    })?;
    if failed > 0 {
        return Err(selfcheck::failure(failed));
    }
    data(&format!("\nall {count} checks passed\n"))
}
