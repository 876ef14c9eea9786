//! A corpus that is found and hashed, and what identifies it.

use crate::cache::{self, FORMAT};
use crate::config::{DataConfig, TokenizerConfig};
use crate::corpus::{self, Corpus};
use crate::digest;
use crate::hash::{self, ALWAYS_HASHED};
use crate::progress::{Progress, Stage};
use crate::split_config::SplitConfig;
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
    pub(crate) fn new(config: &DataConfig, key: &str, progress: &mut dyn FnMut(Progress)) -> Result<Self> {
        Self::of(corpus::find_or_unpack(config, key)?, config, progress)
    }

    /// Hashes the files of a corpus that was found.
    pub(crate) fn of(
        corpus: Corpus,
        config: &DataConfig,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        if corpus.bytes() == 0 {
            return Err(empty(config));
        }
        let hashes = hash_corpus(&corpus, config, &mut |done, total| {
            progress(Progress { stage: Stage::Hashing, done, total });
        })?;
        corpus.check_content(&hashes)?;
        let text = digest::of_splits(&corpus, &hashes, config);
        Ok(Self { corpus, hashes, text })
    }

    /// Identifies the files and their places, whatever is made of them.
    fn files_hash(&self) -> String {
        let files = self.corpus.sources.iter().zip(&self.hashes);
        let files: Vec<_> = files.map(|(source, hash)| json!([source.split, source.name, hash])).collect();
        file::sha256_of(json!(files).to_string().as_bytes())
    }

    /// Whether rows of records are read as one text.
    pub(crate) fn joins_rows(&self, config: &DataConfig) -> bool {
        config.join_rows && self.corpus.has_records()
    }

    /// Identifies documents, splits, tokenizer and separator; see [`Dataset::content_hash`].
    pub(crate) fn content_hash(&self, config: &DataConfig, tokenizer_hash: Option<&str>) -> String {
        let corpus = &self.corpus;
        let files = corpus.sources.iter().zip(&self.hashes);
        let sources: Vec<_> =
            files.map(|(source, hash)| json!([source.split, source.name, source.bytes, hash])).collect();
        let tokenizer = match (tokenizer_hash, &config.tokenizer) {
            (Some(hash), _) => json!(["file", hash]),
            (None, TokenizerConfig::Bpe { vocab_size }) => json!(["bpe", vocab_size]),
            (None, _) => json!(["bytes"]),
        };
        let has_records = corpus.has_records();
        let mut content = json!({
            "format": FORMAT,
            "tokenizer": tokenizer,
            "separator": config.separator,
            "split": (corpus.by_shares() || !corpus.named).then_some(corpus.shares),
            "text_field": has_records.then_some(&config.text_field),
            "sources": sources,
        });
        if !config.bos.is_empty() {
            content["bos"] = config.bos.as_str().into();
        }
        if has_records && config.skip_bad_lines {
            content["skip_bad_lines"] = true.into();
        }
        if self.joins_rows(config) {
            // Earlier tokens, under `true`, were of each row by itself.
            content["join_rows"] = "one text".into();
        }
        file::sha256_of(content.to_string().as_bytes())
    }
}

/// Identifies the files of another corpus than that of a config, which is read as [`Dataset::other_text`](crate::Dataset::other_text) does.
pub fn files_hash(config: &DataConfig, corpus: &str) -> Result<String> {
    let other = as_other(config, corpus);
    let found = corpus::find_other(&other, "corpus")?;
    Examined::of(found, &other, &mut |_| ()).map(|examined| examined.files_hash())
}

/// The config that finds another corpus than that of a config: names of files say its splits, since a `data.split` is of the
/// config's own corpus.
pub(crate) fn as_other(config: &DataConfig, corpus: &str) -> DataConfig {
    let split = SplitConfig::default();
    DataConfig { corpus: corpus.to_owned(), beside: None, task: None, split, ..config.clone() }
}

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
    let memory = cache::folder(config).join("hashes").join(name);
    hash::hash_files(ALWAYS_HASHED, &files, &memory, progress)
}
