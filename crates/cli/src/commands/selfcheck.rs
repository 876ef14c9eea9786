//! `longwave selfcheck`: whether this machine computes right.

use crate::options::{Compute, introduce, parsed};
use crate::output::{self, lines};
use crate::{device_check, interrupt};
use clap::Args;
use longwave_bench::selfcheck::{self, Checked, parity};
use longwave_core::memory_check::shown;
use longwave_core::{Error, Result};
use longwave_kernels::Precision;
use longwave_kernels::device::{HAS_RUNTIME, Listed, Properties, gpus, properties};

/// Check in seconds that this machine computes right
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// List the GPUs that this build reaches, by number, name and memory, and check nothing
    #[arg(long)]
    list: bool,
    /// Then compare every operation, encoding and extension with the CPU at several lengths, in every precision that the
    /// device has, as a table to send in with a report (minutes)
    #[arg(long, conflicts_with = "list")]
    full: bool,
    /// The lengths of the table
    #[arg(long, value_delimiter = ',', requires = "full", default_values_t = parity::LENGTHS)]
    lengths: Vec<usize>,
    /// The precisions of the table, of `f32`, `f16` and `bf16`; unless given, each that the device has
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "full", value_parser = parsed::<Precision>)]
    precisions: Vec<Precision>,
    #[command(flatten)]
    compute: Compute,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        return list();
    }
    if let Some(short) = arguments.lengths.iter().find(|length| **length < parity::SHORTEST) {
        let least =
            format!("it must be at least {}, so that a third of it is a text to train on", parity::SHORTEST);
        return Err(Error::value("--lengths", short.to_string(), least)
            .hint("leave it out for lengths from 37 to 1000"));
    }
    let machine = arguments.compute.open()?;
    for precision in &arguments.precisions {
        precision.check("--precisions", &machine.device)?;
    }
    introduce(&machine);
    if let Some(has) = properties(&machine.device) {
        lines(&format!("device has {}\n", in_words(&has)))?;
    }
    let (green, red, off) =
        if output::stdout_has_colours() { ("\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "", "") };
    let mut count = 0;
    let failed = device_check::run_checks(&machine, &mut |outcome| {
        interrupt::check("stopped; nothing is written")?;
        count += 1;
        let line = match &outcome.finding {
            Ok(seen) => format!("{green}pass{off}  {:52} {seen}", outcome.name),
            Err(wrong) => format!("{red}FAIL{off}  {:52} {wrong}", outcome.name),
        };
        lines(&(line.trim_end().to_owned() + "\n"))
    })?;
    let failed =
        failed + if arguments.full { table(&device_check::checked(&machine), arguments)? } else { 0 };
    if failed > 0 {
        return Err(selfcheck::failure(failed));
    }
    lines(&format!(
        "\nall {count} checks passed{}\n",
        if arguments.full { ", and every line of the table" } else { "" }
    ))
}

/// How close the device comes to the CPU in everything, line by line; the number of lines that failed.
fn table(checked: &Checked, Arguments { lengths, precisions, .. }: &Arguments) -> Result<usize> {
    let precisions =
        if precisions.is_empty() { Precision::of(&checked.device).collect() } else { precisions.clone() };
    lines(&format!("\n{}", parity::head(lengths)))?;
    let mut errors = String::new();
    let failed = parity::table(checked, lengths, &precisions, &mut |row| {
        interrupt::check("stopped; nothing is written")?;
        errors += &row.errors();
        lines(&row.line())
    });
    if !errors.is_empty() {
        // Below the table, so that it stays a table in Markdown; also after an interrupt.
        lines(&format!("\n{errors}"))?;
    }
    failed
}

fn list() -> Result<()> {
    lines("cpu    the CPU\n")?;
    let listed = gpus();
    for Listed { choice, name, properties } in &listed {
        match (name, properties) {
            (Ok(name), Some(has)) => lines(&format!("{choice}  {name}: {}\n", in_words(has)))?,
            (Ok(name), None) => lines(&format!("{choice}  {name}\n"))?,
            (Err(why), _) => lines(&format!("{choice}  cannot be opened: {why}\n"))?,
        }
    }
    match (listed.is_empty(), HAS_RUNTIME) {
        (false, _) => Ok(()),
        (true, true) => lines("no GPU was found: its driver may be missing (on Linux its Vulkan part)\n"),
        (true, false) => lines("this build has no GPU support: build it in with `--features gpu`\n"),
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
