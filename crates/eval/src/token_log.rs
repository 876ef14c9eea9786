//! The loss of every scored token, as a file.
//!
//! One line a token, JSON lines or, where the file's name ends in `.csv`, CSV with a header. The fields are
//! [`TOKEN_COLUMNS`].

use crate::fields::TOKEN_COLUMNS;
use crate::metrics::Score;
use crate::plan::Plan;
use crate::row::ResultRow;
use crate::text::Text;
use longwave_core::file::AtomicFile;
use longwave_core::{Error, Result, csv};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// The file while it is written; it appears when it is [finished](Self::finish).
///
/// Nothing is replaced: a file that is there must be one of losses, and the same, as the same command finds it that was stopped at
/// its end.
#[derive(Debug)]
pub struct TokenLog {
    file: AtomicFile,
    is_csv: bool,
    before: Option<BufReader<File>>,
}

impl TokenLog {
    /// Begins a file: CSV where its name ends in `.csv`, JSON lines otherwise.
    pub fn create(path: &Path) -> Result<Self> {
        // A folder is a slip of the keyboard more often than a wish: none is made.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Error::usage(format!(
                "cannot write `{}`: there is no folder `{}`",
                path.display(),
                folder.display()
            ))
            .hint("make the folder first, or name a file in another one"));
        }
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let before = if path.exists() { Some(losses(path, is_csv)?) } else { None };
        let mut log = Self { file: AtomicFile::create(path)?, is_csv, before };
        if is_csv {
            log.write(&csv::line(names()))?;
        }
        Ok(log)
    }

    /// Adds the scored tokens of one measurement, in the order of its plan.
    pub fn add(&mut self, row: &ResultRow, text: &Text, plan: &Plan, scores: &[Vec<Score>]) -> Result<()> {
        let task = &row.settings.task;
        for (window, scores) in plan.windows.iter().zip(scores) {
            let targets = window.first..window.end;
            let tokens = text.read(window.document, targets.clone());
            let document = text.name(window.document);
            for position in text.scored(window.document, targets) {
                let (token, score) = (tokens[position - window.first], scores[position - window.first]);
                let values = [
                    json!(row.run),
                    json!(row.seed),
                    json!(row.extend),
                    row.extend_config.clone(),
                    json!(row.settings.protocol),
                    json!(row.corpus),
                    json!(row.settings.split),
                    json!(row.checkpoint),
                    json!(row.step),
                    json!((!task.is_empty()).then_some(task)),
                    json!(row.settings.length),
                    json!(document),
                    json!(position),
                    json!(position - window.start),
                    json!(token),
                    json!(score.nll.is_finite().then_some(score.nll)),
                    json!(score.correct),
                ];
                let line = if self.is_csv { csv::line(values.iter().map(csv::cell)) } else { object(values) };
                self.write(&line)?;
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<()> {
        if let Some(before) = &mut self.before
            && before.read(&mut [0]).is_ok_and(|more| more > 0)
        {
            return Err(is_there(self.file.path(), "with other losses"));
        }
        self.file.finish()
    }

    fn write(&mut self, line: &str) -> Result<()> {
        if let Some(before) = &mut self.before {
            let mut there = vec![0; line.len()];
            if before.read_exact(&mut there).is_err() || there != line.as_bytes() {
                return Err(is_there(self.file.path(), "with other losses"));
            }
        }
        self.file.write_all(line.as_bytes()).map_err(|error| Error::io("write", self.file.path(), &error))
    }
}

/// Opens the file that is there, which must hold losses of tokens.
fn losses(path: &Path, is_csv: bool) -> Result<BufReader<File>> {
    let open = || File::open(path).map(BufReader::new).map_err(|error| Error::io("read", path, &error));
    let mut first = Vec::new();
    let limit = 1 << 20;
    let is_read = path.is_file() && open()?.take(limit).read_until(b'\n', &mut first).is_ok();
    let is_of_losses = if is_csv {
        first == csv::line(names()).as_bytes()
    } else {
        let line: Option<serde_json::Map<String, Value>> = serde_json::from_slice(&first).ok();
        line.is_some_and(|line| {
            line.len() == TOKEN_COLUMNS.len() && names().all(|name| line.contains_key(name))
        })
    };
    if is_read && is_of_losses { open() } else { Err(is_there(path, "and holds something else than losses")) }
}

fn is_there(path: &Path, how: &str) -> Error {
    Error::usage(format!("`--tokens {}` is there already, {how}", path.display()))
        .hint("name another file, or remove that one first")
}

fn names() -> impl Iterator<Item = &'static str> {
    TOKEN_COLUMNS.into_iter().map(|(name, ..)| name)
}

fn object(values: [Value; TOKEN_COLUMNS.len()]) -> String {
    let fields = names().map(str::to_owned).zip(values);
    Value::Object(fields.collect()).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Window;
    use crate::row::example::row as example;
    use crate::task_keys::TaskKeys;
    use longwave_data::TokenFile;
    use serde_json::Map;

    fn written(name: &str, row: &ResultRow) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let text = Text::documents(TokenFile::from_documents(&[("a, b", &[5, 6, 7, 8])]));
        let window = Window { document: 0, start: 1, first: 2, end: 4 };
        let plan = Plan { windows: vec![window], skipped_documents: 0 };
        let scores = [vec![Score { nll: 0.25, correct: true }, Score { nll: f64::NAN, correct: false }]];
        let mut log = TokenLog::create(&path).unwrap();
        log.add(row, &text, &plan, &scores).unwrap();
        assert!(!path.exists(), "a file appears whole");
        log.finish().unwrap();
        std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn nothing_is_replaced_and_the_same_losses_are_written_again() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tokens.jsonl", "tokens.csv"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "name = \"mine\"\n").unwrap();
            let error = TokenLog::create(&path).unwrap_err();
            assert!(error.message().contains("holds something else than losses"), "{error}");
            std::fs::remove_file(&path).unwrap();
            let text = Text::documents(TokenFile::from_documents(&[("a", &[5, 6, 7])]));
            let plan = |end| Plan {
                windows: vec![Window { document: 0, start: 0, first: 1, end }],
                skipped_documents: 0,
            };
            let write = |nll: f64, end: usize| {
                let scores = [vec![Score { nll, correct: true }; end - 1]];
                let mut log = TokenLog::create(&path)?;
                log.add(&example("yarn", 128, 2.0), &text, &plan(end), &scores)?;
                log.finish()
            };
            write(0.25, 3).unwrap();
            write(0.25, 3).unwrap();
            let whole = std::fs::read(&path).unwrap();
            for other in [write(0.5, 3), write(0.25, 2)] {
                assert!(other.unwrap_err().message().contains("is there already, with other losses"));
            }
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn json_lines_name_their_fields() {
        let lines = written("tokens.jsonl", &example("yarn", 128, 2.0));
        assert_eq!(lines.len(), 2);
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        let expected = json!({
            "run": "rope", "seed": 0, "extend": "yarn", "extend_config": { "kind": "yarn" },
            "protocol": "fixed_target", "corpus": "data/sotu", "split": "test", "checkpoint": "last", "step": 600,
            "task": null, "length": 128, "document": "a, b",
            "position": 2, "context": 1, "token": 7, "nll": 0.25, "correct": true,
        });
        assert_eq!(first, expected);
        assert!(lines[1].contains("\"nll\":null"), "{}", lines[1]);
    }

    #[test]
    fn a_line_says_which_checkpoint_was_read_and_what_was_asked() {
        let mut row = example("yarn", 128, 2.0);
        row.checkpoint = "step-3".into();
        row.step = 3;
        row.settings.task = TaskKeys::of(Map::from_iter([("depth".to_owned(), json!(0.5))]));
        let first: Value = serde_json::from_str(&written("tokens.jsonl", &row)[0]).unwrap();
        let told = ["checkpoint", "step", "task"].map(|name| &first[name]);
        assert_eq!(told, [&json!("step-3"), &json!(3), &json!({ "depth": 0.5 })]);
        let line = &written("tokens.csv", &row)[1];
        assert!(line.contains(",step-3,3,\"{\"\"depth\"\":0.5}\",128,"), "{line}");
    }

    #[test]
    fn csv_has_a_header_and_quotes() {
        let lines = written("tokens.csv", &example("yarn", 128, 2.0));
        assert_eq!(lines[0], names().collect::<Vec<_>>().join(","));
        assert_eq!(
            lines[1],
            "rope,0,yarn,\"{\"\"kind\"\":\"\"yarn\"\"}\",fixed_target,data/sotu,test,last,600,,128,\"a, b\",2,1,7,0.25,true"
        );
        assert!(lines[2].ends_with(",8,,false"));
    }
}
