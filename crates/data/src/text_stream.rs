//! Text out of tokens as they come.
//!
//! A token may end within a character: its bytes are U+FFFD until the rest comes. Tokens that are bytes by themselves
//! (`<0xE6>`), as byte-fallback tokenizers have them, are a text together or all U+FFFD, so that a byte may change all before
//! it. What may still change is held back, so that the pieces put together are the text of all tokens.

use crate::tokenizer::Tokenizer;
use longwave_core::Result;

/// A character of UTF-8 lacks at most its last byte after three, so no more signs of a cut can still heal.
const UNSETTLED: usize = 3;
/// Tokens after which settled ones are let go, so that a long text is not decoded over and over.
const WINDOW: usize = 32;
/// Tokens that stay: decoders look at neighbours, as for the space in front of a word.
const KEPT: usize = 8;

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
        if self.tokenizer.is_joined_byte(id) {
            return Ok(String::new());
        }
        let text = self.text()?;
        let settled = settled(&text);
        let piece = since(&text[..settled], self.given).to_owned();
        self.given = self.given.max(settled);
        if settled == text.len() {
            self.let_go()?;
        }
        Ok(piece)
    }

    /// What was held back; the end of the text.
    pub fn finish(self) -> Result<String> {
        Ok(since(&self.text()?, self.given).to_owned())
    }

    fn text(&self) -> Result<String> {
        self.tokenizer.decode(&self.ids)
    }

    /// Forgets tokens whose text is all given out. Bytes that are one text are forgotten together.
    fn let_go(&mut self) -> Result<()> {
        if self.ids.len() > WINDOW {
            let kept = self.ids.len() - KEPT;
            let is_byte = |id: &u32| self.tokenizer.is_joined_byte(*id);
            let whole = self.ids[..kept].iter().rposition(|id| !is_byte(id));
            self.ids.drain(..if is_byte(&self.ids[kept]) { whole.map_or(0, |last| last + 1) } else { kept });
            self.given = self.text()?.len();
        }
        Ok(())
    }
}

/// The text from a byte on. Where a prompt ended within a character, that begins at another place by now: then from the next
/// character on.
fn since(text: &str, given: usize) -> &str {
    let start = (given..=text.len()).find(|at| text.is_char_boundary(*at));
    start.map_or("", |start| &text[start..])
}

/// Bytes of a text that no further token changes.
fn settled(text: &str) -> usize {
    let cut = text.chars().rev().take(UNSETTLED).take_while(|&c| c == char::REPLACEMENT_CHARACTER).count();
    text.len() - cut * char::REPLACEMENT_CHARACTER.len_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{letters, tokenizer};
    use serde_json::json;

    /// A tokenizer as Llama 2 has it: pieces of words with `\u{2581}` for a space, and the 256 bytes from id 3 on.
    fn byte_fallback() -> Tokenizer {
        let mut vocab = serde_json::Map::new();
        let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
        let tokens = ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter().chain(bytes);
        for token in tokens.chain(["\u{2581}", "a", "b", "\u{2581}a", "é"].map(str::to_owned)) {
            vocab.insert(token, vocab.len().into());
        }
        let mut model = letters(&vocab, Some("<unk>"));
        model["byte_fallback"] = true.into();
        let json = tokenizer(json!({
            "decoder": { "type": "Sequence", "decoders": [
                { "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " }, { "type": "ByteFallback" },
                { "type": "Fuse" }, { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
            ] },
            "model": model,
        }));
        Tokenizer::from_json(&json.to_string()).unwrap()
    }

    #[test]
    fn bytes_of_a_fallback_add_up_to_what_the_decoder_makes_of_all_tokens() {
        let tokenizer = byte_fallback();
        let mut state = 1u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for length in [1, 3, 40, 200] {
            for _ in 0..20 {
                // Bytes of whole characters, bytes that are none, and pieces of words.
                let mut ids = Vec::new();
                while ids.len() < length {
                    match draw(4) {
                        0 => ids.extend("é日😀".bytes().map(|byte| u32::from(byte) + 3)),
                        1 => ids.push(3 + draw(256)),
                        _ => ids.extend((0..=draw(9)).map(|_| 259 + draw(5))),
                    }
                }
                let prompt = [tokenizer.id("a").unwrap()];
                let mut stream = TextStream::new(&tokenizer, &prompt).unwrap();
                let mut text: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
                text += &stream.finish().unwrap();
                let all = [&prompt[..], &ids].concat();
                assert_eq!(format!("a{text}"), tokenizer.decode(&all).unwrap(), "{ids:?}");
            }
        }
    }

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
