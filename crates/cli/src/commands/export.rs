//! `longwave export`: writes a trained run in Hugging Face's layout.

use crate::args;
use crate::output::status;
use burn::tensor::Device;
use longwave_core::Result;
use longwave_eval::Config;
use longwave_train::Trained;

/// Runs the command.
pub(crate) fn run(arguments: &args::Export) -> Result<()> {
    // Nothing is computed: weights go from file to file.
    let trained = Trained::open(&arguments.run, arguments.checkpoint, &Device::flex())?;
    let document = Config::load(&arguments.run.join("config.toml"), &[])?.to_table()?;
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
