//! The documents of a corpus, one after another, in pieces that fit into memory.

use crate::config::DataConfig;
use crate::corpus::{Corpus, Format, Source};
use crate::noticed::Noticed;
use crate::reading::{self, PIECE, Part, piece_end};
use crate::split::Split;
use crate::split_rule::{SplitRule, by_name, cut, name_hash};
use longwave_core::Result;

/// What comes next in the corpus.
pub(crate) enum Event<'a> {
    /// The next bytes of a document, never empty, and where in it they start.
    Piece { split: Split, name: &'a str, start: u64, bytes: &'a [u8] },
    /// The document is complete. A document of blanks has no events.
    End { split: Split, name: &'a str },
    /// So many more bytes of the files are read.
    Read(u64),
}

/// Receives the documents of a corpus.
pub(crate) type Visitor<'a> = dyn FnMut(Event<'_>) -> Result<()> + 'a;

/// The documents of a corpus as its config has them read.
#[derive(Clone, Copy)]
pub(crate) struct Documents<'a> {
    pub(crate) corpus: &'a Corpus,
    pub(crate) config: &'a DataConfig,
}

impl Documents<'_> {
    /// Decides how they are split. Where shares decide, every document is looked at.
    pub(crate) fn split_rule(&self) -> Result<SplitRule> {
        let corpus = self.corpus;
        let [valid, test] = corpus.shares;
        if !corpus.by_shares() {
            return Ok(SplitRule::Named);
        }
        let (mut hashes, mut bytes, single) = (Vec::new(), 0, corpus.sources.len() == 1);
        self.visit(&SplitRule::Named, &[Split::Train], &mut |event| {
            match event {
                Event::Piece { bytes: piece, .. } => bytes += piece.len() as u64,
                Event::End { name, .. } => {
                    let name = if single { &name[corpus.sources[0].name.len()..] } else { name };
                    hashes.push(name_hash(name));
                }
                Event::Read(_) => {}
            }
            Ok(())
        })?;
        let free: Vec<&Source> = corpus.sources.iter().filter(|source| source.split.is_none()).collect();
        match free.as_slice() {
            [source] if hashes.len() == 1 && (source.format == Format::Text || self.config.join_rows) => {
                cut(source, bytes, valid, test)
            }
            _ => by_name(hashes, valid, test),
        }
    }

    /// Passes every document to `visit`, in the order of the files' names, or only those of some splits.
    pub(crate) fn visit(&self, rule: &SplitRule, only: &[Split], visit: &mut Visitor<'_>) -> Result<Noticed> {
        let mut noticed = Noticed { cut: matches!(rule, SplitRule::Cut(_)), ..Noticed::default() };
        for source in &self.corpus.sources {
            if source.split.is_some_and(|split| !only.contains(&split)) {
                continue;
            }
            let single = self.corpus.sources.len() == 1;
            let joined = self.config.join_rows && source.format != Format::Text;
            let (noticed, visit) = (&mut noticed, &mut *visit);
            let mut cursor = Cursor { source, rule, single, only, visit, noticed, open: Open::default() };
            if joined {
                cursor.begin(WHOLE);
            }
            let (mut at, mut rows) = (0, Vec::new());
            reading::read(source, &self.config.text_field, &mut |part| {
                match part {
                    Part::Begin(_) | Part::End if joined => {}
                    Part::Begin(number) => cursor.begin(number),
                    // Tokens and words cross the ends of rows: they are joined to the pieces that one file with their text has.
                    Part::Text(bytes) if joined => {
                        rows.extend_from_slice(bytes);
                        while rows.len() >= PIECE {
                            let end = piece_end(&rows[..PIECE]);
                            cursor.text(&rows[..end])?;
                            rows.drain(..end);
                        }
                    }
                    Part::Text(bytes) => cursor.text(bytes)?,
                    Part::End => cursor.end()?,
                    Part::Bad(error) if !self.config.skip_bad_lines => return Err(error),
                    Part::Bad(error) => {
                        cursor.noticed.bad_lines += 1;
                        cursor.noticed.first_bad.get_or_insert_with(|| error.message().to_owned());
                    }
                    Part::At(now) => {
                        (cursor.visit)(Event::Read(now.min(source.bytes) - at))?;
                        at = now.min(source.bytes);
                    }
                }
                Ok(())
            })?;
            if joined {
                cursor.text(&rows)?;
                cursor.end()?;
            }
            (cursor.visit)(Event::Read(source.bytes - at))?;
        }
        Ok(noticed)
    }
}

/// The number of a document that is the whole file: others count from 1.
const WHOLE: u64 = 0;

/// The document at hand.
#[derive(Default)]
struct Open {
    name: String,
    split: Split,
    /// Its blanks so far, while there is nothing else.
    blank: Vec<u8>,
    /// Bytes of it that were passed on.
    passed: u64,
    /// Bytes of a text that is cut.
    offset: u64,
}

struct Cursor<'a, 'v> {
    source: &'a Source,
    rule: &'a SplitRule,
    /// Whether the corpus is this file alone.
    single: bool,
    only: &'a [Split],
    visit: &'a mut Visitor<'v>,
    noticed: &'a mut Noticed,
    open: Open,
}

impl Cursor<'_, '_> {
    fn begin(&mut self, number: u64) {
        let is_text = self.source.format == Format::Text;
        self.noticed.parted += u64::from(is_text && number == 2);
        let is_whole = number == WHOLE || (is_text && number == 1);
        let place = if is_whole { String::new() } else { format!(":{number}") };
        let name = format!("{}{place}", self.source.name);
        // What the only file is called decides nothing.
        let split = self.rule.of(self.source, if self.single { &place } else { &name });
        self.open = Open { name, split, ..Open::default() };
    }

    /// Cuts the text where its splits end, between two characters.
    fn text(&mut self, mut bytes: &[u8]) -> Result<()> {
        if let (SplitRule::Cut(ends), None) = (self.rule, self.source.split) {
            while let Some(end) = ends.get(self.open.split.index()) {
                let left = end.saturating_sub(self.open.offset);
                if left >= bytes.len() as u64 {
                    break;
                }
                let inside =
                    bytes[left as usize..].iter().take(4).take_while(|byte| *byte & 0xc0 == 0x80).count();
                let (now, next) = bytes.split_at(left as usize + if inside < 4 { inside } else { 0 });
                self.piece(now)?;
                self.end()?;
                let split = Split::ALL[self.open.split.index() + 1];
                let offset = self.open.offset + now.len() as u64;
                let name = std::mem::take(&mut self.open.name);
                self.open = Open { name, split, offset, ..Open::default() };
                bytes = next;
            }
            self.open.offset += bytes.len() as u64;
        }
        self.piece(bytes)
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        let open = &mut self.open;
        if bytes.is_empty() || !self.only.contains(&open.split) {
            return Ok(());
        }
        if open.passed == 0 && is_blank(bytes) {
            open.blank.extend_from_slice(bytes);
            return Ok(());
        }
        for bytes in std::mem::take(&mut open.blank).chunks(PIECE).chain([bytes]) {
            (self.visit)(Event::Piece { split: open.split, name: &open.name, start: open.passed, bytes })?;
            open.passed += bytes.len() as u64;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let open = &self.open;
        if open.passed == 0 {
            self.noticed.blank += u64::from(!open.blank.is_empty());
            return Ok(());
        }
        (self.visit)(Event::End { split: open.split, name: &open.name })
    }
}

/// Whether a text is nothing but spaces and line ends.
fn is_blank(bytes: &[u8]) -> bool {
    // Most texts are told from blanks by their first bytes.
    let start = bytes.trim_ascii_start();
    start.is_empty() || std::str::from_utf8(start).is_ok_and(|text| text.trim_start().is_empty())
}

#[cfg(test)]
mod tests;
