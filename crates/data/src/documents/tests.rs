use super::*;
use crate::corpus;
use crate::testing::{folder, pairs};

/// (split, name, text, pieces) of every document, and what was noticed.
type Read = (Vec<(Split, String, String, usize)>, Noticed);

fn read(config: &DataConfig, rule: &SplitRule) -> Result<Read> {
    let corpus = corpus::find(config, "data.corpus")?;
    let documents = Documents { corpus: &corpus, config };
    let (mut found, mut text, mut pieces, mut bytes_read) = (Vec::new(), Vec::new(), 0, 0);
    let noticed = documents.visit(rule, &Split::ALL, &mut |event| {
        match event {
            Event::Piece { start, bytes, .. } => {
                assert_eq!(start as usize, text.len());
                assert!(!bytes.is_empty() && std::str::from_utf8(bytes).is_ok());
                text.extend_from_slice(bytes);
                pieces += 1;
            }
            Event::End { split, name } => {
                let text = String::from_utf8(std::mem::take(&mut text)).unwrap();
                found.push((split, name.to_owned(), text, std::mem::take(&mut pieces)));
            }
            Event::Read(bytes) => bytes_read += bytes,
        }
        Ok(())
    })?;
    assert_eq!(bytes_read, corpus.bytes());
    Ok((found, noticed))
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, DataConfig) {
    let folder = folder(&[(name, text)]);
    let config = DataConfig::new(folder.path().join(name).to_str().unwrap());
    (folder, config)
}

/// Names and texts of the documents of a file.
fn texts(name: &str, text: &str) -> (Vec<(String, String)>, Noticed) {
    let (_folder, config) = file(name, text);
    let (found, noticed) = read(&config, &SplitRule::Named).unwrap();
    (found.into_iter().map(|(_, name, text, _)| (name, text)).collect(), noticed)
}

#[test]
fn pieces_end_after_lines_and_between_characters() {
    use crate::reading::piece_end;
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
    let blanks = " ".repeat(PIECE + 9) + "end";
    for text in [lines, "é".repeat(1_700_000), "x".repeat(PIECE), blanks] {
        let (_folder, config) = file("a.txt", &text);
        let (documents, _) = read(&config, &SplitRule::Named).unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].2, text);
        assert_eq!(documents[0].3, text.len().div_ceil(PIECE));
        let line = serde_json::json!({ "text": text }).to_string();
        assert_eq!(texts("a.jsonl", &line).0, pairs(&[("a.jsonl:1", &text)]));
    }
}

#[test]
fn a_cut_document_is_three() {
    for (text, ends, expected) in [
        ("0123456789", [6, 8], &[(Split::Train, "012345"), (Split::Valid, "67"), (Split::Test, "89")][..]),
        // A cut moves on to the next character.
        ("ééééé", [3, 3], &[(Split::Train, "éé"), (Split::Test, "ééé")]),
    ] {
        let (_folder, config) = file("a.txt", text);
        let (documents, noticed) = read(&config, &SplitRule::Cut(ends)).unwrap();
        let texts: Vec<_> = documents.iter().map(|(split, _, text, _)| (*split, text.as_str())).collect();
        assert_eq!(texts, expected);
        assert!(noticed.cut);
    }
}

#[test]
fn every_line_of_json_is_a_document() {
    let text = "{\"text\": \"a\\nb\", \"id\": 1}\n\n{\"id\": 2, \"text\": \"\"}\r\n{\"text\": \"é\"}";
    assert_eq!(texts("a.jsonl", text).0, pairs(&[("a.jsonl:1", "a\nb"), ("a.jsonl:4", "é")]));
}

#[test]
fn the_lines_of_a_file_are_one_document_where_that_is_said() {
    let (_folder, config) =
        file("a.jsonl", "{\"text\": \" = A = \\n\"}\n{\"text\": \"\"}\n{\"text\": \" one \\n\"}\n");
    let config = DataConfig { join_rows: true, ..config };
    let (documents, _) = read(&config, &SplitRule::Named).unwrap();
    assert_eq!(documents, [(Split::Train, "a.jsonl".to_owned(), " = A = \n one \n".to_owned(), 1)]);
    let (documents, _) = read(&config, &SplitRule::Cut([4, 10])).unwrap();
    let texts: Vec<_> = documents.iter().map(|(split, _, text, _)| (*split, text.as_str())).collect();
    assert_eq!(texts, [(Split::Train, " = A"), (Split::Valid, " = \n o"), (Split::Test, "ne \n")]);
}

/// Rows that end within words and lines, some longer than a piece, against a file of their text.
#[test]
fn joined_rows_come_in_the_pieces_of_one_file() {
    let pieces = |config: &DataConfig| {
        let corpus = corpus::find(config, "data.corpus").unwrap();
        let mut pieces = Vec::new();
        let visited =
            Documents { corpus: &corpus, config }.visit(&SplitRule::Named, &Split::ALL, &mut |event| {
                if let Event::Piece { start, bytes, .. } = event {
                    pieces.push((start, bytes.len()));
                }
                Ok(())
            });
        visited.unwrap();
        pieces
    };
    let text = "日本語 and some words\n".repeat(100_000) + &"x".repeat(PIECE + 9) + "\nend";
    let letters: Vec<char> = text.chars().collect();
    let (_file, one) = file("a.txt", &text);
    let expected = pieces(&one);
    assert_eq!(expected.len(), 5, "{expected:?}");
    for length in [70, 1000, 1_500_000] {
        let rows: Vec<String> = letters
            .chunks(length)
            .map(|row| serde_json::json!({ "text": row.iter().collect::<String>() }).to_string())
            .collect();
        let (_folder, config) = file("a.jsonl", &rows.join("\n"));
        let config = DataConfig { join_rows: true, ..config };
        assert!(pieces(&config) == expected, "rows of {length} characters");
    }
}

#[test]
fn a_line_of_its_own_ends_a_document_of_a_text_file() {
    let text = "\nOne <|endoftext|> day\n<|endoftext|>\r\n\nTwo\n<|endoftext|>\n \n<|endoftext|>";
    let (found, noticed) = texts("s.txt", text);
    assert_eq!(found, pairs(&[("s.txt", "\nOne <|endoftext|> day\n"), ("s.txt:2", "\nTwo\n")]));
    assert_eq!((noticed.parted, noticed.blank), (1, 1));
}

#[test]
fn a_byte_order_mark_is_no_text_and_blanks_are_no_document() {
    assert_eq!(texts("a.txt", "\u{feff}text").0, pairs(&[("a.txt", "text")]));
    let lines = "\u{feff}{\"text\": \"\u{feff}one\"}\n{\"text\": \" \\n\u{a0}\"}\n";
    let (found, noticed) = texts("a.jsonl", lines);
    assert_eq!((found, noticed.blank), (pairs(&[("a.jsonl:1", "one")]), 1));
    for text in ["", "\u{feff}", " \n\t\r\n", "\u{2003}\u{3000}"] {
        assert_eq!(texts("a.txt", text).0, [], "{text:?}");
    }
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
        let (_folder, config) = file("a.jsonl", &format!("{good}{line}\n{good}{line}\n"));
        let error = read(&config, &SplitRule::Named).unwrap_err();
        assert!(error.message().contains("line 2") && error.message().contains(expected), "{error}");
        assert!(error.hint_text().unwrap().contains("data.skip_bad_lines=true"));
        let skips = DataConfig { skip_bad_lines: true, ..config };
        let (found, noticed) = read(&skips, &SplitRule::Named).unwrap();
        assert_eq!((found.len(), noticed.bad_lines), (2, 2));
        assert_eq!(noticed.first_bad.as_deref(), Some(error.message()));
    }
}
