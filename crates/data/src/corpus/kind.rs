//! What a file holds: text, lines or rows, packed or not, by its first bytes and its name.

use crate::packing::{Packing, damaged, unpacked};
use longwave_core::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How a file holds documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The file is one document, or several that lines of `<|endoftext|>` part.
    Text,
    /// Every line is a JSON object with one document.
    JsonLines,
    /// Every row of a Parquet file is one document.
    Parquet,
}

/// Ends of names that are read wherever a folder is named.
const TEXT: [&str; 2] = ["txt", "text"];
const LINES: [&str; 2] = ["jsonl", "ndjson"];
const ROWS: &str = "parquet";
/// Ends that other files have too: read in a folder where the name says its split, as `wiki.train.raw` does.
const OF_A_SPLIT: [&str; 3] = ["tokens", "raw", "json"];
const PACKED: [&str; 3] = ["gz", "zst", "zstd"];

/// So many bytes tell what a file is; a tar archive says it last.
const HEAD: u64 = 265;

/// Files that hold no text as it is, by their first bytes: what they are, and what to do. Each has bytes that no text begins with,
/// or more letters than a text has by chance.
const OTHERS: [(&[u8], &str, &str); 11] = [
    (b"PK\x03\x04", "a zip archive", "unpack it, e.g. with `unzip`, and name what it held"),
    (b"\xfd7zXZ", "packed by xz", "unpack it with `unxz`; `.gz` and `.zst` are read as they are"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, e.g. with `7z x`, and name what it held"),
    (b"\x04\x22\x4d\x18", "packed by lz4", "unpack it with `unlz4`; `.gz` and `.zst` are read as they are"),
    (b"Rar!\x1a\x07", "a rar archive", "unpack it, and name what it held"),
    (b"ARROW1\0\0", "an Arrow file", "save it as Parquet, e.g. with `to_parquet` of the library `datasets`"),
    (
        b"version https://git-lfs",
        "a pointer of Git LFS, and not the file itself",
        "bring it with `git lfs pull`",
    ),
    // Before those of UTF-16, one of which begins in the same way.
    (b"\xff\xfe\0\0", "text in UTF-32", "convert it, e.g. with `iconv -f UTF-32 -t UTF-8`"),
    (b"\0\0\xfe\xff", "text in UTF-32", "convert it, e.g. with `iconv -f UTF-32 -t UTF-8`"),
    (b"\xff\xfe", "text in UTF-16", "convert it, e.g. with `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "text in UTF-16", "convert it, e.g. with `iconv -f UTF-16 -t UTF-8`"),
];

/// Whether a file begins as one of bzip2 does: with the size of its blocks, and the mark of a block or, where there is none, of the end.
fn is_bzip2(head: &[u8]) -> bool {
    let [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..] = head else { return false };
    rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90")
}

/// Whether a file is a tar archive, of POSIX or of GNU.
fn is_tar(head: &[u8]) -> bool {
    let mark = head.get(257..).unwrap_or_default();
    mark.starts_with(b"ustar\0") || mark.starts_with(b"ustar  \0")
}

/// Whether a file begins as one of Parquet does. What follows the mark is binary, so a letter there is one of a text.
fn is_parquet(head: &[u8]) -> bool {
    head.strip_prefix(b"PAR1")
        .is_some_and(|rest| rest.first().is_none_or(|byte| !(b' '..=b'~').contains(byte)))
}

/// How a file is packed that begins so.
fn packing_of(head: &[u8]) -> Packing {
    match head {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        _ => Packing::None,
    }
}

/// The name of UTF-16 or UTF-32 where a file begins as such text without a mark does: letters of ASCII, each beside zeros.
fn wide(head: &[u8]) -> Option<&'static str> {
    let is_text = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    let is = |letter: &[u8], place: usize| {
        letter.iter().enumerate().all(|(at, byte)| if at == place { is_text(*byte) } else { *byte == 0 })
    };
    let forms = [(2, 0, "UTF-16LE"), (2, 1, "UTF-16BE"), (4, 0, "UTF-32LE"), (4, 3, "UTF-32BE")];
    let form = forms.into_iter().find(|(bytes, place, _)| head.chunks_exact(*bytes).all(|it| is(it, *place)));
    form.map(|(.., name)| name).filter(|_| head.len() >= 8)
}

/// The ends of a name in lower case: its format's, and whether one of packing follows it.
fn ends(name: &str) -> (&str, bool) {
    let end = |name: &str| name.rsplit_once('.').map(|(start, end)| (start.len(), end.len()));
    let Some((start, length)) = end(name) else { return ("", false) };
    if !PACKED.contains(&&name[name.len() - length..]) {
        return (&name[name.len() - length..], false);
    }
    (name[..start].rsplit_once('.').map_or("", |(_, end)| end), true)
}

/// A file's name in lower case, without what says its format.
pub(super) fn stem(name: &str) -> String {
    let name = name.to_lowercase();
    let (end, packed) = ends(&name);
    let known = TEXT.contains(&end) || LINES.contains(&end) || OF_A_SPLIT.contains(&end) || end == ROWS;
    let left = if packed { name.rsplit_once('.').map_or("", |(start, _)| start) } else { &name };
    match left.rsplit_once('.') {
        Some((start, _)) if known => start.to_owned(),
        _ => left.to_owned(),
    }
}

/// Whether a file of this name is read where its folder is named; `says_split` of one whose name says its split.
pub(super) fn is_read(name: &str, says_split: bool) -> bool {
    let name = name.to_lowercase();
    let (end, packed) = ends(&name);
    TEXT.contains(&end)
        || LINES.contains(&end)
        || (end == ROWS && !packed)
        || (OF_A_SPLIT.contains(&end) && (says_split || (packed && end == "json")))
}

/// What a file holds. Its first bytes say how it is packed, whatever its name says.
pub(super) fn of(path: &Path) -> Result<(Format, Packing)> {
    let head = read_head(path, Packing::None)?;
    let packing = packing_of(&head);
    let head = if packing == Packing::None { head } else { read_head(path, packing)? };
    let refused = |what: &str, hint: &str| {
        let within = if packing == Packing::None { "" } else { ", inside its packing" };
        Err(Error::failed(format!("`{}` is {what}{within}", path.display())).hint(hint))
    };
    if let Some((_, what, hint)) = OTHERS.iter().find(|(start, ..)| head.starts_with(start)) {
        return refused(what, hint);
    }
    if is_bzip2(&head) {
        return refused("packed by bzip2", "unpack it with `bunzip2`; `.gz` and `.zst` are read as they are");
    }
    if packing != Packing::None && packing_of(&head) != Packing::None {
        return refused("packed once more", "unpack it once, e.g. with `gunzip` or `unzstd`");
    }
    if let Some(name) = wide(&head) {
        return refused(
            &format!("text in {name}"),
            &format!("convert it, e.g. with `iconv -f {name} -t UTF-8`"),
        );
    }
    if is_tar(&head) {
        return refused("a tar archive", "unpack it with `tar xf`, and name what it held");
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let (end, _) = ends(&name);
    match (is_parquet(&head), packing) {
        (true, Packing::None) => Ok((Format::Parquet, packing)),
        (true, _) => refused("a Parquet file", "unpack it with `gunzip` or `unzstd`"),
        (false, _) if end == ROWS => refused(
            "no Parquet file: it does not begin as one",
            "bring it again: it may be cut off, or a page of a website",
        ),
        (false, _) if LINES.contains(&end) || end == "json" => Ok((Format::JsonLines, packing)),
        (false, _) => Ok((Format::Text, packing)),
    }
}

fn read_head(path: &Path, packing: Packing) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let mut head = Vec::new();
    match packing {
        Packing::None => {
            File::open(path).map_err(failed)?.take(HEAD).read_to_end(&mut head).map_err(failed)?
        }
        _ => unpacked(path, packing)?
            .0
            .take(HEAD)
            .read_to_end(&mut head)
            .map_err(|error| damaged(path, &error))?,
    };
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gzip;

    #[test]
    fn names_tell_what_is_read_in_a_folder() {
        for name in
            ["a.txt", "A.TXT", "a.b.text", "a.txt.gz", "c4.json.gz", "x.jsonl.zst", "x.NDJSON", "0.parquet"]
        {
            assert!(is_read(name, false), "{name}");
        }
        for name in ["a.json", "a.raw", "a.tokens", "a.raw.gz"] {
            assert!(!is_read(name, false) && is_read(name, true), "{name}");
        }
        for name in ["txt", "a.md", "a.png", "a.gz", "a.tar.gz", "a.zip", "a.parquet.gz", "enwik8"] {
            assert!(!is_read(name, true), "{name}");
        }
    }

    #[test]
    fn text_of_several_bytes_a_letter_is_known_without_its_mark() {
        for (head, name) in [
            (&b"t\0e\0x\0t\0\n\0"[..], "UTF-16LE"),
            (b"\0t\0e\0x\0t\0\n", "UTF-16BE"),
            (b"t\0\0\0\n\0\0\0t\0", "UTF-32LE"),
            (b"\0\0\0t\0\0\0\n", "UTF-32BE"),
        ] {
            assert_eq!(wide(head), Some(name));
        }
        for head in [&b"some text"[..], b"", b"a\0b\0", &[0; 16], &[1, 0, 2, 0, 3, 0, 4, 0]] {
            assert_eq!(wide(head), None, "{head:?}");
        }
    }

    #[test]
    fn packed_twice_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt.gz");
        std::fs::write(&path, gzip(b"text")).unwrap();
        of(&path).unwrap();
        std::fs::write(&path, gzip(&gzip(b"text"))).unwrap();
        let error = of(&path).unwrap_err();
        assert!(error.message().contains("is packed once more, inside its packing"), "{error}");
    }

    #[test]
    fn a_stem_is_the_name_without_its_format() {
        for (name, expected) in [
            ("Wiki.Train.TXT", "wiki.train"),
            ("c4-train.00000-of-01024.json.gz", "c4-train.00000-of-01024"),
            ("train-00000-of-00002.parquet", "train-00000-of-00002"),
            ("enwik8.gz", "enwik8"),
            ("wiki.train", "wiki.train"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
