//! From a config to tokens.

use crate::batch::{Batch, Sampling, batch};
use crate::build;
use crate::cache::{Content, Entry, FORMAT};
use crate::config::{DataConfig, SplitConfig, TokenizerConfig};
use crate::corpus::{self, Corpus, Format};
use crate::hash;
use crate::split::Split;
use crate::split_rule::SplitRule;
use crate::task::TaskConfig;
use crate::tokenizer::Tokenizer;
use crate::tokens::TokenFile;
use crate::train_bpe;
use longwave_core::{Error, Result, canonical, file};
use serde_json::json;
use std::fmt;
use std::path::Path;

/// What is being done to a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the files to see whether they are those of the cache.
    Hashing,
    /// Counting the words that the tokenizer is trained on.
    TrainingTokenizer,
    /// Turning documents into tokens.
    Tokenizing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hashing => "hashing",
            Self::TrainingTokenizer => "training the tokenizer",
            Self::Tokenizing => "tokenizing",
        })
    }
}

/// How far a stage has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes of the corpus done.
    pub done: u64,
    /// Bytes of the corpus in all. Training a tokenizer reads only the training split of them.
    pub total: u64,
}

/// A corpus as tokens, or a task.
#[derive(Clone, Debug)]
pub struct Dataset {
    config: DataConfig,
    content: Content,
    key: String,
    cached: bool,
}

impl Dataset {
    /// Opens the corpus of a config: from the cache, or else by tokenizing it into the cache.
    ///
    /// Documents longer than 1 MiB are tokenized in pieces, cut after the last line end that fits (or
    /// between two characters), so the tokens at a cut may differ from those of the uncut text.
    ///
    /// # Errors
    /// The config is not valid; the corpus is missing, empty, not what its manifest says, not readable
    /// as text or JSON lines, or too small for its splits; the tokenizer cannot be read or trained; the
    /// cache cannot be written.
    pub fn open(config: &DataConfig, progress: &mut dyn FnMut(Progress)) -> Result<Self> {
        config.validate()?;
        if let Some(task) = &config.task {
            return Self::of_task(config, task);
        }
        let tokenizer = match &config.tokenizer {
            TokenizerConfig::File { path } => Some(read_tokenizer(path)?),
            _ => None,
        };
        Self::open_with(config, tokenizer, progress)
    }

    /// No text: sequences are made when they are needed.
    fn of_task(config: &DataConfig, task: &TaskConfig) -> Result<Self> {
        let written = serde_json::to_value(task)
            .map_err(|error| Error::failed(format!("`data.task` cannot be written as JSON: {error}")))?;
        let key = file::sha256_of(canonical::text(json!({ "format": FORMAT, "task": written })).as_bytes());
        let none = || TokenFile::from_documents(&[]);
        let content = Content { tokenizer: Tokenizer::bytes(), splits: [none(), none(), none()] };
        Ok(Self { config: config.clone(), content, key, cached: false })
    }

    /// Another corpus as tokens of this one's tokenizer, at a split. A corpus without folders `train`,
    /// `valid` and `test` is read whole, as the split `test`.
    ///
    /// Gives the tokens and what identifies them, as [`content_hash`](Self::content_hash).
    ///
    /// # Errors
    /// As [`open`](Self::open), or a corpus without such folders has no split but `test`.
    pub fn other_text(&self, corpus: &str, split: Split) -> Result<(TokenFile, String)> {
        let whole = !corpus::find(corpus)?.split_by_folder;
        if whole && split != Split::Test {
            return Err(Error::value(
                "split",
                format!("\"{split}\""),
                format!("`{corpus}` has no such folder"),
            )
            .hint("it is read whole, as the split `test`; leave `split` out"));
        }
        let config = DataConfig {
            corpus: corpus.to_owned(),
            task: None,
            tokenizer: self.config.tokenizer.clone(),
            separator: None,
            split: if whole { SplitConfig { valid: 0.0, test: 0.0 } } else { SplitConfig::default() },
            ..self.config.clone()
        };
        let tokenizer = self.tokenizer().clone();
        let hash = file::sha256_of(tokenizer.to_json()?.as_bytes());
        let other = Self::open_with(&config, Some((tokenizer, hash)), &mut |_| ())?;
        let split = if whole { Split::Train } else { split };
        Ok((other.tokens(split).clone(), other.key))
    }

    /// Opens a corpus with a tokenizer and the hash of its file, or with one trained on it.
    fn open_with(
        config: &DataConfig,
        tokenizer: Option<(Tokenizer, String)>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let corpus = corpus::find(&config.corpus)?;
        let total = corpus.bytes();
        if total == 0 {
            return Err(empty(config));
        }
        let cache = Path::new(&config.cache);
        let hashes = hash_corpus(&corpus, config, &mut |done, total| {
            progress(Progress { stage: Stage::Hashing, done, total });
        })?;
        corpus.check_content(&hashes)?;
        let key = key(&corpus, &hashes, config, tokenizer.as_ref().map(|(_, hash)| hash.as_str()));
        let opened = |content, cached| Self { config: config.clone(), content, key: key.clone(), cached };
        let entry = Entry::new(cache, &key);
        if let Some(content) = entry.open() {
            return Ok(opened(content, true));
        }
        let _lock = entry.lock()?;
        if let Some(content) = entry.open() {
            return Ok(opened(content, true));
        }
        entry.build(|folder| {
            fill(folder, &corpus, config, tokenizer.map(|(tokenizer, _)| tokenizer), progress)
        })?;
        let content = entry.open().ok_or_else(|| {
            Error::failed(format!("the tokens just written to `{}` cannot be read back", cache.display()))
                .hint("check the disk, or set `data.cache` to another folder")
        })?;
        Ok(opened(content, false))
    }

    /// The task, where there is one in place of a corpus.
    pub fn task(&self) -> Option<&TaskConfig> {
        self.config.task.as_ref()
    }

    /// What rows name: the corpus as its config has it, or the task's kind.
    pub fn name(&self) -> String {
        self.task().map_or_else(|| self.config.corpus.clone(), TaskConfig::name)
    }

    /// The training batch of `step`: windows of the training text, or sequences of the task. A pure
    /// function of its arguments; see [`batch()`] and [`TaskConfig::batch`].
    ///
    /// # Errors
    /// As those.
    pub fn batch(
        &self,
        sampling: Sampling,
        seed: u64,
        step: u64,
        rows: usize,
        length: usize,
    ) -> Result<Batch> {
        match self.task() {
            Some(task) => task.batch(seed, step, rows, length),
            None => batch(self.tokens(Split::Train), sampling, seed, step, rows, length),
        }
    }

    /// The tokenizer that made the tokens.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.content.tokenizer
    }

    /// The tokens of a split; empty if the corpus has no such split.
    pub fn tokens(&self, split: Split) -> &TokenFile {
        &self.content.splits[split.index()]
    }

    /// Identifies the task, or the documents, splits, tokenizer and separator, wherever the files lie: 64 hexadecimal
    /// digits.
    pub fn content_hash(&self) -> &str {
        &self.key
    }

    /// Whether the tokens were found in the cache.
    pub fn cached(&self) -> bool {
        self.cached
    }
}

fn empty(config: &DataConfig) -> Error {
    Error::failed(format!("the corpus `{}` holds no text to train on", config.corpus))
        .hint("fill its files, or name another one in `data.corpus`")
}

fn hash_corpus(
    corpus: &Corpus,
    config: &DataConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<String>> {
    let files: Vec<&Path> = corpus.sources.iter().map(|source| source.path.as_path()).collect();
    let name = format!("corpus-{}.json", &file::sha256_of(config.corpus.as_bytes())[..16]);
    hash::hash_files(&files, &Path::new(&config.cache).join("hashes").join(name), progress)
}

/// An existing tokenizer and the hash of its file.
fn read_tokenizer(path: &str) -> Result<(Tokenizer, String)> {
    let tokenizer = Tokenizer::load(Path::new(path)).map_err(|error| match error.hint_text() {
        Some(_) => error,
        None => error.hint("`data.tokenizer.path` starts at the folder the command runs in"),
    })?;
    Ok((tokenizer, file::sha256(Path::new(path))?))
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

/// Trains the tokenizer, if it is not given, and tokenizes the corpus into `folder`.
fn fill(
    folder: &Path,
    corpus: &Corpus,
    config: &DataConfig,
    given: Option<Tokenizer>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Tokenizer> {
    let total = corpus.bytes();
    let rule = SplitRule::new(corpus, config)?;
    let tokenizer = match (given, &config.tokenizer) {
        (Some(tokenizer), _) => tokenizer,
        (None, TokenizerConfig::Bpe { vocab_size }) => {
            train_bpe::train(corpus, &rule, &config.text_field, *vocab_size, &mut |done| {
                progress(Progress { stage: Stage::TrainingTokenizer, done, total });
            })?
        }
        (None, _) => Tokenizer::bytes(),
    };
    let separator = config.separator.as_deref();
    let [train, _, _] =
        build::build(folder, corpus, &rule, &config.text_field, separator, &tokenizer, &mut |done| {
            progress(Progress { stage: Stage::Tokenizing, done, total });
        })?;
    if train == 0 {
        return Err(empty(config));
    }
    Ok(tokenizer)
}

#[cfg(test)]
mod tests;
