//! What tests share: folders of texts, and tokenizers.

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use tempfile::TempDir;

/// A folder of files, which may lie in folders below it.
pub(crate) fn folder<N: AsRef<str>, T: AsRef<[u8]>>(files: &[(N, T)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Names and texts of documents.
pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A `tokenizer.json` with these fields, and nothing in all others.
pub(crate) fn tokenizer(fields: Value) -> Value {
    let mut json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
    });
    json.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json
}

/// The model of a BPE without merges.
pub(crate) fn letters(vocab: &serde_json::Map<String, Value>, unknown: Option<&str>) -> Value {
    json!({
        "type": "BPE", "dropout": null, "unk_token": unknown, "fuse_unk": true, "byte_fallback": false,
        "continuing_subword_prefix": null, "end_of_word_suffix": null, "ignore_merges": false,
        "vocab": vocab, "merges": [],
    })
}

/// A tokenizer of the letters a to m; `unknown` is the token of all others.
pub(crate) fn half_an_alphabet(normalizer: &Value, unknown: Option<&str>) -> Value {
    let mut vocab: serde_json::Map<String, Value> =
        ('a'..='m').enumerate().map(|(id, letter)| (letter.to_string(), json!(id))).collect();
    vocab.extend(unknown.map(|unknown| (unknown.to_owned(), json!(13))));
    let split = json!({ "type": "Whitespace" });
    tokenizer(json!({ "normalizer": normalizer, "pre_tokenizer": split, "model": letters(&vocab, unknown) }))
}
