//! `longwave export`: writes a trained run in Hugging Face's layout.

use crate::options::{one_extension, parsed};
use crate::output::status;
use burn::tensor::Device;
use clap::Args;
use longwave_core::{Error, Result};
use longwave_experiment::Config;
use longwave_hub::Exported;
use longwave_position::extensions::rope_parameters::Written;
use longwave_position::{Lengths, Tokens};
use longwave_train::Trained;
use longwave_train::checkpoint::StageReading;
use longwave_train::run::CheckpointId;
use std::path::PathBuf;

/// Write a trained run in Hugging Face's layout
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The folder to write: new, empty, or an earlier export
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Which checkpoint to write
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parsed::<CheckpointId>)]
    checkpoint: CheckpointId,
    /// The extension that other programs read it with, written as `rope_parameters`: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    extend: Option<String>,
    /// With `--extend`, the longest text that it is for, in tokens or as a multiple of the training length such as `4L`; the
    /// extension's `scale` times the training length unless given
    #[arg(long, value_name = "N", requires = "extend", value_parser = parsed::<Tokens>)]
    length: Option<Tokens>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Nothing is computed: weights go from file to file.
    let trained = Trained::open(&arguments.run, arguments.checkpoint, &Device::flex())?;
    let document = Config::of_run(&arguments.run)?.to_table()?;
    let scaling = scaling(arguments, trained.config.train.length)?;
    let exported =
        longwave_hub::export(&arguments.folder, &arguments.run, &trained, &document, scaling.as_ref())?;
    let (folder, kind) = (arguments.folder.display(), exported.architecture.model_type());
    status(&match exported.obstacle {
        None => format!("wrote {folder} as `{kind}`, which other tools read{}", scaled(&exported)),
        Some(obstacle) => format!(
            "wrote {folder} as `{kind}`: `longwave import` reads it, other tools cannot. No architecture that Longwave \
             writes computes this model: {obstacle}"
        ),
    });
    Ok(())
}

/// How they read it past the training length.
fn scaled(exported: &Exported) -> String {
    exported.scaling.as_ref().map_or_else(String::new, |Written { parameters, longest }| {
        let kind = parameters.get("rope_type").and_then(serde_json::Value::as_str).unwrap_or_default();
        format!(": `rope_type = \"{kind}\"`, `max_position_embeddings = {longest}`")
    })
}

/// The extension for other programs, with the longest text.
fn scaling(arguments: &Arguments, train: usize) -> Result<Option<StageReading>> {
    let Some(text) = &arguments.extend else { return Ok(None) };
    let extend = one_extension(Some(text))?;
    let written = serde_json::to_value(&extend)
        .map_err(|error| Error::failed(format!("an extension cannot be written as JSON: {error}")))?;
    let scale = written.get("scale").and_then(serde_json::Value::as_f64);
    let length = match (arguments.length, scale) {
        (Some(length), _) => length.whole("--length", Lengths { train, length: train })?,
        (None, Some(scale)) => (scale * train as f64).round() as usize,
        // They scale nothing, or by each text.
        (None, None) if matches!(extend.kind(), "direct" | "dynamic_ntk") => train,
        (None, None) => {
            return Err(Error::usage(format!(
                "`--extend {}` needs the longest text: the files say it, and have one scale for every length",
                extend.kind()
            ))
            .hint("add `--length 4L`, or write the scale, as in `--extend '{ kind = \"yarn\", scale = 4.0 }'`"));
        }
    };
    if length < train {
        return Err(Error::value("--length", length, format!("the model was trained on {train} tokens"))
            .hint("name the longest text, as `4L`"));
    }
    Ok(Some(StageReading { length, extend: written, head_scale: None }))
}
