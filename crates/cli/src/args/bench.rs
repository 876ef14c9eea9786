//! What may stand behind `bench` and `selfcheck`.

use super::Compute;
use clap::{Args, Subcommand};
use longwave_position::Tokens;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) kind: BenchKind,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchKind {
    /// The rotation of q and k: bytes a second against a copy, time against burn's own
    Rope(BenchRope),
    /// Causal attention by length, alone, with `alibi` and with `rerope`: time and peak memory against burn's own
    Attention(BenchAttention),
    /// Training steps of a config, against plain operations and against the matrix products alone
    Train(BenchTrain),
    /// Reading texts of growing length with fresh weights
    Eval(BenchEval),
    /// How the time of a token grows with the length of a text and the width of the model: charts with a fit
    Growth(BenchGrowth),
}

/// What every benchmark takes.
#[derive(Args, Debug)]
pub(crate) struct Measuring {
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Time no peer and no reference
    #[arg(long)]
    pub(crate) alone: bool,
    /// Seconds for each subject, after which it gets no more runs than three
    #[arg(long, default_value_t = 0.7, value_name = "S")]
    pub(crate) seconds: f64,
    #[command(flatten)]
    pub(crate) compute: Compute,
}

#[derive(Args, Debug)]
pub(crate) struct BenchRope {
    /// Numbers in q, separated by commas; 2^18 to 2^24 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    pub(crate) elements: Vec<usize>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

#[derive(Args, Debug)]
pub(crate) struct BenchAttention {
    /// Lengths in tokens, separated by commas; 128 to 16,384 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    pub(crate) lengths: Vec<usize>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// The model that is measured.
#[derive(Args, Debug)]
pub(crate) struct BenchModel {
    /// Config file; a bare name is also looked up in `configs/`
    #[arg(long, value_name = "FILE", default_value = "rope.toml")]
    pub(crate) config: PathBuf,
    /// Change a key of the config, as `model.width=256`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

#[derive(Args, Debug)]
pub(crate) struct BenchTrain {
    #[command(flatten)]
    pub(crate) model: BenchModel,
    /// Instead of timing, write initial weights, batches and losses for another program to train on
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,
    /// Steps of the export
    #[arg(long, value_name = "N", default_value_t = 10, requires = "export")]
    pub(crate) steps: u64,
}

#[derive(Args, Debug)]
pub(crate) struct BenchEval {
    #[command(flatten)]
    pub(crate) model: BenchModel,
    /// Lengths separated by commas, in tokens or as multiples of the training length such as `2L`; `L,2L,4L,8L` unless
    /// given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    pub(crate) lengths: Vec<Tokens>,
}

#[derive(Args, Debug)]
pub(crate) struct BenchGrowth {
    #[command(flatten)]
    pub(crate) model: BenchModel,
    /// Lengths to read, separated by commas, in tokens or as multiples of the training length such as `2L`; 128 to
    /// 16,384 tokens unless given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    pub(crate) lengths: Vec<Tokens>,
    /// Widths to train, separated by commas; 64 to 512 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    pub(crate) widths: Vec<usize>,
    /// Folder for the charts (SVG and PNG) and their tables
    #[arg(long, value_name = "DIR", default_value = "growth")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Selfcheck {
    #[command(flatten)]
    pub(crate) compute: Compute,
}
