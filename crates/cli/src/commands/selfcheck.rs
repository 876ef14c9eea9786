//! `longwave selfcheck`: whether this machine computes right.

use crate::interrupt;
use crate::options::{Compute, introduce};
use crate::output::{self, data};
use clap::Args;
use longwave_bench::selfcheck::{self, Checked};
use longwave_core::memory_check::shown;
use longwave_core::{Error, Result};
use longwave_kernels::device::{HAS_RUNTIME, Listed, Properties, gpus, properties};

/// Check in seconds that this machine computes right
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// List the GPUs that this build reaches, by number, name and memory, and check nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    compute: Compute,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        return list();
    }
    let machine = arguments.compute.open()?;
    introduce(&machine);
    if let Some(has) = properties(&machine.device) {
        data(&format!("device has {}\n", in_words(&has)))?;
    }
    let (green, red, off) =
        if output::stdout_has_colours() { ("\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "", "") };
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

/// What `--device` can name, a line each.
fn list() -> Result<()> {
    data("cpu    the CPU\n")?;
    let listed = gpus();
    for Listed { choice, name, properties } in &listed {
        match (name, properties) {
            (Ok(name), Some(has)) => data(&format!("{choice}  {name}: {}\n", in_words(has)))?,
            (Ok(name), None) => data(&format!("{choice}  {name}\n"))?,
            (Err(why), _) => data(&format!("{choice}  cannot be opened: {why}\n"))?,
        }
    }
    match (listed.is_empty(), HAS_RUNTIME) {
        (false, _) => Ok(()),
        (true, true) => data("no GPU was found: its driver may be missing (on Linux its Vulkan part)\n"),
        (true, false) => data("this build has no GPU support: build it in with `--features gpu`\n"),
    }
}

/// What a GPU has, as one sentence goes on.
fn in_words(has: &Properties) -> String {
    let memory = has.memory.map_or("memory that the runtime does not tell".to_owned(), |bytes| {
        format!("{} of memory", shown(bytes))
    });
    let (few, many) = has.in_step;
    let step = if few == many { few.to_string() } else { format!("{few} to {many}") };
    let types = if has.types.is_empty() { String::new() } else { format!(" and {}", has.types.join(", ")) };
    let matrices = match has.matrices.as_slice() {
        [] => "no matrix units that it tells of".to_owned(),
        known => format!("matrix units ({})", known.join("; ")),
    };
    format!(
        "{memory}, tensors of up to {}, {} shared by a group, {step} threads in step, f32{types}, {matrices}",
        shown(has.largest),
        shown(has.shared as u64),
    )
}
