//! `longwave bench`: measures the program on this machine, beside a peer and the device's copy.

use super::session::{Session, load_config, open_data};
use crate::args::{self, BenchKind};
use crate::output::{data, status};
use crate::{interrupt, output};
use longwave_bench::{Bench, Clock, Record, attention, eval, export, growth, record, rope, train};
use longwave_core::{Error, Result, file};
use longwave_position::{Lengths, Tokens};
use longwave_report::plot;
use std::io::IsTerminal;
use std::time::Duration;

/// Runs the command.
pub(crate) fn run(arguments: &args::Bench) -> Result<()> {
    match &arguments.kind {
        BenchKind::Rope(own) => {
            let bench = open(&own.measuring)?;
            let sizes = if own.elements.is_empty() { &rope::ELEMENTS[..] } else { &own.elements };
            shown(&own.measuring, |show| rope::run(&bench, sizes, show))
        }
        BenchKind::Attention(own) => {
            let bench = open(&own.measuring)?;
            let lengths = if own.lengths.is_empty() { &attention::LENGTHS[..] } else { &own.lengths };
            shown(&own.measuring, |show| attention::run(&bench, lengths, show))
        }
        BenchKind::Train(own) => {
            let config = load_config(&own.model.config, &own.model.set)?.run;
            let bench = open(&own.model.measuring)?;
            let dataset = open_data(&config.data)?;
            match &own.export {
                None => shown(&own.model.measuring, |show| train::run(&bench, &config, &dataset, show)),
                Some(folder) => {
                    let mut progress = |step| {
                        status(&format!("step {step} of {}", own.steps));
                        stopped()
                    };
                    export::write(folder, &config, &dataset, &bench.device, own.steps, &mut progress)
                }
            }
        }
        BenchKind::Eval(own) => {
            let config = load_config(&own.model.config, &own.model.set)?.run;
            let bench = open(&own.model.measuring)?;
            let vocab = open_data(&config.data)?.tokenizer().vocab_size();
            let lengths = match &own.lengths[..] {
                [] => eval::TIMES.map(|times| times * config.train.length).to_vec(),
                lengths => in_tokens(lengths, config.train.length)?,
            };
            shown(&own.model.measuring, |show| eval::run(&bench, &config, vocab, &lengths, show))
        }
        BenchKind::Growth(own) => run_growth(own),
    }
}

/// Measures both curves, tells their fits and writes their charts and tables.
fn run_growth(own: &args::BenchGrowth) -> Result<()> {
    let config = load_config(&own.model.config, &own.model.set)?.run;
    let bench = open(&own.model.measuring)?;
    let dataset = open_data(&config.data)?;
    let given = in_tokens(&own.lengths, config.train.length)?;
    let lengths = if given.is_empty() { &growth::LENGTHS[..] } else { &given };
    let widths = if own.widths.is_empty() { &growth::WIDTHS[..] } else { &own.widths };
    let mut curves = None;
    shown(&own.model.measuring, |show| {
        curves = Some(growth::run(&bench, &config, &dataset, [lengths, widths], show)?);
        Ok(())
    })?;
    let mut tables = String::new();
    for curve in curves.iter().flatten() {
        let name = curve.by.name();
        let chart = curve.chart();
        file::write(&own.out.join(format!("{name}.svg")), plot::svg(&chart)?.as_bytes())?;
        plot::write_png(&chart, &own.out.join(format!("{name}.png")))?;
        tables += &[curve.setting.as_str(), &curve.summary(), &curve.table()].join("\n\n");
        tables += "\n";
        status(&curve.summary());
    }
    file::write(&own.out.join("growth.md"), tables.as_bytes())?;
    status(&format!("charts and tables are in {}", own.out.display()));
    Ok(())
}

/// `--lengths` in tokens.
fn in_tokens(lengths: &[Tokens], train: usize) -> Result<Vec<usize>> {
    lengths.iter().map(|length| length.whole("--lengths", Lengths { train, length: train })).collect()
}

fn open(measuring: &args::Measuring) -> Result<Bench> {
    if !measuring.seconds.is_finite() || measuring.seconds < 0.0 {
        return Err(Error::value("--seconds", measuring.seconds, "it must be at least 0"));
    }
    let session = Session::open(&measuring.compute)?;
    session.introduce();
    let clock = Clock { budget: Duration::from_secs_f64(measuring.seconds), ..Clock::default() };
    Ok(Bench {
        device: session.device,
        device_name: session.device_name,
        clock,
        reference: longwave_kernels::reference_in_use(),
        alone: measuring.alone,
    })
}

type Show<'a> = dyn FnMut(Record) -> Result<()> + 'a;

/// Shows every record as it comes: as JSON, or as a line of a table with its legend at the end.
fn shown(measuring: &args::Measuring, run: impl FnOnce(&mut Show<'_>) -> Result<()>) -> Result<()> {
    let mut records = Vec::new();
    run(&mut |record| {
        stopped()?;
        if measuring.json {
            return data(&(record.json()? + "\n"));
        }
        if records.is_empty() {
            data(&(record::heading() + "\n"))?;
        }
        data(&(record::row(&record) + "\n"))?;
        records.push(record);
        Ok(())
    })?;
    if measuring.json { Ok(()) } else { data(&format!("\n{}\n", record::legend(&records))) }
}

fn stopped() -> Result<()> {
    if interrupt::asked() { Err(Error::interrupted("stopped; nothing is written")) } else { Ok(()) }
}

/// `longwave selfcheck`: whether this machine computes right.
pub(crate) fn selfcheck(arguments: &args::Selfcheck) -> Result<()> {
    use longwave_bench::selfcheck::{Checked, failure, run};
    let session = Session::open(&arguments.compute)?;
    session.introduce();
    let colours = std::io::stdout().is_terminal() && output::colours();
    let (green, red, off) = if colours { ("\u{1b}[32m", "\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "", "") };
    let checked = Checked { device: session.device, reference: longwave_kernels::reference_in_use() };
    let mut count = 0;
    let failed = run(&checked, &mut |outcome| {
        stopped()?;
        count += 1;
        let line = match &outcome.finding {
            Ok(seen) => format!("{green}pass{off}  {:52} {seen}", outcome.name),
            Err(wrong) => format!("{red}FAIL{off}  {:52} {wrong}", outcome.name),
        };
        data(&(line.trim_end().to_owned() + "\n"))
    })?;
    if failed > 0 {
        return Err(failure(failed));
    }
    data(&format!("\nall {count} checks passed\n"))
}
