//! The factors of `longrope`, searched for on the validation split.
//!
//! An evolutionary search as in Ding et al. 2024 (arXiv:2402.13753, algorithm 1). It starts from the factors of `linear`,
//! `ntk`, `yarn` (by turns where the model's frequencies are scaled already) and `direct`. Each generation changes the best readings so far, or crosses two of them. A change
//! replaces each factor with probability `mutation` by a value from 1 to 1.25 s in steps of 0.01, and may draw `n_hat`
//! from the published list. Factors never fall from one band to the next slower one: they are sorted after each change.
//! The loss is that of the block's protocol at one length. The search ends after `budget` readings.
//!
//! `method = "longrope2"` tries other factors, from a critical band on, and `metric = "needle"` measures the loss of tokens
//! that only the beginning of a text tells.
//!
//! The result depends on the keys, the seed and the checkpoint alone. Losses are stored as they are measured: an
//! interrupted search continues where it stopped, and ends with the same bits.

pub mod config;
mod critical;
mod genome;
mod needle;
pub(crate) mod run;
mod space;
mod trials;

use crate::block::ResolvedEvaluate;
use crate::protocols::WINDOWS_PER_DOCUMENT;
use crate::row::ResultRow;
use crate::task_keys::TaskKeys;
use config::{Method, SearchConfig, SearchMetric};
use critical::CriticalBands;
use genome::{Genome, STEPS};
use longwave_core::config::read;
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_position::{ExtensionConfig, Lengths, Reading, Tokens};
use serde_json::json;
use space::Space;
use toml::{Table, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    config: SearchConfig,
    with: Table,
    section: String,
}

impl Search {
    /// Reads the search of an entry of `extend`; `None` where it has none.
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
        search.extension(&Genome { factors: vec![100], n_hat: 0, critical: None })?;
        Ok(Some(search))
    }

    fn extension(&self, genome: &Genome) -> Result<ExtensionConfig> {
        let mut table = self.with.clone();
        let factors = genome.factors().into_iter().map(Value::Float).collect();
        table.insert("long_factor".to_owned(), Value::Array(factors));
        table.insert("n_hat".to_owned(), Value::Integer(genome.n_hat as i64));
        ExtensionConfig::from_value(&Value::Table(table), &self.section)
    }

    fn space(&self, model: &Reading, lengths: Lengths) -> Result<Space> {
        Ok(match self.config.method {
            Method::LongRope => {
                let highest = (1.25 * STEPS * lengths.scale()).round() as u64;
                let mut starts =
                    model.encodings().iter().filter_map(|encoding| encoding.frequencies()?.start.as_ref());
                let start = starts.next().map(|start| start.below as usize);
                Space::All { highest, length: lengths.length, start }
            }
            Method::LongRope2 => {
                Space::Critical(CriticalBands::new(&frequencies(model)?, lengths.train, lengths.scale())?)
            }
        })
    }

    /// Whether needles decide, in place of what the block scores.
    fn measures_needles(&self) -> bool {
        self.config.metric == SearchMetric::Needle
    }

    fn length(&self, block: &ResolvedEvaluate) -> usize {
        let given = self.config.length.map(|length| length.rounded_down(block.train_length));
        given.unwrap_or_else(|| block.lengths.iter().copied().max().unwrap_or_default())
    }

    fn block(&self, block: &ResolvedEvaluate) -> ResolvedEvaluate {
        let length = self.length(block);
        let mut keys =
            block.protocol.at_one_length(&block.keys, length).unwrap_or_else(|_| block.keys.clone());
        if block.protocol.keys().contains(&WINDOWS_PER_DOCUMENT) {
            keys.set(WINDOWS_PER_DOCUMENT, self.config.windows_per_document);
        }
        // A task is asked as it was trained, however it is asked then.
        let tasks = vec![TaskKeys::default()];
        ResolvedEvaluate { lengths: vec![length], keys, tasks, ..block.to_choose_on(Split::Valid) }
    }

    /// The windows of a trial, and the number of readings: the budget, and one more for the row of the best.
    pub(crate) fn trials(&self, block: &ResolvedEvaluate) -> (ResolvedEvaluate, usize) {
        (self.block(block), self.config.budget + 1)
    }

    pub(crate) fn recorded(&self, block: &ResolvedEvaluate) -> serde_json::Value {
        let config = SearchConfig { length: Some(Tokens::Count(self.length(block))), ..self.config.clone() };
        json!({ "search": config, "with": self.with })
    }

    pub(crate) fn found(&self, row: &ResultRow) -> Result<ExtensionConfig> {
        let value = Value::try_from(&row.extend_config)
            .map_err(|error| Error::failed(format!("the row of a search is damaged: {error}")))?;
        ExtensionConfig::from_value(&value, &self.section)
    }

    /// Checks that the search can be run; returns the windows of a trial and an extension to try.
    pub(crate) fn check(
        &self,
        model: &Reading,
        block: &ResolvedEvaluate,
    ) -> Result<(ResolvedEvaluate, ExtensionConfig)> {
        let key = format!("{}.search.length", self.section);
        let length = self.length(block);
        if length <= block.train_length {
            let allowed = format!("it must exceed L = {}: factors are for longer texts", block.train_length);
            return Err(Error::value(&key, length, allowed).hint("give a length above L, or evaluate one"));
        }
        block.protocol.at_one_length(&block.keys, length).map_err(|why| Error::value(&key, length, why))?;
        self.space(model, Lengths { train: block.train_length, length })?;
        let genome = Genome { factors: vec![100; bands(model)?], n_hat: 0, critical: None };
        Ok((self.block(block), self.extension(&genome)?))
    }
}

/// The keys of the search that made a [choice](ResultRow::choice), without the length that it is for, which follows L; `None` of a
/// choice from a list.
pub fn keys_of(choice: &serde_json::Value) -> Option<serde_json::Map<String, serde_json::Value>> {
    let mut keys = choice.get("search")?.as_object()?.clone();
    keys.remove("length");
    Some(keys)
}

/// The frequencies of the encodings, which must all have the same number of bands.
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
        assert!(message("search = { method = 'longrope3' }").contains("extend[0].search.method"));
        assert!(message("search = { metric = 'accuracy' }").contains("extend[0].search.metric"));
        let new =
            take("kind = 'longrope'\nsearch = { method = 'longrope2', metric = 'needle' }").unwrap().unwrap();
        assert!(new.config.method == Method::LongRope2 && new.measures_needles());
        let written = |search: &Search| serde_json::to_value(&search.config).unwrap();
        assert_eq!(
            (&written(&new)["method"], &written(&new)["metric"]),
            (&"longrope2".into(), &"needle".into())
        );
        assert_eq!(written(&search)["method"], "longrope", "every key is written");
        assert!(message("search = true").contains("it must be a table"));
        assert!(message("long_factor = [1.0]\nsearch = {}").contains("which its `search` is to find"));
        assert!(message("scael = 2.0\nsearch = {}").contains("did you mean `scale`?"));
    }
}
