//! From a study to its runs: every combination of points and seeds, each with its identity.

pub(crate) mod job;

pub use job::{FORMAT, Job, Origin};

use crate::applicable::{Applicability, Groups, LeftOut};
use crate::axis::{Axis, Point};
use crate::document::{Names, Study, leaves, merge};
use crate::looks::Looks;
use crate::words::few;
pub use job::Content;
use job::{evaluation_of, key_of};
use longwave_core::in_order::grouped;
use longwave_core::{Error, Result};
use longwave_experiment::Config;
use std::collections::{BTreeMap, HashMap};
use toml::{Table, Value};

const FEW: usize = 6;

/// All runs of a study, in the order of axes (the last one fastest) and then seeds.
#[derive(Clone, Debug)]
pub struct Plan {
    pub axes: Vec<String>,
    /// Which of them varies the learning rate, where another one varies what is compared.
    pub rate_axis: Option<usize>,
    pub runs: Vec<Planned>,
    /// The seeds that each combination may have, in their order.
    pub seeds: Vec<u64>,
    /// After how many seeds claims are judged.
    pub looks: Looks,
    /// The kind of device, `cpu` or `gpu`.
    pub device: String,
    /// Content hashes of the corpora, by the text of their `[data]`.
    pub contents: BTreeMap<String, String>,
    /// Entries of evaluations that apply to none of the runs they are for.
    refused: Vec<Error>,
}

#[derive(Clone, Debug)]
pub struct Planned {
    pub labels: Vec<String>,
    pub seed: u64,
    pub job: Result<Job>,
    /// What the study's evaluations ask for and this run is not read with, since it does not apply.
    pub left_out: Vec<LeftOut>,
    /// The stored run that it goes on from, see [`Plan::find_sources`].
    pub from: Option<Origin>,
}

impl Planned {
    pub fn title(&self) -> String {
        let mut parts = self.labels.clone();
        parts.push(format!("seed {}", self.seed));
        parts.join(", ")
    }
}

pub type ContentHash<'a> = dyn FnMut(Content<'_>) -> Result<String> + 'a;

impl Plan {
    /// Expands a study. `content_hash` is called once for each different `[data]`; `device` is the kind of
    /// device (`cpu` or `gpu`), which decides how results round.
    ///
    /// A combination whose config is not allowed is planned all the same, with the reason.
    pub fn new(study: &Study, device: &str, content_hash: &mut ContentHash<'_>) -> Self {
        let mut expansion = Expansion {
            study,
            device,
            content_hash,
            contents: HashMap::new(),
            applicability: Applicability::default(),
            groups: Groups::default(),
        };
        let mut runs = Vec::new();
        let mut indices = vec![0; study.axes.len()];
        loop {
            let points: Vec<&Point> =
                study.axes.iter().zip(&indices).map(|(axis, &index)| &axis.points[index]).collect();
            expansion.cell(&points, &mut runs);
            if !advance(&mut indices, study) {
                break;
            }
        }
        let mut refused = expansion.groups.refused(study);
        if runs.iter().all(|run: &Planned| run.job.is_ok()) {
            refused.extend(expansion.groups.unread(study));
        }
        let contents = expansion.contents.into_iter().filter_map(|(data, hash)| Some((data, hash.ok()?)));
        Self {
            axes: study.axes.iter().map(|axis| axis.name.clone()).collect(),
            rate_axis: rate_axis(study),
            runs,
            seeds: study.seeds.clone(),
            looks: study.looks.clone(),
            device: device.to_owned(),
            contents: contents.collect(),
            refused,
        }
    }

    /// What of the evaluations is left out, one sentence each, with the runs it is left out of.
    pub fn left_out(&self) -> Vec<String> {
        let of = |run: &Planned| {
            let name = if run.labels.is_empty() { "the run".to_owned() } else { run.labels.join(", ") };
            run.left_out.iter().map(move |one| (one.in_words(), name.clone())).collect::<Vec<_>>()
        };
        let sentence = |(what, mut runs): (String, Vec<String>)| {
            // Seeds follow each other.
            runs.dedup();
            format!("{}: {what}", few(&runs, FEW))
        };
        grouped(self.runs.iter().flat_map(of)).into_iter().map(sentence).collect()
    }

    /// Whether a run is one of the first `count` seeds.
    pub fn is_within(&self, run: usize, count: usize) -> bool {
        // The seeds of a combination follow each other, in their order.
        run % self.seeds.len() < count
    }

    /// The runs that can be done, with their places in the plan, each work once.
    pub fn distinct(&self) -> Vec<(usize, &Job)> {
        let mut seen = std::collections::HashSet::new();
        self.jobs().filter(|(_, job)| seen.insert((&job.key, &job.evaluation))).collect()
    }

    /// The runs that can be done, with their places in the plan.
    pub fn jobs(&self) -> impl Iterator<Item = (usize, &Job)> {
        self.runs.iter().enumerate().filter_map(|(index, run)| Some((index, run.job.as_ref().ok()?)))
    }

    /// Which runs no `[[evaluate]]` reads, in a sentence; nothing where each is read.
    pub fn without_evaluation(&self) -> Option<String> {
        let mut labels: Vec<String> = self
            .runs
            .iter()
            .filter(|run| run.job.as_ref().is_ok_and(|job| job.config.evaluations().is_empty()))
            .map(|run| match run.labels.as_slice() {
                [] => "the run".to_owned(),
                labels => format!("`{}`", labels.join(", ")),
            })
            .collect();
        labels.dedup();
        (!labels.is_empty())
            .then(|| format!("no `[[evaluate]]` reads {}: trained, and not measured", labels.join("; ")))
    }

    /// What is wrong with the config of the first run that has none.
    pub fn first_refused(&self) -> Option<Error> {
        let refused = self.runs.iter().find(|run| run.job.is_err())?;
        refused.job.as_ref().err().map(|error| error.clone().context(refused.title()))
    }

    /// Checks that some run can be done, and that every entry of an evaluation applies where it is asked for: to one of
    /// its runs, or, where `only` names the runs, to each that it names.
    pub fn check(&self) -> Result<()> {
        match self.runs.first().map(|run| &run.job) {
            Some(Err(error)) if self.runs.iter().all(|run| run.job.is_err()) => Err(error.clone()),
            _ => self.refused.first().map_or(Ok(()), |error| Err(error.clone())),
        }
    }
}

/// The axis all of whose points change the learning rate, and nothing but how is trained; the only axis that varies anything
/// is what a study asks about.
fn rate_axis(study: &Study) -> Option<usize> {
    let varies = |axis: &Axis| axis.points.len() > 1;
    let is_of_rates = |axis: &Axis| {
        varies(axis)
            && axis.points.iter().all(|point| {
                let keys: Vec<String> = leaves(&point.changes, "").into_iter().map(|(key, _)| key).collect();
                keys.iter().any(|key| key == "train.learning_rate")
                    && keys.iter().all(|key| key.starts_with("train."))
            })
    };
    let place = study.axes.iter().position(is_of_rates)?;
    study.axes.iter().enumerate().any(|(other, axis)| other != place && varies(axis)).then_some(place)
}

/// Goes to the next combination, the last axis fastest; false after the last one.
fn advance(indices: &mut [usize], study: &Study) -> bool {
    for (index, axis) in indices.iter_mut().zip(&study.axes).rev() {
        *index += 1;
        if *index < axis.points.len() {
            return true;
        }
        *index = 0;
    }
    false
}

struct Expansion<'a, 'b> {
    study: &'a Study,
    device: &'a str,
    content_hash: &'a mut ContentHash<'b>,
    /// Content hashes by resolved `[data]`.
    contents: HashMap<String, Result<String>>,
    applicability: Applicability,
    groups: Groups,
}

impl Expansion<'_, '_> {
    fn cell(&mut self, points: &[&Point], runs: &mut Vec<Planned>) {
        let labels: Vec<String> = points.iter().map(|point| point.label.clone()).collect();
        let cell = self.config(points, &labels).and_then(|(config, content, left_out)| {
            let read = self.read_besides(&config)?;
            let (hash, evaluation) = (config.run.hash_by_seed(&content)?, evaluation_of(&config, &read)?);
            Ok((config, hash, evaluation, left_out))
        });
        for &seed in &self.study.seeds {
            let job = match &cell {
                Ok((config, hash, evaluation, _)) => Ok(self.job(config, &hash(seed), evaluation, seed)),
                Err(error) => Err(error.clone()),
            };
            let left_out = cell.as_ref().map_or_else(|_| Vec::new(), |(.., left_out)| left_out.clone());
            runs.push(Planned { labels: labels.clone(), seed, job, left_out, from: None });
        }
    }

    /// The config of a combination, checked, its corpus's content hash, and what of its evaluations does not apply.
    fn config(&mut self, points: &[&Point], labels: &[String]) -> Result<(Config, String, Vec<LeftOut>)> {
        let mut document = self.study.base.clone();
        for point in points {
            merge(&mut document, &point.changes);
        }
        let encoding = encoding_of(&document);
        let names = Names { axes: &self.study.axes, labels, encoding: &encoding };
        let wanted = self.study.evaluations.iter().enumerate().filter(|(_, block)| block.is_for(&names));
        let (places, blocks): (Vec<usize>, Vec<Value>) =
            wanted.map(|(place, block)| (place, Value::Table(block.block.clone()))).unzip();
        // Without any the base says what there is, as in a config: nothing with an empty list, else the default block.
        if !self.study.evaluations.is_empty() {
            document.insert("evaluate".to_owned(), Value::Array(blocks));
        }
        // The name is part of every row, and the run may belong to several studies.
        document.insert("name".to_owned(), Value::String("run".to_owned()));
        let mut config = Config::from_table(document)?;
        let left_out = self.applicability.reduce(&mut config, &places)?;
        self.groups.add(self.study, &names, &places, &left_out);
        if let (true, Some(first)) = (config.evaluate().is_empty(), left_out.first()) {
            return Err(first.error.clone().context("no evaluation of the study applies"));
        }
        let content = self.content(Content::Data(&config.run.data))?;
        Ok((config, content, left_out))
    }

    /// The hash of a content, which is asked for once.
    fn content(&mut self, content: Content<'_>) -> Result<String> {
        let name = content.name();
        if let Some(known) = self.contents.get(&name) {
            return known.clone();
        }
        let hash = (self.content_hash)(content);
        self.contents.insert(name, hash.clone());
        hash
    }

    /// The hashes of the texts and files that the evaluations of a config read besides its own text.
    fn read_besides(&mut self, config: &Config) -> Result<Vec<String>> {
        Content::besides(config).into_iter().map(|content| self.content(content)).collect()
    }

    /// The work of one seed; `hash` is that of its config.
    fn job(&self, config: &Config, hash: &str, evaluation: &str, seed: u64) -> Job {
        let mut config = config.clone();
        config.run.seed = seed;
        let key = key_of(&config.run, hash, self.device);
        config.run.name.clone_from(&key);
        Job { key, evaluation: evaluation.to_owned(), config }
    }
}

/// The kind of a document's encoding; empty where it names none, which is an error later.
fn encoding_of(document: &Table) -> String {
    let kind = match document.get("position") {
        Some(Value::Table(table)) => table.get("kind"),
        other => other,
    };
    kind.and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
