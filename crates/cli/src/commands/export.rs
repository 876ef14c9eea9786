//! `longwave export`: writes a trained run in Hugging Face's layout, or as a file of `PyTorch` with its weights.

use crate::options::{one_extension, parsed};
use crate::output::status;
use burn::tensor::Device;
use clap::Args;
use longwave_core::text::quoted;
use longwave_core::{Error, Result, written};
use longwave_experiment::Config;
use longwave_hub::Exported;
use longwave_hub::torch::{self, Extended};
use longwave_position::extensions::rope_parameters::Written;
use longwave_position::{Lengths, Tokens};
use longwave_train::Trained;
use longwave_train::checkpoint::StageReading;
use longwave_train::run::CheckpointId;
use std::path::{Path, PathBuf};

const TORCH: &str = "torch";

#[expect(clippy::doc_markdown, reason = "the help shows it as it stands")]
/// Write a trained run in Hugging Face's layout, or for PyTorch
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The folder to write: new, empty, or an earlier export. Before it `hf`, which is Hugging Face's layout as without it, or `torch`: one
    /// readable file `model.py` that needs PyTorch alone, and the weights
    #[arg(value_name = "DIR", num_args = 1..=2, required = true)]
    place: Vec<PathBuf>,
    /// Which checkpoint to write
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parsed::<CheckpointId>)]
    checkpoint: CheckpointId,
    /// The extension that other programs read it with, written as `rope_parameters`, and for `torch` any: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    extend: Option<String>,
    /// With `--extend`, the longest text that it is for, in tokens or as a multiple of the training length such as `4L`; the
    /// extension's `scale` times the training length unless given. For `torch` the longest text that tables are written for, 4L unless
    /// given
    #[arg(long, value_name = "N", value_parser = parsed::<Tokens>)]
    length: Option<Tokens>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Nothing is computed: weights go from file to file.
    let trained = Trained::open(&arguments.run, arguments.checkpoint, &Device::flex())?;
    let document = Config::of_run(&arguments.run)?.to_table()?;
    let folder = match &arguments.place[..] {
        [layout, folder] if layout.as_os_str() == TORCH => {
            return for_pytorch(arguments, folder, &trained, &document);
        }
        [layout, folder] if layout.as_os_str() == "hf" => folder,
        [folder] if folder.as_os_str() != TORCH => folder,
        [folder] => {
            return Err(Error::usage("the folder to write is missing")
                .hint(format!("`export {} {TORCH} DIR` writes it for PyTorch", folder.display())));
        }
        [layout, ..] => {
            let allowed = format!("it must be \"hf\" or \"{TORCH}\"");
            return Err(Error::value("the layout", format!("\"{}\"", layout.display()), allowed)
                .hint("the folder comes last"));
        }
        [] => return Err(Error::usage("the folder to write is missing")),
    };
    if arguments.length.is_some() && arguments.extend.is_none() {
        return Err(Error::usage("`--length` is that of `--extend`").hint("give both, or neither"));
    }
    let scaling = scaling(arguments, trained.config.train.length)?;
    let exported = longwave_hub::export(folder, &arguments.run, &trained, &document, scaling.as_ref())?;
    let (folder, kind) = (folder.display(), exported.architecture.model_type());
    status(&match &exported.obstacle {
        None => format!("wrote {folder} as `{kind}`, which other tools read{}", scaled(&exported)),
        Some(obstacle) => format!(
            "wrote {folder} as `{kind}`: `longwave import` reads it, other tools cannot. No architecture that Longwave \
             writes computes this model: {obstacle}"
        ),
    });
    exported.bos_note.iter().for_each(|note| status(note));
    Ok(())
}

fn for_pytorch(
    arguments: &Arguments,
    folder: &Path,
    trained: &Trained,
    document: &toml::Table,
) -> Result<()> {
    let train = trained.config.train.length;
    let extend = one_extension(arguments.extend.as_deref())?;
    let longest = match arguments.length {
        Some(length) => length.whole("--length", Lengths { train, length: train })?,
        None => 4 * train,
    };
    check_longest(longest, train)?;
    let kind = extend.kind();
    torch::export(folder, &arguments.run, trained, document, &Extended { extend, longest })?;
    let (shown, word) = (folder.display(), quoted(&folder.to_string_lossy()));
    status(&format!(
        "wrote {shown}: `{shown}/model.py` computes the model with PyTorch alone, read with `{kind}`; `longwave import {word}` \
                     reads it back, trained further or not"
    ));
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
    let written = written::json_value("an extension", &extend)?;
    let scale = written.get("scale").and_then(serde_json::Value::as_f64);
    let length = match (arguments.length, scale) {
        (Some(length), _) => length.whole("--length", Lengths { train, length: train })?,
        (None, Some(scale)) => (scale * train as f64).round() as usize,
        // They scale nothing, or by each text, or cannot be written at all.
        (None, None) if extend.kind() == "dynamic_ntk" || written.get("scale").is_none() => train,
        (None, None) => {
            return Err(Error::usage(format!(
                "`--extend {}` needs the longest text: the files say it, and have one scale for every length",
                extend.kind()
            ))
            .hint(
                "add `--length 4L`, or write the scale, as in `--extend '{ kind = \"yarn\", scale = 4.0 }'`",
            ));
        }
    };
    check_longest(length, train)?;
    Ok(Some(StageReading { length, extend: written, head_scale: None }))
}

fn check_longest(length: usize, train: usize) -> Result<()> {
    if length >= train {
        return Ok(());
    }
    Err(Error::value("--length", length, format!("the model was trained on {train} tokens"))
        .hint("name the longest text, as `4L`"))
}
