//! One run of a study as a file, so that any process can do it: a child of this one, or one that a
//! launcher starts.

use crate::plan::{Job, Planned};
use crate::store::is_key;
use longwave_core::config::read;
use longwave_core::{Error, Result, file, written};
use longwave_data::cache;
use longwave_experiment::Config;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

pub const FORMAT: u32 = 1;

/// What the file holds, in its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyTask {
    format: u32,
    key: String,
    evaluation: String,
    /// The store's folder.
    pub store: String,
    pub title: String,
    pub threads: usize,
    pub device: String,
    /// The key of the stored run that it goes on from, unless it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    config: Table,
}

/// The arguments by which this program does the task of a file, and keeps tokens where this process keeps them.
pub fn arguments(file: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["task".into(), file.into()];
    if let Some(cache) = cache::chosen() {
        // A task may start in another folder.
        let cache = std::path::absolute(cache).unwrap_or_else(|_| cache.to_owned());
        arguments.extend(["--cache".into(), cache.into()]);
    }
    arguments
}

impl StudyTask {
    pub fn new(run: &Planned, job: &Job, store: &Path, threads: usize, device: &str) -> Result<Self> {
        Ok(Self {
            format: FORMAT,
            key: job.key.clone(),
            evaluation: job.evaluation.clone(),
            store: store.to_string_lossy().into_owned(),
            title: run.title(),
            threads,
            device: device.to_owned(),
            from: run.from.as_ref().map(|source| source.key.clone()),
            config: job.config.to_table()?,
        })
    }

    /// The work that it stands for.
    pub fn job(&self) -> Result<Job> {
        let config = Config::from_table(self.config.clone())?;
        Ok(Job { key: self.key.clone(), evaluation: self.evaluation.clone(), config })
    }

    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        let text = written::toml("a task", self)?;
        let path = folder.join(format!("{}-{}.toml", self.key, self.evaluation));
        // Every process that works on the study writes the same.
        if !path.exists() || file::read_text(&path)? != text {
            file::write(&path, text.as_bytes())?;
        }
        Ok(path)
    }

    pub fn load(path: &Path) -> Result<Self> {
        let table: Table = file::read_text(path)?.parse().map_err(|error: toml::de::Error| {
            Error::usage(format!("`{}` is no TOML: {error}", path.display()))
        })?;
        if let Some(Value::Integer(format)) = table.get("format")
            && *format > i64::from(FORMAT)
        {
            return Err(Error::usage(format!(
                "`{}` has task format {format}, and this program reads up to {FORMAT}",
                path.display()
            ))
            .hint("use the version of longwave that wrote it"));
        }
        let task: Self = read(&table, "")?;
        task.check_keys()?;
        Ok(task)
    }

    /// They name folders and files of the store, and nothing outside it.
    fn check_keys(&self) -> Result<()> {
        let from = self.from.as_ref().map(|key| ("from", key));
        let mut keys = [("key", &self.key), ("evaluation", &self.evaluation)].into_iter().chain(from);
        let Some((name, value)) = keys.find(|(_, value)| !is_key(value)) else { return Ok(()) };
        Err(Error::value(name, format!("\"{value}\""), "it must be 16 hexadecimal digits")
            .hint("run the study again: it writes new task files"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let plan = crate::plan::tests::plan("[[evaluate]]\nlengths = [128]\nextend = [\"ntk\"]");
        let source = Some(crate::plan::Origin { key: "0123456789abcdef".to_owned(), step: 3 });
        let run = Planned { from: source, ..plan.runs[0].clone() };
        let job = run.job.as_ref().unwrap();
        let task = StudyTask::new(&run, job, Path::new("runs/store"), 2, "cpu").unwrap();
        let path = task.write(folder.path()).unwrap();
        assert_eq!(StudyTask::load(&path).unwrap(), task);
        assert_eq!(&task.job().unwrap(), job);
        let text = std::fs::read_to_string(&path).unwrap();
        let keys = [
            ("key", job.key.as_str()),
            ("evaluation", job.evaluation.as_str()),
            ("from", "0123456789abcdef"),
        ];
        for (name, value) in keys {
            let wrong = format!("{name} = \"..\"");
            std::fs::write(&path, text.replace(&format!("{name} = \"{value}\""), &wrong)).unwrap();
            let error = StudyTask::load(&path).unwrap_err();
            assert!(error.message().contains(&wrong) && error.hint_text().is_some(), "{error}");
        }
        std::fs::write(&path, text.replace("format = 1", "format = 9")).unwrap();
        assert!(StudyTask::load(&path).unwrap_err().message().contains("format 9"));
    }
}
