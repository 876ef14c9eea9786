//! `longwave inspect`: shows an encoding and what an extension makes of it, or lists what there is.

use crate::configs::load_config;
use crate::options::{ConfigArgument, one_extension, parsed};
use crate::output::{data, json_document, lines, status, stdout_has_colours};
use crate::page_folder;
use crate::paint::painted;
use crate::terminal::Terminal;
use burn::tensor::Device;
use clap::Args;
use longwave_core::Result;
use longwave_core::memory_check::available;
use longwave_core::text::shown_lines;
use longwave_data::Split;
use longwave_eval::{Sample, memory_check};
use longwave_experiment::{FoundRun, reading_of};
use longwave_inspect::typeset::SYMBOLS;
use longwave_inspect::{Attention, Detail, ModelPart, Picture, View, catalog, charts, pictures, tables};
use longwave_model::resolved::Resolved;
use longwave_model::{Gpt, Size};
use longwave_position::{Lengths, Reading, Tokens};
use longwave_train::Trained;
use longwave_train::run::CheckpointId;
use std::path::{Path, PathBuf};

/// Windows of the validation split that attention is measured on, at most.
const WINDOWS: usize = 8;
/// Tokens of all windows together, unless a single one has more.
const TOKENS: usize = 1 << 15;

/// Show an encoding in full, and what an extension makes of it, or list all there are
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// List every encoding and every extension instead, as two Markdown tables
    #[arg(long, conflicts_with_all = ["file", "config", "set", "length", "extend"])]
    list: bool,
    /// Change a key of the config, as `position.base=500000.0`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The length that is read, in tokens or as a multiple of the training length such as `4L`; the training length
    /// unless given
    #[arg(long, value_name = "N|4L")]
    length: Option<Tokens>,
    /// The extension it is read with: a kind, or an inline TOML table
    #[arg(long, value_name = "KIND")]
    extend: Option<String>,
    /// Show what training made of the parameters, and where the model attends in the run's validation text: name the folder
    /// of a run in the place of a config
    #[arg(long, conflicts_with_all = ["list", "set"])]
    trained: bool,
    /// With `--trained`: which checkpoint, see `eval`
    #[arg(long, default_value = "last", value_name = "NAME", requires = "trained",
          value_parser = parsed::<CheckpointId>)]
    checkpoint: CheckpointId,
    /// Write the pictures into this folder as SVG and PNG, with a page that shows them, instead of printing text
    #[arg(long, value_name = "DIR", conflicts_with_all = ["list", "json"])]
    out: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

struct Looked {
    /// In words, for the page.
    of: String,
    reading: Reading,
    resolved: Resolved,
    /// L in tokens.
    train_length: usize,
    model: Option<Gpt>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        return list(arguments.json);
    }
    let named = arguments.config.required()?;
    if let Some(folder) = &arguments.out {
        page_folder::check(folder, None, &["index.html"])?;
    }
    let looked = if arguments.trained {
        of_run(named, arguments.checkpoint)?
    } else {
        of_config(named, &arguments.set)?
    };
    let train = looked.train_length;
    let at_training = Lengths { train, length: train };
    let length = arguments.length.map(|length| length.whole("--length", at_training)).transpose()?;
    let lengths = Lengths { length: length.unwrap_or(train), ..at_training };
    let extend = one_extension(arguments.extend.as_deref())?;
    let read = extend.apply(&looked.reading, lengths)?;
    let detail = if arguments.out.is_some() { Detail::Drawing } else { Detail::Text };
    let view = View { lengths, dimensions: &looked.resolved.dimensions, detail };
    let mut pictures = pictures(&looked.reading, &read, &extend, &view)?;
    let parts = ModelPart::all(&looked.resolved, &looked.reading)?;
    for picture in &mut pictures {
        picture.model.clone_from(&parts);
    }
    if let Some(model) = &looked.model {
        let attention = match sample(named, arguments.checkpoint, &looked.resolved, lengths.length) {
            Ok(sample) => Attention::measure(model, &read, train, &sample)?,
            // The pictures need no text.
            Err(error) => Attention::None { why_not: error.message().to_owned() },
        };
        for picture in &mut pictures {
            picture.add_attention(&attention);
        }
    }
    if let Some(folder) = &arguments.out {
        let paths = charts::write(&pictures, &looked.of, folder)?;
        let page = folder.join("index.html");
        status(&format!("{} files; the page is {}", paths.len(), page.display()));
        return Ok(());
    }
    if arguments.json {
        return json_document("the picture", &pictures);
    }
    let text = pictures.iter().map(Picture::text).collect::<Vec<_>>().join("\n");
    if stdout_has_colours() { data(&painted(&shown_lines(&text))) } else { lines(&text) }
}

/// An encoding as a config, or that of a run, describes it.
fn of_config(path: &Path, set: &[String]) -> Result<Looked> {
    let in_folder = path.join("config.toml");
    let config = load_config(if in_folder.is_file() { &in_folder } else { path }, set)?;
    let (reading, resolved) = reading_of(&config.run)?;
    let (name, kind) = (&config.run.name, config.run.position.name());
    let of = if *name == kind { name.clone() } else { format!("{name}: {kind}") };
    Ok(Looked { of, reading, resolved, train_length: config.run.train.length, model: None })
}

/// An encoding with the parameters of a run's checkpoint.
fn of_run(folder: &Path, checkpoint: CheckpointId) -> Result<Looked> {
    let trained = Trained::open(folder, checkpoint, &Device::flex())?;
    let Trained { config, resolved, model, meta, .. } = trained;
    Ok(Looked {
        of: format!("{}: {} after {} steps", config.name, config.position.name(), meta.step),
        reading: model.position.clone(),
        train_length: config.train.length,
        resolved,
        model: Some(model),
    })
}

/// The text of a run that attention is measured on.
fn sample(folder: &Path, checkpoint: CheckpointId, resolved: &Resolved, length: usize) -> Result<Sample> {
    memory_check::check(length, Size::reading_bytes(resolved, length, 1), available())?;
    let mut terminal = Terminal::default();
    let found = FoundRun::find(folder, checkpoint, None, &mut terminal)?;
    let most = (TOKENS / length).clamp(1, WINDOWS);
    found.sample(Split::Valid, length, most, &mut terminal)
}

fn list(as_json: bool) -> Result<()> {
    if as_json {
        let symbols = SYMBOLS
            .iter()
            .map(|(symbol, meaning)| serde_json::json!({ "symbol": symbol, "meaning": meaning }));
        let lists = serde_json::json!({
            "encodings": catalog::encodings()?,
            "extensions": catalog::extensions()?,
            "symbols": symbols.collect::<Vec<_>>(),
        });
        return json_document("the picture", &lists);
    }
    lines(&(tables::encodings()? + "\n" + &tables::extensions()?))
}
