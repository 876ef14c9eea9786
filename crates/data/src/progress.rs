//! How far the work on a corpus has come.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the files to see whether they are those of the cache.
    Hashing,
    /// Counting the words that the tokenizer is trained on.
    TrainingTokenizer,
    /// Reading held-out documents, to look for them in those of training.
    Comparing,
    /// Turning documents into tokens.
    Tokenizing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hashing => "hashing",
            Self::TrainingTokenizer => "training the tokenizer",
            Self::Comparing => "reading held-out documents",
            Self::Tokenizing => "tokenizing",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    /// Bytes of the corpus done.
    pub done: u64,
    /// Bytes of the corpus in all. Training a tokenizer reads only the training split of them, and comparing the others.
    pub total: u64,
}
