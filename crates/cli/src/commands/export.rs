//! `longwave export`: writes a trained run in Hugging Face's layout.

use crate::options::parsed;
use crate::output::status;
use burn::tensor::Device;
use clap::Args;
use longwave_core::Result;
use longwave_experiment::Config;
use longwave_train::Trained;
use longwave_train::run::CheckpointId;
use std::path::PathBuf;

/// Write a trained run in Hugging Face's layout
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The folder to write, new or empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Which checkpoint to write
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parsed::<CheckpointId>)]
    checkpoint: CheckpointId,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Nothing is computed: weights go from file to file.
    let trained = Trained::open(&arguments.run, arguments.checkpoint, &Device::flex())?;
    let document = Config::of_run(&arguments.run)?.to_table()?;
    let exported = longwave_hub::export(&arguments.folder, &arguments.run, &trained, &document)?;
    let (folder, kind) = (arguments.folder.display(), exported.architecture.model_type());
    status(&match exported.obstacle {
        None => format!("wrote {folder} as `{kind}`, which other tools read"),
        Some(obstacle) => format!(
            "wrote {folder} as `{kind}`: `longwave import` reads it, other tools cannot. No published architecture \
             computes this model: {obstacle}"
        ),
    });
    Ok(())
}
