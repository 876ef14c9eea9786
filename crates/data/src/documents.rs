//! Documents, one after another, in pieces that fit into memory.

use crate::corpus::{Corpus, Format, Source};
use crate::names::{line_name, lines};
use crate::split::Split;
use crate::split_rule::SplitRule;
use longwave_core::{Error, Result};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A document longer than this many bytes is tokenized in pieces.
pub(crate) const PIECE: usize = 1 << 20;

/// What comes next in the corpus.
pub(crate) enum Event<'a> {
    /// The next bytes of a document, never empty, and where in it they start.
    Piece { split: Split, name: &'a str, start: u64, bytes: &'a [u8] },
    /// The document is complete; an empty document has no piece before it.
    End { split: Split, name: &'a str },
    /// So many more bytes of the files are read.
    Read(u64),
}

/// Receives the documents of a corpus.
pub(crate) type Visitor<'a> = dyn FnMut(Event<'_>) -> Result<()> + 'a;

/// Passes every document to `visit`, in the order of the files' names, or only those of one split.
///
/// # Errors
/// A file cannot be read, a JSON line is broken or lacks its text, or `visit` fails.
pub(crate) fn visit(
    corpus: &Corpus,
    rule: &SplitRule,
    text_field: &str,
    only: Option<Split>,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let wanted = |split| only.is_none_or(|only| only == split);
    for source in &corpus.sources {
        match (source.format, rule) {
            (Format::JsonLines, _) => visit_lines(source, rule, text_field, &wanted, visit)?,
            (Format::Text, SplitRule::Cut(ranges)) => {
                for (split, range) in Split::ALL.into_iter().zip(ranges) {
                    if wanted(split) {
                        visit_range(source, split, range.start, range.end - range.start, visit)?;
                    }
                }
            }
            (Format::Text, _) => {
                let split = rule.of(source, &source.name);
                if wanted(split) {
                    visit_range(source, split, 0, source.bytes, visit)?;
                }
            }
        }
    }
    Ok(())
}

fn visit_range(
    source: &Source,
    split: Split,
    start: u64,
    length: u64,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", &source.path, &error);
    let mut file = File::open(&source.path).map_err(failed)?;
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut file = file.take(length);
    let (name, mut buffer, mut start) = (source.name.as_str(), Vec::new(), 0);
    loop {
        let missing = (PIECE - buffer.len()) as u64;
        file.by_ref().take(missing).read_to_end(&mut buffer).map_err(failed)?;
        let last = buffer.len() < PIECE;
        let end = if last { buffer.len() } else { piece_end(&buffer) };
        if end > 0 {
            visit(Event::Piece { split, name, start, bytes: &buffer[..end] })?;
            visit(Event::Read(end as u64))?;
        }
        if last {
            return visit(Event::End { split, name });
        }
        buffer.drain(..end);
        start += end as u64;
    }
}

fn visit_lines(
    source: &Source,
    rule: &SplitRule,
    text_field: &str,
    wanted: &dyn Fn(Split) -> bool,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    lines(&source.path, &mut |number, line| {
        if !line.trim_ascii().is_empty() {
            let name = line_name(source, number);
            let split = rule.of(source, &name);
            if wanted(split) {
                let text = text_of(&source.path, number, line, text_field)?;
                let (mut start, bytes) = (0, text.as_bytes());
                while start < bytes.len() {
                    let rest = &bytes[start..];
                    let end = if rest.len() <= PIECE { rest.len() } else { piece_end(&rest[..PIECE]) };
                    visit(Event::Piece { split, name: &name, start: start as u64, bytes: &rest[..end] })?;
                    start += end;
                }
                visit(Event::End { split, name: &name })?;
            }
        }
        visit(Event::Read(line.len() as u64))
    })
}

/// The text field of one JSON line.
fn text_of(path: &Path, number: u64, line: &[u8], field: &str) -> Result<String> {
    let at = format!("`{}` line {number}", path.display());
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        Error::failed(format!("{at} is not valid JSON: {error}"))
            .hint("a .jsonl file holds one complete JSON object per line, in UTF-8")
    })?;
    let Value::Object(mut object) = value else {
        return Err(Error::failed(format!("{at} is not a JSON object"))
            .hint(format!("write each document as `{{\"{field}\": \"...\"}}`")));
    };
    match object.remove(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Error::failed(format!("{at}: the field `{field}` is not a string"))
            .hint("`data.text_field` names the field that holds the text")),
        None => {
            let found: Vec<_> = object.keys().map(|key| format!("`{key}`")).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            Err(Error::failed(format!("{at} has no field `{field}`; its fields: {found}"))
                .hint("set `data.text_field` to the field that holds the text"))
        }
    }
}

/// Where to end a piece of a longer document: after its last line end, for that is where tokenizers
/// split too, or else between two characters.
fn piece_end(bytes: &[u8]) -> usize {
    if let Some(at) = bytes.iter().rposition(|&byte| byte == b'\n') {
        return at + 1;
    }
    // The lead byte of a character that goes on past the end is among the last three.
    for back in 1..=bytes.len().saturating_sub(1).min(3) {
        let byte = bytes[bytes.len() - back];
        let needed = match byte {
            0xf0..=0xf7 => 4,
            0xe0..=0xef => 3,
            0xc0..=0xdf => 2,
            0x80..=0xbf => continue,
            _ => 1,
        };
        return if needed > back { bytes.len() - back } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// (split, name, text, pieces) of every document.
    fn read(corpus: &str, rule: &SplitRule, field: &str) -> Result<Vec<(Split, String, String, usize)>> {
        let corpus = crate::corpus::find(corpus, "data.corpus")?;
        let (mut documents, mut text, mut pieces, mut bytes_read) = (Vec::new(), Vec::new(), 0, 0);
        visit(&corpus, rule, field, None, &mut |event| {
            match event {
                Event::Piece { start, bytes, .. } => {
                    assert_eq!(start as usize, text.len());
                    assert!(!bytes.is_empty() && std::str::from_utf8(bytes).is_ok());
                    text.extend_from_slice(bytes);
                    pieces += 1;
                }
                Event::End { split, name } => {
                    let text = String::from_utf8(std::mem::take(&mut text)).unwrap();
                    documents.push((split, name.to_owned(), text, std::mem::take(&mut pieces)));
                }
                Event::Read(bytes) => bytes_read += bytes,
            }
            Ok(())
        })?;
        assert_eq!(bytes_read, corpus.bytes());
        Ok(documents)
    }

    const ALL_TRAIN: SplitRule = SplitRule::ByName { test: 0, valid: 0 };

    fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        (folder, path.to_str().unwrap().to_owned())
    }

    #[test]
    fn pieces_end_after_lines_and_between_characters() {
        assert_eq!(piece_end(b"ab\ncd\nef"), 6);
        assert_eq!(piece_end("aé".as_bytes()), 3);
        for (text, cut) in [("aé", 2), ("a日", 2), ("a日", 3), ("a😀", 2), ("a😀", 4)] {
            assert_eq!(piece_end(&text.as_bytes()[..cut]), 1, "{text} {cut}");
        }
        assert_eq!(piece_end(b"abcd"), 4);
        assert_eq!(piece_end(&[0x80; 9]), 9, "bytes that are no text are cut anywhere");
    }

    #[test]
    fn a_long_document_comes_whole_in_pieces() {
        let lines = "日本語のテキスト。\n".repeat(100_000);
        for text in [lines, "é".repeat(1_700_000), "x".repeat(PIECE), String::new()] {
            let (_folder, path) = file("a.txt", &text);
            let documents = read(&path, &ALL_TRAIN, "text").unwrap();
            assert_eq!(documents.len(), 1);
            assert_eq!(documents[0].2, text);
            assert_eq!(documents[0].3, text.len().div_ceil(PIECE));
            if !text.is_empty() {
                let line = serde_json::json!({ "text": text }).to_string();
                let (_folder, path) = file("a.jsonl", &line);
                assert_eq!(read(&path, &ALL_TRAIN, "text").unwrap()[0].2, text);
            }
        }
    }

    #[test]
    fn a_cut_document_is_three() {
        let (_folder, path) = file("a.txt", "0123456789");
        let documents = read(&path, &SplitRule::Cut([0..6, 6..8, 8..10]), "text").unwrap();
        let texts: Vec<_> = documents.iter().map(|(split, _, text, _)| (*split, text.as_str())).collect();
        assert_eq!(texts, [(Split::Train, "012345"), (Split::Valid, "67"), (Split::Test, "89")]);
    }

    #[test]
    fn every_line_of_json_is_a_document() {
        let text = "{\"body\": \"a\\nb\", \"id\": 1}\n\n{\"id\": 2, \"body\": \"\"}\r\n{\"body\": \"é\"}";
        let (_folder, path) = file("a.jsonl", text);
        let documents = read(&path, &ALL_TRAIN, "body").unwrap();
        let found: Vec<_> =
            documents.iter().map(|(_, name, text, _)| (name.as_str(), text.as_str())).collect();
        assert_eq!(found, [("a.jsonl:1", "a\nb"), ("a.jsonl:3", ""), ("a.jsonl:4", "é")]);
        let mut seen = Vec::new();
        crate::names::names(&crate::corpus::find(&path, "data.corpus").unwrap(), &mut |name| {
            seen.push(name.to_owned());
        })
        .unwrap();
        assert_eq!(seen, ["a.jsonl:1", "a.jsonl:3", "a.jsonl:4"]);
    }

    #[test]
    fn broken_lines_are_named_by_their_number() {
        let good = "{\"text\": \"a\"}\n";
        for (line, expected) in [
            ("{\"text\": ", "is not valid JSON"),
            ("[1]", "is not a JSON object"),
            ("{\"text\": 3}", "`text` is not a string"),
            ("{\"body\": \"a\"}", "has no field `text`; its fields: `body`"),
        ] {
            let (_folder, path) = file("a.jsonl", &format!("{good}{line}\n{good}"));
            let error = read(&path, &ALL_TRAIN, "text").unwrap_err();
            assert!(error.message().contains("line 2") && error.message().contains(expected), "{error}");
            assert!(error.hint_text().is_some());
        }
    }
}
