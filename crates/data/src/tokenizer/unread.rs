//! Text that a tokenizer does not know or leaves out: no loss of its tokens measures a model of that text.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::{AddAssign, Range};
use tokenizers::normalizer::{NormalizedString, Range as Place};
use tokenizers::tokenizer::Normalizer as _;
use tokenizers::{NormalizerWrapper, Offsets};

/// Normalizers that may take characters away.
const DELETE: [&str; 6] = ["Replace", "Strip", "StripAccents", "BertNormalizer", "Precompiled", "Nmt"];

/// Bytes of text: all of it, those that the unknown token stands for, and those that no token stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    pub bytes: u64,
    pub unknown: u64,
    /// Blanks between tokens are not among them: tokenizers that part words drop these.
    pub lost: u64,
}

impl Unread {
    /// The shares of all bytes that are unknown, and that are lost.
    pub fn shares(self) -> [f64; 2] {
        [self.unknown, self.lost].map(|part| part as f64 / self.bytes.max(1) as f64)
    }
}

impl AddAssign for Unread {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.unknown += other.unknown;
        self.lost += other.lost;
    }
}

/// Whether a normalizer, as `tokenizer.json` has it, may take characters away.
pub(super) fn may_delete(normalizer: &Value) -> bool {
    let kind = normalizer["type"].as_str().unwrap_or_default();
    DELETE.contains(&kind)
        || normalizer["normalizers"].as_array().is_some_and(|all| all.iter().any(may_delete))
}

/// What a normalizer makes equal though a reader tells it apart, in words; empty of one that does not.
pub(super) fn merged(normalizer: &Value) -> Vec<&'static str> {
    let says = |key: &str, otherwise: bool| normalizer[key].as_bool().unwrap_or(otherwise);
    let (case, accents) = match normalizer["type"].as_str().unwrap_or_default() {
        "Lowercase" => (true, false),
        "StripAccents" => (false, true),
        // Accents go with the case unless something else is said.
        "BertNormalizer" => (says("lowercase", true), says("strip_accents", says("lowercase", true))),
        _ => (false, false),
    };
    let mut merged = Vec::new();
    merged.extend(case.then_some("capitals as small letters"));
    merged.extend(accents.then_some("letters without their accents"));
    for inner in normalizer["normalizers"].as_array().into_iter().flatten() {
        merged.extend(self::merged(inner));
    }
    merged.sort_unstable();
    merged.dedup();
    merged
}

/// The bytes of a text that its tokens leave out: what the normalizer takes away, and what lies between the places of
/// tokens and is no blank. In order, and none of them twice.
///
/// A BPE without an unknown token counts places on without what it drops, so these bytes are as many as were dropped, and stand
/// at the end of the word.
pub(super) fn lost(
    text: &str,
    offsets: &[Offsets],
    normalizer: Option<&NormalizerWrapper>,
) -> Vec<Range<usize>> {
    let mut lost = Vec::new();
    let mut reached = 0;
    for &(start, end) in offsets.iter().chain([&(text.len(), text.len())]) {
        if start > reached {
            lost.extend(characters(text, reached..start.min(text.len()), |it| !it.is_whitespace()));
        }
        reached = reached.max(end);
    }
    let deleted = normalizer.map(|normalizer| deleted(text, normalizer)).unwrap_or_default();
    if deleted.is_empty() {
        return lost;
    }
    lost.extend(deleted);
    lost.sort_unstable_by_key(|range| (range.start, range.end));
    let mut end = 0;
    for range in &mut lost {
        *range = range.start.max(end)..range.end.max(end);
        end = range.end;
    }
    lost
}

/// The letters, digits, signs and blanks that a normalizer takes away. Marks that it joins with the letter before them stay.
fn deleted(text: &str, normalizer: &NormalizerWrapper) -> Vec<Range<usize>> {
    let mut normalized = NormalizedString::from(text);
    if normalizer.normalize(&mut normalized).is_err() {
        return Vec::new();
    }
    let counts = |it: char| it.is_alphanumeric() || it.is_ascii_punctuation() || it.is_whitespace();
    let (mut deleted, mut reached) = (Vec::new(), 0);
    for (at, letter) in normalized.get().char_indices() {
        let place = normalized.convert_offsets(Place::Normalized(at..at + letter.len_utf8()));
        let Some(place) = place else { continue };
        if place.start > reached {
            deleted.extend(characters(text, reached..place.start, counts));
        }
        reached = reached.max(place.end);
    }
    if reached < text.len() {
        deleted.extend(characters(text, reached..text.len(), counts));
    }
    deleted
}

/// The places of the characters in a part of a text that count; all of it where it begins or ends within a character.
fn characters(text: &str, part: Range<usize>, counts: impl Fn(char) -> bool) -> Vec<Range<usize>> {
    let Some(inside) = text.get(part.clone()) else { return vec![part] };
    let found = inside.char_indices().filter(|(_, letter)| counts(*letter));
    found.map(|(at, letter)| part.start + at..part.start + at + letter.len_utf8()).collect()
}

/// The lost bytes that count for each token, as its other bytes do: those from its start to the next one's. Tokens that have
/// none are left out; without any token there is nothing to count for.
pub(super) fn by_token(lost: &[Range<usize>], bytes: &[u32]) -> Vec<(usize, u32)> {
    let mut counts: Vec<(usize, u32)> = Vec::new();
    let (mut token, mut end) = (0, bytes.first().copied().unwrap_or(0) as usize);
    for range in lost.iter().filter(|range| !range.is_empty()) {
        while range.start >= end && token + 1 < bytes.len() {
            token += 1;
            end += bytes[token] as usize;
        }
        let length = range.len() as u32;
        match counts.last_mut() {
            Some((last, count)) if *last == token => *count += length,
            _ => counts.push((token, length)),
        }
    }
    if bytes.is_empty() { Vec::new() } else { counts }
}

#[cfg(test)]
mod tests {
    use super::super::Tokenizer;
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn half_an_alphabet(normalizer: &Value, unknown: Option<&str>) -> Tokenizer {
        let json = testing::half_an_alphabet(normalizer, unknown);
        Tokenizer::from_json(&json.to_string()).unwrap()
    }

    fn unread(tokenizer: &Tokenizer, text: &str) -> [u64; 3] {
        let Unread { bytes, unknown, lost } = tokenizer.unread(text).unwrap();
        [bytes, unknown, lost]
    }

    #[test]
    fn dropped_letters_are_counted_and_blanks_between_words_are_not() {
        let tokenizer = half_an_alphabet(&Value::Null, None);
        assert_eq!(unread(&tokenizer, "zzz a"), [5, 0, 3]);
        assert_eq!(unread(&tokenizer, "bad  cab\n"), [9, 0, 0]);
        assert_eq!(unread(&tokenizer, "zabéd"), [6, 0, 3]);
        assert_eq!(unread(&tokenizer, "xyz"), [3, 0, 3]);
        assert_eq!(unread(&tokenizer, ""), [0; 3]);
        assert_eq!(unread(&Tokenizer::bytes(), "zzz a"), [5, 0, 0]);
    }

    #[test]
    fn unknown_text_is_counted_in_bytes_however_few_tokens_stand_for_it() {
        let tokenizer = half_an_alphabet(&Value::Null, Some("?"));
        assert_eq!(tokenizer.encode("abc 日本語日本語").unwrap(), [0, 1, 2, 13]);
        assert_eq!(unread(&tokenizer, "abc 日本語日本語"), [22, 18, 0]);
    }

    #[test]
    fn what_a_normalizer_takes_away_is_counted() {
        let no_blanks = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "" });
        let lower = json!({ "type": "Lowercase" });
        let sequence = json!({ "type": "Sequence", "normalizers": [lower, no_blanks] });
        for (normalizer, text, expected) in [
            (no_blanks.clone(), "ab cd e", [7, 0, 2]),
            (sequence, "AB CD", [5, 0, 1]),
            (lower.clone(), "AB CD", [5, 0, 0]),
            (json!({ "type": "Strip", "strip_left": true, "strip_right": true }), "  ab ", [5, 0, 3]),
            (json!({ "type": "NFC" }), "ab", [2, 0, 0]),
        ] {
            assert_eq!(unread(&half_an_alphabet(&normalizer, None), text), expected, "{normalizer}");
        }
    }

    #[test]
    fn letters_that_a_normalizer_makes_equal_are_named() {
        let (case, accents) = ("capitals as small letters", "letters without their accents");
        let bert = |lowercase: bool, strip: Value| json!({ "type": "BertNormalizer", "lowercase": lowercase, "strip_accents": strip });
        let lower = json!({ "type": "Lowercase" });
        let both = json!([{ "type": "NFD" }, lower, { "type": "StripAccents" }, lower]);
        for (normalizer, expected) in [
            (Value::Null, vec![]),
            (json!({ "type": "NFC" }), vec![]),
            (lower.clone(), vec![case]),
            (json!({ "type": "Sequence", "normalizers": both }), vec![case, accents]),
            (bert(true, Value::Null), vec![case, accents]),
            (bert(true, json!(false)), vec![case]),
            (bert(false, Value::Null), vec![]),
        ] {
            assert_eq!(merged(&normalizer), expected, "{normalizer}");
        }
    }

    #[test]
    fn lost_bytes_count_for_the_token_that_has_the_others_of_their_place() {
        assert_eq!(by_token(&[0..2, 3..4, 9..12], &[3, 0, 5, 4]), [(0, 2), (2, 1), (3, 3)]);
        let one = 0..1;
        assert_eq!(by_token(std::slice::from_ref(&one), &[]), []);
        assert_eq!(by_token(&[], &[3]), []);
    }
}
