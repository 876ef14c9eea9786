//! The losses that a model gives the targets of a plan.

use crate::metrics::{PositionTally, Tally};
use crate::protocol::{Plan, Window};
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_data::TokenFile;
use longwave_model::{Gpt, Pass};
use longwave_position::Reading;
use longwave_train::trainer::upload;
use std::collections::BTreeMap;
use std::ops::Range;

/// Tokens of one forward pass: windows of one shape are read together up to this many.
const TOKENS_AT_ONCE: usize = 8192;

/// A model and the text it is read on.
#[derive(Clone, Copy, Debug)]
pub struct Scorer<'a> {
    /// The model, without gradients.
    pub model: &'a Gpt,
    /// The text.
    pub tokens: &'a TokenFile,
    /// Where the model is.
    pub device: &'a Device,
}

/// Called between forward passes with the tokens read so far; an error ends the scoring.
pub type Progress<'a> = dyn FnMut(usize) -> Result<()> + 'a;

impl Scorer<'_> {
    /// The negative log likelihood of every target of every window, in nats, in the order of the plan.
    ///
    /// # Errors
    /// The losses cannot be read back, or `progress` ends it.
    pub fn losses(
        &self,
        plan: &Plan,
        reading: &Reading,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Vec<f64>>> {
        let mut losses = vec![Vec::new(); plan.windows.len()];
        // Windows of one shape make one batch, so that no row is padded.
        let mut shapes: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (index, window) in plan.windows.iter().enumerate() {
            shapes.entry((window.reading(), window.targets())).or_default().push(index);
        }
        for ((length, _), indices) in shapes {
            for batch in indices.chunks((TOKENS_AT_ONCE / length).max(1)) {
                let windows: Vec<&Window> = batch.iter().map(|&index| &plan.windows[index]).collect();
                for (&index, nll) in batch.iter().zip(self.batch(&windows, reading)?) {
                    losses[index] = nll;
                }
                progress(length * batch.len())?;
            }
        }
        Ok(losses)
    }

    /// Sums the losses of a plan per document.
    pub fn tally(&self, plan: &Plan, losses: &[Vec<f64>]) -> Tally {
        let mut tally = Tally::new(self.tokens.documents(), plan.skipped_documents);
        for (window, nll) in plan.windows.iter().zip(losses) {
            let start = self.tokens.document(window.document).start;
            let bytes = self.tokens.bytes(start + window.first..start + window.end);
            tally.add(window.document, nll, bytes);
        }
        tally
    }

    /// The losses of windows of one shape.
    fn batch(&self, windows: &[&Window], reading: &Reading) -> Result<Vec<Vec<f64>>> {
        let (length, targets) = (windows[0].reading(), windows[0].targets());
        let read = |range: fn(&Window) -> Range<usize>| -> Vec<u32> {
            windows
                .iter()
                .flat_map(|window| {
                    let start = self.tokens.document(window.document).start;
                    let range = range(window);
                    self.tokens.read(start + range.start..start + range.end)
                })
                .collect()
        };
        let inputs = read(|window| window.start..window.end - 1);
        let expected = read(|window| window.first..window.end);
        let positions = reading.layout().positions(length);
        let pass = Pass {
            tokens: upload(&inputs, [windows.len(), length], self.device),
            positions: &positions,
            reading,
            dropout: None,
        };
        let expected = upload(&expected, [windows.len(), targets], self.device);
        let nll = self.model.nll(&pass, expected, length - targets..length); // [windows, targets]
        let nll = nll
            .into_data_as::<f32>()
            .try_to_vec::<f32>()
            .map_err(|error| Error::failed(format!("cannot read the losses back: {error:?}")))?;
        Ok(nll.chunks(targets).map(|row| row.iter().copied().map(f64::from).collect()).collect())
    }
}

/// Sums the losses of a plan by place in the window.
pub fn by_position(plan: &Plan, losses: &[Vec<f64>], length: usize, bucket: usize) -> PositionTally {
    let mut tally = PositionTally::new(length, bucket);
    for (window, nll) in plan.windows.iter().zip(losses) {
        tally.add(window.first - window.start - 1, nll);
    }
    tally
}
