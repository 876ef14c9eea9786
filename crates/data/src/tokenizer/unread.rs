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

/// The bytes of a text that its unknown tokens stand for: those of each such token's own place, in order. Blanks between it and the
/// next token are none of them.
pub(super) fn unknown(
    offsets: &[Offsets],
    bytes: &[u32],
    is_unknown: impl Fn(usize) -> bool,
) -> Vec<Range<usize>> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (token, ((own_start, own_end), bytes)) in offsets.iter().zip(bytes).enumerate() {
        // Several tokens of one character share its place, and the last of them has its bytes.
        let end = start + *bytes as usize;
        if is_unknown(token) {
            found.push((*own_start).clamp(start, end)..(*own_end).clamp(start, end));
        }
        start = end;
    }
    found
}

/// Whether a byte lies within one of some ranges, which are in order.
pub(super) fn holds(ranges: &[Range<usize>], byte: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= byte);
    ranges.get(next).is_some_and(|range| range.contains(&byte))
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
    may_delete: bool,
) -> Vec<Range<usize>> {
    let (mut gaps, mut reached) = (Vec::new(), 0);
    for &(start, end) in offsets.iter().chain([&(text.len(), text.len())]) {
        let gap = reached..start.min(text.len());
        if start > reached && text.get(gap.clone()).is_none_or(|gap| !gap.trim().is_empty()) {
            gaps.push(gap);
        }
        reached = reached.max(end);
    }
    let without_place = normalizer
        .filter(|_| may_delete || !gaps.is_empty())
        .map(|normalizer| without_place(text, normalizer))
        .unwrap_or_default();
    let mut lost = Vec::new();
    for gap in gaps {
        let from = gap.start;
        // What is read with a letter is lost with it alone.
        let is_read = |at: usize| {
            let found = without_place.binary_search_by_key(&at, |one| one.at.start);
            found.is_ok_and(|found| {
                without_place[found].read_with.is_some_and(|letter_end| letter_end <= from)
            })
        };
        lost.extend(characters(text, gap, |at, it| !it.is_whitespace() && !is_read(at)));
    }
    let counts = |it: char| it.is_alphanumeric() || it.is_ascii_punctuation() || it.is_whitespace();
    let deleted = without_place.into_iter().filter(|one| one.read_with.is_none()).map(|one| one.at);
    let deleted = deleted.filter(|at| text.get(at.clone()).is_none_or(|it| it.chars().all(counts)));
    let mut lost: Vec<Range<usize>> = lost.into_iter().chain(deleted).collect();
    lost.sort_unstable_by_key(|range| (range.start, range.end));
    let mut end = 0;
    for range in &mut lost {
        *range = range.start.max(end)..range.end.max(end);
        end = range.end;
    }
    lost
}

/// A character that has no place in what a normalizer makes of its text.
#[derive(Debug, PartialEq, Eq)]
struct WithoutPlace {
    at: Range<usize>,
    /// The end of the letter before it, where they are read as one, or where it is an accent of that letter.
    read_with: Option<usize>,
}

/// The characters of a text without a place of their own, in order. The library gives a character that a normalizer makes of
/// several the place of one of them, so some of these are read, and the others are taken away.
fn without_place(text: &str, normalizer: &NormalizerWrapper) -> Vec<WithoutPlace> {
    let Some(normalized) = normalized(text, normalizer) else { return Vec::new() };
    let letters = normalized.get().char_indices();
    let places = letters
        .filter_map(|(at, letter)| normalized.convert_offsets(Place::Normalized(at..at + letter.len_utf8())));
    let (mut found, mut before) = (Vec::new(), 0..0);
    for place in places.chain(std::iter::once(text.len()..text.len())) {
        if place.start > before.end {
            found.extend(explained(text, &before, before.end..place.start, &place, normalizer));
        }
        if place.end > before.end {
            before = place;
        }
    }
    found
}

/// The characters of a part of a text between two characters with a place. Those that change what the normalizer makes of
/// the part with its neighbours are read, up to the last one that does; what follows is taken away.
fn explained(
    text: &str,
    before: &Range<usize>,
    part: Range<usize>,
    after: &Range<usize>,
    normalizer: &NormalizerWrapper,
) -> Vec<WithoutPlace> {
    /// No normalizer in use makes one character of more.
    const LONGEST: usize = 64;
    let of = |range: Range<usize>| text.get(range).unwrap_or_default();
    let made = |end: usize| {
        let text = [of(before.clone()), of(part.start..end), of(after.clone())].concat();
        normalized(&text, normalizer).map(|made| made.get().to_owned())
    };
    let characters = characters(text, part.clone(), |_, _| true);
    let (whole, mut ends) = (made(part.end), characters.iter().map(|at| at.start).take(LONGEST));
    let read_to = ends.find(|end| made(*end) == whole).unwrap_or(part.end);
    let read_with = |at: &Range<usize>| {
        (at.start < read_to || is_accent(of(at.clone()), of(before.clone()))).then_some(before.end)
    };
    characters.iter().map(|at| WithoutPlace { at: at.clone(), read_with: read_with(at) }).collect()
}

fn normalized(text: &str, normalizer: &NormalizerWrapper) -> Option<NormalizedString> {
    let mut normalized = NormalizedString::from(text);
    normalizer.normalize(&mut normalized).ok().map(|()| normalized)
}

/// Whether a character is an accent: one that any letter may have, or that Unicode knows this letter with as one character (NFC).
fn is_accent(it: &str, letter: &str) -> bool {
    let of_any = |it: char| matches!(it, '\u{300}'..='\u{36f}');
    let with_letter = || NormalizedString::from([letter, it].concat()).nfc().get().chars().count() == 1;
    !it.is_ascii() && (it.chars().all(of_any) || (!letter.is_empty() && with_letter()))
}

/// The places of the characters in a part of a text that count; all of it where it begins or ends within a character.
fn characters(text: &str, part: Range<usize>, counts: impl Fn(usize, char) -> bool) -> Vec<Range<usize>> {
    let Some(inside) = text.get(part.clone()) else { return vec![part] };
    let found = inside.char_indices().map(|(at, letter)| (part.start + at, letter));
    let found = found.filter(|(at, letter)| counts(*at, *letter));
    found.map(|(at, letter)| at..at + letter.len_utf8()).collect()
}

/// The unread bytes that count for each token, as its other bytes do: those from its start to the next one's. Tokens that have
/// none are left out; without any token there is nothing to count for.
pub(super) fn by_token(unread: &[Range<usize>], bytes: &[u32]) -> Vec<(usize, u32)> {
    let mut counts: Vec<(usize, u32)> = Vec::new();
    let (mut token, mut end) = (0, bytes.first().copied().unwrap_or(0) as usize);
    for range in unread.iter().filter(|range| !range.is_empty()) {
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
    fn blanks_after_an_unknown_word_are_not_counted() {
        let vocab = json!({ "[UNK]": 0, "aa": 1, "bb": 2, ".": 3 });
        let model = json!({ "type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]" });
        let split = json!({ "type": "Whitespace" });
        let json = testing::tokenizer(json!({ "pre_tokenizer": split, "model": model }));
        let tokenizer = Tokenizer::from_json(&json.to_string()).unwrap();
        // `zz`, `日x` and `zz`.
        let text = "aa zz  aa\n\n\n日x bb. aa zz ".to_owned();
        assert_eq!(unread(&tokenizer, &text), [27, 2 + 4 + 2, 0]);
        let encoded = tokenizer.encode_all(&[text]).unwrap().remove(0);
        assert_eq!(encoded.ids, [1, 0, 1, 0, 2, 3, 1, 0]);
        assert_eq!(encoded.by_token, [(1, 2), (3, 4), (7, 2)]);
        // All bytes belong to a token all the same, for bits per byte.
        assert_eq!(encoded.bytes.as_deref(), Some([3, 4, 5, 5, 2, 2, 3, 3].as_slice()));
    }

    #[test]
    fn what_a_normalizer_takes_out_of_an_unknown_word_counts_once() {
        let no_dashes = json!({ "type": "Replace", "pattern": { "String": "-" }, "content": "" });
        let tokenizer = half_an_alphabet(&no_dashes, Some("?"));
        assert_eq!(tokenizer.encode("a z-z - b").unwrap(), [0, 13, 1]);
        // The dash within `z-z` is unknown with it, the one after it is lost.
        assert_eq!(unread(&tokenizer, "a z-z - b"), [9, 3, 1]);
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

    /// A tokenizer that has a token for each of these characters.
    fn characters_after(normalizer: &Value, texts: &[&str]) -> Tokenizer {
        let letters: std::collections::BTreeSet<char> = texts.iter().flat_map(|text| text.chars()).collect();
        let vocab = letters.into_iter().enumerate().map(|(id, letter)| (letter.to_string(), json!(id)));
        let (model, split) = (testing::letters(&vocab.collect(), None), json!({ "type": "Whitespace" }));
        let json =
            testing::tokenizer(json!({ "normalizer": normalizer, "pre_tokenizer": split, "model": model }));
        Tokenizer::from_json(&json.to_string()).unwrap()
    }

    #[test]
    fn letters_that_a_normalizer_composes_are_read() {
        let kind = |kind: &str| json!({ "type": kind });
        let both =
            |first: Value, second: Value| json!({ "type": "Sequence", "normalizers": [first, second] });
        let no_blanks = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "" });
        let quotes = json!({ "type": "Replace", "pattern": { "String": "``" }, "content": "\"" });
        let no_tags = json!({ "type": "Replace", "pattern": { "String": "<br>" }, "content": "" });
        for (normalizer, composed, written, lost) in [
            // Hangul of three parts and of two, two marks on a letter, a letter with marks in the other order.
            (kind("NFC"), "한국 하", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8} \u{1112}\u{1161}", 0),
            (kind("NFC"), "Việt ệ é!", "Vie\u{323}\u{302}t e\u{302}\u{323} e\u{301}!", 0),
            (kind("NFC"), "が x\u{30c}", "か\u{3099} x\u{30c}", 0),
            (kind("NFKC"), "ガ é", "ｶﾞ e\u{301}", 0),
            (both(kind("NFD"), kind("StripAccents")), "Viet x a", "Vie\u{323}\u{302}t x\u{30c} a\u{301}", 0),
            (both(kind("NFD"), kind("StripAccents")), "か", "か\u{3099}", 0),
            (quotes, "\"a\"", "``a``", 0),
            // What is taken away counts, beside composed letters too.
            (both(kind("NFC"), no_blanks), "éé", "e\u{301}  e\u{301} ", 3),
            (no_tags, "ab", "a<br>b", 4),
        ] {
            let tokenizer = characters_after(&normalizer, &[composed]);
            assert_eq!(tokenizer.encode(written).unwrap(), tokenizer.encode(composed).unwrap(), "{written}");
            assert_eq!(unread(&tokenizer, written), [written.len() as u64, 0, lost], "{written}");
        }
    }

    #[test]
    fn a_letter_without_a_token_is_lost_with_its_marks() {
        let tokenizer = characters_after(&json!({ "type": "NFC" }), &["국x "]);
        assert_eq!(unread(&tokenizer, "한"), [3, 0, 3]);
        assert_eq!(unread(&tokenizer, "\u{1112}\u{1161}\u{11ab}"), [9, 0, 9]);
        // Of an x and this mark nothing is composed, so it has a place, and here no token.
        assert_eq!(unread(&tokenizer, "x\u{30c} x\u{30c}"), [7, 0, 4]);
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
    fn unread_bytes_count_for_the_token_that_has_the_others_of_their_place() {
        assert_eq!(by_token(&[0..2, 3..4, 9..12], &[3, 0, 5, 4]), [(0, 2), (2, 1), (3, 3)]);
        let one = 0..1;
        assert_eq!(by_token(std::slice::from_ref(&one), &[]), []);
        assert_eq!(by_token(&[], &[3]), []);
    }
}
