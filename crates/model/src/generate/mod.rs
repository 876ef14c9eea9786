//! Text sampled from a model, token by token.
//!
//! - [`sampling`]: how the next token is chosen.

pub mod sampling;

use crate::cache::Cache;
use crate::gpt::{Gpt, upload};
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_position::layout::TextLayout;
use longwave_position::{ExtensionConfig, Lengths, Reading};
pub use sampling::Sampling;

/// A model that continues a text.
#[derive(Clone, Debug)]
pub struct Generator<'a> {
    model: &'a Gpt,
    device: &'a Device,
    cache: Cache,
    /// Tokens read and still to come, in all.
    length: usize,
    /// The ids that have a text, in order; `None` where all have.
    tokens: Option<Vec<u32>>,
    /// The token that each segment begins with, and the tokens of a segment.
    begins: Option<(u32, usize)>,
}

impl<'a> Generator<'a> {
    /// Gets ready to read `context` tokens and to sample up to `max_tokens` more. An extension whose
    /// frequencies depend on the length is fixed at the sum of both.
    pub fn new(
        model: &'a Gpt,
        device: &'a Device,
        extension: &ExtensionConfig,
        train_length: usize,
        [context, max_tokens]: [usize; 2],
    ) -> Result<Self> {
        if max_tokens == 0 {
            return Err(Error::value("--max-tokens", 0, "it must be at least 1").hint("it counts new tokens"));
        }
        let length = context + max_tokens;
        let reading: Reading = extension.apply(&model.position, Lengths { train: train_length, length })?;
        // The last token is sampled and not read.
        reading.check(&reading.layout().positions(length).columns(0..length - 1)).map_err(|error| {
            error
                .context(format!("a prompt of {context} tokens and {max_tokens} new ones"))
                .hint("ask for fewer with `--max-tokens`, or read it further with an `--extend` that applies")
        })?;
        Ok(Self {
            model,
            device,
            cache: Cache::new(model, &reading, length),
            length,
            tokens: None,
            begins: None,
        })
    }

    /// Samples only these ids, in order: those of the tokenizer, whose vocabulary may have gaps and the model embeddings for
    /// more.
    #[must_use]
    pub fn of_tokens(self, tokens: Vec<u32>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Reads this token in the place of the first one of every segment, where the text is read in segments that see nothing of each
    /// other: `data.bos`, as in training and in evaluations. The context has its own.
    #[must_use]
    pub fn begin_segments(self, bos: Option<u32>) -> Self {
        let begins = match self.cache.layout() {
            TextLayout::Segments { length } => bos.map(|bos| (bos, length)),
            _ => None,
        };
        Self { begins, ..self }
    }

    /// Samples tokens until the length is reached and gives all of them; `emit` is given each as soon as it
    /// is chosen.
    pub fn generate(
        mut self,
        context: &[u32],
        sampling: &Sampling,
        emit: &mut dyn FnMut(u32) -> Result<()>,
    ) -> Result<Vec<u32>> {
        sampling.validate()?;
        if context.is_empty() || context.len() >= self.length {
            return Err(Error::failed(format!("{} tokens to read of {}", context.len(), self.length)));
        }
        let mut new = context.to_vec();
        let mut chosen = Vec::with_capacity(self.length - context.len());
        while context.len() + chosen.len() < self.length {
            let logits = self.next_logits(&new)?;
            let token = match &self.tokens {
                None => sampling.choose(&logits, chosen.len() as u64)?,
                Some(ids) => {
                    let ids: Vec<u32> =
                        ids.iter().copied().filter(|id| (*id as usize) < logits.len()).collect();
                    let logits: Vec<f32> = ids.iter().map(|&id| logits[id as usize]).collect();
                    ids[sampling.choose(&logits, chosen.len() as u64)? as usize]
                }
            };
            chosen.push(token);
            emit(token)?;
            new = vec![token];
        }
        Ok(chosen)
    }

    /// Reads tokens and gives the logits of the one that follows, `[vocab_size]`.
    fn next_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let read = self.cache.rows();
        let begun = |(place, &token): (usize, &u32)| match self.begins {
            Some((bos, length)) if place > 0 && place.is_multiple_of(length) => bos,
            _ => token,
        };
        let tokens: Vec<u32> = (read..).zip(tokens).map(begun).collect();
        let tokens = upload(&tokens, [1, tokens.len()], self.device);
        let count = tokens.dims()[1];
        let hidden = self.model.read_on(tokens, &mut self.cache);
        let last = self.model.logits(hidden.slice_dim(1, count - 1..count));
        last.into_data_as::<f32>()
            .try_to_vec::<f32>()
            .map_err(|error| Error::failed(format!("cannot read the logits back: {error:?}")))
    }
}
