use super::*;
use crate::DataConfig;
use crate::corpus;
use crate::testing::gzip;
use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;
use std::sync::Arc;

/// Numbers and texts of the documents of a file.
fn read_as(name: &str, bytes: &[u8], field: &str) -> Result<Vec<(u64, String)>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    let corpus = corpus::find(&DataConfig::new(path.to_str().unwrap()), "data.corpus")?;
    let (mut found, mut number, mut text, mut at) = (Vec::new(), 0, Vec::new(), 0);
    read(&corpus.sources[0], field, &mut |part| {
        match part {
            Part::Begin(next) => number = next,
            Part::Text(bytes) => text.extend_from_slice(bytes),
            Part::End => {
                found.push((number, String::from_utf8_lossy(&std::mem::take(&mut text)).into_owned()));
            }
            Part::Bad(error) => return Err(error),
            Part::At(now) => {
                assert!((at..=bytes.len() as u64).contains(&now));
                at = now;
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn documents(name: &str, bytes: &[u8]) -> Vec<(u64, String)> {
    read_as(name, bytes, "text").unwrap()
}

fn message(name: &str, bytes: &[u8]) -> String {
    let error = read_as(name, bytes, "text").unwrap_err();
    assert!(error.hint_text().is_some(), "{error}");
    error.to_string()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

const LINES: &[u8] = b"{\"text\": \"one\"}\n{\"text\": \"two\"}\n";

fn two() -> Vec<(u64, String)> {
    vec![(1, "one".to_owned()), (2, "two".to_owned())]
}

#[test]
fn packed_files_are_what_they_were() {
    let (first, second) = LINES.split_at(20);
    for pack in [gzip, zstd] {
        // Several members or frames follow each other.
        let packed = [pack(first), pack(second)].concat();
        for name in ["a.jsonl.gz", "a.jsonl.zst", "a.json.gz"] {
            assert_eq!(documents(name, &packed), two(), "{name}: the bytes say how it is packed");
        }
        let text = "é and more\n".repeat(200_000);
        let marked = format!("\u{feff}{text}");
        assert!(documents("a.txt.gz", &pack(marked.as_bytes())) == [(1, text)]);
    }
    // A frame to skip, as pzstd writes it.
    let skipped = [b"\x50\x2a\x4d\x18\x04\x00\x00\x00size".as_slice(), &zstd(LINES)].concat();
    assert_eq!(documents("a.jsonl.zst", &skipped), two());
    assert_eq!(documents("a.jsonl.gz", LINES), two(), "a browser may have unpacked it");
}

#[test]
fn what_is_cut_off_or_changed_is_an_error() {
    let long: Vec<u8> = (0..3000).flat_map(|i| format!("{{\"text\": \"{i}\"}}\n").into_bytes()).collect();
    for pack in [gzip, zstd] {
        let whole = pack(&long);
        assert!(message("a.jsonl.gz", &whole[..whole.len() - 9]).contains("is damaged or cut off"));
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 0xff;
        assert!(message("a.jsonl.gz", &changed).contains("a.jsonl.gz`"));
    }
}

#[test]
fn a_line_has_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl.gz");
    // 15 bytes and the end of the line, twice; then 16 blanks.
    fs::write(&path, gzip(&[LINES, &[b' '; 16]].concat())).unwrap();
    let corpus = corpus::find(&DataConfig::new(path.to_str().unwrap()), "data.corpus").unwrap();
    let documents_up_to = |most: u64| {
        let mut documents = 0;
        let read = lines::read_up_to(most, &corpus.sources[0], "text", &mut |part| {
            documents += usize::from(matches!(part, Part::End));
            Ok(())
        });
        (documents, read)
    };
    assert_eq!(documents_up_to(16), (2, Ok(())));
    for (most, documents, line) in [(15, 2, "line 3"), (14, 0, "line 1")] {
        let (found, read) = documents_up_to(most);
        let error = read.unwrap_err();
        assert_eq!(found, documents);
        assert!(error.message().contains(&format!("a.jsonl.gz` {line} is longer than")), "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("one object per line")), "{error}");
    }
}

#[test]
fn archives_are_never_read_as_text() {
    let mut tar = vec![b'x'; 512];
    tar[257..263].copy_from_slice(b"ustar\0");
    let mut gnu = tar.clone();
    gnu[257..265].copy_from_slice(b"ustar  \0");
    for (bytes, expected) in [
        (b"PK\x03\x04rest".as_slice(), "is a zip archive"),
        (b"BZh91AY&SY", "is packed by bzip2"),
        (b"\xfd7zXZ\x00", "is packed by xz"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
        (b"ARROW1\x00\x00", "is an Arrow file"),
        (
            "\u{feff}text".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>().as_slice(),
            "is text in UTF-16",
        ),
        (b"\xff\xfe\0\0t\0\0\0", "is text in UTF-32"),
        (b"\0\0\xfe\xff\0\0\0t", "is text in UTF-32"),
        (b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", "is packed by bzip2"),
        (b"Rar!\x1a\x07\x01\0", "is a rar archive"),
        (&tar, "is a tar archive"),
        (&gnu, "is a tar archive"),
        (&gzip(&tar), "is a tar archive, inside its packing"),
        (&gzip(b"PAR1"), "is a Parquet file, inside its packing"),
    ] {
        for name in ["a", "a.txt", "a.jsonl"] {
            assert!(message(name, bytes).contains(expected), "{expected}: {}", message(name, bytes));
        }
    }
    assert!(message("a.parquet", b"<!doctype html>").contains("is no Parquet file"));
    // Texts that begin with the letters of a mark, or have them in its place.
    let ustar = " ".repeat(257) + "ustar, they said";
    for text in [
        "Rar! said the lion",
        "BZh is no word",
        "BZh9 neither",
        "ARROW1 and 2",
        "PAR1 was short",
        ustar.as_str(),
    ] {
        assert_eq!(documents("a.txt", text.as_bytes()), [(1, text.to_owned())]);
    }
}

/// A Parquet file of two columns in two groups of rows; the third row of each has no text.
fn rows(compression: Compression) -> Vec<u8> {
    let schema = "message m { required int64 id; optional binary text (UTF8); repeated binary tags (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    for group in 0..2 {
        let mut rows = file.next_row_group().unwrap();
        let mut column = rows.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1, 2, 3, 4], None, None).unwrap();
        column.close().unwrap();
        let mut column = rows.next_column().unwrap().unwrap();
        let texts = (0..3).map(|row| ByteArray::from(format!("row {group} {row} ").repeat(20).as_str()));
        let texts: Vec<ByteArray> = texts.collect();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&[1, 1, 0, 1]), None).unwrap();
        column.close().unwrap();
        let mut column = rows.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&[], Some(&[0; 4]), Some(&[0; 4])).unwrap();
        column.close().unwrap();
        rows.close().unwrap();
    }
    file.into_inner().unwrap()
}

fn of_rows() -> Vec<(u64, String)> {
    let numbers = [1, 2, 4, 5, 6, 8].into_iter();
    let texts = (0..6).map(|row| format!("row {} {} ", row / 3, row % 3).repeat(20));
    numbers.zip(texts).collect()
}

#[test]
fn every_row_of_parquet_is_a_document() {
    let gzip = Compression::GZIP(GzipLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, gzip] {
        assert_eq!(documents("a.parquet", &rows(compression)), of_rows(), "{compression}");
    }
    // Written by the same crate with the library in C.
    let v1 = include_bytes!("zstd-v1.parquet");
    let v2 = include_bytes!("zstd-v2.parquet");
    assert_eq!(documents("a.parquet", v1), of_rows());
    assert_eq!(documents("a.parquet", v2), of_rows());
    assert!(
        message("a.parquet", include_bytes!("lz4.parquet")).contains("are packed by lz4, which is not read")
    );
}

#[test]
fn a_column_that_is_not_there_is_named_with_the_others() {
    let bytes = rows(Compression::SNAPPY);
    let error = read_as("a.parquet", &bytes, "body").unwrap_err();
    assert!(error.message().contains("has no column `body`; its columns: `id`, `text`, `tags`"), "{error}");
    for field in ["id", "tags"] {
        let error = read_as("a.parquet", &bytes, field).unwrap_err();
        assert!(error.message().contains("holds no text, or several in a row"), "{error}");
    }
}

#[test]
fn a_damaged_parquet_file_is_an_error() {
    let whole = rows(Compression::SNAPPY);
    assert!(message("a.parquet", &whole[..whole.len() - 5]).contains("is damaged or cut off"));
    for at in 4..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        // Some bytes are of no matter; none may end the program.
        let _ = read_as("a.parquet", &changed, "text");
    }
}
