//! What may stand behind `study`, `task`, `compare` and `runs`.

use super::parse_device;
use clap::{Args, Subcommand, ValueEnum};
use longwave_kernels::DeviceChoice;
use longwave_study::Metric;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Study {
    /// Study file; a bare name is also looked up in `experiments/`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show the runs and what they take, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Runs at a time; as many as the cores hold unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) jobs: Option<u64>,
    /// Devices that runs are dealt to, one run each at a time, instead of the study's: `gpu:0,gpu:1`
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_device)]
    pub(crate) devices: Vec<DeviceChoice>,
    /// Try runs again that failed
    #[arg(long)]
    pub(crate) retry: bool,
    /// Run nothing: write the results of what is finished
    #[arg(long, conflicts_with_all = ["dry_run", "retry"])]
    pub(crate) collect: bool,
    /// The study's folder; `studies/NAME` beside the store unless given
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Who runs it
    #[arg(long, value_enum, default_value_t, value_name = "local|slurm|command")]
    pub(crate) launcher: Launcher,
    /// `--launcher command`: a shell command that is run for each task, with `{command}` or `{task}` in it
    #[arg(long, value_name = "TEMPLATE", required_if_eq("launcher", "command"))]
    pub(crate) template: Option<String>,
    /// `--launcher slurm`: an option for sbatch, such as `--mem=4G`; repeatable
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) sbatch: Vec<String>,
    /// Wait until the launcher's tasks are done, and write the results
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Launcher {
    /// Processes on this machine
    #[default]
    Local,
    /// Job arrays of an existing Slurm
    Slurm,
    /// Any engine, through a command line
    Command,
}

#[derive(Args, Debug)]
pub(crate) struct Task {
    /// A task file that `longwave study` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Device instead of the task's own
    #[arg(long, value_name = "auto|cpu|gpu|gpu:N", value_parser = parse_device)]
    pub(crate) device: Option<DeviceChoice>,
    /// Tell progress on stdout as JSON lines, and stop when stdin ends
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// A run's folder, or the beginning of a key in the store
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Another one
    #[arg(value_name = "RUN")]
    pub(crate) other: PathBuf,
    /// What is compared: `loss`, `accuracy`, `exact_match`, `bits_per_byte` or `baseline_difference`
    #[arg(long, value_name = "METRIC", default_value = "loss", value_parser = parse_metric)]
    pub(crate) metric: Metric,
    /// Print JSON lines instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) action: Option<RunsAction>,
    /// The folder of runs
    #[arg(long, value_name = "DIR", default_value = longwave_study::document::STORE, global = true)]
    pub(crate) store: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsAction {
    /// List the runs: what they are, how far they are, who needs them
    List,
    /// Remove runs that no study's last plan has
    Prune {
        /// Really remove them, instead of only saying which
        #[arg(long)]
        yes: bool,
    },
}

fn parse_metric(text: &str) -> Result<Metric, String> {
    text.parse().map_err(|error: longwave_core::Error| error.message().to_owned())
}
