//! A study as its folder keeps it, `plan.toml`: enough to plan it again without its file and its corpora, so that
//! [`longwave report`](mod@crate::write) rewrites what the study wrote.

use crate::document::Study;
use crate::plan::Plan;
use longwave_core::config::read;
use longwave_core::{Error, Result, file, written};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The folder of a study's tables, charts and page, in that of the study.
pub const PAGES: &str = "report";
const FORMAT: u32 = 1;
const FILE: &str = "plan.toml";
const KEYS: &str = "plan.json";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    /// `cpu` or `gpu`.
    device: String,
    store: String,
    /// The same from the study's folder, where both are below the folder that the program ran in: a project may be moved or copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store_from_here: Option<String>,
    study: Table,
    base: Table,
    /// Content hashes of corpora by their `[data]`.
    contents: BTreeMap<String, String>,
}

pub fn save(folder: &Path, study: &Study, plan: &Plan) -> Result<()> {
    let keys = keys_of(plan);
    file::write(&folder.join(KEYS), written::json_lines("the keys of the study", &keys)?.as_bytes())?;
    let store = std::path::absolute(&study.store).map_err(|error| Error::io("find", &study.store, &error))?;
    let saved = Written {
        format: FORMAT,
        device: plan.device.clone(),
        store_from_here: way(folder, &store),
        store: store.to_string_lossy().into_owned(),
        study: study.source.document.clone(),
        base: study.source.base.clone(),
        contents: plan.contents.clone(),
    };
    let text = written::toml("the study", &saved)?;
    file::write(&folder.join(FILE), text.as_bytes())
}

fn keys_of(plan: &Plan) -> Vec<String> {
    plan.jobs().map(|(_, job)| job.key.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The way from one folder to another, where both are below the working folder.
pub(crate) fn way(from: &Path, to: &Path) -> Option<String> {
    let project = std::env::current_dir().ok()?;
    let [from, to] = [std::path::absolute(from).ok()?, std::path::absolute(to).ok()?];
    let up = from.strip_prefix(&project).ok()?.components().map(|_| "..");
    Some(up.collect::<PathBuf>().join(to.strip_prefix(&project).ok()?).to_string_lossy().into_owned())
}

/// The keys of the runs that the study of a folder had when it ran or was collected last; none where it did neither.
pub fn keys(folder: &Path) -> Result<Vec<String>> {
    let path = folder.join(KEYS);
    match path.try_exists() {
        Ok(true) => {}
        // They follow from the plan.
        Ok(false) if folder.join(FILE).is_file() => return Ok(keys_of(&load(folder)?.1)),
        Ok(false) => return Ok(Vec::new()),
        // A file that lies among the studies, such as `.DS_Store`, is none.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", &path, &error)),
    }
    serde_json::from_str(&file::read_text(&path)?).map_err(|error| damaged(&path, &error))
}

fn damaged(path: &Path, error: &dyn Display) -> Error {
    Error::failed(format!("`{}` is damaged: {error}", path.display()))
        .hint("`longwave study FILE --collect` writes it again")
}

/// The folder of a study that a path means: the folder itself, or the `report` in it.
pub fn folder_of(path: &Path) -> Option<PathBuf> {
    let is_study = |folder: &Path| folder.join(FILE).is_file();
    if is_study(path) {
        return Some(path.to_owned());
    }
    // Of `.` only the absolute path has a parent.
    let path = std::path::absolute(path).ok()?;
    let parent = path.parent().filter(|_| path.ends_with(PAGES))?;
    is_study(parent).then(|| parent.to_owned())
}

/// Reads the study of a folder and plans it again. Its store is that of the same project, wherever this was moved or copied; else where it was, or
/// where the study's file says.
pub fn load(folder: &Path) -> Result<(Study, Plan)> {
    let path = folder.join(FILE);
    let damaged = |error: &dyn Display| damaged(&path, error);
    let table: Table = file::read_text(&path)?.parse().map_err(|error: toml::de::Error| damaged(&error))?;
    if let Some(Value::Integer(format)) = table.get("format")
        && *format > i64::from(FORMAT)
    {
        let text = format!("`{}` has format {format}, and this program reads up to {FORMAT}", path.display());
        return Err(Error::usage(text).hint("use the version of longwave that wrote it"));
    }
    let written: Written = read(&table, "").map_err(|error| damaged(&error.message()))?;
    let mut study = Study::from_table(written.study, &|_| Ok(written.base.clone()))?;
    let from_here = written.store_from_here.map(|path| folder.join(path));
    let stores = from_here.into_iter().chain([PathBuf::from(written.store)]);
    if let Some(store) = stores.filter_map(|store| store.canonicalize().ok()).find(|store| store.is_dir()) {
        study.store = store;
    }
    let plan = Plan::new(&study, &written.device, &mut |content| {
        let known = written.contents.get(&content.name()).cloned();
        known.ok_or_else(|| damaged(&"it names no content hash of a corpus"))
    });
    Ok((study, plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_study_is_planned_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let (study, plan) = crate::plan::tests::study_and_plan(
            "seeds = [3, 5]\n[set]\ntrain.length = 64\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n\
             [[claim]]\nsays = \"rope < alibi at 8L\"",
        );
        save(folder.path(), &study, &plan).unwrap();
        let (again, replanned) = load(folder.path()).unwrap();
        assert_eq!(again.claims, study.claims);
        let ids = |plan: &Plan| plan.jobs().map(|(_, job)| job.id()).collect::<Vec<_>>();
        assert_eq!((ids(&replanned), ids(&plan).len()), (ids(&plan), 4));
        assert_eq!(folder_of(&folder.path().join("report")), Some(folder.path().to_owned()));
        assert_eq!(folder_of(&folder.path().join("tasks")), None);
        assert_eq!(keys(folder.path()).unwrap().len(), 4);
        let written = keys(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join(KEYS)).unwrap();
        assert_eq!(keys(folder.path()).unwrap(), written, "they follow from the plan");
        assert_eq!(keys(&folder.path().join("nowhere")).unwrap(), [""; 0]);
        assert_eq!(keys(&folder.path().join(FILE)).unwrap(), [""; 0], "a file is no study");
        std::fs::write(folder.path().join(KEYS), "[").unwrap();
        let broken = keys(folder.path()).unwrap_err();
        assert!(broken.message().contains("plan.json` is damaged"), "{broken}");
        assert!(broken.hint_text().is_some_and(|hint| hint.contains("--collect")), "{broken}");
        std::fs::write(folder.path().join(FILE), "format = 9").unwrap();
        assert!(load(folder.path()).unwrap_err().message().contains("format 9"));
    }
}
