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
use std::io::Write;
use std::path::Path;

/// The file while it is written; it appears when it is [finished](Self::finish).
#[derive(Debug)]
pub struct TokenLog {
    file: AtomicFile,
    is_csv: bool,
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
        let mut log = Self { file: AtomicFile::create(path)?, is_csv };
        if is_csv {
            log.write(&csv::line(names()))?;
        }
        Ok(log)
    }

    /// Adds the scored tokens of one measurement, in the order of its plan.
    pub fn add(&mut self, row: &ResultRow, text: &Text, plan: &Plan, scores: &[Vec<Score>]) -> Result<()> {
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
                    json!(row.settings.split),
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

    /// Moves the file into place.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }

    fn write(&mut self, line: &str) -> Result<()> {
        self.file.write_all(line.as_bytes()).map_err(|error| Error::io("write", self.file.path(), &error))
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    TOKEN_COLUMNS.into_iter().map(|(name, ..)| name)
}

fn object(values: [Value; 13]) -> String {
    let fields = names().map(str::to_owned).zip(values);
    Value::Object(fields.collect()).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Window;
    use crate::row::example::row as example;
    use longwave_data::TokenFile;

    fn written(name: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let text = Text::documents(TokenFile::from_documents(&[("a, b", &[5, 6, 7, 8])]));
        let window = Window { document: 0, start: 1, first: 2, end: 4 };
        let plan = Plan { windows: vec![window], skipped_documents: 0 };
        let scores = [vec![Score { nll: 0.25, correct: true }, Score { nll: f64::NAN, correct: false }]];
        let mut log = TokenLog::create(&path).unwrap();
        log.add(&example("yarn", 128, 2.0), &text, &plan, &scores).unwrap();
        assert!(!path.exists(), "a file appears whole");
        log.finish().unwrap();
        std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn json_lines_name_their_fields() {
        let lines = written("tokens.jsonl");
        assert_eq!(lines.len(), 2);
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        let expected = json!({
            "run": "rope", "seed": 0, "extend": "yarn", "extend_config": { "kind": "yarn" },
            "protocol": "fixed_target", "split": "test", "length": 128, "document": "a, b",
            "position": 2, "context": 1, "token": 7, "nll": 0.25, "correct": true,
        });
        assert_eq!(first, expected);
        assert!(lines[1].contains("\"nll\":null"), "{}", lines[1]);
    }

    #[test]
    fn csv_has_a_header_and_quotes() {
        let lines = written("tokens.csv");
        assert_eq!(lines[0], names().collect::<Vec<_>>().join(","));
        assert_eq!(
            lines[1],
            "rope,0,yarn,\"{\"\"kind\"\":\"\"yarn\"\"}\",fixed_target,test,128,\"a, b\",2,1,7,0.25,true"
        );
        assert!(lines[2].ends_with(",8,,false"));
    }
}
