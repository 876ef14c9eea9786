//! Token files: the tokens of one split, memory-mapped.
//!
//! Three files make one split, and two more where the place decides how many bytes a token stands for. All numbers are
//! little-endian:
//!
//! | file | holds |
//! |---|---|
//! | `train.tokens` | the stream, two bytes a token up to 65,536 entries and four beyond |
//! | `train.lengths` | bytes of text per token, four bytes each, for tokenizers where the place decides |
//! | `train.unread` | the tokens that have unread text, for the same tokenizers, see [`crate::unread_bytes`] |
//! | `train.documents` | four 8-byte numbers per document: first token, end, bytes of text, end of name |
//! | `train.names` | the documents' names, one after another |

use crate::split::Split;
use crate::store::Store;
use crate::tokenizer::TokenBytes;
use crate::unread_bytes::UnreadBytes;
use longwave_core::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one document's record.
const RECORD: usize = 32;

/// The largest vocabulary whose ids fit into two bytes.
pub(crate) const NARROW: usize = 1 << 16;

/// A file of a split in the folder of a cache entry, by what its name ends with.
pub(crate) fn path(folder: &Path, split: Split, end: &str) -> PathBuf {
    folder.join(format!("{split}.{end}"))
}

/// One document's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) name_end: u64,
}

impl Record {
    pub(crate) fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let numbers = [self.start, self.end, self.bytes, self.name_end].map(u64::to_le_bytes);
        bytes.copy_from_slice(numbers.as_flattened());
        bytes
    }
}

/// The tokens of one split: its documents, one after another, cheap to clone.
///
/// Between the documents of the training split stands `data.separator`, if there is one; documents'
/// ranges leave it out.
#[derive(Clone)]
pub struct TokenFile {
    content: Arc<Content>,
    /// The token that every text begins with (`data.bos`).
    bos: Option<u32>,
}

struct Content {
    tokens: Store,
    /// Whether a token takes four bytes instead of two.
    wide: bool,
    lengths: Lengths,
    unread: UnreadBytes,
    documents: Store,
    names: Store,
}

enum Lengths {
    One,
    ById(Arc<[u32]>),
    Stored(Store),
}

impl TokenFile {
    /// Documents of the caller's own, as `(name, tokens)`; every token counts as one byte.
    pub fn from_documents(documents: &[(&str, &[u32])]) -> Self {
        let (mut tokens, mut records, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (name, ids) in documents {
            let start = (tokens.len() / 4) as u64;
            tokens.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            names.extend_from_slice(name.as_bytes());
            let bytes = ids.len() as u64;
            let record = Record { start, end: start + bytes, bytes, name_end: names.len() as u64 };
            records.extend_from_slice(&record.to_bytes());
        }
        let (tokens, documents, names) = (Store::Owned(tokens), Store::Owned(records), Store::Owned(names));
        let (lengths, unread) = (Lengths::One, UnreadBytes::default());
        let content = Content { tokens, wide: true, lengths, unread, documents, names };
        Self { content: Arc::new(content), bos: None }
    }

    pub(crate) fn open(
        folder: &Path,
        split: Split,
        vocab_size: usize,
        token_bytes: TokenBytes,
    ) -> Result<Self> {
        let open = |end| Store::open(&path(folder, split, end));
        let everything = UnreadBytes::default();
        let (lengths, unread) = match token_bytes {
            TokenBytes::One => (Lengths::One, everything),
            TokenBytes::ById(lengths) => (Lengths::ById(lengths), everything),
            TokenBytes::ByPlace => {
                (Lengths::Stored(open("lengths")?), UnreadBytes::open(&path(folder, split, "unread"))?)
            }
        };
        let content = Content {
            tokens: open("tokens")?,
            wide: vocab_size > NARROW,
            lengths,
            unread,
            documents: open("documents")?,
            names: open("names")?,
        };
        let file = Self { content: Arc::new(content), bos: None };
        let path = path(folder, split, "tokens");
        file.check().map_err(|what| Error::failed(format!("`{}` is damaged: {what}", path.display())))?;
        Ok(file)
    }

    /// The same texts, each of which begins with a token.
    #[must_use]
    pub fn with_bos(self, bos: Option<u32>) -> Self {
        Self { bos, ..self }
    }

    /// The token that texts begin with, if there is one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Begins each row of `length` tokens, which a model reads as a text of its own, with the token that texts begin with.
    pub fn begin(&self, rows: &mut [u32], length: usize) {
        if let Some(bos) = self.bos {
            rows.iter_mut().step_by(length.max(1)).for_each(|first| *first = bos);
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let content = &self.content;
        if !content.tokens.len().is_multiple_of(self.width())
            || !content.documents.len().is_multiple_of(RECORD)
        {
            return Err("it ends within a token or a record");
        }
        if let Lengths::Stored(lengths) = &content.lengths
            && lengths.len() != self.len() * 4
        {
            return Err("there are not as many lengths as tokens");
        }
        content.unread.check(self.len())?;
        // Each document begins where the one before it ends, or after a separator.
        let (mut end, mut name_end) = (0, 0);
        for record in (0..self.documents()).map(|index| self.record(index)) {
            if record.start < end || record.end < record.start || record.name_end < name_end {
                return Err("its documents do not follow each other");
            }
            (end, name_end) = (record.end, record.name_end);
        }
        if self.documents() == 0 && !self.is_empty() {
            return Err("it has tokens but no documents");
        }
        if end != self.len() as u64 || name_end != content.names.len() as u64 {
            return Err("its documents do not end where the tokens do");
        }
        std::str::from_utf8(&content.names).map(|_| ()).map_err(|_| "a name is not UTF-8")
    }

    fn width(&self) -> usize {
        if self.content.wide { 4 } else { 2 }
    }

    fn record(&self, index: usize) -> Record {
        let bytes = &self.content.documents[index * RECORD..(index + 1) * RECORD];
        let number = |at: usize| u64::from_le_bytes(bytes.as_chunks().0[at]);
        Record { start: number(0), end: number(1), bytes: number(2), name_end: number(3) }
    }

    /// Number of tokens of the stream, separators included.
    pub fn len(&self) -> usize {
        self.content.tokens.len() / self.width()
    }

    /// Whether there is no token, as in a split that the corpus does not have.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of documents. Documents without a byte of text are not among them.
    pub fn documents(&self) -> usize {
        self.content.documents.len() / RECORD
    }

    /// Where the tokens of document `index` are in the stream.
    pub fn document(&self, index: usize) -> Range<usize> {
        let record = self.record(index);
        record.start as usize..record.end as usize
    }

    /// The name of document `index`: the path of its file below the corpus, with `:line` in JSON lines.
    pub fn document_name(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.record(before).name_end as usize);
        // Names were checked as a whole when the file was opened.
        std::str::from_utf8(&self.content.names[start..self.record(index).name_end as usize])
            .unwrap_or_default()
    }

    /// Bytes of text of document `index`.
    pub fn document_bytes(&self, index: usize) -> u64 {
        self.record(index).bytes
    }

    /// The tokens at these places of the stream.
    ///
    /// # Panics
    /// The range does not lie within `0..len()`.
    pub fn read(&self, range: Range<usize>) -> Vec<u32> {
        let bytes = &self.content.tokens[range.start * self.width()..range.end * self.width()];
        if self.content.wide {
            numbers(bytes).collect()
        } else {
            bytes.as_chunks().0.iter().map(|pair| u32::from(u16::from_le_bytes(*pair))).collect()
        }
    }

    /// Bytes of text that the tokens at these places stand for, for bits per byte.
    ///
    /// Every byte of a document belongs to one token, so a document's tokens have the bytes of its text.
    /// Tokenizers other than byte-level ones may drop text, such as spaces: it counts for the token
    /// before it, or for the first one after it.
    ///
    /// # Panics
    /// The range does not lie within `0..len()`.
    pub fn bytes(&self, range: Range<usize>) -> u64 {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} is not within the stream");
        match &self.content.lengths {
            Lengths::One => range.len() as u64,
            Lengths::ById(lengths) => {
                let bytes = |id: u32| u64::from(lengths.get(id as usize).copied().unwrap_or(0));
                self.read(range).into_iter().map(bytes).sum()
            }
            Lengths::Stored(lengths) => {
                numbers(&lengths[range.start * 4..range.end * 4]).map(u64::from).sum()
            }
        }
    }

    /// Those of the [bytes](Self::bytes) at these places that the tokenizer does not know, or leaves out and that are no blanks
    /// between tokens.
    ///
    /// # Panics
    /// The range ends before it begins.
    pub fn unread_bytes(&self, range: Range<usize>) -> u64 {
        self.content.unread.of(range)
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile")
            .field("tokens", &self.len())
            .field("documents", &self.documents())
            .finish_non_exhaustive()
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_the_callers_own() {
        let tokens = TokenFile::from_documents(&[("a", &[1, 2, 70_000]), ("bé", &[4])]);
        assert_eq!((tokens.len(), tokens.documents(), tokens.is_empty()), (4, 2, false));
        assert_eq!((tokens.document(0), tokens.document(1)), (0..3, 3..4));
        assert_eq!((tokens.document_name(0), tokens.document_name(1)), ("a", "bé"));
        assert_eq!((tokens.read(1..4), tokens.bytes(1..4)), (vec![2, 70_000, 4], 3));
        assert_eq!(tokens.document_bytes(0), 3);
        assert!(TokenFile::from_documents(&[]).is_empty());
    }

    #[test]
    fn files_that_do_not_belong_together_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |end, bytes: &[u8]| std::fs::write(path(folder.path(), Split::Valid, end), bytes).unwrap();
        let open = |token_bytes| TokenFile::open(folder.path(), Split::Valid, 300, token_bytes);
        let message = |token_bytes| open(token_bytes).unwrap_err().message().to_owned();
        let record = Record { start: 0, end: 2, bytes: 5, name_end: 1 };
        write("tokens", &[1, 0, 2, 1]);
        write("documents", &record.to_bytes());
        write("names", b"a");
        assert_eq!(open(TokenBytes::One).unwrap().read(0..2), [1, 258]);

        write("lengths", &[1, 0, 0, 0]);
        assert!(
            message(TokenBytes::ByPlace).contains("no such file"),
            "without `unread`, as earlier versions wrote it"
        );
        write("unread", &[]);
        assert!(message(TokenBytes::ByPlace).contains("as many lengths as tokens"));
        write("lengths", &[1, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(open(TokenBytes::ByPlace).unwrap().bytes(1..2), 4);

        write("tokens", &[1, 0, 2]);
        assert!(message(TokenBytes::One).contains("ends within a token"));
        write("tokens", &[1, 0]);
        assert!(message(TokenBytes::One).contains("do not end where the tokens do"));
        write("tokens", &[1, 0, 2, 1]);
        let wrong = [
            Record { start: 1, end: 0, ..record },
            Record { name_end: u64::MAX, ..record },
            Record { start: 9, ..record },
        ];
        for first in wrong {
            let second = Record { start: 2, bytes: 0, ..record };
            write("documents", &[first.to_bytes(), second.to_bytes()].concat());
            assert!(message(TokenBytes::One).contains("do not follow each other"), "{first:?}");
        }
        write("documents", &[]);
        assert!(message(TokenBytes::One).contains("tokens but no documents"));
        std::fs::remove_file(path(folder.path(), Split::Valid, "names")).unwrap();
        assert!(message(TokenBytes::One).contains("no such file"));
    }
}
