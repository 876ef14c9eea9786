//! From a config to tokens.

use crate::batch::{Batch, Sampling, batch};
use crate::build;
use crate::cache::{self, CacheEntry, Content, FORMAT};
use crate::config::{DataConfig, TokenizerConfig};
use crate::corpus::{self, Corpus};
use crate::documents::Documents;
use crate::examined::{Examined, as_other, empty};
use crate::notes::{self, Note};
use crate::noticed::Noticed;
use crate::overlap::{Comparison, MOST};
use crate::overlap_notes;
use crate::progress::{Progress, Stage};
use crate::record::Record;
use crate::split::Split;
use crate::task::TaskConfig;
use crate::tokenizer::Tokenizer;
use crate::tokens::TokenFile;
use crate::train_bpe;
use longwave_core::{Error, Result, canonical, file, written};
use serde_json::json;
use std::path::Path;

/// A corpus as tokens, or a task.
#[derive(Clone, Debug)]
pub struct Dataset {
    config: DataConfig,
    content: Content,
    key: String,
    cached: bool,
    /// Where the corpus was found.
    place: String,
    /// SHA-256 of the text of each split, in the order of [`Split::ALL`].
    text: [Option<String>; 3],
    notes: Vec<Note>,
    /// Why there is no text.
    missing: Option<Error>,
}

/// Another text than the one that a run was trained on.
#[derive(Clone, Debug)]
pub struct OtherText {
    pub tokens: TokenFile,
    /// Identifies documents, splits and tokenizer, as [`Dataset::content_hash`].
    pub content_hash: String,
    /// Identifies the text, as [`Dataset::text_hash`].
    pub text_hash: Option<String>,
    pub notes: Vec<Note>,
}

impl Dataset {
    /// Opens the corpus of a config: from the cache, or else by tokenizing it into the cache.
    ///
    /// Documents longer than 1 MiB are tokenized in pieces, cut after the last line end that fits (or
    /// between two characters), so the tokens at a cut may differ from those of the uncut text.
    pub fn open(config: &DataConfig, progress: &mut dyn FnMut(Progress)) -> Result<Self> {
        config.validate()?;
        if let Some(task) = &config.task {
            return Self::of_task(config, task);
        }
        let (tokenizer, hash) = match &config.tokenizer {
            TokenizerConfig::File { path } => {
                read_tokenizer(path).map(|(read, hash)| (Some(read), Some(hash)))?
            }
            _ => (None, None),
        };
        let examined = Examined::new(config, "data.corpus", progress)?;
        check_record_keys(config, &examined.corpus)?;
        let key = examined.content_hash(config, hash.as_deref());
        Self::open_entry(config, examined, key, tokenizer, progress)
    }

    /// No text: sequences are made when they are needed.
    fn of_task(config: &DataConfig, task: &TaskConfig) -> Result<Self> {
        let written = written::json_value("`data.task`", task)?;
        let key = file::sha256_of(canonical::text(json!({ "format": FORMAT, "task": written })).as_bytes());
        Ok(Self { key, ..Self::empty(config, &Tokenizer::bytes()) })
    }

    fn empty(config: &DataConfig, tokenizer: &Tokenizer) -> Self {
        let none = || TokenFile::from_documents(&[]);
        Self {
            config: config.clone(),
            content: Content {
                tokenizer: tokenizer.clone(),
                splits: [none(), none(), none()],
                noticed: Noticed::default(),
            },
            key: String::new(),
            cached: false,
            place: String::new(),
            text: Default::default(),
            notes: Vec::new(),
            missing: None,
        }
    }

    /// The dataset of a run whose text is not there, for the reason `missing`: it reads other text.
    pub(crate) fn without_text(config: &DataConfig, tokenizer: &Tokenizer, missing: &Error) -> Self {
        Self { missing: Some(missing.clone()), ..Self::empty(config, tokenizer) }
    }

    /// The text of a run that was trained before, which lies at `corpus` by now, with the run's tokenizer.
    pub(crate) fn of_run(
        config: &DataConfig,
        corpus: &str,
        content_hash: &str,
        tokenizer: &Tokenizer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let here = DataConfig { corpus: corpus.to_owned(), ..config.clone() };
        let examined = Examined::new(&here, "data.corpus", progress)?;
        let today = examined.content_hash(&here, None);
        let key = match &config.tokenizer {
            // An earlier version may have left tokens of each row by itself under the run's own hash.
            _ if examined.joins_rows(&here) && today != content_hash => {
                file::sha256_of(format!("one text {content_hash}").as_bytes())
            }
            // The file may be gone; what it made of the text is known by the run's own hash.
            TokenizerConfig::File { .. } => content_hash.to_owned(),
            _ => today,
        };
        let opened = Self::open_entry(&here, examined, key, Some(tokenizer.clone()), progress)?;
        Ok(Self { config: config.clone(), key: content_hash.to_owned(), ..opened })
    }

    /// Another corpus as tokens of this one's tokenizer, at a split. A corpus without folders `train`,
    /// `valid` and `test` is read whole, as the split `test`; so is one that is the training or the validation split alone.
    pub fn other_text(&self, corpus: &str, split: Split) -> Result<OtherText> {
        self.read_other_text(corpus, split).map_err(|error| of_other_text(error, &self.config))
    }

    fn read_other_text(&self, corpus: &str, split: Split) -> Result<OtherText> {
        let config = DataConfig { separator: None, ..as_other(&self.config, corpus) };
        let mut found = corpus::find_other(&config, "corpus")?;
        // Files that are all of one split are text to read as well as any.
        let only = found.only_split();
        found.whole = only.map_or(!found.named, |only| only != split);
        let whole = found.whole;
        if whole && split != Split::Test {
            let allowed = format!("`{corpus}` has no such folder");
            return Err(Error::value("split", format!("\"{split}\""), allowed)
                .hint("it is read whole, as the split `test`; leave `split` out"));
        }
        if whole {
            // Nothing is trained on it, so nothing is held out.
            found.shares = [0.0; 2];
        } else {
            found.check_split(split, corpus)?;
        }
        let tokenizer = self.tokenizer().clone();
        let hash = file::sha256_of(tokenizer.to_json()?.as_bytes());
        let examined = Examined::of(found, &config, &mut |_| ())?;
        let key = examined.content_hash(&config, Some(&hash));
        let other = Self::open_entry(&config, examined, key, Some(tokenizer), &mut |_| ())?;
        let split = if whole { only.unwrap_or(Split::Train) } else { split };
        let text_hash = other.text_hash(split).map(str::to_owned);
        let Content { noticed, splits, .. } = &other.content;
        // Nothing was trained on its other splits.
        let repeats = overlap_notes::of_other(&noticed.overlap, splits, split);
        let tokens = other.tokens(split).clone();
        let notes = other.notes.into_iter().chain(repeats).collect();
        Ok(OtherText { tokens, content_hash: other.key, text_hash, notes })
    }

    /// Opens the entry of the cache for a corpus, or builds it.
    fn open_entry(
        config: &DataConfig,
        examined: Examined,
        key: String,
        tokenizer: Option<Tokenizer>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let Examined { corpus, text, .. } = examined;
        let cache = cache::folder(config);
        let entry = CacheEntry::new(&cache, &key);
        let opened = |content: Content, cached| {
            let bos = content.tokenizer.bos(&config.bos)?;
            let notes = notes::of(&corpus, &content, config);
            let splits = content.splits.map(|tokens| tokens.with_bos(bos));
            Ok(Self {
                config: config.clone(),
                notes,
                content: Content { splits, ..content },
                key,
                cached,
                place: config.corpus.clone(),
                text,
                missing: None,
            })
        };
        if let Some(content) = entry.open() {
            return opened(content, true);
        }
        let _lock = entry.lock()?;
        if let Some(content) = entry.open() {
            return opened(content, true);
        }
        entry.build(|folder| fill(folder, &corpus, config, tokenizer, progress))?;
        let content = entry.open().ok_or_else(|| {
            Error::failed(format!("the tokens just written to `{}` cannot be read back", cache.display()))
                .hint("check the disk, or set `LONGWAVE_CACHE` to another folder")
        })?;
        opened(content, false)
    }

    /// The task, where there is one in place of a corpus.
    pub fn task(&self) -> Option<&TaskConfig> {
        self.config.task.as_ref()
    }

    /// What rows name: the corpus as its config has it, or the task's kind.
    pub fn name(&self) -> String {
        self.task().map_or_else(|| self.config.corpus.clone(), TaskConfig::name)
    }

    /// The training batch of `step`: windows of the training text as the stream holds it, or sequences of the task. A pure
    /// function of its arguments; see [`batch()`] and [`TaskConfig::batch`].
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

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.content.tokenizer
    }

    /// The token that every text begins with, as the config names it; empty for none.
    pub fn bos(&self) -> &str {
        &self.config.bos
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

    /// Identifies the text of a split, wherever its files lie, whatever they are called and however it is tokenized:
    /// 64 hexadecimal digits. `None` of a task, and where there is no text.
    pub fn text_hash(&self, split: Split) -> Option<&str> {
        self.text[split.index()].as_deref()
    }

    /// What a run's folder keeps of the text; `None` of a task.
    pub fn record(&self) -> Option<Record> {
        let is_text = self.task().is_none() && self.missing.is_none();
        is_text.then(|| Record::new(&self.config.corpus, &self.place, &self.key, &self.text, &self.notes()))
    }

    /// Fails where the text of a run was not found.
    pub fn check_text(&self) -> Result<()> {
        self.missing.clone().map_or(Ok(()), Err)
    }

    /// How the text was read: what makes the splits, what was left out, and what is there twice. Nothing of a task.
    pub fn notes(&self) -> Vec<Note> {
        let Content { noticed, splits, .. } = &self.content;
        [self.notes.clone(), overlap_notes::of(&noticed.overlap, splits)].concat()
    }

    pub fn cached(&self) -> bool {
        self.cached
    }
}

/// An error on text beside a run's own, which is read by the run's config: a hint to change the config is of no use there.
pub(crate) fn of_other_text(error: Error, config: &DataConfig) -> Error {
    let names = |key: &str| error.hint_text().is_some_and(|hint| hint.contains(key));
    if names("data.text_field") || names("data.skip_bad_lines") {
        let hint = format!(
            "it is read as the run's own text was, in the field `{}`{}: write it so, or as plain text",
            config.text_field,
            if config.skip_bad_lines { "" } else { ", and without lines that hold no document" }
        );
        return error.hint(hint);
    }
    if names("data.split") {
        return error.hint(
            "name the files to read alone, such as `--corpus 'texts/*test*'`, or put them into a folder `test` beside a folder `train`",
        );
    }
    error
}

/// Checks that keys of lines and rows are given of a corpus that has some.
fn check_record_keys(config: &DataConfig, corpus: &Corpus) -> Result<()> {
    let plain = DataConfig::new("");
    let given = [
        ("text_field", format!("{:?}", config.text_field), config.text_field != plain.text_field),
        ("skip_bad_lines", "true".to_owned(), config.skip_bad_lines),
        ("join_rows", "true".to_owned(), config.join_rows),
    ];
    match given.into_iter().find(|(_, _, given)| *given) {
        Some((key, value, _)) if !corpus.has_records() => {
            let allowed =
                format!("`{}` is plain text, without lines or rows that have fields", config.corpus);
            Err(Error::value(&format!("data.{key}"), value, allowed).hint(
                "leave it out; fields are read of `.jsonl` and `.parquet` files, and a table such as a `.csv` has to be made one of these",
            ))
        }
        _ => Ok(()),
    }
}

/// An existing tokenizer and the hash of its file.
fn read_tokenizer(path: &str) -> Result<(Tokenizer, String)> {
    corpus::check_regular("data.tokenizer.path", path, "tokenizer.json")?;
    let tokenizer = Tokenizer::load(Path::new(path)).map_err(|error| match error.hint_text() {
        Some(_) => error,
        None => error.hint("`data.tokenizer.path` starts at the config's folder or at the current folder"),
    })?;
    Ok((tokenizer, file::sha256(Path::new(path))?))
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
    let documents = Documents { corpus, config };
    let rule = documents.split_rule()?;
    let tokenizer = match (given, &config.tokenizer) {
        (Some(tokenizer), _) => tokenizer,
        (None, TokenizerConfig::Bpe { vocab_size }) => {
            train_bpe::train(&documents, &rule, *vocab_size, &mut |done| {
                progress(Progress { stage: Stage::TrainingTokenizer, done, total });
            })?
        }
        (None, _) => Tokenizer::bytes(),
    };
    let comparison = Comparison::new(MOST, &documents, &rule, &mut |done| {
        progress(Progress { stage: Stage::Comparing, done, total });
    })?;
    let (counts, noticed) = build::build(folder, &documents, &rule, &tokenizer, comparison, &mut |done| {
        progress(Progress { stage: Stage::Tokenizing, done, total });
    })?;
    let is_empty = if corpus.trains() { counts[0] == 0 } else { counts == [0; 3] };
    match &noticed.first_bad {
        Some(first) if is_empty => return Err(empty(config).context(first)),
        None if is_empty => return Err(empty(config)),
        _ => noticed.write(folder)?,
    }
    Ok(tokenizer)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_unread;
