//! The store of runs: `STORE/KEY` is a run's folder, named after its identity and shared by studies.
//!
//! | path | what |
//! |---|---|
//! | `KEY/` | the run's folder as `longwave train` writes it |
//! | `KEY/rows-EVALUATION.jsonl` | the rows of an evaluation that is finished; it appears whole, last |
//! | `KEY/rows-EVALUATION.lines.json` | how many these are |
//! | `state/KEY.lock` | locked by the process that works on the run; the system releases the lock when the process ends |
//! | `state/KEY.journal.jsonl` | one line for each beginning and end of work on the run |
//! | `state/KEY-EVALUATION.failed.json` | why the work failed |
//! | `state/KEY.log` | what the working processes wrote to stderr |
//! | `state/study-HASH.path` | the folder of a study, and the way there from the store |
//!
//! A run is finished if its rows are there, and only then.

use crate::plan::job::Job;
use crate::saved;
use longwave_core::file::fault;
use longwave_core::{Error, Result, clock, file, line_count};
use longwave_eval::{ResultRow, row};
use longwave_train::checkpoint::{Checkpoint, Meta};
use longwave_train::run::{self, CheckpointId, checkpoint_path};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Work on a run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub reason: String,
    #[serde(default)]
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLine {
    /// `started`, `trained`, `finished`, `failed` or `stopped`.
    pub event: String,
    pub evaluation: String,
    pub process: u32,
    /// Seconds since 1970.
    pub time: u64,
    /// The device, on the line where work began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// The right to work on a run, until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock goes when the file is closed")] File);

/// What the names of files with the rows of an evaluation begin with.
const ROWS: &str = "rows-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Finished,
    Failed,
    Open,
}

impl Store {
    /// The store in `folder`, which need not exist.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn run(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.join("state").join(name)
    }

    /// Where the processes that work on a run write their messages.
    pub fn log(&self, key: &str) -> PathBuf {
        self.state(&format!("{key}.log"))
    }

    fn journal(&self, key: &str) -> PathBuf {
        self.state(&format!("{key}.journal.jsonl"))
    }

    fn rows_path(&self, job: &Job) -> PathBuf {
        self.run(&job.key).join(format!("{ROWS}{}.jsonl", job.evaluation))
    }

    fn failure_path(&self, job: &Job) -> PathBuf {
        self.state(&format!("{}-{}.failed.json", job.key, job.evaluation))
    }

    pub fn work(&self, job: &Job) -> Work {
        if self.rows_path(job).exists() {
            Work::Finished
        } else if self.failure_path(job).exists() {
            Work::Failed
        } else {
            Work::Open
        }
    }

    /// Whether the training of a job has come to its last step.
    pub fn is_trained(&self, job: &Job) -> bool {
        self.last(job).is_some_and(|last| last.is_end_of(&job.config.run))
    }

    /// The step that the training of a job goes on from; 0 where it begins.
    pub fn trained_step(&self, job: &Job) -> u64 {
        self.last(job).map_or(0, |last| last.step)
    }

    /// What the last checkpoint of a job says; `None` where there is none that is whole.
    fn last(&self, job: &Job) -> Option<Meta> {
        let path = checkpoint_path(&self.run(&job.key), CheckpointId::Last);
        if path.exists() { Checkpoint::load(&path).ok().map(|last| last.meta) } else { None }
    }

    /// The rows of a finished job; `None` where it is not finished.
    pub fn rows(&self, job: &Job) -> Result<Option<Vec<ResultRow>>> {
        let path = self.rows_path(job);
        if !path.exists() {
            return Ok(None);
        }
        let again = format!("remove `{}`; the same study then measures the run again", path.display());
        row::read_rows(&path).map(Some).map_err(|error| error.hint(again))
    }

    /// Marks a job as finished with these rows, each once.
    pub fn finish(&self, job: &Job, rows: &[ResultRow]) -> Result<()> {
        let mut seen = HashSet::new();
        let mut text = String::new();
        for row in rows {
            if seen.insert(row.identity()?) {
                text.extend([row::line(row)?.as_str(), "\n"]);
            }
        }
        // The rows appear last: with them, the job is finished.
        let path = self.rows_path(job);
        line_count::record(&path, seen.len())?;
        file::write(&path, text.as_bytes())
    }

    /// Whether a run was measured in any way, by evaluations of this study or others.
    pub fn is_measured(&self, key: &str) -> bool {
        let is_rows = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(ROWS));
        let entries = fs::read_dir(self.run(key)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| is_rows(&entry.file_name()))
    }

    /// Why a job failed; `None` where it did not.
    pub fn failure(&self, job: &Job) -> Result<Option<Failure>> {
        let path = self.failure_path(job);
        if !path.exists() {
            return Ok(None);
        }
        let text = file::read_text(&path)?;
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Error::failed(format!("`{}` is damaged: {error}", path.display()))
                .hint("remove it, or use `--retry`")
        })
    }

    pub fn fail(&self, job: &Job, failure: &Failure) -> Result<()> {
        let text = serde_json::to_string(failure).map_err(|error| Error::failed(error.to_string()))?;
        file::write(&self.failure_path(job), text.as_bytes())
    }

    pub fn forget_failure(&self, job: &Job) -> Result<()> {
        file::remove(&self.failure_path(job))
    }

    /// Whether a process works on a run. Nothing is written: a store may be read-only.
    pub fn is_locked(&self, key: &str) -> Result<bool> {
        let path = self.state(&format!("{key}.lock"));
        let failed = |error: &std::io::Error| Error::io("read", &path, error);
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => Err(failed(&error)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Takes the right to work on a run; `None` while another process has it.
    ///
    /// The system releases the lock when its holder ends, however it ends.
    pub fn try_lock(&self, key: &str) -> Result<Option<Lock>> {
        let path = self.state(&format!("{key}.lock"));
        let failed = |error: std::io::Error| Error::io("lock", &path, &error);
        fault::pass("make the folder of", &path)
            .and_then(|()| file::make_folders(&self.folder.join("state")))
            .map_err(failed)?;
        let file = fault::pass("create", &path)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(failed(error).hint("put the study's `store` on a file system that can lock files"))
            }
        }
    }

    /// Adds a line to the run's journal, with the device where work begins. The run's lock must be held.
    pub fn note(&self, job: &Job, event: &str, device: Option<&str>) -> Result<()> {
        let path = self.journal(&job.key);
        let entry = JournalLine {
            event: event.to_owned(),
            evaluation: job.evaluation.clone(),
            process: std::process::id(),
            time: clock::now().as_secs(),
            device: device.map(str::to_owned),
        };
        let line = serde_json::to_string(&entry).map_err(|error| Error::failed(error.to_string()))?;
        file::append(&path, format!("{line}\n").as_bytes())
    }

    /// The run's journal; empty where nothing was ever done. A line cut short by a kill is left out.
    pub fn journal_lines(&self, key: &str) -> Result<Vec<JournalLine>> {
        let path = self.journal(key);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = file::read_text(&path)?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Removes the half-written files that killed processes left in a run's folder and beside its state.
    pub fn remove_leftovers(&self, key: &str) {
        run::remove_leftovers(&self.run(key));
        file::remove_leftovers(&self.folder.join("state"));
    }

    pub fn keys(&self) -> Result<Vec<String>> {
        let mut keys = names_in(&self.folder)?;
        keys.retain(|name| is_key(name) && self.run(name).is_dir());
        Ok(keys)
    }

    /// The keys of all runs that were ever begun, in order: those of [`Store::keys`], and those that failed
    /// before they had a folder.
    pub fn begun(&self) -> Result<Vec<String>> {
        let mut keys = self.keys()?;
        let journals = self.states(".journal.jsonl")?;
        let of_journals = journals.iter().filter_map(|name| name.strip_suffix(".journal.jsonl"));
        keys.extend(of_journals.filter(|key| is_key(key)).map(str::to_owned));
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    fn states(&self, end: &str) -> Result<Vec<String>> {
        let mut names = names_in(&self.folder.join("state"))?;
        names.retain(|name| name.ends_with(end));
        Ok(names)
    }

    /// Records the folder of a study, which need not lie beside the store, so that its runs are not pruned: where it is, and the way there,
    /// since a project may be moved or copied.
    pub fn note_study(&self, folder: &Path) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("find", folder, &error);
        let path = std::path::absolute(folder).map_err(failed)?.to_string_lossy().into_owned();
        let name = format!("study-{}.path", &file::sha256_of(path.as_bytes())[..16]);
        let way = saved::way(&self.folder, folder).map(|way| format!("\n{way}")).unwrap_or_default();
        file::write(&self.state(&name), format!("{path}{way}").as_bytes())
    }

    /// The folders that [`Store::note_study`] recorded, each with the file that says so.
    pub fn studies_recorded(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let read = |name: &String| {
            let record = self.state(name);
            let text = file::read_text(&record)?;
            let (path, way) = text.split_once('\n').unwrap_or((&text, ""));
            let moved = Some(self.folder.join(way)).filter(|folder| !way.is_empty() && folder.is_dir());
            Ok((moved.unwrap_or_else(|| PathBuf::from(path)), record))
        };
        self.states(".path")?.iter().map(read).collect()
    }

    /// Removes a run with its journal, log and failures. `false` if a process works on the run, which then stays.
    ///
    /// # Errors
    /// It is no key, or something cannot be removed.
    pub fn remove(&self, key: &str) -> Result<bool> {
        // The store itself, and what it lies in, are folders too: those of the keys `.` and `..`.
        if !is_key(key) {
            return Err(Error::usage(format!("`{key}` is no key of a run, so nothing is removed"))
                .hint("`longwave runs` lists the keys: each has 16 hexadecimal digits"));
        }
        let Some(_lock) = self.try_lock(key)? else { return Ok(false) };
        let folder = self.run(key);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("remove", &folder, &error));
            }
            _ => {}
        }
        for name in names_in(&self.folder.join("state"))? {
            // The lock's own file stays: another process may be waiting for it.
            if name.starts_with(key) && !has_extension(&name, "lock") {
                file::remove(&self.state(&name))?;
            }
        }
        Ok(true)
    }
}

/// Whether a name is a run's key: it then names a folder in the store, and nothing outside it.
pub(crate) fn is_key(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What lies in a folder, in order; nothing where it does not exist.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", folder, &error)),
    };
    let names = entries.filter_map(std::result::Result::ok);
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests;
