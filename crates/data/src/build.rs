//! Tokenizing a corpus into the files of a cache entry.

use crate::documents::{Documents, Event};
use crate::noticed::Noticed;
use crate::overlap::Comparison;
use crate::reading::PIECE;
use crate::split::Split;
use crate::split_rule::SplitRule;
use crate::tokenizer::{Encoded, TokenBytes, Tokenizer, Unread};
use crate::tokens::{NARROW, Record, path};
use crate::train_bpe;
use crate::unread_bytes;
use longwave_core::file::fault;
use longwave_core::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Text that is collected before it is tokenized in parallel.
///
/// Kept small: at its peak the library takes about a hundred times the memory of the text it encodes.
const COLLECTED: usize = 4 * PIECE;

/// Writes the token files of all splits into `folder`; returns the number of tokens of each, and what was noticed.
/// `comparison` has read the held-out documents.
pub(crate) fn build(
    folder: &Path,
    documents: &Documents<'_>,
    rule: &SplitRule,
    tokenizer: &Tokenizer,
    mut comparison: Comparison,
    progress: &mut dyn FnMut(u64),
) -> Result<([u64; 3], Noticed)> {
    let separator = documents.config.separator.as_deref();
    let separator = separator.map(|text| encode_separator(text, tokenizer)).transpose()?;
    // It stands for no byte of the text.
    let bos = tokenizer.bos(&documents.config.bos)?;
    let bos = bos.map(|id| Encoded { ids: vec![id], bytes: Some(vec![0]), ..Encoded::default() });
    let [train, valid, test] = Split::ALL.map(|split| {
        let separator = if split == Split::Train { separator.as_ref() } else { None };
        Writer::new(folder, split, tokenizer, [separator, bos.as_ref()])
    });
    let mut builder = Builder {
        tokenizer,
        writers: [train?, valid?, test?],
        texts: Vec::new(),
        steps: Vec::new(),
        collected: 0,
    };
    let mut done = 0;
    let mut noticed = documents.visit(rule, &Split::ALL, &mut |event| {
        match event {
            Event::Piece { split, name, start, bytes } => {
                if split == Split::Train {
                    comparison.train(bytes);
                }
                builder.piece(split, name, start, bytes)?;
            }
            Event::End { split, name } => {
                if split == Split::Train {
                    comparison.train_end();
                }
                builder.steps.push(Step::End(split, name.to_owned()));
            }
            Event::Read(bytes) => {
                done += bytes;
                progress(done);
            }
        }
        Ok(())
    })?;
    builder.flush()?;
    noticed.overlap = comparison.finish();
    noticed.unread = [0, 1, 2].map(|split: usize| builder.writers[split].unread);
    let [train, valid, test] = builder.writers.map(Writer::finish);
    Ok(([train?, valid?, test?], noticed))
}

fn encode_separator(text: &str, tokenizer: &Tokenizer) -> Result<Encoded> {
    let refused = |why: &str| {
        Error::value("data.separator", format!("{text:?}"), why)
            .hint("use a string the tokenizer knows, such as its end-of-text token")
    };
    let encoded = tokenizer.encode_all(&[text.to_owned()])?.pop().filter(|encoded| !encoded.ids.is_empty());
    let encoded = encoded.ok_or_else(|| refused("the tokenizer has no token for it"))?;
    let is_unknown_token = tokenizer.unknown().is_some() && tokenizer.id(text) == tokenizer.unknown();
    match encoded.unread {
        Unread { lost: 1.., .. } => Err(refused("the tokenizer leaves a part of it out")),
        Unread { unknown: 1.., .. } if !is_unknown_token => {
            Err(refused("the tokenizer does not know it, or a part of it"))
        }
        _ => Ok(encoded),
    }
}

/// Collects text until there is enough of it to share among the cores.
struct Builder<'a> {
    tokenizer: &'a Tokenizer,
    writers: [Writer<'a>; 3],
    texts: Vec<String>,
    /// What to do with the texts, in their order.
    steps: Vec<Step>,
    collected: usize,
}

enum Step {
    /// Append the tokens of the next text.
    Append(Split),
    /// Complete the document of this name.
    End(Split, String),
}

impl Builder<'_> {
    fn piece(&mut self, split: Split, name: &str, start: u64, bytes: &[u8]) -> Result<()> {
        if !self.tokenizer.needs_text() {
            // Bytes that are no text do not wait: only the ends of earlier documents go first.
            self.flush()?;
            return self.writers[split.index()].append(Encoded::of_bytes(bytes), bytes.len());
        }
        self.texts.push(train_bpe::text(name, start, bytes)?.to_owned());
        self.steps.push(Step::Append(split));
        self.collected += bytes.len();
        if self.collected >= COLLECTED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let encoded = self.tokenizer.encode_all(&self.texts)?;
        let mut pieces = encoded.into_iter().zip(self.texts.drain(..));
        for step in self.steps.drain(..) {
            match step {
                Step::Append(split) => {
                    if let Some((encoded, text)) = pieces.next() {
                        self.writers[split.index()].append(encoded, text.len())?;
                    }
                }
                Step::End(split, name) => self.writers[split.index()].end(&name)?,
            }
        }
        self.collected = 0;
        Ok(())
    }
}

struct Out {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Out {
    fn create(path: &Path) -> Result<Self> {
        let file = fault::pass("create", path).and_then(|()| File::create(path));
        let file = file.map_err(|error| Error::io("write", path, &error))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file) })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("write", &self.path, &error))
    }

    fn finish(mut self) -> Result<()> {
        let flushed = fault::pass("write", &self.path)
            .and_then(|()| self.file.flush())
            .and_then(|()| fault::pass("sync", &self.path))
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| fault::synced(&self.path));
        flushed.map_err(|error| Error::io("write", &self.path, &error))
    }
}

struct Writer<'a> {
    tokens: Out,
    lengths: Option<Out>,
    documents: Out,
    names: Out,
    wide: bool,
    separator: Option<&'a Encoded>,
    /// What every document begins with.
    bos: Option<&'a Encoded>,
    count: u64,
    /// Bytes of names written.
    name_end: u64,
    /// First token and bytes so far of the document at hand.
    open: Option<(u64, u64)>,
    /// Bytes of text before the document's next token that no token stands for, and those of them that are lost.
    owed: [u64; 2],
    any: bool,
    /// The tokens that have unread text.
    unread_bytes: Option<Out>,
    /// Unread bytes written.
    unread_sum: u64,
    unread: Unread,
}

impl<'a> Writer<'a> {
    fn new(
        folder: &Path,
        split: Split,
        tokenizer: &Tokenizer,
        [separator, bos]: [Option<&'a Encoded>; 2],
    ) -> Result<Self> {
        let by_place = matches!(tokenizer.token_bytes(), TokenBytes::ByPlace);
        let create = |end| Out::create(&path(folder, split, end));
        Ok(Self {
            tokens: create("tokens")?,
            lengths: by_place.then(|| create("lengths")).transpose()?,
            documents: create("documents")?,
            names: create("names")?,
            wide: tokenizer.vocab_size() > NARROW,
            separator,
            bos,
            count: 0,
            name_end: 0,
            open: None,
            owed: [0; 2],
            any: false,
            unread_bytes: by_place.then(|| create("unread")).transpose()?,
            unread_sum: 0,
            unread: Unread::default(),
        })
    }

    /// Appends tokens that stand for `text_bytes` bytes to the document at hand.
    fn append(&mut self, mut encoded: Encoded, text_bytes: usize) -> Result<()> {
        if self.open.is_none()
            && self.any
            && let Some(separator) = self.separator
        {
            self.put(separator)?;
        }
        let begun = self.open;
        let (start, bytes) = begun.unwrap_or((self.count, 0));
        if begun.is_none()
            && let Some(bos) = self.bos
        {
            self.put(bos)?;
        }
        self.open = Some((start, bytes + text_bytes as u64));
        self.unread += encoded.unread;
        match encoded.bytes.as_mut().map(|lengths| lengths.first_mut()) {
            Some(Some(first)) => {
                let [bytes, lost] = std::mem::take(&mut self.owed);
                *first += bytes as u32;
                match encoded.by_token.first_mut() {
                    _ if lost == 0 => {}
                    Some((0, count)) => *count += lost as u32,
                    _ => encoded.by_token.insert(0, (0, lost as u32)),
                }
                self.put_unread(&encoded.by_token)?;
            }
            Some(None) => {
                self.owed[0] += text_bytes as u64;
                self.owed[1] += encoded.unread.lost;
            }
            None => {}
        }
        self.put(&encoded)
    }

    /// Notes the unread bytes of the tokens that come next.
    fn put_unread(&mut self, by_token: &[(usize, u32)]) -> Result<()> {
        for (token, bytes) in by_token {
            self.unread_sum += u64::from(*bytes);
            let entry = unread_bytes::entry(self.count + *token as u64, self.unread_sum);
            if let Some(out) = &mut self.unread_bytes {
                out.put(&entry)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, encoded: &Encoded) -> Result<()> {
        let bytes: Vec<u8> = if self.wide {
            encoded.ids.iter().flat_map(|id| id.to_le_bytes()).collect()
        } else {
            encoded.ids.iter().flat_map(|&id| (id as u16).to_le_bytes()).collect()
        };
        self.tokens.put(&bytes)?;
        self.count += encoded.ids.len() as u64;
        if let (Some(out), Some(lengths)) = (&mut self.lengths, &encoded.bytes) {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
            out.put(&bytes)?;
        }
        Ok(())
    }

    /// Completes the document at hand; a document without text leaves no trace.
    fn end(&mut self, name: &str) -> Result<()> {
        let Some((start, bytes)) = self.open.take() else { return Ok(()) };
        self.owed = [0; 2];
        self.any = true;
        self.names.put(name.as_bytes())?;
        self.name_end += name.len() as u64;
        let record = Record { start, end: self.count, bytes, name_end: self.name_end };
        self.documents.put(&record.to_bytes())
    }

    /// Brings everything to the disk; returns the number of tokens.
    fn finish(self) -> Result<u64> {
        let files =
            [Some(self.tokens), self.lengths, self.unread_bytes, Some(self.documents), Some(self.names)];
        files.into_iter().flatten().try_for_each(Out::finish)?;
        Ok(self.count)
    }
}
