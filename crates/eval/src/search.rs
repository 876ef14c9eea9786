//! The factors of `longrope`, searched for on the validation split.
//!
//! An evolutionary search as in Ding et al. 2024 (arXiv:2402.13753, algorithm 1): it begins with what `linear`, `ntk`,
//! `yarn` and `direct` make of the frequencies, and keeps trying changes of the best readings so far, each factor
//! replaced with probability `mutation` by one from 1 to 1.25 s in steps of 0.01, and crossings of two of them;
//! `n_hat` is drawn from the published list. Factors never fall from one band to the next slower one: they
//! are sorted after each change. The loss is that of the block's protocol at one length. A search is a function of its
//! keys, the seed and the checkpoint, and ends after `budget` readings. Losses are kept as they are measured: a search
//! that was interrupted goes on where it stopped, to the same end bit for bit.

mod genome;
mod trials;

use crate::config::{Protocol, ResolvedEvaluate};
use crate::document::Evaluation;
use crate::entry::as_json;
use crate::evaluate::{Progress, Subject, evaluate, mean_loss};
use crate::row::{ResultRow, Settings};
use crate::text::Source;
use genome::{Genome, STEPS, generation};
use longwave_core::config::read;
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_position::{ExtensionConfig, Lengths, Reading, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;
use std::path::Path;
use toml::{Table, Value};
use trials::Trials;

/// `search` of `{ kind = "longrope", search = { .. } }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Length the factors are searched for; the longest of the block unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Tokens>,
    /// Readings that are measured.
    pub budget: usize,
    /// New readings of a generation, half of them changes and half of them crossings.
    pub population: usize,
    /// Best readings that the next generation is made of.
    pub parents: usize,
    /// Chance of each factor to be replaced, above 0 and at most 1.
    pub mutation: f64,
    /// Windows of each document of the validation split that are read.
    pub windows_per_document: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { length: None, budget: 128, population: 16, parents: 8, mutation: 0.3, windows_per_document: 1 }
    }
}

/// A search, with the other keys of its entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    config: SearchConfig,
    /// The keys of the extension but those that are searched for.
    with: Table,
    section: String,
}

impl Search {
    /// Takes the search out of an entry of `extend`, where there is one.
    pub(crate) fn take(kind: &str, table: &Table, section: &str) -> Result<Option<Self>> {
        let (true, Some(search)) = (kind == "longrope", table.get("search")) else { return Ok(None) };
        let key = format!("{section}.search");
        let Value::Table(keys) = search else {
            return Err(Error::value(&key, search, "it must be a table")
                .hint("`search = {}` takes the default of every key"));
        };
        let config: SearchConfig = read(keys, &key)?;
        let least = [
            ("budget", config.budget, 4),
            ("population", config.population, 2),
            ("parents", config.parents, 2),
            ("windows_per_document", config.windows_per_document, 1),
        ];
        for (name, value, least) in least {
            if value < least {
                return Err(Error::value(
                    &format!("{key}.{name}"),
                    value,
                    format!("it must be at least {least}"),
                )
                .hint("leave it out for the default"));
            }
        }
        if !(config.mutation > 0.0 && config.mutation <= 1.0) {
            return Err(Error::value(
                &format!("{key}.mutation"),
                config.mutation,
                "it must lie above 0 and be at most 1",
            )
            .hint("leave it out for the default"));
        }
        let mut with = table.clone();
        with.remove("search");
        if let Some(given) = ["long_factor", "n_hat"].into_iter().find(|key| with.contains_key(*key)) {
            return Err(Error::usage(format!("`{section}` gives `{given}`, which its `search` is to find"))
                .hint("give the factors, or search for them"));
        }
        let search = Self { config, with, section: section.to_owned() };
        // The other keys are checked with one band.
        search.extension(&Genome { factors: vec![100], n_hat: 0 })?;
        Ok(Some(search))
    }

    fn extension(&self, genome: &Genome) -> Result<ExtensionConfig> {
        let mut table = self.with.clone();
        let factors = genome.factors.iter().map(|&factor| Value::Float(factor as f64 / STEPS)).collect();
        table.insert("long_factor".to_owned(), Value::Array(factors));
        table.insert("n_hat".to_owned(), Value::Integer(genome.n_hat as i64));
        ExtensionConfig::from_value(&Value::Table(table), &self.section)
    }

    /// The length that is searched for.
    fn length(&self, block: &ResolvedEvaluate) -> usize {
        let given = self.config.length.map(|length| length.rounded_down(block.train_length));
        given.unwrap_or_else(|| block.lengths.iter().copied().max().unwrap_or_default())
    }

    /// The windows a reading is measured on.
    fn block(&self, block: &ResolvedEvaluate) -> ResolvedEvaluate {
        let length = self.length(block);
        let fixed = (block.protocol == Protocol::FixedTarget).then_some(length);
        ResolvedEvaluate {
            lengths: vec![length],
            split: Split::Valid,
            max_length: fixed,
            window_stride: fixed,
            // A sequence of a task is one window.
            windows_per_document: (block.protocol != Protocol::Task)
                .then_some(self.config.windows_per_document),
            ..block.clone()
        }
    }

    /// The windows a reading is measured on, and how many readings are: the budget, and the best one for its row.
    pub(crate) fn trials(&self, block: &ResolvedEvaluate) -> (ResolvedEvaluate, usize) {
        (self.block(block), self.config.budget + 1)
    }

    /// What rows tell of the search.
    pub(crate) fn told(&self, block: &ResolvedEvaluate) -> Result<serde_json::Value> {
        let config = SearchConfig { length: Some(Tokens::Count(self.length(block))), ..self.config.clone() };
        Ok(json!({ "search": as_json(&config)?, "with": as_json(&self.with)? }))
    }

    /// The extension that a row of the search holds.
    pub(crate) fn found(&self, row: &ResultRow) -> Result<ExtensionConfig> {
        let value = Value::try_from(&row.extend_config)
            .map_err(|error| Error::failed(format!("the row of a search is damaged: {error}")))?;
        ExtensionConfig::from_value(&value, &self.section)
    }

    /// Checks that the search can be made, and gives one of its measurements.
    pub(crate) fn check(&self, model: &Reading, block: &ResolvedEvaluate) -> Result<Evaluation> {
        let key = format!("{}.search.length", self.section);
        let length = self.length(block);
        if length <= block.train_length {
            let allowed = format!("it must exceed L = {}: factors are for longer texts", block.train_length);
            return Err(Error::value(&key, length, allowed).hint("give a length above L, or evaluate one"));
        }
        if block.target.is_some_and(|target| target > length) {
            return Err(Error::value(&key, length, "it must hold the scored tokens, `target`"));
        }
        if block.passage.is_some_and(|passage| 2 * passage > length) {
            return Err(Error::value(&key, length, "it must hold two copies of the passage, `passage`"));
        }
        let genome = Genome { factors: vec![100; bands(model)?], n_hat: 0 };
        let extension = self.extension(&genome)?;
        Ok(Evaluation { baseline: false, ..Evaluation::closed(self.block(block), vec![extension]) })
    }
}

/// Makes the search, or finds it among the known rows; gives the row of the best reading on the validation split.
/// What it tries is kept in `folder`, so that a search that was interrupted goes on, and a larger one begins with it.
///
/// # Errors
/// As [`evaluate()`], or the folder cannot be read or written.
pub(crate) fn run(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    search: &Search,
    known: &[ResultRow],
    folder: &Path,
    store: &mut dyn FnMut(&ResultRow) -> Result<()>,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<ResultRow> {
    let among = search.told(&evaluation.block)?;
    let block = search.block(&evaluation.block);
    let source = block.source(subject.dataset)?;
    let settings =
        Settings { corpus_hash: source.hash.clone(), ..block.settings(search.length(&block), "longrope") };
    let made = known.iter().find(|row| {
        row.config_hash == subject.config_hash
            && (row.checkpoint.as_str(), row.step, row.stage)
                == (subject.checkpoint, subject.step, subject.stage)
            && row.settings == settings
            && row.chosen_among.as_ref() == Some(&among)
    });
    if let Some(row) = made {
        return Ok(row.clone());
    }
    let mut trials = Trials::open(folder, &subject_of(subject, search, &settings)?)?;
    let genome = evolve(subject, &source, search, &block, &mut trials, show)?;
    let mut best = Evaluation::closed(block, vec![search.extension(&genome)?]);
    best.baseline = false;
    best.chosen = vec![crate::choose::Chosen { place: 0, among }];
    let rows = evaluate(subject, &best, known, None, store, show)?;
    rows.into_iter().next().ok_or_else(|| Error::failed("a search measured nothing"))
}

/// What the loss of a reading depends on, besides the reading itself.
fn subject_of(subject: &Subject<'_>, search: &Search, settings: &Settings) -> Result<serde_json::Value> {
    Ok(json!({
        "config_hash": subject.config_hash,
        "checkpoint": subject.checkpoint,
        "step": subject.step,
        "stage": subject.stage,
        "device": subject.device_name,
        "settings": as_json(settings)?,
        "with": as_json(&search.with)?,
    }))
}

/// The best reading that the budget finds.
fn evolve(
    subject: &Subject<'_>,
    source: &Source<'_>,
    search: &Search,
    block: &ResolvedEvaluate,
    trials: &mut Trials,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Genome> {
    let model = &subject.model.position;
    let length = search.length(block);
    let lengths = Lengths { train: block.train_length, length };
    let highest = (1.25 * STEPS * lengths.scale()).round() as u64;
    let mut stream = Stream::new(subject.config.seed, "longrope search", length as u64);
    let mut scored: Vec<(f64, Genome)> = Vec::new();
    let mut seen = HashSet::new();
    let mut children = seeds(model, lengths, highest)?;
    let budget = search.config.budget;
    while scored.len() < budget {
        let mut fresh = false;
        for genome in children {
            if scored.len() == budget || !seen.insert(genome.clone()) {
                continue;
            }
            fresh = true;
            let loss = if let Some(known) = trials.loss(&genome) {
                known
            } else {
                let read = Evaluation {
                    baseline: false,
                    ..Evaluation::closed(block.clone(), vec![search.extension(&genome)?])
                };
                let readings = scored.len();
                let loss = mean_loss(subject, source, &read, &mut |progress| {
                    let done = readings * progress.total + progress.done;
                    show(Progress { done, total: budget * progress.total })
                })?;
                let loss = if loss.is_nan() { f64::INFINITY } else { loss };
                trials.add(&genome, loss)?;
                loss
            };
            scored.push((loss, genome));
        }
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !fresh {
            // Every change of so few bands has been tried.
            break;
        }
        children = generation(&scored, &search.config, highest, length, &mut stream);
    }
    scored
        .into_iter()
        .next()
        .map(|(_, genome)| genome)
        .ok_or_else(|| Error::failed("a search measured nothing"))
}

/// What known extensions make of the frequencies, as factors.
fn seeds(model: &Reading, lengths: Lengths, highest: u64) -> Result<Vec<Genome>> {
    let trained = frequencies(model)?;
    ["linear", "yarn", "ntk", "direct"]
        .into_iter()
        .map(|kind| {
            let extension = ExtensionConfig::from_value(&Value::String(kind.to_owned()), "extend")?;
            let read = extension.apply(model, lengths)?;
            let ratios = trained.iter().zip(frequencies(&read)?);
            let mut factors: Vec<u64> = ratios
                .map(|(&old, new)| if new > 0.0 { STEPS * old / new } else { STEPS })
                .map(|factor| (factor.round() as u64).clamp(STEPS as u64, highest))
                .collect();
            factors.sort_unstable();
            Ok(Genome { factors, n_hat: 0 })
        })
        .collect()
}

/// The frequencies of the one encoding made of some.
fn frequencies(reading: &Reading) -> Result<Vec<f64>> {
    let mut found = reading.encodings().iter().filter_map(|encoding| encoding.frequencies());
    let error = |what: &str| {
        Error::usage(format!("`longrope` cannot search factors for `{}`: {what}", reading.name()))
            .hint("the search is for an encoding made of frequencies, such as `rope`")
    };
    let first = found.next().ok_or_else(|| error("it has no frequencies"))?;
    match found.find(|other| other.inv_freq.len() != first.inv_freq.len()) {
        Some(_) => Err(error("its encodings differ in the number of their bands")),
        None => Ok(first.inv_freq.clone()),
    }
}

fn bands(reading: &Reading) -> Result<usize> {
    frequencies(reading).map(|frequencies| frequencies.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> Result<Option<Search>> {
        let table: Table = text.parse().unwrap();
        let kind = table["kind"].as_str().unwrap().to_owned();
        Search::take(&kind, &table, "extend[0]")
    }

    #[test]
    fn a_search_is_taken_and_its_keys_are_checked() {
        let search = take("kind = 'longrope'\nlog_n = true\nsearch = { budget = 20 }").unwrap().unwrap();
        assert_eq!((search.config.budget, search.config.parents), (20, 8));
        assert!(search.with.contains_key("log_n"));
        assert!(take("kind = 'longrope'\nlong_factor = [1.0]").unwrap().is_none());
        let message = |text: &str| take(&format!("kind = 'longrope'\n{text}")).unwrap_err().to_string();
        assert!(message("search = { budget = 1 }").starts_with("`extend[0].search.budget = 1`"));
        assert!(message("search = { bugdet = 9 }").ends_with("did you mean `budget`?"));
        assert!(message("search = { mutation = 0.0 }").contains("above 0"));
        assert!(message("search = true").contains("it must be a table"));
        assert!(message("long_factor = [1.0]\nsearch = {}").contains("which its `search` is to find"));
        assert!(message("scael = 2.0\nsearch = {}").contains("did you mean `scale`?"));
    }
}
