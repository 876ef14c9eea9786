//! `longwave import`: makes a run of a model in Hugging Face's layout.

use crate::configs::default_folder;
use crate::options::parsed;
use crate::output::{grouped, lines, status};
use burn::tensor::Device;
use clap::Args;
use longwave_core::Result;
use longwave_core::memory_check::shown;
use longwave_eval::memory_check::Need;
use longwave_experiment::Config;
use longwave_hub::Description;
use longwave_train::FileScaling;
use std::path::PathBuf;

/// Make a run of a model in Hugging Face's layout
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A folder with `config.json`, `model.safetensors` and `tokenizer.json`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Read `config.json` alone, which is all that must be there: print what the model is and the memory that it takes, or
    /// what this program does not compute of it
    #[arg(long, conflicts_with = "out")]
    check: bool,
    /// The run's folder, new or empty; `runs/NAME-SEED` unless given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What a scaling of positions in `config.json` is: the model was `trained` with it, so that every reading has it and L is the
    /// length after scaling; or it was `added` for reading, so that `direct` leaves it out and L is the length before
    #[arg(long, default_value_t, value_name = "trained|added", value_parser = parsed::<FileScaling>)]
    scaling: FileScaling,
    /// Change a key of the run's config, as `data.corpus=texts`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check {
        return check(arguments);
    }
    let mut import = longwave_hub::import(&arguments.folder, arguments.scaling)?;
    import.change(&arguments.set)?;
    // The evaluations too are checked before anything is written.
    let config = Config::from_table(import.document.clone())?;
    let out = arguments.out.clone().unwrap_or_else(|| default_folder(&config.run));
    let written = import.write(&out, &Device::flex())?;
    let kind = import.architecture.model_type();
    for note in import.notes.iter().chain(&import.reading_notes()?) {
        status(note);
    }
    status(&match &import.run {
        Some(meta) => format!("{}: the run `{}` after step {}", out.display(), written.name, meta.step),
        None => format!(
            "{}: a `{kind}` model of training length {}; `eval` reads it on `{}`, or on another text with \
             `--corpus PATH`",
            out.display(),
            written.train.length,
            written.data.corpus
        ),
    });
    Ok(())
}

fn check(arguments: &Arguments) -> Result<()> {
    let Description { architecture, resolved, parameters, import_bytes, scaled, .. } =
        longwave_hub::describe(&arguments.folder, arguments.scaling, &arguments.set)?;
    let d = &resolved.dimensions;
    let length = d.train_length;
    let lengths = [length, length.saturating_mul(8)];
    let needed = Need::at(parameters, &resolved, &lengths, length).bytes();
    lines(&format!(
        "model     {}: {} layers, width {}, {} heads of {}; {} parameters, training length {}\n\
         memory    about {} to import; {} to evaluate at L and 8L = {} tokens\n",
        architecture.model_type(),
        d.layers,
        d.width,
        d.heads,
        d.head_dim,
        grouped(parameters as usize),
        grouped(length),
        shown(import_bytes),
        shown(needed),
        grouped(lengths[1]),
    ))?;
    scaled.map_or(Ok(()), |scaled| lines(&format!("scaling   {}\n", scaled.line())))
}
