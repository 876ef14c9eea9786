//! Text out of tokens as they come.
//!
//! A token may end within a character: its bytes are U+FFFD until the rest comes. What may still change is
//! held back, so that the pieces put together are the text of all tokens.

use crate::tokenizer::Tokenizer;
use longwave_core::Result;

/// A character of UTF-8 lacks at most its last byte after three, so no more signs of a cut can still heal.
const UNSETTLED: usize = 3;
/// Tokens after which settled ones are let go, so that a long text is not decoded over and over.
const WINDOW: usize = 32;
/// Tokens that stay: decoders look at neighbours, as for the space in front of a word.
const KEPT: usize = 8;

/// Turns tokens into pieces of text.
#[derive(Clone, Debug)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The last tokens.
    ids: Vec<u32>,
    /// Bytes of their text that were given out.
    given: usize,
}

impl<'a> TextStream<'a> {
    /// Begins behind the tokens of a prompt, which is not given out again.
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Result<Self> {
        let mut stream = Self { tokenizer, ids: prompt.to_vec(), given: 0 };
        stream.given = stream.text()?.len();
        stream.let_go()?;
        Ok(stream)
    }

    /// The text that a further token settles, often empty.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.ids.push(id);
        let text = self.text()?;
        let settled = settled(&text);
        let piece = text.get(self.given..settled).unwrap_or_default().to_owned();
        self.given = self.given.max(settled);
        if settled == text.len() {
            self.let_go()?;
        }
        Ok(piece)
    }

    /// What was held back; the end of the text.
    pub fn finish(self) -> Result<String> {
        Ok(self.text()?.get(self.given..).unwrap_or_default().to_owned())
    }

    fn text(&self) -> Result<String> {
        self.tokenizer.decode(&self.ids)
    }

    /// Forgets tokens whose text is all given out.
    fn let_go(&mut self) -> Result<()> {
        if self.ids.len() > WINDOW {
            self.ids.drain(..self.ids.len() - KEPT);
            self.given = self.text()?.len();
        }
        Ok(())
    }
}

/// Bytes of a text that no further token changes.
fn settled(text: &str) -> usize {
    let cut = text.chars().rev().take(UNSETTLED).take_while(|&c| c == char::REPLACEMENT_CHARACTER).count();
    text.len() - cut * char::REPLACEMENT_CHARACTER.len_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(ids: &[u32]) -> Vec<String> {
        let tokenizer = Tokenizer::bytes();
        let mut stream = TextStream::new(&tokenizer, b"> ".map(u32::from).as_slice()).unwrap();
        let mut pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
        pieces.push(stream.finish().unwrap());
        pieces
    }

    #[test]
    fn characters_come_whole() {
        let ids: Vec<u32> = "aé😀".bytes().map(u32::from).collect();
        assert_eq!(pieces(&ids), ["a", "", "é", "", "", "", "😀", ""]);
    }

    #[test]
    fn pieces_add_up_to_the_text_whatever_the_bytes() {
        let mut state = 1u32;
        for length in [1, 3, 40, 200] {
            let ids: Vec<u32> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state >> 24
                })
                .collect();
            let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
            assert_eq!(pieces(&ids).concat(), String::from_utf8_lossy(&bytes), "{ids:?}");
        }
    }

    #[test]
    fn a_cut_at_the_end_is_given_out_at_last() {
        assert_eq!(pieces(&[0xf0, 0x9f]), ["", "", "\u{fffd}"]);
        assert_eq!(pieces(&[0xff, 0x41]), ["", "\u{fffd}A", ""]);
    }

    #[test]
    fn a_long_prompt_leaves_only_what_is_needed() {
        let tokenizer = Tokenizer::bytes();
        let mut stream = TextStream::new(&tokenizer, &[97; 500]).unwrap();
        assert!(stream.ids.len() <= WINDOW);
        assert_eq!(stream.push(98).unwrap(), "b");
    }
}
