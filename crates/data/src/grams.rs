//! Hashes of a document and of its n-grams of words, whatever the pieces that it comes in.
//!
//! A word is letters and digits in a row, without regard to case; a character of a script without spaces is one too.

use crate::permutation::mix;

/// Words of an n-gram, as in appendix C of GPT-3's article (Brown et al. 2020, arXiv:2005.14165).
pub(crate) const N: usize = 13;

/// FNV-1a's first value and its factor.
const FIRST: u64 = 0xcbf2_9ce4_8422_2325;
const FACTOR: u64 = 0x0100_0000_01b3;
/// Weighs a word against the next one.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
/// What the word before an n-gram weighs by the time it leaves.
const OLDEST: u64 = BASE.wrapping_pow(N as u32);
/// Bytes that are no text are told from characters.
const NO_TEXT: u32 = 0x11_0000;

/// The document at hand.
#[derive(Debug)]
pub(crate) struct Grams {
    /// Of all of its characters.
    text: u64,
    /// Of the word so far; the first value where there is none.
    word: u64,
    /// Of the last words, in a ring.
    words: [u64; N],
    count: usize,
    /// Of the last words together.
    gram: u64,
}

impl Grams {
    pub(crate) fn new() -> Self {
        Self { text: FIRST, word: FIRST, words: [0; N], count: 0, gram: 0 }
    }

    /// Reads on; `found` gets the hash of every n-gram that is complete.
    pub(crate) fn read(&mut self, bytes: &[u8], found: &mut impl FnMut(u64)) {
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                self.text = step(self.text, character.into());
                if character.is_ascii_alphanumeric() {
                    self.letter(character.to_ascii_lowercase().into());
                } else if character.is_ascii() || !character.is_alphanumeric() {
                    self.end_word(found);
                } else if is_word(character) {
                    self.end_word(found);
                    self.letter(character.into());
                    self.end_word(found);
                } else {
                    character.to_lowercase().for_each(|lower| self.letter(lower.into()));
                }
            }
            for byte in chunk.invalid() {
                let byte = NO_TEXT + u32::from(*byte);
                self.text = step(self.text, byte);
                self.letter(byte);
            }
        }
    }

    /// The document is complete: gives its hash, and begins the next one.
    pub(crate) fn end(&mut self, found: &mut impl FnMut(u64)) -> u64 {
        self.end_word(found);
        mix(std::mem::replace(self, Self::new()).text)
    }

    fn letter(&mut self, letter: u32) {
        self.word = step(self.word, letter);
    }

    fn end_word(&mut self, found: &mut impl FnMut(u64)) {
        if self.word == FIRST {
            return;
        }
        let word = mix(std::mem::replace(&mut self.word, FIRST));
        let oldest = std::mem::replace(&mut self.words[self.count % N], word);
        self.gram = self.gram.wrapping_mul(BASE).wrapping_add(word).wrapping_sub(oldest.wrapping_mul(OLDEST));
        self.count += 1;
        if self.count >= N {
            found(mix(self.gram));
        }
    }
}

fn step(hash: u64, next: u32) -> u64 {
    (hash ^ u64::from(next)).wrapping_mul(FACTOR)
}

/// Whether a letter is a word: it belongs to a script that puts no spaces between words (Thai, Lao, Burmese, Khmer, kana
/// and Chinese characters).
fn is_word(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{a4cf}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of a document that comes in pieces, and of its n-grams.
    fn read(pieces: &[&[u8]]) -> (u64, Vec<u64>) {
        let (mut reader, mut grams) = (Grams::new(), Vec::new());
        for piece in pieces {
            reader.read(piece, &mut |gram| grams.push(gram));
        }
        (reader.end(&mut |gram| grams.push(gram)), grams)
    }

    #[test]
    fn an_n_gram_is_the_same_wherever_it_stands_and_however_it_is_written() {
        let words: Vec<String> = (0..20).map(|word| format!("w{word}")).collect();
        let (_, grams) = read(&[words.join(" ").as_bytes()]);
        assert_eq!(grams.len(), 20 - N + 1);
        let (_, later) =
            read(&[format!("{}. -- {}!", words[7..].join(", "), words[1..14].join("\n").to_uppercase())
                .as_bytes()]);
        assert_eq!((later[0], *later.last().unwrap()), (grams[7], grams[1]));
        let mut all = grams.clone();
        all.extend(&later[1..later.len() - 1]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), grams.len() + later.len() - 2, "those of other words are others");
    }

    #[test]
    fn pieces_make_no_difference() {
        let text = "ÄPFEL und Birnen, 12 Stück – kosten; heute: 3 Euro (mehr als gestern) und 我們今天讀書 "
            .repeat(3);
        let whole = read(&[text.as_bytes()]);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&[u8]> = letters.iter().map(String::as_bytes).collect();
        assert_eq!(read(&pieces), whole);
        // 13 words and 6 characters that are words.
        assert_eq!(whole.1.len(), 3 * 19 - N + 1);
        assert_eq!(read(&[text.to_lowercase().as_bytes()]).1, whole.1);
        assert_ne!(read(&[text.to_lowercase().as_bytes()]).0, whole.0, "but it is another document");
    }

    #[test]
    fn bytes_that_are_no_text_are_letters() {
        let words = (0..13).map(|word| [0xe4, 0xff, word + b'a'].to_vec()).collect::<Vec<_>>();
        let (latin, grams) = read(&[&words.join(&b' ')]);
        assert_eq!(grams.len(), 1);
        assert_ne!(read(&["äÿ".as_bytes()]).0, read(&[b"\xe4\xff"]).0);
        assert_eq!(read(&[&words.join(&b' ')]), (latin, grams));
    }

    #[test]
    fn a_document_of_few_words_has_no_n_gram() {
        assert_eq!(read(&[b"one two three four five six seven eight nine ten eleven twelve"]).1, [0u64; 0]);
        assert_eq!(read(&[b""]).1, [0u64; 0]);
    }
}
