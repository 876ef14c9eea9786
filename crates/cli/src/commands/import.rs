//! `longwave import`: makes a run of a model in Hugging Face's layout.

use crate::configs::default_folder;
use crate::output::status;
use burn::tensor::Device;
use clap::Args;
use longwave_core::Result;
use longwave_core::config::set;
use longwave_experiment::Config;
use std::path::PathBuf;

/// Make a run of a model in Hugging Face's layout
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A folder with `config.json`, `model.safetensors` and `tokenizer.json`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The run's folder, new or empty; `runs/NAME-SEED` unless given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a key of the run's config, as `data.corpus=texts`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut import = longwave_hub::import(&arguments.folder)?;
    for assignment in &arguments.set {
        set(&mut import.document, assignment)?;
    }
    // The evaluations too are checked before anything is written.
    let config = Config::from_table(import.document.clone())?;
    let out = arguments.out.clone().unwrap_or_else(|| default_folder(&config.run));
    let written = import.write(&out, &Device::flex())?;
    let kind = import.architecture.model_type();
    for note in &import.notes {
        status(note);
    }
    status(&match &import.run {
        Some(meta) => format!("{}: the run `{}` after step {}", out.display(), written.name, meta.step),
        None => format!(
            "{}: a `{kind}` model of training length {}; `eval` reads it on `{}`, or name another text with `--set \
             data.corpus=..`",
            out.display(),
            written.train.length,
            written.data.corpus
        ),
    });
    Ok(())
}
