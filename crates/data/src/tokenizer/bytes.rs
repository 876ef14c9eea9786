//! How many bytes of text a token stands for, and the byte tokenizer as a file.

use serde_json::{Value, json};
use std::sync::Arc;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// The smallest vocabulary of a byte-level tokenizer: one entry for each byte.
pub(crate) const BYTES: usize = 256;

#[derive(Clone, Debug)]
pub(crate) enum TokenBytes {
    /// Every token is one byte.
    One,
    /// Each entry of a byte-level vocabulary stands for a fixed number of bytes, listed by id.
    ById(Arc<[u32]>),
    /// It depends on the text (normalizers, unknown tokens): kept beside the tokens.
    ByPlace,
}

/// The byte tokenizer as a `tokenizer.json`: a byte-level vocabulary without merges, ids in byte order.
pub(super) fn bytes_json() -> Value {
    let vocab: serde_json::Map<_, _> =
        (0..=255u8).map(|byte| (byte_character(byte).to_string(), Value::from(byte))).collect();
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [],
        },
    })
}

/// The printable character that stands for a byte in byte-level vocabularies (GPT-2's table): the byte's
/// own Latin-1 character if that is visible, else the next free one from U+0100 on.
pub(super) fn byte_character(byte: u8) -> char {
    let visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if visible(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !visible(other)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Bytes per id, if the tokenizer is byte-level through and through: then each character of an entry
/// stands for one byte. `None` if anything else may come between the text and the vocabulary.
pub(super) fn byte_level_lengths(json: &Value, vocab_size: usize) -> Option<Arc<[u32]>> {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let model = &json["model"];
    let plain = empty(&json["normalizer"])
        && empty(&json["added_tokens"])
        && json["pre_tokenizer"]["type"] == "ByteLevel"
        && json["pre_tokenizer"]["add_prefix_space"] == false
        && model["type"] == "BPE"
        && empty(&model["continuing_subword_prefix"])
        && empty(&model["end_of_word_suffix"]);
    let vocab = model["vocab"].as_object().filter(|_| plain)?;
    let alphabet = ByteLevel::alphabet();
    if !alphabet.iter().all(|character| vocab.contains_key(&character.to_string())) {
        return None;
    }
    let mut lengths = vec![0; vocab_size];
    for (token, id) in vocab {
        if !token.chars().all(|character| alphabet.contains(&character)) {
            return None;
        }
        *lengths.get_mut(id.as_u64()? as usize)? = token.chars().count() as u32;
    }
    Some(lengths.into())
}

/// Whether a decoder, as `tokenizer.json` has it, makes characters of tokens such as `<0xE6>`.
pub(super) fn joins(decoder: &Value) -> bool {
    decoder["type"] == "ByteFallback"
        || decoder["decoders"].as_array().is_some_and(|decoders| decoders.iter().any(joins))
}

/// Whether such a decoder takes a token for a byte.
pub(super) fn is_byte(token: &str) -> bool {
    let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| token.len() == 6 && u8::from_str_radix(digits, 16).is_ok())
}

/// Each byte of a text belongs to one token: token i has those from its start to the next one's.
///
/// Tokens of one character share its start; the last of them has its bytes.
pub(super) fn bytes_by_offsets(offsets: &[(usize, usize)], text_bytes: usize) -> Vec<u32> {
    let mut lengths = Vec::with_capacity(offsets.len());
    let mut start = 0;
    for index in 0..offsets.len() {
        let next = offsets.get(index + 1).map_or(text_bytes, |next| next.0.clamp(start, text_bytes));
        lengths.push((next - start) as u32);
        start = next;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::bytes_by_offsets;

    #[test]
    fn every_byte_belongs_to_one_token() {
        // " a" dropped in front, two tokens in one character, one that starts before its neighbour.
        let offsets = [(2, 3), (3, 6), (3, 6), (8, 9), (7, 9)];
        assert_eq!(bytes_by_offsets(&offsets, 12), [3, 0, 5, 0, 4]);
        assert_eq!(bytes_by_offsets(&[], 3), [0u32; 0]);
    }
}
