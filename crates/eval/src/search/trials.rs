//! The losses that searches have measured, kept in a run's folder.
//!
//! `searches/KEY.jsonl` has one line for each reading that was tried, with its loss. The key is a hash of everything else
//! that the loss depends on, and the first line holds that in full. Budget and population are not part of it: another
//! search reuses the losses.

use super::genome::Genome;
use longwave_core::file::existing_folder;
use longwave_core::{Error, Result, canonical, file, sealed_line, written};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;

#[derive(Debug)]
pub(super) struct Trials {
    path: PathBuf,
    /// The file's lines, in the order in which readings were tried.
    lines: Vec<String>,
    losses: HashMap<Genome, f64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Trial {
    #[serde(flatten)]
    genome: Genome,
    /// Mean loss in nats per token; `null` where it is not finite.
    loss: Option<f64>,
}

impl Trials {
    /// The readings of `subject` that were tried, from its file below `folder`.
    pub(super) fn open(folder: &Path, subject: &Value) -> Result<Self> {
        let first = canonical::text(json!({ "format": FORMAT, "subject": subject }));
        let key = file::sha256_of(first.as_bytes());
        let path = folder.join("searches").join(format!("{}.jsonl", &key[..16]));
        let mut trials = Self { path, lines: vec![first], losses: HashMap::new() };
        if !trials.path.exists() {
            return Ok(trials);
        }
        let text = file::read_text(&trials.path)?;
        let mut lines = text.lines();
        if lines.next() != Some(&trials.lines[0]) {
            return Err(trials.damaged(1, "it belongs to another search"));
        }
        for (number, line) in (2..).zip(lines) {
            sealed_line::check(line).map_err(|why| trials.damaged(number, why))?;
            let Trial { genome, loss } =
                serde_json::from_str(line).map_err(|error| trials.damaged(number, &error.to_string()))?;
            trials.losses.insert(genome, loss.unwrap_or(f64::INFINITY));
            trials.lines.push(line.to_owned());
        }
        Ok(trials)
    }

    fn damaged(&self, number: usize, why: &str) -> Error {
        Error::failed(format!("`{}` line {number} is not a tried reading: {why}", self.path.display()))
            .hint("remove the file; the search then begins from the start")
    }

    pub(super) fn loss(&self, genome: &Genome) -> Option<f64> {
        self.losses.get(genome).copied()
    }

    /// Stores the loss of a reading. The file appears whole or stays as it was.
    pub(super) fn add(&mut self, genome: &Genome, loss: f64) -> Result<()> {
        let trial = Trial { genome: genome.clone(), loss: loss.is_finite().then_some(loss) };
        let line = written::json("a tried reading", &trial)?;
        self.lines.push(sealed_line::seal(&line));
        self.losses.insert(trial.genome, loss);
        let searches = self.path.parent().unwrap_or(&self.path);
        existing_folder::make_below(searches.parent().unwrap_or(searches), searches)?;
        existing_folder::write_with(&self.path, |writer| {
            self.lines.iter().try_for_each(|line| writeln!(writer, "{line}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn genome(last: u64) -> Genome {
        Genome { factors: vec![100, last], n_hat: 4, critical: None }
    }

    #[test]
    fn losses_come_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let subject = json!({ "config_hash": "c0ffee", "step": 600 });
        let mut trials = Trials::open(folder.path(), &subject).unwrap();
        let losses = [(genome(200), 0.1 + 0.2), (genome(201), f64::INFINITY), (genome(202), 1.0 / 3.0)];
        for (genome, loss) in &losses {
            assert_eq!(trials.loss(genome), None);
            trials.add(genome, *loss).unwrap();
        }
        let again = Trials::open(folder.path(), &subject).unwrap();
        for (genome, loss) in &losses {
            assert_eq!(again.loss(genome).unwrap().to_bits(), loss.to_bits());
        }
        let other = Trials::open(folder.path(), &json!({ "config_hash": "c0ffee", "step": 601 })).unwrap();
        assert_eq!(other.loss(&genome(200)), None, "another checkpoint has losses of its own");
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut trials = Trials::open(folder.path(), &Value::Null).unwrap();
        trials.add(&genome(200), 1.0).unwrap();
        let text = std::fs::read_to_string(&trials.path).unwrap();
        std::fs::write(&trials.path, text.clone() + "{\"factors\": [1").unwrap();
        let error = Trials::open(folder.path(), &Value::Null).unwrap_err();
        assert!(error.message().contains("line 3 is not a tried reading"), "{error}");
        assert!(error.hint_text().is_some());
        std::fs::write(&trials.path, text.replacen("null", "1", 1)).unwrap();
        assert!(Trials::open(folder.path(), &Value::Null).unwrap_err().message().contains("another search"));
    }
}
