//! What a model makes of the targets of a plan.

use crate::metrics::{Score, Tally};
use crate::parts::Parts;
use crate::plan::{Plan, Window};
use crate::text::Text;
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_model::upload;
use longwave_model::{Gpt, Pass};
use longwave_position::Reading;
use longwave_train::parameters::numbers;
use std::collections::BTreeMap;
use std::ops::Range;

/// Tokens of one forward pass: windows of one shape are read together up to this many.
const TOKENS_AT_ONCE: usize = 8192;

#[derive(Clone, Copy, Debug)]
pub struct Scorer<'a> {
    /// The model, without gradients.
    pub model: &'a Gpt,
    pub text: &'a Text,
    pub device: &'a Device,
}

/// Called with the tokens that a forward pass has read, and with 0 between the blocks of the model, so that one very
/// long text can be stopped; an error ends the scoring.
pub type Progress<'a> = dyn FnMut(usize) -> Result<()> + 'a;

impl Scorer<'_> {
    /// The score of every target of every window, in the order of the plan.
    pub fn scores(
        &self,
        plan: &Plan,
        reading: &Reading,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Vec<Score>>> {
        let mut scores = vec![Vec::new(); plan.windows.len()];
        for batch in batches(plan) {
            let windows: Vec<&Window> = batch.iter().map(|&index| &plan.windows[index]).collect();
            for (&index, row) in batch.iter().zip(self.batch(&windows, reading, &mut || progress(0))?) {
                scores[index] = row;
            }
            progress(windows[0].reading() * batch.len())?;
        }
        Ok(scores)
    }

    /// Sums the scores of a plan over its documents, or over blocks of the one document.
    pub fn tally(&self, plan: &Plan, scores: &[Vec<Score>], parts: &Parts) -> Tally {
        let count = parts.count(self.text.lengths().len());
        let mut tally = Tally::new(count, plan.skipped_documents).of_blocks(parts.are_blocks());
        for (window, scores) in plan.windows.iter().zip(scores) {
            for (part, targets) in parts.of_targets(window) {
                let scored = self.text.scored(window.document, targets.clone());
                let scored: Vec<Score> = scored.map(|token| scores[token - window.first]).collect();
                tally.add(part, &scored, self.text.bytes(window.document, targets));
            }
        }
        tally
    }

    /// The mean loss of a plan in nats per token; NaN where nothing is scored.
    pub(crate) fn mean_loss(
        &self,
        plan: &Plan,
        reading: &Reading,
        parts: &Parts,
        progress: &mut Progress<'_>,
    ) -> Result<f64> {
        let scores = self.scores(plan, reading, progress)?;
        let values = self.tally(plan, &scores, parts).values(self.text.material());
        Ok(values.and_then(|values| values.get("nll")).unwrap_or(f64::NAN))
    }

    fn batch(
        &self,
        windows: &[&Window],
        reading: &Reading,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Vec<Score>>> {
        let (length, targets) = (windows[0].reading(), windows[0].targets());
        let read = |range: fn(&Window) -> Range<usize>| -> Vec<u32> {
            windows.iter().flat_map(|window| self.text.read(window.document, range(window))).collect()
        };
        let mut inputs = read(|window| window.start..window.end - 1);
        self.text.begin(&mut inputs, length, reading.layout());
        let expected = read(|window| window.first..window.end);
        let positions = reading.layout().positions(length);
        let pass = Pass {
            tokens: upload(&inputs, [windows.len(), length], self.device),
            positions: &positions,
            reading,
            dropout: None,
        };
        let uploaded = upload(&expected, [windows.len(), targets], self.device);
        let (nll, guesses) = self.model.score(&pass, uploaded, length - targets..length, stop)?;
        let nll = numbers("the losses", nll)?; // [windows, targets]
        let guesses = guesses
            .into_data_as::<i32>()
            .try_to_vec::<i32>()
            .map_err(|error| Error::failed(format!("cannot read the guesses back: {error:?}")))?;
        let scores: Vec<Score> = nll
            .iter()
            .zip(guesses.iter().zip(&expected))
            // Of logits that are no numbers, none is the largest.
            .map(|(&nll, (&guess, &token))| Score {
                nll: f64::from(nll),
                correct: guess as u32 == token && !nll.is_nan(),
            })
            .collect();
        Ok(scores.chunks(targets).map(<[Score]>::to_vec).collect())
    }
}

pub(crate) fn texts_at_once(length: usize) -> usize {
    (TOKENS_AT_ONCE / length.max(1)).max(1)
}

/// The windows that are read together, by their indices in the plan: those of one shape, so that no row is padded.
pub(crate) fn batches(plan: &Plan) -> impl Iterator<Item = Vec<usize>> {
    let mut shapes: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, window) in plan.windows.iter().enumerate() {
        shapes.entry((window.reading(), window.targets())).or_default().push(index);
    }
    shapes.into_iter().flat_map(|((length, _), indices)| {
        let batches = indices.chunks(texts_at_once(length));
        batches.map(<[usize]>::to_vec).collect::<Vec<_>>()
    })
}
