//! Text sampled from a model, token by token.
//!
//! - [`sampling`]: how the next token is chosen.
//! - [`stream`]: text out of tokens as they come.

pub mod sampling;
pub mod stream;

use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_data::Tokenizer;
use longwave_model::{Cache, Gpt};
use longwave_position::{ExtensionConfig, Lengths, Reading};
use longwave_train::trainer::upload;
pub use sampling::Sampling;
pub use stream::TextStream;

/// What an empty prompt stands for where documents are not separated: the line end before a text.
const BEFORE_A_TEXT: &str = "\n";

/// The tokens that come before the first sampled one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Token ids; never empty.
    pub ids: Vec<u32>,
    /// What stands there in place of an empty prompt; it is read, but is no part of the text.
    pub instead: Option<String>,
}

impl Context {
    /// The tokens of a prompt. A model predicts tokens from earlier ones, so an empty prompt reads what
    /// stands before a document: the separator of the training text, or else a line end.
    ///
    /// # Errors
    /// The tokenizer has no token for the prompt, nor for what stands in its place.
    pub fn new(prompt: &str, tokenizer: &Tokenizer, separator: Option<&str>) -> Result<Self> {
        let ids = tokenizer.encode(prompt)?;
        if !ids.is_empty() {
            return Ok(Self { ids, instead: None });
        }
        let instead = separator.unwrap_or(BEFORE_A_TEXT);
        let ids = tokenizer.encode(instead)?;
        if ids.is_empty() {
            return Err(Error::usage(format!(
                "the prompt has no tokens, and neither has {instead:?}, which stands before a text"
            ))
            .hint("give a `--prompt` that the run's tokenizer has tokens for"));
        }
        Ok(Self { ids, instead: Some(instead.to_owned()) })
    }
}

/// A model that continues a text.
#[derive(Clone, Debug)]
pub struct Generator<'a> {
    model: &'a Gpt,
    device: &'a Device,
    cache: Cache,
    /// Tokens read and still to come, in all.
    length: usize,
}

impl<'a> Generator<'a> {
    /// Gets ready to read `context` tokens and to sample up to `max_tokens` more. An extension whose
    /// frequencies depend on the length is fixed at the sum of both.
    ///
    /// # Errors
    /// There is nothing to read or to sample, the extension does not apply to the encoding, or the encoding
    /// has no value for a position that would be read.
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
        Ok(Self { model, device, cache: Cache::new(model, &reading, length), length })
    }

    /// Samples tokens until the length is reached and gives all of them; `emit` is given each as soon as it
    /// is chosen.
    ///
    /// # Errors
    /// The context is longer than announced, the logits are no numbers, or `emit` ends it.
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
            let token = sampling.choose(&logits, chosen.len() as u64)?;
            chosen.push(token);
            emit(token)?;
            new = vec![token];
        }
        Ok(chosen)
    }

    /// Reads tokens and gives the logits of the one that follows, `[vocab_size]`.
    fn next_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let tokens = upload(tokens, [1, tokens.len()], self.device);
        let count = tokens.dims()[1];
        let hidden = self.model.read_on(tokens, &mut self.cache);
        let last = self.model.logits(hidden.slice_dim(1, count - 1..count));
        last.into_data_as::<f32>()
            .try_to_vec::<f32>()
            .map_err(|error| Error::failed(format!("cannot read the logits back: {error:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_prompt_reads_what_stands_before_a_document() {
        let tokenizer = Tokenizer::bytes();
        let ids = |prompt, separator| Context::new(prompt, &tokenizer, separator).unwrap();
        assert_eq!(ids("ab", Some("|")), Context { ids: vec![97, 98], instead: None });
        assert_eq!(ids("", None), Context { ids: vec![10], instead: Some("\n".to_owned()) });
        assert_eq!(ids("", Some("|")).ids, [124]);
    }
}
