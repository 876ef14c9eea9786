//! `longwave bench`: measures the program on this machine, beside plain operations and the matrix products alone.

use crate::interrupt;
use crate::measuring::{BenchModel, STOPPED, in_tokens};
use crate::output::status;
use clap::{Args, Subcommand};
use longwave_bench::{eval, export, train};
use longwave_core::Result;
use longwave_position::Tokens;
use std::path::PathBuf;

/// Measure the program on this machine, beside plain operations
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: BenchKind,
}

#[derive(Debug, Subcommand)]
enum BenchKind {
    /// Training steps of a config, against plain operations and against the matrix products alone
    Train(BenchTrain),
    /// Reading texts of growing length with fresh weights
    Eval(BenchEval),
}

#[derive(Args, Debug)]
struct BenchTrain {
    #[command(flatten)]
    model: BenchModel,
    /// Instead of timing, write initial weights, batches and losses for another program to train on
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Steps of the export
    #[arg(long, value_name = "N", default_value_t = 10, requires = "export")]
    steps: u64,
}

#[derive(Args, Debug)]
struct BenchEval {
    #[command(flatten)]
    model: BenchModel,
    /// Lengths separated by commas, in tokens or as multiples of the training length such as `2L`; `L,2L,4L,8L` unless
    /// given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.kind {
        BenchKind::Train(own) => {
            let (config, bench, dataset) = own.model.open()?;
            match &own.export {
                None => own.model.measuring.show(|show| train::run(&bench, &config, &dataset, show)),
                Some(folder) => {
                    let mut progress = |step| {
                        status(&format!("step {step} of {}", own.steps));
                        interrupt::check(STOPPED)
                    };
                    export::write(folder, &config, &dataset, &bench.device, own.steps, &mut progress)
                }
            }
        }
        BenchKind::Eval(own) => {
            let (config, bench, dataset) = own.model.open()?;
            let vocab = dataset.tokenizer().vocab_size();
            let lengths = match &own.lengths[..] {
                [] => eval::TIMES.map(|times| times * config.train.length).to_vec(),
                lengths => in_tokens(lengths, config.train.length)?,
            };
            own.model.measuring.show(|show| eval::run(&bench, &config, vocab, &lengths, show))
        }
    }
}
