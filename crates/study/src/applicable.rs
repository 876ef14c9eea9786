//! The part of a study's evaluations that applies to a run: what does not is left out of it.

use crate::axis::label_of;
use crate::document::{Names, Study};
use longwave_core::{Error, Result};
use longwave_eval::{EvaluateConfig, Evaluation, Obstacle};
use longwave_experiment::Config;
use longwave_position::Tokens;
use std::collections::{BTreeMap, HashMap};
use toml::Value;

/// An entry of `extend` that a run is not read with, at some lengths or at all.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    pub block: usize,
    pub entry: usize,
    pub extend: String,
    /// The lengths at which it is left out, in tokens.
    pub lengths: Vec<usize>,
    /// The indices of these lengths in the block.
    places: Vec<usize>,
    /// Why, for the first of them.
    pub error: Error,
}

impl LeftOut {
    /// What is left out and why, in one sentence.
    pub fn in_words(&self) -> String {
        let lengths: Vec<String> = self.lengths.iter().map(ToString::to_string).collect();
        format!("no `{}` at {} tokens: {}", self.extend, lengths.join(", "), self.error.message())
    }
}

/// Obstacles of configs by what they depend on: seeds and learning rates are not among it.
#[derive(Debug, Default)]
pub(crate) struct Applicability(HashMap<String, Result<Option<Vec<Vec<Obstacle>>>>>);

impl Applicability {
    /// Removes from a config what does not apply to its model, and gives what was removed. `places` are the indices of
    /// its blocks in the study.
    pub(crate) fn reduce(&mut self, config: &mut Config, places: &[usize]) -> Result<Vec<LeftOut>> {
        let run = &config.run;
        let key = format!(
            "{:?} {:?} {} {:?} {:?}",
            run.position,
            run.model,
            run.train.length,
            run.stages,
            config.evaluate()
        );
        let known = self.0.entry(key).or_insert_with(|| longwave_experiment::obstacles(config));
        let Some(obstacles) = known.clone()? else { return Ok(Vec::new()) };
        if obstacles.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let mut left_out = Vec::new();
        let mut blocks = Vec::new();
        for (index, (block, obstacles)) in config.evaluate().iter().zip(&obstacles).enumerate() {
            let section = format!("evaluate[{index}]");
            blocks.extend(parts(block, obstacles, &section, config.run.train.length)?);
            for (entry, value) in block.extend.iter().enumerate() {
                let mut mine = obstacles.iter().filter(|obstacle| obstacle.entry == entry).peekable();
                let Some(first) = mine.peek() else { continue };
                let (error, extend) = (first.error.clone(), label_of(value));
                let lengths: Vec<usize> = mine.map(|obstacle| obstacle.length).collect();
                let all = &config.evaluations()[index].block.lengths;
                let at = |length: &usize| all.iter().position(|other| other == length);
                left_out.push(LeftOut {
                    block: places.get(index).copied().unwrap_or(index),
                    entry,
                    extend,
                    places: lengths.iter().filter_map(at).collect(),
                    lengths,
                    error,
                });
            }
        }
        config.set_evaluate(blocks)?;
        Ok(left_out)
    }
}

/// Runs that an evaluation is for, gathered by what its `only` names: all of them where it names nothing.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<(usize, Vec<String>), Vec<Vec<LeftOut>>>);

impl Groups {
    /// Adds a run that is read with the blocks of these `places`, and what of them is left out.
    pub(crate) fn add(&mut self, study: &Study, names: &Names<'_>, places: &[usize], left_out: &[LeftOut]) {
        for &place in places {
            let only = study.evaluations[place].only.keys();
            let group = only.map(|name| names.get(name).unwrap_or_default().to_owned()).collect();
            let mine = left_out.iter().filter(|it| it.block == place).cloned().collect();
            self.0.entry((place, group)).or_default().push(mine);
        }
    }

    /// The blocks whose `only` is for no run at all, of a study all of whose runs are allowed.
    pub(crate) fn unread(&self, study: &Study) -> Vec<Error> {
        let is_read = |place: usize| self.0.keys().any(|(block, _)| *block == place);
        let unread = (0..study.evaluations.len()).filter(|place| !is_read(*place));
        let of = |place: usize| {
            let only = study.evaluations[place].only.iter();
            let only: Vec<String> =
                only.map(|(name, labels)| format!("{name} = [{}]", labels.join(", "))).collect();
            Error::value(
                &format!("evaluate[{place}].only"),
                format!("{{ {} }}", only.join(", ")),
                "no run of the study has such labels together",
            )
            .hint("`cargo longwave study FILE --dry-run` without the block lists the runs and their labels")
        };
        unread.map(of).collect()
    }

    /// Why the study is not allowed: what applies to no run of a group.
    pub(crate) fn refused(&self, study: &Study) -> Vec<Error> {
        let mut errors = Vec::new();
        for ((block, group), runs) in &self.0 {
            for one in runs.first().into_iter().flatten() {
                let lacks = |run: &Vec<LeftOut>, place| {
                    run.iter().any(|it| it.entry == one.entry && it.places.contains(place))
                };
                let nowhere = one.places.iter().position(|place| runs.iter().all(|run| lacks(run, place)));
                let Some(length) = nowhere.map(|index| one.lengths[index]) else { continue };
                let only = study.evaluations[*block].only.keys().zip(group);
                let only: Vec<String> = only.map(|(name, label)| format!("`{name} = {label}`")).collect();
                let of = if only.is_empty() {
                    "no run of the study".to_owned()
                } else {
                    format!("no run with {}, which `only` names,", only.join(" and "))
                };
                let key = format!("evaluate[{block}].extend[{}]", one.entry);
                let why = format!("it applies to {of} at {length} tokens: {}", one.error.message());
                let hint = one.error.hint_text().unwrap_or("remove it, or name the runs it is for in `only`");
                errors.push(Error::value(&key, &one.extend, why).hint(hint));
            }
        }
        errors
    }
}

/// A block without what does not apply: one block for each run of lengths that allow the same entries, with the windows
/// of the whole block.
fn parts(
    block: &EvaluateConfig,
    obstacles: &[Obstacle],
    section: &str,
    train_length: usize,
) -> Result<Vec<EvaluateConfig>> {
    if obstacles.is_empty() {
        return Ok(vec![block.clone()]);
    }
    let whole = block.validate(section, train_length)?;
    let mut keys = block.keys.clone();
    for key in longwave_eval::protocols::keys() {
        if let Some(value) = whole.keys.get(key.name) {
            keys.set(key, Tokens::Count(value));
        }
    }
    let mut parts: Vec<EvaluateConfig> = Vec::new();
    for &length in &whole.lengths {
        let applies = |entry: usize| !obstacles.iter().any(|it| (it.entry, it.length) == (entry, length));
        let extend = block.extend.iter().enumerate().filter(|(entry, _)| applies(*entry));
        let extend: Vec<Value> = extend.map(|(_, value)| value.clone()).collect();
        if extend.is_empty() {
            continue;
        }
        match parts.iter_mut().find(|part| part.extend == extend) {
            Some(part) => part.lengths.push(Tokens::Count(length)),
            None => parts.push(EvaluateConfig {
                lengths: vec![Tokens::Count(length)],
                extend,
                keys: keys.clone(),
                ..block.clone()
            }),
        }
    }
    for part in &mut parts {
        // Where the reading to compare with does not apply, the window baseline takes its place.
        if part.against.is_some() && Evaluation::new(part, section, train_length).is_err() {
            part.against = None;
        }
    }
    Ok(parts)
}
