//! What may stand on the command line: here what trains, reads and shows; [`study`] and [`bench`] have theirs.

mod bench;
mod study;

pub(crate) use bench::{Bench, BenchGrowth, BenchKind, Measuring, Selfcheck};
pub(crate) use study::{Compare, Launcher, Runs, RunsAction, Study, Task};

use clap::{Args, Parser, Subcommand, ValueEnum};
use longwave_data::Split;
use longwave_kernels::DeviceChoice;
use longwave_position::Tokens;
use longwave_train::run::CheckpointId;
use std::path::PathBuf;

/// Train small GPTs on short sequences with any positional encoding, and measure what happens on longer
/// ones.
#[derive(Debug, Parser)]
#[command(name = "longwave", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model, evaluate it as the config says, and print the table
    Train(Train),
    /// Evaluate a trained run again, differently
    Eval(Eval),
    /// Run a study: a grid of configs and seeds, interrupted and repeated at will
    Study(Study),
    /// Do one run of a study; what `longwave study` and its launchers start
    Task(Task),
    /// Compare two runs wherever they were measured alike
    Compare(Compare),
    /// List the runs of the store, or remove those that no study needs
    Runs(Runs),
    /// Write tables, plots and the HTML page of a run, or of a folder of runs
    Report(Report),
    /// Continue a text with a trained run
    Generate(Generate),
    /// Write a trained run in Hugging Face's layout
    Export(Export),
    /// Make a run of a model in Hugging Face's layout
    Import(Import),
    /// Show an encoding in full, and what an extension makes of it, or list all there are
    Inspect(Inspect),
    /// Measure the program on this machine, beside a peer and the device's own copy
    Bench(Bench),
    /// Check in seconds that this machine computes right
    Selfcheck(Selfcheck),
    /// Check a config without running it
    Validate(Validate),
    /// Print the JSON schema of a config
    Schema,
}

/// Where and how tensors are computed.
#[derive(Args, Debug)]
pub(crate) struct Compute {
    /// Device: `auto` takes a real GPU if there is one and the CPU otherwise; also `cpu`, `gpu`, `gpu:N`
    #[arg(long, default_value_t, value_name = "auto|cpu|gpu|gpu:N", value_parser = parse_device)]
    pub(crate) device: DeviceChoice,
    /// Threads of the CPU; as many as there are cores unless given
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Kernels: `fused` where the device has them, or the plain tensor operations they are held against
    #[arg(long, value_enum, default_value_t, value_name = "KERNELS")]
    pub(crate) kernels: Kernels,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kernels {
    /// Fused kernels
    #[default]
    Fused,
    /// Plain tensor operations
    Reference,
}

#[derive(Args, Debug)]
pub(crate) struct Train {
    /// Config file; a bare name is also looked up in `configs/`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Change a key of the config, as `train.steps=200`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The run's folder; `runs/NAME-SEED` unless given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on from the folder's last checkpoint
    #[arg(long)]
    pub(crate) resume: bool,
    /// Train so many seeds, from the config's on, as a study of their own: resumed and shared like any
    #[arg(long, value_name = "N", conflicts_with_all = ["out", "resume", "kernels"],
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    #[command(flatten)]
    pub(crate) compute: Compute,
}

#[derive(Args, Debug)]
pub(crate) struct Eval {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Lengths separated by commas, in tokens or as multiples of the training length such as `2L`; those of the run's
    /// config unless given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    pub(crate) lengths: Vec<Tokens>,
    /// Extensions by kind, separated by commas, or one as an inline TOML table; repeatable
    #[arg(long, value_name = "KIND,KIND,..")]
    pub(crate) extend: Vec<String>,
    /// The reading that the others are compared with: `window_baseline` unless given, or one of the extensions, by its
    /// kind or as an inline TOML table
    #[arg(long, value_name = "METHOD")]
    pub(crate) against: Option<String>,
    /// Protocol: `fixed_target`, `non_overlapping`, `sliding`, `by_position`, `repeated_text` or `task`
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<String>,
    /// Other text to read, in tokens of the run's tokenizer: a folder, a glob or a file
    #[arg(long, value_name = "PATH")]
    pub(crate) corpus: Option<String>,
    /// The part of the corpus to read; `test` unless given
    #[arg(long, value_name = "train|validation|test", value_parser = parse_split)]
    pub(crate) split: Option<Split>,
    /// Write the loss of every scored token to this file: JSON lines, or CSV where it ends in `.csv`
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Change a key of the evaluation, as `windows_per_document=4` or `stride=64`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Which checkpoint to read: `last`, `best` (by validation), or the end of a stage: `stage-0` (`[train]`),
    /// `stage-1`, ..
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parse_checkpoint)]
    pub(crate) checkpoint: CheckpointId,
    /// Print the rows as JSON lines instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) compute: Compute,
}

#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The text to continue; an empty one begins a document
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) prompt: String,
    /// Tokens to sample
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(crate) max_tokens: usize,
    /// Divides the logits; 0 always takes the likeliest token
    #[arg(long, default_value_t = 1.0, value_name = "T", allow_negative_numbers = true)]
    pub(crate) temperature: f64,
    /// Sample from so many of the likeliest tokens
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,
    /// Sample from the fewest likeliest tokens with this probability in all
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f64>,
    /// Decides every draw
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub(crate) seed: u64,
    /// The extension it is read with, fixed at prompt plus new tokens: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    pub(crate) extend: Option<String>,
    /// Which checkpoint to read
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parse_checkpoint)]
    pub(crate) checkpoint: CheckpointId,
    /// Print one JSON object at the end instead of the text as it comes
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) compute: Compute,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// The folder to write, new or empty
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Which checkpoint to write
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parse_checkpoint)]
    pub(crate) checkpoint: CheckpointId,
}

#[derive(Args, Debug)]
pub(crate) struct Import {
    /// A folder with `config.json`, `model.safetensors` and `tokenizer.json`
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The run's folder, new or empty; `runs/NAME-SEED` unless given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Change a key of the run's config, as `data.corpus=texts`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Report {
    /// A run's folder, or a folder of runs
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The reading that the others are compared with, `window_baseline` or an extension; as they were evaluated unless
    /// given
    #[arg(long, value_name = "METHOD")]
    pub(crate) against: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// Config file; a bare name is also looked up in `configs/`
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    pub(crate) config: Option<PathBuf>,
    /// List every encoding and every extension instead, as two Markdown tables
    #[arg(long, conflicts_with_all = ["config", "set", "length", "extend"])]
    pub(crate) list: bool,
    /// Change a key of the config, as `position.base=500000.0`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The length that is read, in tokens or as a multiple of the training length such as `4L`; the training length
    /// unless given
    #[arg(long, value_name = "N|4L")]
    pub(crate) length: Option<Tokens>,
    /// The extension it is read with: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    pub(crate) extend: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Validate {
    /// Config file; a bare name is also looked up in `configs/`
    #[arg(value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Change a key of the config, as `train.steps=200`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

fn parse_split(text: &str) -> Result<Split, String> {
    text.parse().map_err(|error: longwave_core::Error| error.message().to_owned())
}

fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    text.parse().map_err(|error: longwave_core::Error| error.message().to_owned())
}

fn parse_checkpoint(text: &str) -> Result<CheckpointId, String> {
    text.parse().map_err(|error: longwave_core::Error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
