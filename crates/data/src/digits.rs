//! Which tokens of a vocabulary are digits.

use crate::tokenizer::Tokenizer;
use longwave_core::{Error, Result};

impl Tokenizer {
    /// The tokens that stand for one of the digits `0` to `9`, in the order of their ids.
    pub fn digits(&self) -> Result<Vec<u32>> {
        let mut digits = Vec::new();
        for id in self.ids() {
            let Ok(text) = self.decode(&[id]) else { continue };
            let text = text.trim();
            if !text.contains(|letter: char| letter.is_ascii_digit()) {
                continue;
            }
            if text.len() > 1 {
                return Err(Error::usage(format!(
                    "the token {text:?} of the tokenizer holds more than a digit, so that the digits of a number are not \
                     tokens of their own"
                ))
                .hint("write `data.tokenizer = { kind = \"bytes\" }`, or list the ids of digits as `position.digits`"));
            }
            digits.push(id);
        }
        if digits.is_empty() {
            return Err(Error::usage("no token of the tokenizer is a digit").hint(
                "write `data.tokenizer = { kind = \"bytes\" }`, whose tokens are the bytes of the text",
            ));
        }
        Ok(digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_of_bytes_are_bytes() {
        assert_eq!(Tokenizer::bytes().digits().unwrap(), (48..58).collect::<Vec<u32>>());
    }
}
