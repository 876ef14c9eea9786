//! Runs a search: measures readings on the validation split until the budget is spent.

use super::genome::{Genome, STEPS};
use super::space::{Space, generation};
use super::trials::Trials;
use super::{Search, frequencies};
use crate::block::ResolvedEvaluate;
use crate::evaluation::Evaluation;
use crate::measure::{Progress, Subject, evaluate, mean_loss, reading, settings};
use crate::row::{ResultRow, Settings};
use crate::source::Source;
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use longwave_position::{ExtensionConfig, Lengths, Reading};
use serde_json::json;
use std::collections::HashSet;
use std::path::Path;

/// Runs the search, or finds its result among the known rows; returns the row of the best reading on the validation
/// split. It stores what it tries in `folder`: an interrupted search continues from there, and a larger one starts with
/// it.
pub(crate) fn run(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    search: &Search,
    known: &[ResultRow],
    folder: &Path,
    store: &mut dyn FnMut(&ResultRow) -> Result<()>,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<ResultRow> {
    let among = search.recorded(&evaluation.block);
    let block = search.block(&evaluation.block);
    let source = block.source(subject.dataset)?;
    let settings = settings(&block, &source, search.length(&block), "longrope")?;
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
    let mut trials = Trials::open(folder, &subject_of(subject, search, &settings))?;
    let genome = evolve(subject, &source, search, &block, &mut trials, show)?;
    let mut best = Evaluation::fixed(block, vec![search.extension(&genome)?]);
    best.chosen = [(0, among)].into();
    let rows = evaluate(subject, &best, known, None, store, show)?;
    rows.into_iter().next().ok_or_else(|| Error::failed("a search measured nothing"))
}

/// What the loss of a reading depends on, besides the reading itself.
fn subject_of(subject: &Subject<'_>, search: &Search, settings: &Settings) -> serde_json::Value {
    let mut described = json!({
        "config_hash": subject.config_hash,
        "checkpoint": subject.checkpoint,
        "step": subject.step,
        "stage": subject.stage,
        "device": subject.device_name,
        "settings": settings,
        "with": search.with,
    });
    if search.measures_needles() {
        described["metric"] = json!(search.config.metric);
    }
    described
}

/// After so many generations of known factors alone, every change of so few bands has been tried.
const EMPTY_GENERATIONS: usize = 100;

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
    let space = search.space(model, lengths)?;
    let needles = search.needles(block, source);
    let mut stream = Stream::new(subject.config.seed, "longrope search", length as u64);
    let mut scored: Vec<(f64, Genome)> = Vec::new();
    let mut seen = HashSet::new();
    let mut children = match space {
        Space::All { highest, .. } => seeds(model, lengths, highest)?,
        Space::Critical(bands) => bands.seeds(&search.config, &mut stream),
    };
    let budget = search.config.budget;
    let mut empty = 0;
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
                let read = Evaluation::fixed(block.clone(), vec![search.extension(&genome)?]);
                let readings = scored.len();
                let mut show = |progress: Progress| {
                    let done = readings * progress.total + progress.done;
                    show(Progress { done, total: budget * progress.total })
                };
                let loss = match &needles {
                    None => mean_loss(subject, source, &read, &mut show)?,
                    Some(needles) => {
                        let reading = reading(model, &read.extensions[0], lengths.train, length)?;
                        needles.loss(subject, &reading, &mut show)?
                    }
                };
                let loss = if loss.is_nan() { f64::INFINITY } else { loss };
                trials.add(&genome, loss)?;
                loss
            };
            scored.push((loss, genome));
        }
        scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        empty = if fresh { 0 } else { empty + 1 };
        if empty == EMPTY_GENERATIONS {
            break;
        }
        children = generation(&scored, &search.config, space, &mut stream);
    }
    scored
        .into_iter()
        .next()
        .map(|(_, genome)| genome)
        .ok_or_else(|| Error::failed("a search measured nothing"))
}

/// The factors that known extensions apply to the frequencies.
fn seeds(model: &Reading, lengths: Lengths, highest: u64) -> Result<Vec<Genome>> {
    let trained = frequencies(model)?;
    // The published ramp of `yarn` is for frequencies that nothing has scaled yet.
    let scaled = model.encodings().iter().filter_map(|it| it.frequencies()).any(|it| !it.is_geometric());
    let yarn = if scaled { "{ kind = 'yarn', ramp = 'paper' }" } else { "'yarn'" };
    ["'linear'", yarn, "'ntk'", "'direct'"]
        .into_iter()
        .map(|extend| {
            let extend = format!("extend = {extend}").parse::<toml::Table>();
            let extend = extend.map_err(|error| Error::failed(error.to_string()))?;
            let extension = ExtensionConfig::from_value(&extend["extend"], "extend")?;
            let read = extension.apply(model, lengths)?;
            let ratios = trained.iter().zip(frequencies(&read)?);
            let mut factors: Vec<u64> = ratios
                .map(|(&old, new)| if new > 0.0 { STEPS * old / new } else { STEPS })
                .map(|factor| (factor.round() as u64).clamp(STEPS as u64, highest))
                .collect();
            factors.sort_unstable();
            Ok(Genome { factors, n_hat: 0, critical: None })
        })
        .collect()
}
