//! The text of a run that was trained before: found by its content, wherever it lies by now.

use crate::config::{DataConfig, TokenizerConfig};
use crate::corpus::{self, Corpus};
use crate::dataset::{Dataset, of_other_text};
use crate::embedded;
use crate::examined::{Examined, as_other};
use crate::progress::Progress;
use crate::record::Record;
use crate::tokenizer::Tokenizer;
use longwave_core::{Error, Result, file};
use std::path::{Path, PathBuf};

/// So many folders above a run's are looked into for its corpus.
const ABOVE: usize = 4;

/// A trained run whose text is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub folder: &'a Path,
    /// Its `[data]`.
    pub config: &'a DataConfig,
    /// Whether text of this content hash is what it was trained on, for a run whose folder has no record of its text, as one that
    /// was exported and came back; absent of a model from elsewhere.
    pub is_trained: Option<&'a dyn Fn(&str) -> bool>,
}

#[derive(Clone, Debug)]
pub struct RunText {
    config: DataConfig,
    state: State,
    /// Whether another corpus was given than the run's own.
    other_given: bool,
}

#[derive(Clone, Debug)]
enum State {
    Task { content_hash: String },
    Found { corpus: String, content_hash: String },
    Missing(Error),
}

enum Verdict {
    /// It is the run's, with this content hash.
    Own(String),
    Other,
    /// Nothing tells, as of a model that was imported; it has this content hash.
    Unknown(String),
}

impl RunText {
    /// Looks for the text of a run: at `given`, if that is the same text, and then where its config, the run's folder
    /// and the record of its training lead. Other text than the run's is never taken for it.
    pub fn find(
        wanted: &Wanted<'_>,
        given: Option<&str>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let config = wanted.config.clone();
        config.validate()?;
        if config.task.is_some() {
            let content_hash = Dataset::open(&config, progress)?.content_hash().to_owned();
            let state = State::Task { content_hash };
            return Ok(Self { config, state, other_given: given.is_some() });
        }
        let record = Record::read(wanted.folder)?;
        let mut search = Search { wanted, record: record.as_ref(), progress };
        let examine = |path| {
            let verdict = search.examine_given(path).map_err(|error| of_other_text(error, &config))?;
            Ok((path, verdict))
        };
        let at_given = given.map(examine).transpose()?;
        if let Some((path, Verdict::Own(content_hash))) = &at_given {
            let state = State::Found { corpus: (*path).to_owned(), content_hash: content_hash.clone() };
            return Ok(Self { config, state, other_given: false });
        }
        let state = search.usual();
        let same_as_found = match (&at_given, &state) {
            (Some((_, Verdict::Unknown(a))), State::Found { content_hash: b, .. }) => a == b,
            _ => false,
        };
        Ok(Self { config, state, other_given: given.is_some() && !same_as_found })
    }

    /// Whether a corpus was given, and its text is not the run's own.
    pub fn other_given(&self) -> bool {
        self.other_given
    }

    /// The content hash of the run's text; `None` where it was not found.
    pub fn content_hash(&self) -> Option<&str> {
        match &self.state {
            State::Task { content_hash } | State::Found { content_hash, .. } => Some(content_hash),
            State::Missing(_) => None,
        }
    }

    /// Opens what was found, in tokens of the run's tokenizer. Without its text the dataset still reads other text,
    /// and gives an error where its own is needed.
    pub fn open(&self, tokenizer: &Tokenizer, progress: &mut dyn FnMut(Progress)) -> Result<Dataset> {
        match &self.state {
            State::Task { .. } => Dataset::open(&self.config, progress),
            State::Missing(error) => Ok(Dataset::without_text(&self.config, tokenizer, error)),
            State::Found { corpus, content_hash } => {
                Dataset::of_run(&self.config, corpus, content_hash, tokenizer, progress)
            }
        }
    }
}

struct Search<'a> {
    wanted: &'a Wanted<'a>,
    record: Option<&'a Record>,
    progress: &'a mut dyn FnMut(Progress),
}

impl Search<'_> {
    /// What lies at one of the usual places.
    fn examine(&mut self, place: &str) -> Result<Verdict> {
        let config = DataConfig { corpus: place.to_owned(), ..self.wanted.config.clone() };
        self.judge(corpus::find_or_unpack(&config, "data.corpus")?, &config)
    }

    /// What lies at the place that was given.
    fn examine_given(&mut self, place: &str) -> Result<Verdict> {
        const KEY: &str = "--corpus";
        let config = DataConfig { corpus: place.to_owned(), ..self.wanted.config.clone() };
        match corpus::find_or_unpack(&config, KEY) {
            Ok(found) => self.judge(found, &config),
            // Without the files that the run's `data.split` names, or without any to train on, it is not the run's text.
            Err(_) => corpus::find_other(&as_other(&config, place), KEY).map(|_| Verdict::Other),
        }
    }

    /// Whether a corpus that was found is the run's text.
    fn judge(&mut self, found: Corpus, config: &DataConfig) -> Result<Verdict> {
        let examined = Examined::of(found, config, self.progress)?;
        let hash = examined.content_hash(config, self.tokenizer_hash().as_deref());
        Ok(match (self.record, self.wanted.is_trained) {
            (Some(record), _) if record.content_hash == hash || record.has_text(&examined.text) => {
                Verdict::Own(record.content_hash.clone())
            }
            (None, Some(is_trained)) if is_trained(&hash) => Verdict::Own(hash),
            (None, None) => Verdict::Unknown(hash),
            _ => Verdict::Other,
        })
    }

    /// The hash of the tokenizer's file, where the run was given one.
    fn tokenizer_hash(&self) -> Option<String> {
        let TokenizerConfig::File { path } = &self.wanted.config.tokenizer else { return None };
        let folder = self.wanted.folder;
        let files = [PathBuf::from(path), folder.join(path), folder.join("tokenizer.json")];
        files.iter().filter(|file| !file::is_special(file)).find_map(|file| file::sha256(file).ok())
    }

    /// Looks where the text should be.
    fn usual(&mut self) -> State {
        let (mut tried, mut others, mut problem) = (Vec::new(), Vec::new(), None);
        for place in self.places() {
            match self.examine(&place) {
                Ok(Verdict::Own(content_hash) | Verdict::Unknown(content_hash)) => {
                    return State::Found { corpus: place, content_hash };
                }
                Ok(Verdict::Other) => others.push(place),
                Err(error) => {
                    if Path::new(&place).exists() || embedded::is_named(&place) {
                        problem.get_or_insert(error);
                    }
                    tried.push(place);
                }
            }
        }
        State::Missing(self.missing(&tried, &others, problem))
    }

    /// Where the text may lie, each place once.
    fn places(&self) -> Vec<String> {
        let corpus = Path::new(&self.wanted.config.corpus);
        let folder =
            std::path::absolute(self.wanted.folder).unwrap_or_else(|_| self.wanted.folder.to_owned());
        let mut places = vec![corpus.to_owned()];
        if corpus.is_relative() {
            places.extend(folder.ancestors().take(ABOVE + 1).map(|above| above.join(corpus)));
        }
        places.extend(self.record.map(|record| PathBuf::from(&record.path)));
        if let Some(name) = corpus.file_name() {
            places.extend(folder.ancestors().take(2).map(|above| above.join(name)));
        }
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut kept = Vec::new();
        for place in places {
            let absolute = std::path::absolute(&place).unwrap_or_else(|_| place.clone());
            if !seen.contains(&absolute) {
                seen.push(absolute);
                kept.push(place.to_string_lossy().into_owned());
            }
        }
        kept
    }

    fn missing(&self, tried: &[String], others: &[String], problem: Option<Error>) -> Error {
        let listed = |places: &[String]| {
            places.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ")
        };
        let run = self.wanted.folder.display();
        if let Some(error) = problem {
            return error.context(format!("the text that `{run}` was trained on"));
        }
        let digest = self.record.map_or_else(String::new, |record| {
            format!(" (content hash {})", record.content_hash.chars().take(16).collect::<String>())
        });
        let mut parts = vec![format!("the text that `{run}` was trained on is not found{digest}")];
        if !others.is_empty() {
            parts.push(format!("other text lies at {}", listed(others)));
        }
        if !tried.is_empty() {
            parts.push(format!("there is nothing at {}", listed(tried)));
        }
        Error::usage(parts.join("; ")).hint(
            "name the place of the text with `--corpus PATH`; other text is read there too, and its rows say so",
        )
    }
}
