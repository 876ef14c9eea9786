//! `cargo xtask bench`: measurements of Longwave's parts. Those of whole training steps and texts are `longwave bench`.
//!
//! - [`rope`], [`attention`]: one operation each, against a peer; [`copy`] is what the rotation is measured against.
//! - [`ops`]: the operations on rows, each beside its reference.
//! - [`growth`]: how the time of a token grows with the length and the width, with a fit and charts.
//! - [`scaling`]: what more threads give.

mod attention;
mod copy;
mod growth;
mod ops;
mod rope;
mod scaling;

use clap::{Args, Subcommand};
use longwave::measuring::{BenchModel, Measuring, in_tokens};
use longwave_core::{Result, file};
use longwave_position::Tokens;
use longwave_report::plot;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The rotation of q and k: bytes a second against a copy, time against burn's own
    Rope(BenchRope),
    /// Causal attention by length, alone, with `alibi` and with `rerope`: time and peak memory against burn's own
    Attention(BenchAttention),
    /// The operations on rows, forward and backward: time against plain tensor operations
    Ops(BenchOps),
    /// How the time of a token grows with the length of a text and the width of the model: charts with a fit
    Growth(BenchGrowth),
    /// What more threads give: training steps and a long text on 1, 2, 4, .. threads
    Scaling(BenchScaling),
}

#[derive(Args, Debug)]
pub(crate) struct BenchRope {
    /// Numbers in q, separated by commas; 2^18 to 2^24 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    elements: Vec<usize>,
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Args, Debug)]
pub(crate) struct BenchAttention {
    /// Lengths in tokens, separated by commas; 128 to 16,384 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    lengths: Vec<usize>,
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Args, Debug)]
pub(crate) struct BenchOps {
    /// Only those with this in their name
    #[arg(value_name = "NAME", default_value = "")]
    name: String,
    #[arg(long, value_name = "N", default_value_t = ops::ROWS)]
    rows: usize,
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Args, Debug)]
pub(crate) struct BenchGrowth {
    #[command(flatten)]
    model: BenchModel,
    /// Lengths to read, separated by commas, in tokens or as multiples of the training length such as `2L`; 128 to
    /// 16,384 tokens unless given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
    /// Widths to train, separated by commas; 64 to 512 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    widths: Vec<usize>,
    /// Folder for the charts (SVG and PNG) and their tables
    #[arg(long, value_name = "DIR", default_value = "growth")]
    out: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct BenchScaling {
    #[command(flatten)]
    model: BenchModel,
    /// The long text's length, in tokens or as a multiple of the training length such as `8L`; 16,384 tokens unless given
    #[arg(long, value_name = "N")]
    length: Option<Tokens>,
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Rope(own) => {
            let bench = own.measuring.open()?;
            let sizes = if own.elements.is_empty() { &rope::ELEMENTS[..] } else { &own.elements };
            own.measuring.show(|show| rope::run(&bench, sizes, show))
        }
        Bench::Attention(own) => {
            let bench = own.measuring.open()?;
            let lengths = if own.lengths.is_empty() { &attention::LENGTHS[..] } else { &own.lengths };
            own.measuring.show(|show| attention::run(&bench, lengths, show))
        }
        Bench::Ops(own) => {
            let bench = own.measuring.open()?;
            own.measuring.show(|show| ops::run(&bench, own.rows, &own.name, show))
        }
        Bench::Growth(own) => run_growth(own),
        Bench::Scaling(own) => {
            let (config, bench, dataset) = own.model.open()?;
            let length = match own.length {
                None => scaling::LENGTH,
                Some(length) => in_tokens(&[length], config.train.length)?[0],
            };
            let most = rayon::current_num_threads();
            own.model.measuring.show(|show| scaling::run(&bench, &config, &dataset, length, most, show))
        }
    }
}

/// Measures both curves, tells their fits and writes their charts and tables.
fn run_growth(own: &BenchGrowth) -> Result<()> {
    let (config, bench, dataset) = own.model.open()?;
    let given = in_tokens(&own.lengths, config.train.length)?;
    let lengths = if given.is_empty() { &growth::LENGTHS[..] } else { &given };
    let widths = if own.widths.is_empty() { &growth::WIDTHS[..] } else { &own.widths };
    let mut curves = None;
    own.model.measuring.show(|show| {
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
        eprintln!("{}", curve.summary());
    }
    file::write(&own.out.join("growth.md"), tables.as_bytes())?;
    eprintln!("charts and tables are in {}", own.out.display());
    Ok(())
}
