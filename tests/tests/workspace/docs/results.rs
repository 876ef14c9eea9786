//! What the studies of `experiments` measured, from their committed `results.csv` and `study.md`.

use super::repository;
use crate::common::csv::Csv;
use longwave_eval::text::Material;
use longwave_eval::{Metric, WINDOW_BASELINE};
use std::collections::BTreeMap;
use std::fs;

/// One number of a study.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// The labels on the study's axes, as a claim has them.
    pub(super) label: String,
    /// The run's name in the study's store.
    run: String,
    seed: String,
    /// `position.kind`.
    kind: String,
    pub(super) reading: String,
    pub(super) protocol: String,
    pub(super) split: String,
    pub(super) train_length: usize,
    pub(super) length: usize,
    pub(super) step: u64,
    /// Whether it is of a checkpoint along the training.
    pub(super) is_of_kept_step: bool,
    /// Nats per token.
    pub(super) loss: f64,
    /// Bits per byte, of text.
    pub(super) bits: Option<f64>,
    /// The shares of the answers and of their tokens that are right.
    pub(super) exact_match: Option<f64>,
    pub(super) accuracy: Option<f64>,
    /// The metrics of attention by their columns, of rows that hold them.
    pub(super) of_attention: BTreeMap<&'static str, f64>,
}

pub(super) struct Study {
    pub(super) name: String,
    pub(super) axes: usize,
    pub(super) train_length: usize,
    measured: Vec<Measured>,
    claims: Vec<Claim>,
}

/// A claim and its verdict, as `study.md` has them.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) says: String,
    pub(super) interval: String,
    pub(super) verdict: String,
    /// The protocol, where the study's file names another than that of texts or tasks in general.
    pub(super) protocol: Option<String>,
}

/// The mean over seeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    /// `exp` of the mean loss.
    pub(super) perplexity: f64,
    /// One standard deviation of the loss over seeds, in nats; `None` with one seed.
    pub(super) deviation: Option<f64>,
}

impl Mean {
    pub(super) fn of(losses: &[f64]) -> Self {
        let count = losses.len() as f64;
        let mean = losses.iter().sum::<f64>() / count;
        let squares = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>();
        let deviation = (losses.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Self { perplexity: mean.exp(), deviation }
    }

    /// Shares over seeds, as the tables of a study have them: in per cent, with one standard deviation.
    pub(super) fn share(shares: &[f64]) -> String {
        Self::plain(shares, 100.0, 1)
    }

    /// Bits per byte and other plain numbers over seeds, with one standard deviation.
    pub(super) fn number(numbers: &[f64]) -> String {
        Self::plain(numbers, 1.0, 3)
    }

    fn plain(values: &[f64], factor: f64, digits: usize) -> String {
        let mean = factor * values.iter().sum::<f64>() / values.len() as f64;
        let deviation = Self::of(values).deviation.map(|deviation| factor * deviation);
        deviation
            .map_or(format!("{mean:.digits$}"), |deviation| format!("{mean:.digits$} ±{deviation:.digits$}"))
    }

    /// As the tables of a study have it.
    pub(super) fn text(self) -> String {
        let digits = if self.perplexity < 100.0 { 2 } else { usize::from(self.perplexity < 1000.0) };
        let value = if self.perplexity < 1e6 {
            format!("{:.digits$}", self.perplexity)
        } else {
            format!("{:.2e}", self.perplexity)
        };
        self.deviation.map_or(value.clone(), |deviation| {
            let digits = usize::from(deviation < 1.0);
            format!("{value} ±{:.digits$}%", 100.0 * deviation)
        })
    }
}

/// The metrics that rows of the protocol `diagnostics` alone hold.
pub(super) fn attention_metrics() -> impl Iterator<Item = Metric> {
    let all = Metric::all().iter().copied();
    all.filter(|metric| metric.is_of(Material::Watched) && !metric.is_of(Material::Documents))
}

impl Study {
    /// The study `experiments/NAME`.
    pub(super) fn read(name: &str) -> Self {
        let text =
            |file: &str| fs::read_to_string(repository(&format!("experiments/{name}/{file}"))).unwrap();
        let csv = Csv::read(&text("results.csv"));
        let column = |name: &str| csv.place(name);
        // The axes stand first.
        let axes = column("reading");
        let names = ["run", "seed", "encoding", "reading", "protocol", "split", "checkpoint"];
        let [run, seed, kind, reading, protocol, split, checkpoint] = names.map(column);
        let [train_length, length, step, loss] = ["train_length", "length", "step", "nll"].map(column);
        let optional = ["exact_match", "accuracy", "bpb"].map(|name| csv.find(name));
        let of_attention: Vec<(&'static str, usize)> = attention_metrics()
            .filter_map(|metric| Some((metric.name(), csv.find(metric.name())?)))
            .collect();
        let measured = csv.lines.iter().map(|row| {
            let found = |column: Option<usize>| column.and_then(|column| row[column].parse().ok());
            Measured {
                label: row[..axes].join(", "),
                run: row[run].clone(),
                seed: row[seed].clone(),
                kind: row[kind].clone(),
                reading: row[reading].clone(),
                protocol: row[protocol].clone(),
                split: row[split].clone(),
                train_length: row[train_length].parse().unwrap(),
                length: row[length].parse().unwrap(),
                step: row[step].parse().unwrap(),
                is_of_kept_step: row[checkpoint].starts_with("step-"),
                loss: row[loss].parse().unwrap(),
                bits: found(optional[2]),
                exact_match: found(optional[0]),
                accuracy: found(optional[1]),
                of_attention: of_attention
                    .iter()
                    .filter_map(|(name, column)| Some((*name, row[*column].parse().ok()?)))
                    .collect(),
            }
        });
        let measured: Vec<Measured> = measured.collect();
        let (train_length, mut claims) = (measured[0].train_length, claims(&text("study.md")));
        let file = fs::read_to_string(repository(&format!("experiments/{name}.toml"))).unwrap();
        let file: toml::Table = file.parse().unwrap();
        let written = file.get("claim").and_then(toml::Value::as_array).into_iter().flatten();
        for (claim, written) in claims.iter_mut().zip(written) {
            let says = written["says"].as_str().unwrap();
            assert!(claim.says.starts_with(says), "`{says}` stands in the place of `{}`", claim.says);
            let protocol = written.get("protocol").and_then(toml::Value::as_str);
            claim.protocol = protocol.filter(|it| !["fixed_target", "task"].contains(it)).map(str::to_owned);
        }
        Self { name: name.to_owned(), axes, train_length, measured, claims }
    }

    /// All rows, in the order of the file.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Measured> {
        self.measured.iter()
    }

    /// The labels of its runs, in order of first appearance, with the kind of encoding of each.
    pub(super) fn labels(&self) -> Vec<(&str, &str)> {
        let mut labels: Vec<(&str, &str)> = Vec::new();
        for row in &self.measured {
            if labels.iter().all(|(label, _)| *label != row.label) {
                labels.push((&row.label, &row.kind));
            }
        }
        labels
    }

    /// The labels of runs with a kind of encoding.
    pub(super) fn labels_of(&self, kind: &str) -> Vec<&str> {
        self.labels().into_iter().filter(|(_, of)| *of == kind).map(|(label, _)| label).collect()
    }

    /// The run of seed 0 of each label.
    pub(super) fn runs_of_seed_0(&self) -> Vec<(&str, &str)> {
        let run =
            |label: &str| self.measured.iter().find(|row| row.label == label && row.seed == "0").unwrap();
        self.labels().into_iter().map(|(label, _)| (label, run(label).run.as_str())).collect()
    }

    /// The readings of a label, in order of first appearance and the window baseline last.
    pub(super) fn readings(&self, label: &str) -> Vec<&str> {
        let mut readings: Vec<&str> = Vec::new();
        for row in self.measured.iter().filter(|row| row.label == label) {
            if !readings.contains(&row.reading.as_str()) {
                readings.push(&row.reading);
            }
        }
        readings.sort_by_key(|reading| *reading == WINDOW_BASELINE);
        readings
    }

    /// The lengths of the study.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.measured.iter().map(|row| row.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    /// How many seeds the label with the most has.
    pub(super) fn seeds(&self) -> usize {
        let first = &self.measured[0];
        let (length, reading) = (self.train_length, first.reading.as_str());
        let count = |label: &str| {
            let rows = self.measured.iter().filter(|row| row.label == label && row.reading == reading);
            rows.filter(|row| row.length == length && row.split == "test" && row.protocol == "fixed_target")
                .count()
        };
        self.labels().into_iter().map(|(label, _)| count(label)).max().unwrap()
    }

    /// The perplexity by length of one reading, under `fixed_target`.
    pub(super) fn curve(&self, label: &str, reading: &str, split: &str) -> BTreeMap<usize, Mean> {
        let mut losses: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let rows = self.measured.iter().filter(|row| row.label == label && row.reading == reading);
        let rows = rows.filter(|row| row.split == split && row.protocol == "fixed_target");
        for row in rows.filter(|row| !row.is_of_kept_step) {
            losses.entry(row.length).or_default().push(row.loss);
        }
        losses.into_iter().map(|(length, losses)| (length, Mean::of(&losses))).collect()
    }

    /// The perplexity of a reading on the test split at one length, as tables have it.
    pub(super) fn cell(&self, label: &str, reading: &str, length: usize) -> String {
        self.curve(label, reading, "test").get(&length).map_or("-".to_owned(), |mean| mean.text())
    }

    /// The perplexity of a reading on the test split at 8L, beyond all others where it is not defined there.
    pub(super) fn at_8(&self, label: &str, reading: &str) -> f64 {
        let curve = self.curve(label, reading, "test");
        curve.get(&(8 * self.train_length)).map_or(f64::INFINITY, |mean| mean.perplexity)
    }

    /// The reading of a label that is best at a length on the validation split, the window baseline aside.
    pub(super) fn best(&self, label: &str, length: usize) -> Option<&str> {
        let readings = self.readings(label).into_iter().filter(|reading| *reading != WINDOW_BASELINE);
        let at = |reading: &str| self.curve(label, reading, "valid").get(&length).map(|mean| mean.perplexity);
        let measured = readings.filter_map(|reading| Some((reading, at(reading)?)));
        measured.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(reading, _)| reading)
    }

    /// The claims in which a side has one of these words, a label or an extension.
    pub(super) fn claims_on(&self, is_meant: impl Fn(&str) -> bool) -> Vec<&Claim> {
        let has = |claim: &&Claim| {
            let sides = claim.says.rsplit_once(" at ").unwrap().0;
            let sides = [" < ", " > ", " = "].iter().find_map(|sign| sides.split_once(sign)).unwrap();
            let side = |side: &str| side.split(" at ").next().unwrap().split(", ").any(&is_meant);
            side(sides.0) || side(sides.1)
        };
        self.claims.iter().filter(has).collect()
    }

    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }
}

/// The rows of the table of claims.
fn claims(markdown: &str) -> Vec<Claim> {
    let after = markdown.split_once("\n## Claims\n").map_or("", |(_, after)| after);
    let after = after.split("\n## ").next().unwrap_or_default();
    let mut rows = after.lines().filter(|line| line.starts_with('|')).map(|line| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace("**", "")).collect::<Vec<_>>()
    });
    let Some(header) = rows.next() else { return Vec::new() };
    let column = |name: &str| header.iter().position(|column| column.ends_with(name)).unwrap();
    let [says, interval, verdict] = ["claim", "adjusted interval", "verdict"].map(column);
    rows.skip(1)
        .map(|row| Claim {
            says: row[says].trim_matches('`').replace("&lt;", "<").replace("&gt;", ">"),
            interval: row[interval].clone(),
            verdict: row[verdict].clone(),
            protocol: None,
        })
        .collect()
}
