//! Configs and studies that the command line names, and where runs are kept.

use crate::shipped::FileKind;
use longwave_core::error::nearest;
use longwave_core::in_order::distinct;
use longwave_core::text::quoted;
use longwave_core::{Error, Result, file};
use longwave_experiment::config::parse;
use longwave_experiment::{Config, paths};
use longwave_train::RunConfig;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Table;

/// Where a run is kept unless the command says so.
pub(crate) fn default_folder(config: &RunConfig) -> PathBuf {
    Path::new("runs").join(format!("{}-{}", config.name, config.seed))
}

pub(crate) fn load_config(path: &Path, assignments: &[String]) -> Result<Config> {
    let config = read_config(path, assignments)?;
    warn(&config.warnings);
    Ok(config)
}

/// Reads a config: a file, or one that the program carries.
pub(crate) fn read_config(path: &Path, assignments: &[String]) -> Result<Config> {
    let found = find(path, FileKind::Config, None)?;
    check_kind(path, &found.document()?, FileKind::Config)?;
    match found {
        Found::File(path) => Config::load(&path, assignments),
        Found::Text { name, text } => Config::with_assignments(parse(&text, &name)?, assignments),
    }
}

/// Reads the document of a study, and gives the folder that its paths start at.
pub(crate) fn read_study(path: &Path) -> Result<(Table, Option<PathBuf>)> {
    let found = find(path, FileKind::Study, None)?;
    let folder = match &found {
        Found::File(path) => path.parent().map(Path::to_owned),
        Found::Text { .. } => None,
    };
    let document = found.document()?;
    check_kind(path, &document, FileKind::Study)?;
    Ok((document, folder))
}

/// A study has a `base`, and a config what the base would give.
fn check_kind(path: &Path, document: &Table, kind: FileKind) -> Result<()> {
    let has = |key: &str| document.contains_key(key);
    let is_other = match kind {
        FileKind::Config => has("base") && !has("position"),
        FileKind::Study => !has("base") && has("position"),
    };
    if !is_other {
        return Ok(());
    }
    let other = kind.other();
    let text = format!("`{}` is a {}, and no {}", path.display(), other.name(), kind.name());
    Err(Error::usage(text).hint(other.use_of(&quoted(&path.to_string_lossy()))))
}

/// Reads the document of the config that a study in `folder` begins with.
pub(crate) fn read_base(path: &Path, folder: Option<&Path>) -> Result<Table> {
    find(path, FileKind::Config, folder)?.document()
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

enum Found {
    File(PathBuf),
    /// What came on stdin or from a pipe, or what the program carries, and what it is called in messages.
    Text {
        name: String,
        text: Cow<'static, str>,
    },
}

impl Found {
    /// Its document, with paths that start at the current folder.
    fn document(&self) -> Result<Table> {
        match self {
            Self::File(path) => {
                let mut document = parse(&file::read_text(path)?, &format!("`{}`", path.display()))?;
                paths::resolve(&mut document, path.parent().unwrap_or(Path::new("")));
                Ok(document)
            }
            Self::Text { name, text } => parse(text, name),
        }
    }
}

const STDIN: &str = "stdin";

/// Stdin, where the name is `-`; the file itself, beside the study that names it or from the current folder; or the one of that name in the project's
/// folder; or the one that the program carries. `.toml` may be left out of a bare name.
fn find(path: &Path, kind: FileKind, beside: Option<&Path>) -> Result<Found> {
    if path == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin())
            .map_err(|error| Error::io("read", Path::new(STDIN), &error))?;
        return Ok(Found::Text { name: STDIN.to_owned(), text: text.into() });
    }
    let folder = Path::new(kind.folder());
    let bare = path.components().count() == 1;
    let with_end =
        if bare && path.extension().is_none() { path.with_extension("toml") } else { path.to_owned() };
    let near = [beside, Some(Path::new(""))].into_iter().flatten();
    let mut places: Vec<PathBuf> = near.flat_map(|near| [near.join(path), near.join(&with_end)]).collect();
    if bare {
        places.push(folder.join(&with_end));
    }
    let places = distinct(places);
    if let Some(place) = places.iter().find(|place| place.is_file() || file::is_special(place)) {
        return if place.is_file() { Ok(Found::File(place.clone())) } else { read_special(place) };
    }
    let name = with_end.strip_prefix(folder).unwrap_or(&with_end).to_string_lossy().into_owned();
    if let Some(text) = kind.text(&name) {
        return Ok(Found::Text { name: format!("the program's own `{name}`"), text: text.into() });
    }
    Err(missing(path, kind, &places, bare))
}

/// What a pipe such as `<(command)` gives, which can be read only once. A device may give bytes without end.
fn read_special(place: &Path) -> Result<Found> {
    const MOST_MIB: u64 = 16;
    let (most, name) = (MOST_MIB << 20, format!("`{}`", place.display()));
    let failed = |error: std::io::Error| Error::io("read", place, &error);
    let mut text = String::new();
    let opened = File::open(place).map_err(failed)?;
    opened.take(most + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > most {
        return Err(Error::usage(format!("{name} gives more than {MOST_MIB} MiB"))
            .hint("no config or study is as long: name another file"));
    }
    Ok(Found::Text { name, text: text.into() })
}

fn missing(path: &Path, kind: FileKind, places: &[PathBuf], bare: bool) -> Error {
    let what = kind.name();
    if let Some(place) = places.iter().find(|place| place.is_dir()) {
        let config = place.join("config.toml");
        let hint = if matches!(kind, FileKind::Config) && config.is_file() {
            let [config, run] = [&config, place].map(|path| quoted(&path.to_string_lossy()));
            format!(
                "the config of that run is `{config}`; `longwave train {config} --out {run} --resume` goes on with the run"
            )
        } else {
            format!("name the file of the {what}, such as `{}`", kind.shipped()[0].0)
        };
        return Error::usage(format!("`{}` is a folder, and no {what}", place.display())).hint(hint);
    }
    // A link to nowhere has the very name that was asked for.
    let was_looked_at = |name: &String| places.contains(&path.with_file_name(name));
    let there: Vec<String> = names_beside(path).into_iter().filter(|name| !was_looked_at(name)).collect();
    let places: Vec<String> = places.iter().map(|place| format!("`{}`", place.display())).collect();
    let error = Error::usage(format!(
        "there is no {what} `{}`: looked at {} and among those of the program",
        path.display(),
        places.join(", ")
    ));
    let name = path.with_extension("toml").to_string_lossy().into_owned();
    if bare && kind.other().text(&name).is_some() {
        let other = kind.other();
        return error.hint(format!("`{name}` is a {}: {}", other.name(), other.use_of(&name)));
    }
    let shipped = kind.shipped().iter().map(|(name, _)| stem(name)).filter(|_| bare);
    let known = there.iter().map(|name| stem(name)).chain(shipped);
    match nearest(stem(&path.file_name().unwrap_or_default().to_string_lossy()), known) {
        Some(near) => {
            let meant = path.with_file_name(format!("{near}.toml"));
            error.hint(format!("did you mean `{}`?", meant.display()))
        }
        None => error.hint("`longwave init` lists what there is; any other is named by its path"),
    }
}

/// A name without its ending, which is no part of how near two names are.
pub(crate) fn stem(name: &str) -> &str {
    name.strip_suffix(".toml").unwrap_or(name)
}

/// The names of the TOML files in the folder that a path leads to, in order.
fn names_beside(path: &Path) -> Vec<String> {
    let folder = file::folder_of(path);
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
    let files = entries.map(|entry| PathBuf::from(entry.file_name()));
    let configs = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    let mut names: Vec<String> = configs.map(|file| file.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
