//! What training and evaluation share: device, threads, corpus, measuring and showing.

use crate::args::{Compute, Kernels};
use crate::interrupt;
use crate::output::{self, data, grouped, status};
use crate::progress::Progress;
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_data::{DataConfig, Dataset};
use longwave_eval::{
    Config, Evaluation, Reference, ResultRow, Selection, Subject, TokenLog, evaluate, measure, reference,
    row, select,
};
use longwave_model::complex_weights::WeightKind;
use longwave_position::{Dimensions, Init, Reading};
use longwave_report::{Table, blocks, page};
use longwave_train::{RunConfig, reading_after};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The device that tensors are computed on.
#[derive(Debug)]
pub(crate) struct Session {
    /// The device.
    pub(crate) device: Device,
    /// The device in words.
    pub(crate) device_name: String,
    /// Threads of the CPU.
    pub(crate) threads: usize,
}

impl Session {
    /// Opens the device and listens for Ctrl-C.
    pub(crate) fn open(compute: &Compute) -> Result<Self> {
        if compute.threads == Some(0) {
            return Err(Error::value("--threads", 0, "it must be at least 1"));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(compute.threads.unwrap_or(0)).build_global();
        if let (Err(error), Some(_)) = (pool, compute.threads) {
            return Err(Error::failed(format!("cannot set the number of threads: {error}")));
        }
        longwave_kernels::use_reference(compute.kernels == Kernels::Reference);
        let (device, device_name) = longwave_kernels::device::open(compute.device)?;
        interrupt::install()?;
        Ok(Self { device, device_name, threads: rayon::current_num_threads() })
    }

    /// Says which device was taken.
    pub(crate) fn introduce(&self) {
        status(&format!("device    {}, {} threads", self.device_name, self.threads));
    }
}

/// Opens the corpus, showing what takes long.
pub(crate) fn open_data(config: &DataConfig) -> Result<Dataset> {
    let mut shown: Option<(longwave_data::Stage, Progress)> = None;
    let dataset = Dataset::open(config, &mut |progress| {
        let fresh = shown.as_ref().is_none_or(|(stage, _)| *stage != progress.stage);
        if fresh {
            shown = Some((progress.stage, Progress::new("data", "bytes", progress.done, progress.total)));
        }
        if let Some((stage, bar)) = &mut shown {
            bar.at(progress.done, &stage.to_string(), false);
        }
    });
    if let Some((_, bar)) = shown {
        bar.finish();
    }
    dataset
}

/// The folder's rows so far; none where nothing was measured.
fn known_rows(folder: &Path) -> Result<Vec<ResultRow>> {
    let path = folder.join("results.jsonl");
    if path.exists() { row::read_rows(&path) } else { Ok(Vec::new()) }
}

/// The rows of an evaluation.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// What is reported.
    pub(crate) rows: Vec<ResultRow>,
    /// What was measured on the validation split to choose what is reported.
    pub(crate) tried: Vec<ResultRow>,
}

/// Makes the measurements that are missing, keeps each as soon as it is made, and gives all of them. Where
/// a file takes the loss of every token, all that are reported are made again.
pub(crate) fn measure(
    subject: &Subject<'_>,
    evaluations: &[Evaluation],
    mut tokens: Option<&mut TokenLog>,
    folder: &Path,
) -> Result<Measured> {
    let path = folder.join("results.jsonl");
    let known = known_rows(folder)?;
    let mut store = |row: &ResultRow| row::write_rows(&path, std::slice::from_ref(row));
    let mut measured = Measured::default();
    for evaluation in evaluations {
        let choice =
            shown("choosing", |show| select(subject, evaluation, &known, folder, &mut store, &mut *show))?;
        print_choices(&choice);
        let rows = shown("evaluating", |show| {
            evaluate(subject, &choice.evaluation, &known, tokens.as_deref_mut(), &mut store, &mut *show)
        })?;
        measured.rows.extend(rows);
        measured.tried.extend(choice.tried);
    }
    Ok(measured)
}

/// Runs a measurement that shows how far it has come, and ends where it is asked to.
fn shown<T>(
    what: &str,
    run: impl FnOnce(&mut dyn FnMut(measure::Progress) -> Result<()>) -> Result<T>,
) -> Result<T> {
    let mut bar: Option<(u64, Progress)> = None;
    let result = run(&mut |progress| {
        let (done, total) = (progress.done as u64, progress.total as u64);
        // Another total is another measurement.
        if let Some((_, old)) = bar.take_if(|(of, _)| *of != total) {
            old.finish();
        }
        let (_, bar) = bar.get_or_insert_with(|| (total, Progress::new(what, "tokens", 0, total)));
        bar.at(done, &format!("{} tokens read", grouped(progress.done)), false);
        if interrupt::asked() {
            return Err(Error::interrupted("stopped while evaluating; what was measured is kept")
                .hint("the same command goes on where this one stopped (`train` with `--resume`)"));
        }
        Ok(())
    });
    if let Some((_, bar)) = bar {
        bar.finish();
    }
    result
}

/// Says what the validation split decided.
fn print_choices(choice: &Selection) {
    for chosen in &choice.evaluation.chosen {
        let extension = &choice.evaluation.extensions[chosen.place];
        let config = serde_json::to_value(extension).unwrap_or_default();
        let values: Vec<String> = match chosen.among.as_object() {
            Some(among) if !among.contains_key("search") => {
                among.iter().map(|(key, values)| format!("{key} = {} of {values}", config[key])).collect()
            }
            _ => vec![format!("long_factor = {}, n_hat = {}", config["long_factor"], config["n_hat"])],
        };
        status(&format!("chosen    {}: {}, by validation loss", extension.kind(), values.join(", ")));
    }
}

/// Prints the tables of these rows.
pub(crate) fn print_tables(rows: &[ResultRow]) -> Result<()> {
    let mut rows = rows.to_vec();
    reference::resolve(&mut rows, None)?;
    let tables: Vec<String> =
        blocks(&rows).iter().flat_map(Table::all).map(|table| table.terminal(output::width())).collect();
    data(&tables.join("\n"))
}

/// Writes plots, tables and page of a folder, its losses compared with the reading that is `against`, and says where
/// they are.
pub(crate) fn write_report(folder: &Path, against: Option<&Reference>) -> Result<()> {
    let written = page::write(folder, against)?;
    let names: Vec<String> = written.iter().filter_map(|path| name(path)).collect();
    status(&format!("wrote {} in {}", names.join(", "), folder.display()));
    Ok(())
}

fn name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Where a run is kept unless the command says so.
pub(crate) fn default_folder(config: &RunConfig) -> PathBuf {
    Path::new("runs").join(format!("{}-{}", config.name, config.seed))
}

/// Reads a config, of that path or of that name in `configs/`, and shows its warnings.
pub(crate) fn load_config(path: &Path, assignments: &[String]) -> Result<Config> {
    let config = Config::load(&find_config(path)?, assignments)?;
    warn(&config.warnings);
    Ok(config)
}

/// Shows each warning once.
pub(crate) fn warn<'a>(warnings: impl IntoIterator<Item = &'a String>) {
    let mut shown = HashSet::new();
    for warning in warnings {
        if shown.insert(warning) {
            tracing::warn!("{warning}");
        }
    }
}

/// The config file itself, or the one of that name in `configs/`.
pub(crate) fn find_config(path: &Path) -> Result<PathBuf> {
    find_shipped(path, "configs", "config")
}

/// How a config's model reads positions after its last stage, with fresh parameters, and the model's sizes; the
/// vocabulary, which only a corpus knows, counts as one token.
pub(crate) fn reading_of(config: &RunConfig) -> Result<(Reading, Dimensions)> {
    let resolved = config.model.resolve(1, config.train.length)?;
    let init = Init::new(config.seed, &Device::flex());
    let fresh = config
        .position
        .build("position", &resolved.dimensions, &init, resolved.log_n())?
        .with_attention(config.model.attention)?;
    resolved.check_weight_kind(WeightKind::of(fresh.capabilities().complex_hidden))?;
    Ok((reading_after(config, &fresh, config.last_stage())?, resolved.dimensions))
}

/// The file itself, or the one of that name in the project's `folder`; `what` it is, for the message.
pub(crate) fn find_shipped(path: &Path, folder: &str, what: &str) -> Result<PathBuf> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    let bare = path.components().count() == 1;
    let shipped = Path::new(folder).join(path);
    if bare && shipped.exists() {
        return Ok(shipped);
    }
    let error = Error::usage(format!("there is no {what} `{}`", path.display()));
    let known = shipped_files(folder);
    Err(match longwave_core::error::nearest(&path.to_string_lossy(), known.iter().map(String::as_str)) {
        Some(near) if bare => error.hint(format!("did you mean `{near}`?")),
        _ if known.is_empty() => error.hint("run from the project's folder, or give the path of the file"),
        _ => error.hint(format!("`{folder}/` has {}", known.join(", "))),
    })
}

fn shipped_files(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| name(&entry.ok()?.path())).collect())
        .unwrap_or_default();
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "toml"));
    names.sort();
    names
}
