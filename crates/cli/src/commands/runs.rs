//! `longwave runs`: what is in the store, and what may go.

use crate::output::{lines, status};
use clap::{Args, Subcommand};
use longwave_core::{Error, Result, memory_check};
use longwave_eval::row;
use longwave_report::grid::{Grid, Header};
use longwave_study::document::studies;
use longwave_study::{Store, saved};
use longwave_train::Run;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// List the runs of the store, or remove those that no study needs
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The folder of runs
    #[arg(long, value_name = "DIR", default_value = longwave_study::document::STORE, global = true)]
    store: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the runs: what they are, how far they are, who needs them
    List,
    /// Remove runs that no study's last plan has
    Prune {
        /// Really remove them, instead of only saying which
        #[arg(long)]
        yes: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.store != Path::new(longwave_study::document::STORE) && !arguments.store.is_dir() {
        return Err(Error::usage(format!("`{}` is no folder", arguments.store.display()))
            .hint("name the folder of runs that a study's `store` names"));
    }
    let store = Store::new(&arguments.store);
    match arguments.action {
        None | Some(Action::List) => list(&store),
        Some(Action::Prune { yes }) => prune(&store, yes),
    }
}

fn list(store: &Store) -> Result<()> {
    let keys = store.begun()?;
    if keys.is_empty() {
        say_empty(store);
        return Ok(());
    }
    let users = users(store)?;
    let names = [
        Header::words("key").at_least(16),
        Header::words("encoding").at_least(20),
        Header::number("seed").at_least(5),
        Header::number("steps").at_least(12),
        Header::number("rows").at_least(5),
        Header::number("size").at_least(10),
        Header::words("state").at_least(9),
        Header::words("studies"),
    ];
    let row = |key: String| {
        let folder = store.run(&key);
        let (encoding, seed, steps) = match Run::read(&folder) {
            Ok(config) => (config.position.name(), config.seed.to_string(), config.total_steps().to_string()),
            Err(_) => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        };
        let rows = folder.join("results.jsonl");
        let rows = if rows.exists() { row::read_rows(&rows)?.len() } else { 0 };
        let names = users.get(&key).map_or("-".to_owned(), |names| names.join(", "));
        let (state, size) = (state(store, &key)?, memory_check::shown(size(&folder)));
        Ok([key, encoding, seed, steps, rows.to_string(), size, state, names])
    };
    lines(&Grid::of(names, keys.into_iter().map(row).collect::<Result<Vec<_>>>()?).lines())
}

/// In a word, what the last line of the run's journal says, or that a process works on it.
fn state(store: &Store, key: &str) -> Result<String> {
    if store.is_locked(key)? {
        return Ok("running".to_owned());
    }
    Ok(match store.journal_lines(key)?.last().map(|entry| entry.event.as_str()) {
        None => "-".to_owned(),
        // Nobody works on it, and nobody said how it ended.
        Some("started") => "killed".to_owned(),
        Some(event) => event.to_owned(),
    })
}

/// Says that there is nothing: a folder may hold runs of `longwave train` all the same.
fn say_empty(store: &Store) {
    let folder = store.folder().display();
    status(&format!(
        "`{folder}` holds no runs of a study; `longwave train` has a folder for each run, as runs/rope-0"
    ));
}

fn prune(store: &Store, yes: bool) -> Result<()> {
    let keys = store.begun()?;
    if keys.is_empty() {
        say_empty(store);
        return Ok(());
    }
    let users = users(store)?;
    let unused: Vec<String> = keys.into_iter().filter(|key| !users.contains_key(key)).collect();
    if unused.is_empty() {
        status("every run belongs to a study");
        return Ok(());
    }
    for (study, record) in gone(store)? {
        let why = format!("the study `{}` ran in this store and is not there any more", study.display());
        if yes {
            let hint = format!("bring it back, or delete `{}` if it is gone for good", record.display());
            return Err(Error::failed(format!("{why}: its runs would be removed, too")).hint(hint));
        }
        status(&format!("warning: {why}: its runs count as those of no study"));
    }
    let mut text = String::new();
    for key in &unused {
        let size = memory_check::shown(size(&store.run(key)));
        let done = match yes.then(|| store.remove(key)).transpose()? {
            None => "would be removed",
            Some(true) => "removed",
            Some(false) => "kept: a process works on it",
        };
        let _ = writeln!(text, "{key}  {size:>10}  {done}");
    }
    lines(&text)?;
    if !yes {
        status("nothing is removed without `--yes`");
    }
    Ok(())
}

/// The names of the studies whose last plan has a run, by key.
fn users(store: &Store) -> Result<BTreeMap<String, Vec<String>>> {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in folders(store)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for key in saved::keys(&folder)? {
            users.entry(key).or_default().push(name.clone());
        }
    }
    Ok(users)
}

/// The folders of the studies of a store, each once: those beside it, and those that were recorded.
fn folders(store: &Store) -> Result<Vec<PathBuf>> {
    let beside = studies(store.folder());
    let mut folders = Vec::new();
    if beside.exists() {
        let entries = std::fs::read_dir(&beside).map_err(|error| Error::io("list", &beside, &error))?;
        folders.extend(entries.filter_map(std::result::Result::ok).map(|entry| entry.path()));
    }
    for (recorded, _) in store.studies_recorded()? {
        if folders.iter().all(|known| real(known) != real(&recorded)) {
            folders.push(recorded);
        }
    }
    folders.sort();
    Ok(folders)
}

/// The studies that ran in the store and are not where they were, with what recorded them. Whoever removes one beside the store has done with
/// it; one elsewhere may have moved, or lie on a disk that is not there now.
fn gone(store: &Store) -> Result<Vec<(PathBuf, PathBuf)>> {
    let beside = real(&studies(store.folder()));
    let is_beside = |folder: &Path| folder.parent().is_some_and(|parent| real(parent) == beside);
    let is_gone = |(folder, _): &(PathBuf, PathBuf)| !folder.exists() && !is_beside(folder);
    Ok(store.studies_recorded()?.into_iter().filter(is_gone).collect())
}

fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Bytes of all files in a folder and below.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(std::result::Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}
