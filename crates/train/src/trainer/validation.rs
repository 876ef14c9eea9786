//! The loss on the validation split, or on a task's validation sequences.

use super::Trainer;
use crate::parameters::numbers;
use crate::run_config::RunConfig;
use burn::module::Module;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split, TaskConfig, TokenFile};
use longwave_kernels::Precision;
use longwave_model::{Gpt, Pass, upload};

impl Trainer<'_> {
    /// The weights without gradients, in f32 as everywhere but in training.
    pub(super) fn evaluated(&self) -> Gpt {
        self.model().valid().with_precision(Precision::F32)
    }

    /// Mean loss of the answers to a task's validation sequences.
    fn validate_task(&self, task: &TaskConfig) -> Result<f64> {
        let config = self.config();
        let rows = config.micro_batch();
        let model = self.evaluated();
        let device = self.device.clone().inner();
        let (mut sum, mut count) = (0.0, 0usize);
        let sequences = config.validation_tokens.div_ceil(config.length);
        for first in (0..sequences).step_by(rows) {
            let batch = task.validation(first..sequences.min(first + rows), config.length)?;
            let shape = [batch.batch, config.length];
            let pass = Pass {
                tokens: upload(&batch.inputs, shape, &device),
                positions: &self.positions,
                reading: &model.position,
                dropout: None,
            };
            let nll = model.nll(&pass, upload(&batch.targets, shape, &device), 0..config.length);
            let nll = numbers("the losses", nll)?;
            let scored = batch.scored.unwrap_or_default();
            let scored = nll.iter().zip(scored).filter(|(_, scored)| *scored).map(|(nll, _)| f64::from(*nll));
            scored.for_each(|nll| (sum, count) = (sum + nll, count + 1));
        }
        Ok(sum / count as f64)
    }

    /// Mean loss over the validation windows; `None` where there is none.
    pub(super) fn validate(&self, windows: &[usize]) -> Result<Option<f64>> {
        if let Some(task) = self.dataset.task() {
            return self.validate_task(task).map(Some);
        }
        if windows.is_empty() {
            return Ok(None);
        }
        let config = self.config();
        let tokens = self.dataset.tokens(Split::Valid);
        let model = self.evaluated();
        let device = self.device.clone().inner();
        let (mut sum, mut count) = (0.0, 0usize);
        for starts in windows.chunks(config.micro_batch()) {
            let read = |shift: usize| {
                let mut rows: Vec<u32> =
                    starts.iter().flat_map(|s| tokens.read(s + shift..s + shift + config.length)).collect();
                if shift == 0 {
                    tokens.begin(&mut rows, config.length);
                }
                upload(&rows, [starts.len(), config.length], &device)
            };
            let pass =
                Pass { tokens: read(0), positions: &self.positions, reading: &model.position, dropout: None };
            let nll = numbers("the losses", model.nll(&pass, read(1), 0..config.length))?;
            sum += nll.iter().copied().map(f64::from).sum::<f64>();
            count += nll.len();
        }
        Ok(Some(sum / count as f64))
    }
}

/// Why a training has no validation, in a sentence; nothing where it has.
pub fn validation_off(config: &RunConfig, dataset: &Dataset) -> Option<String> {
    let (stage, why) = (0..=config.last_stage())
        .find_map(|stage| Some((stage, without_validation(config, stage, dataset)?)))?;
    let within = if stage == 0 { String::new() } else { format!(" in `{}`", RunConfig::section(stage)) };
    Some(format!(
        "{why}; validation is off{within}: no validation loss is measured, and no checkpoint `best` is kept"
    ))
}

/// Why a stage has no validation; nothing where it has.
fn without_validation(config: &RunConfig, stage: usize, dataset: &Dataset) -> Option<String> {
    if dataset.task().is_some() {
        return None;
    }
    let tokens = dataset.tokens(Split::Valid);
    let length = config.stage(stage).length;
    let longest = (0..tokens.documents()).map(|index| tokens.document(index).len()).max();
    match longest {
        None => Some("the corpus has no validation split".to_owned()),
        Some(longest) if longest <= length => Some(format!(
            "the validation split is too short: a window takes {} tokens at `{}.length = {length}`, and its longest document \
             has {longest}",
            length + 1,
            RunConfig::section(stage)
        )),
        Some(_) => None,
    }
}

/// Checks that what needs a validation has one: `patience`, and evaluations that read the checkpoint `best`, which are named by `key`.
pub fn check_validation(config: &RunConfig, dataset: &Dataset, reads_best: Option<&str>) -> Result<()> {
    let last = config.last_stage();
    let patience = config.stage(last).patience;
    let needed = match (patience, reads_best) {
        (Some(patience), _) => (format!("{}.patience", RunConfig::section(last)), patience.to_string()),
        (None, Some(key)) => (key.to_owned(), "\"best\"".to_owned()),
        (None, None) => return Ok(()),
    };
    match without_validation(config, last, dataset) {
        None => Ok(()),
        Some(why) => Err(Error::value(&needed.0, needed.1, format!("it needs a validation, and {why}")).hint(
            "add a folder `valid` or a longer text to `data.corpus`, or hold out a tenth of what there is to train with \
             `data.split = { valid = 0.1 }`; without a validation, leave the key out",
        )),
    }
}

/// Starts of windows of `length` tokens and their targets, spread evenly over the split, none of them
/// across a document's end.
pub(super) fn validation_windows(tokens: &TokenFile, length: usize, wanted_tokens: usize) -> Vec<usize> {
    let all: Vec<usize> = (0..tokens.documents())
        .map(|index| tokens.document(index))
        .flat_map(|document| {
            let count = document.len().saturating_sub(1) / length;
            (0..count).map(move |window| document.start + window * length)
        })
        .collect();
    let wanted = wanted_tokens.div_ceil(length).min(all.len());
    (0..wanted).map(|index| all[index * all.len() / wanted]).collect()
}
