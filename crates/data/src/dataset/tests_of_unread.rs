//! Text that a tokenizer does not know or leaves out, and what is said of it.

use super::tests::open;
use super::*;
use crate::testing;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

/// A corpus of three splits, and a BPE of the letters a to m; `unknown` is the token of all others.
fn corpus(texts: [&str; 3], unknown: Option<&str>) -> (TempDir, DataConfig) {
    let files =
        Split::ALL.into_iter().zip(texts).map(|(split, text)| (format!("corpus/{split}/a.txt"), text));
    let folder = testing::folder(&files.collect::<Vec<_>>());
    let path = folder.path().join("tokenizer.json");
    fs::write(&path, testing::half_an_alphabet(&Value::Null, unknown).to_string()).unwrap();
    let mut config = DataConfig::new(folder.path().join("corpus").to_str().unwrap());
    config.cache = folder.path().join("cache").to_str().unwrap().to_owned();
    config.tokenizer = TokenizerConfig::File { path: path.to_str().unwrap().to_owned() };
    (folder, config)
}

fn said(dataset: &Dataset) -> Vec<String> {
    let notes = dataset.notes.iter().map(ToString::to_string);
    notes.filter(|note| !note.starts_with("splits")).collect()
}

#[test]
fn text_without_a_token_is_counted_where_it_is_and_warned_of() {
    let (_folder, config) = corpus(["abc zz d", "abc def", "zz\n\nz abc z"], None);
    for cached in [false, true] {
        let dataset = open(&config).unwrap();
        assert_eq!(dataset.cached(), cached);
        let tokens = dataset.tokens(Split::Train);
        assert_eq!((tokens.len(), tokens.bytes(0..4), tokens.unread_bytes(0..4)), (4, 8, 2));
        let of_each: Vec<u64> = (0..4).map(|token| tokens.unread_bytes(token..token + 1)).collect();
        assert_eq!(of_each, [0, 0, 2, 0]);
        assert_eq!(dataset.tokens(Split::Valid).unread_bytes(0..6), 0);
        let test = dataset.tokens(Split::Test);
        assert_eq!((test.len(), test.unread_bytes(0..1), test.unread_bytes(0..3)), (3, 3, 4));
        let said = said(&dataset);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].starts_with(
                "warning: 25% of the train split, in bytes, is text that the tokenizer leaves out"
            )
        );
        assert!(said[1].starts_with("warning: 36% of the test split"), "{said:?}");
    }
}

#[test]
fn unknown_text_is_measured_in_bytes() {
    let known = "abcd ".repeat(200);
    let few = format!("{known}z");
    let many = format!("{known}{}", "日".repeat(2000));
    let (_folder, config) = corpus([&many, &few, &known], Some("?"));
    let dataset = open(&config).unwrap();
    assert_eq!(dataset.tokens(Split::Train).len(), 801);
    let said = said(&dataset);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with(
            "warning: 86% of the train split, in bytes, is text that the tokenizer does not know"
        ),
        "{said:?}"
    );
}

#[test]
fn a_separator_that_does_not_stay_whole_is_an_error() {
    for (unknown, separator, expected) in [
        (None, "azb", Some("leaves a part of it out")),
        (None, "z", Some("has no token for it")),
        (Some("?"), "az", Some("does not know it, or a part of it")),
        (None, "ab", None),
    ] {
        let (_folder, config) = corpus(["abc", "abc", "abc"], unknown);
        let opened = open(&DataConfig { separator: Some(separator.to_owned()), ..config });
        match expected {
            None => assert_eq!(said(&opened.unwrap()), ["separator: `ab` between documents to train"]),
            Some(expected) => {
                let error = opened.unwrap_err();
                assert!(error.message().contains(expected) && error.hint_text().is_some(), "{error}");
            }
        }
    }
}

#[test]
fn the_separator_is_said_and_an_escape_that_is_none_is_warned_of() {
    let (_folder, config) = corpus(["abc", "abc", "abc"], None);
    let of = |separator: &str| {
        let config = DataConfig { separator: Some(separator.to_owned()), ..config.clone() };
        said(&open(&DataConfig { tokenizer: TokenizerConfig::Bytes, ..config }).unwrap())
    };
    assert_eq!(of("\n\n"), ["separator: `\\n\\n` between documents to train"]);
    assert_eq!(of("|"), ["separator: `|` between documents to train"]);
    let warned = of("\\n\\n");
    assert!(
        warned[0].starts_with("warning: `data.separator` holds a backslash and the letter `n`"),
        "{warned:?}"
    );
}

#[test]
fn other_text_is_said_to_be_what_it_is_read_as() {
    let (folder, config) = corpus(["abc", "abc", "abc"], None);
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.txt"), "abcz").unwrap();
    let other = open(&config).unwrap().other_text(other.to_str().unwrap(), Split::Test).unwrap();
    let said: Vec<String> = other.notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|note| note == "splits: all to test"), "{said:?}");
    assert!(said.iter().any(|note| note.starts_with("warning: 25% of the test split")), "{said:?}");
    assert_eq!(other.tokens.unread_bytes(0..3), 1);
}

#[test]
fn errors_on_other_text_advise_what_can_be_done_there() {
    let (folder, config) = corpus(["abc", "abc", "abc"], None);
    let dataset = open(&config).unwrap();
    for (files, expected) in [
        (&[("a.jsonl", "{\"body\": \"abc\"}\n")][..], "in the field `text`"),
        (&[("test.txt", "abc"), ("more.txt", "abc")], "`--corpus 'texts/*test*'`"),
        (&[("train.txt", "abc"), ("dev.txt", "abc")], "such as `--split train`"),
    ] {
        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        for (name, text) in files {
            fs::write(other.join(name), text).unwrap();
        }
        let error = dataset.other_text(other.to_str().unwrap(), Split::Test).unwrap_err();
        let hint = error.hint_text().unwrap();
        assert!(hint.contains(expected) && !hint.contains("data."), "{error}");
        fs::remove_dir_all(other).unwrap();
    }
}

#[test]
fn text_of_one_split_alone_is_read_whole_and_what_is_about_it_is_left_out() {
    let (_folder, config) = corpus(["abc", "abc", "abc"], None);
    let dataset = open(&config).unwrap();
    let mut hashes = Vec::new();
    for (name, splits) in [
        ("train/a.txt", "all to test, though by name it is the train split"),
        ("dev/a.txt", "all to test, though by name it is the valid split"),
        ("test/a.txt", "by name: nothing to train, nothing to validate, `test/` to test"),
    ] {
        let other = testing::folder(&[(name, "abcd"), ("README.txt", "abcdefgh")]);
        let text = dataset.other_text(other.path().to_str().unwrap(), Split::Test).unwrap();
        assert_eq!((text.tokens.documents(), text.tokens.len()), (1, 4), "{name}");
        let said: Vec<String> = text.notes.iter().map(ToString::to_string).collect();
        assert_eq!(said, [format!("splits: {splits}"), "left out: 1 file: `README.txt`".to_owned()]);
        hashes.push(text.text_hash.unwrap());
        let refused = dataset.other_text(other.path().to_str().unwrap(), Split::Valid);
        assert_eq!(refused.is_ok(), name == "dev/a.txt");
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "it is the same text");
}

#[test]
fn keys_of_lines_and_rows_are_refused_of_plain_text() {
    let (_folder, config) = corpus(["abc", "abc", "abc"], None);
    for (key, config) in [
        ("text_field = \"body\"", DataConfig { text_field: "body".to_owned(), ..config.clone() }),
        ("skip_bad_lines = true", DataConfig { skip_bad_lines: true, ..config.clone() }),
        ("join_rows = true", DataConfig { join_rows: true, ..config.clone() }),
    ] {
        let error = open(&config).unwrap_err();
        assert!(error.message().starts_with(&format!("`data.{key}` is not allowed")), "{error}");
        assert!(error.hint_text().is_some());
    }
}

#[test]
fn a_tokenizer_without_capitals_is_warned_of() {
    let (folder, config) = corpus(["abc", "abc", "ABC"], None);
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    tokenizer["normalizer"] = json!({ "type": "Lowercase" });
    fs::write(&path, tokenizer.to_string()).unwrap();
    for _ in 0..2 {
        let dataset = open(&config).unwrap();
        assert_eq!(dataset.tokens(Split::Test).len(), 3);
        let said = said(&dataset);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("warning: the tokenizer reads capitals as small letters: "), "{said:?}");
    }
}
