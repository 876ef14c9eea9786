//! A corpus that is found and hashed, and what identifies it.

use crate::cache::{self, FORMAT};
use crate::config::{DataConfig, TokenizerConfig};
use crate::corpus::{self, Corpus, Format};
use crate::digest;
use crate::hash;
use crate::progress::{Progress, Stage};
use longwave_core::{Error, Result, file};
use serde_json::json;
use std::path::Path;

/// A corpus whose files are found and hashed, and are what its manifest says.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) corpus: Corpus,
    hashes: Vec<String>,
    /// SHA-256 of the text of each split, in the order of [`crate::Split::ALL`].
    pub(crate) text: [Option<String>; 3],
}

impl Examined {
    /// Finds the files of `config.corpus`; `key` is what it is called in messages.
    ///
    /// # Errors
    /// The corpus is missing, empty, or not what its manifest says.
    pub(crate) fn new(config: &DataConfig, key: &str, progress: &mut dyn FnMut(Progress)) -> Result<Self> {
        let corpus = corpus::find_or_unpack(config, key)?;
        if corpus.bytes() == 0 {
            return Err(empty(config));
        }
        let hashes = hash_corpus(&corpus, config, &mut |done, total| {
            progress(Progress { stage: Stage::Hashing, done, total });
        })?;
        corpus.check_content(&hashes)?;
        // A corpus that is too small for its splits is an error where they are made: it may yet be read whole.
        let text = digest::of_splits(&corpus, &hashes, config).unwrap_or_default();
        Ok(Self { corpus, hashes, text })
    }

    /// Identifies documents, splits, tokenizer and separator; see [`Dataset::content_hash`].
    pub(crate) fn content_hash(&self, config: &DataConfig, tokenizer_hash: Option<&str>) -> String {
        key(&self.corpus, &self.hashes, config, tokenizer_hash)
    }
}

/// The error for a corpus without text.
pub(crate) fn empty(config: &DataConfig) -> Error {
    Error::failed(format!("the corpus `{}` holds no text", config.corpus))
        .hint("fill its files, or name another one: in `data.corpus`, or to `eval` with `--corpus`")
}

fn hash_corpus(
    corpus: &Corpus,
    config: &DataConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<String>> {
    let files: Vec<&Path> = corpus.sources.iter().map(|source| source.path.as_path()).collect();
    let place = std::path::absolute(&config.corpus).unwrap_or_else(|_| config.corpus.clone().into());
    let name = format!("corpus-{}.json", &file::sha256_of(place.as_os_str().as_encoded_bytes())[..16]);
    hash::hash_files(&files, &cache::folder(config).join("hashes").join(name), progress)
}

/// The hash of all that decides the tokens.
fn key(corpus: &Corpus, hashes: &[String], config: &DataConfig, tokenizer_hash: Option<&str>) -> String {
    let sources: Vec<_> = corpus
        .sources
        .iter()
        .zip(hashes)
        .map(|(source, hash)| json!([source.split, source.name, source.bytes, hash]))
        .collect();
    let tokenizer = match (tokenizer_hash, &config.tokenizer) {
        (Some(hash), _) => json!(["file", hash]),
        (None, TokenizerConfig::Bpe { vocab_size }) => json!(["bpe", vocab_size]),
        (None, _) => json!(["bytes"]),
    };
    let has_lines = corpus.sources.iter().any(|source| source.format == Format::JsonLines);
    let content = json!({
        "format": FORMAT,
        "tokenizer": tokenizer,
        "separator": config.separator,
        "split": (!corpus.split_by_folder).then_some([config.split.valid, config.split.test]),
        "text_field": has_lines.then_some(&config.text_field),
        "sources": sources,
    });
    file::sha256_of(content.to_string().as_bytes())
}
