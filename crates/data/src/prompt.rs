//! The tokens of a prompt.

use crate::tokenizer::{Tokenizer, Unread};
use longwave_core::{Error, Result};

/// Replaces an empty prompt where documents have no separator: the line end before a text.
const DEFAULT_SUBSTITUTE: &str = "\n";

/// The tokens that come before the first sampled one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Token ids; never empty.
    pub ids: Vec<u32>,
    /// The text that replaces an empty prompt. The model reads it, but it is not part of the output.
    pub substitute: Option<String>,
    /// What of the prompt the tokens do not stand for.
    pub unread: Unread,
}

impl Prompt {
    /// The tokens of a prompt, after the one that texts begin with (`data.bos`). A model predicts tokens from earlier ones, so an empty prompt is replaced by what
    /// stands before a document: the separator of the training text, or else a line end.
    pub fn new(prompt: &str, tokenizer: &Tokenizer, separator: Option<&str>, bos: &str) -> Result<Self> {
        let (mut ids, unread) = (tokenizer.encode(prompt)?, tokenizer.unread(prompt)?);
        let begins = tokenizer.bos(bos)?;
        if !ids.is_empty() {
            // A prompt that begins with it already gets no second one.
            let missing = begins.filter(|begins| ids[0] != *begins);
            ids.splice(..0, missing);
            return Ok(Self { ids, substitute: None, unread });
        }
        if let Some(begins) = begins {
            return Ok(Self { ids: vec![begins], substitute: Some(bos.to_owned()), unread });
        }
        let substitute = separator.unwrap_or(DEFAULT_SUBSTITUTE);
        let ids = tokenizer.encode(substitute)?;
        if ids.is_empty() {
            return Err(Error::usage(format!(
                "the prompt has no tokens, and neither has {substitute:?}, which stands before a text"
            ))
            .hint("give a `--prompt` that the run's tokenizer has tokens for"));
        }
        Ok(Self { ids, substitute: Some(substitute.to_owned()), unread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_prompt_reads_what_stands_before_a_document() {
        let tokenizer = Tokenizer::bytes();
        let ids = |prompt, separator| Prompt::new(prompt, &tokenizer, separator, "").unwrap();
        let unread = Unread { bytes: 2, ..Unread::default() };
        assert_eq!(ids("ab", Some("|")), Prompt { ids: vec![97, 98], substitute: None, unread });
        let (unread, substitute) = (Unread::default(), Some("\n".to_owned()));
        assert_eq!(ids("", None), Prompt { ids: vec![10], substitute, unread });
        assert_eq!(ids("", Some("|")).ids, [124]);
        let begun = |prompt| Prompt::new(prompt, &tokenizer, None, "^").unwrap();
        assert_eq!((begun("ab").ids, begun("").ids), (vec![94, 97, 98], vec![94]));
        assert_eq!(begun("^ab").ids, [94, 97, 98], "once is enough");
        assert!(Prompt::new("ab", &tokenizer, None, "<s>").unwrap_err().message().contains("`data.bos = "));
    }
}
