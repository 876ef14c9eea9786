//! Whole corpora: what is built, reused, rebuilt and rejected.

use super::*;
use crate::SplitConfig;
use crate::testing::{self, pairs, tokenizer};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A corpus and its cache in a folder of their own.
struct TestCorpus {
    folder: TempDir,
}

impl TestCorpus {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let below = files.iter().map(|(name, bytes)| (format!("corpus/{name}"), *bytes));
        Self { folder: testing::folder(&below.collect::<Vec<_>>()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("corpus").join(name)
    }

    fn config(&self, name: &str) -> DataConfig {
        let mut config = DataConfig::new(self.path(name).to_str().unwrap());
        config.cache = self.cache().to_str().unwrap().to_owned();
        config
    }

    /// The config that trains a BPE of so many entries.
    fn bpe(&self, vocab_size: usize) -> DataConfig {
        DataConfig { tokenizer: TokenizerConfig::Bpe { vocab_size }, ..self.config("") }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn entry(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.join("index.json").exists()).unwrap()
    }
}

pub(super) fn open(config: &DataConfig) -> Result<Dataset> {
    Dataset::open(config, &mut |_| ())
}

fn message(config: &DataConfig) -> String {
    let error = open(config).unwrap_err();
    assert!(error.hint_text().is_some(), "no hint: {error}");
    error.to_string()
}

fn documents(dataset: &Dataset, split: Split) -> Vec<(String, String)> {
    let tokens = dataset.tokens(split);
    (0..tokens.documents())
        .map(|index| {
            let ids = tokens.read(tokens.document(index));
            (tokens.document_name(index).to_owned(), dataset.tokenizer().decode(&ids).unwrap())
        })
        .collect()
}

const KAESE: &str =
    "Der Käse, 日本語 und 😀!\n\n  Noch ein Käse, and then it's cheese again: Käse, cheese, Käse.\n";

fn three() -> TestCorpus {
    TestCorpus::new(&[
        ("train/a.txt", KAESE.as_bytes()),
        ("train/b.txt", b"second"),
        ("valid/c.txt", "Über".as_bytes()),
        ("test/d.txt", b"cheese"),
    ])
}

#[test]
fn bytes_and_bpe_return_the_documents_they_were_given() {
    let place = three();
    for tokenizer in [TokenizerConfig::Bytes, TokenizerConfig::Bpe { vocab_size: 270 }] {
        let dataset = open(&DataConfig { tokenizer, ..place.config("") }).unwrap();
        assert_eq!(documents(&dataset, Split::Train), pairs(&[("a.txt", KAESE), ("b.txt", "second")]));
        assert_eq!(documents(&dataset, Split::Valid), pairs(&[("c.txt", "Über")]));
        assert_eq!(documents(&dataset, Split::Test), pairs(&[("d.txt", "cheese")]));
        let train = dataset.tokens(Split::Train);
        assert_eq!(train.document(1).start, train.document(0).end);
        for index in 0..2 {
            assert_eq!(train.bytes(train.document(index)), train.document_bytes(index));
        }
        assert_eq!(train.document_bytes(0), KAESE.len() as u64);
    }
}

#[test]
fn a_second_run_builds_nothing() {
    let place = three();
    let config = place.bpe(262);
    let mut stages = Vec::new();
    let first = Dataset::open(&config, &mut |progress| stages.push(progress.stage)).unwrap();
    assert!(!first.cached());
    stages.dedup();
    assert_eq!(stages, [Stage::Hashing, Stage::TrainingTokenizer, Stage::Comparing, Stage::Tokenizing]);
    let index = place.entry().join("index.json");
    let written = fs::metadata(&index).unwrap().modified().unwrap();

    let mut stages = Vec::new();
    let second = Dataset::open(&config, &mut |progress| stages.push(progress.stage)).unwrap();
    assert!(second.cached());
    stages.dedup();
    assert_eq!(stages, [Stage::Hashing]);
    assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), written);
    assert_eq!(second.content_hash(), first.content_hash());
    assert_eq!(documents(&second, Split::Train), documents(&first, Split::Train));
}

#[test]
fn the_hash_follows_the_content_and_not_the_place() {
    let (one, two) = (three(), three());
    let hash = |config: &DataConfig| open(config).unwrap().content_hash().to_owned();
    let config = two.config("");
    let first = hash(&one.config(""));
    assert_eq!(hash(&config), first);
    let others = [
        DataConfig { separator: Some("\n".into()), ..config.clone() },
        DataConfig { tokenizer: TokenizerConfig::Bpe { vocab_size: 256 }, ..config.clone() },
        DataConfig { tokenizer: TokenizerConfig::Bpe { vocab_size: 257 }, ..config.clone() },
    ];
    let mut hashes: Vec<_> = others.iter().map(hash).collect();
    fs::write(two.path("train/b.txt"), b"Second").unwrap();
    let dataset = open(&config).unwrap();
    assert!(!dataset.cached());
    assert_eq!(documents(&dataset, Split::Train)[1].1, "Second");
    hashes.extend([dataset.content_hash().to_owned(), first]);
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
    // Split shares do not matter where folders decide.
    let config = one.config("");
    let same = DataConfig { split: SplitConfig::shares_of(0.3, 0.0), ..config.clone() };
    assert_eq!(hash(&same), hash(&config));
}

#[test]
fn a_damaged_cache_is_rebuilt() {
    let place = three();
    let config = place.bpe(262);
    let whole = documents(&open(&config).unwrap(), Split::Train);
    for name in ["train.tokens", "valid.documents", "test.names", "tokenizer.json", "index.json"] {
        for damage in 0..3 {
            let path = place.entry().join(name);
            let mut bytes = fs::read(&path).unwrap();
            match damage {
                0 => bytes.truncate(bytes.len() / 2),
                1 => bytes[0] ^= 1,
                _ => fs::remove_file(&path).unwrap(),
            }
            if damage < 2 {
                fs::write(&path, bytes).unwrap();
            }
            let dataset = open(&config).unwrap();
            assert!(!dataset.cached(), "{name} {damage}");
            assert_eq!(documents(&dataset, Split::Train), whole);
            assert!(open(&config).unwrap().cached());
        }
    }
}

#[test]
fn what_a_killed_run_left_is_cleared_away() {
    let place = three();
    let config = place.config("");
    open(&config).unwrap();
    let entry = place.entry();
    let part = place.cache().join(format!(".{}.part", entry.file_name().unwrap().to_str().unwrap()));
    fs::rename(&entry, &part).unwrap();
    fs::write(part.join("stray"), "x").unwrap();
    assert!(!open(&config).unwrap().cached());
    assert!(!part.exists() && !place.entry().join("stray").exists());
}

#[test]
fn a_failed_run_leaves_no_entry() {
    let place = TestCorpus::new(&[("train/a.txt", b"good"), ("train/b.txt", b"ab\xff")]);
    let config = place.bpe(256);
    let text = message(&config);
    assert!(text.contains("`b.txt` is not valid UTF-8 at byte 2"), "{text}");
    let left: Vec<_> = fs::read_dir(place.cache()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.is_file()), "{left:?}");
    // The byte tokenizer takes any bytes.
    let dataset = open(&place.config("")).unwrap();
    assert_eq!(dataset.tokens(Split::Train).read(4..7), [0x61, 0x62, 0xff]);
}

#[test]
fn processes_that_start_together_build_once() {
    let place = three();
    let config = place.bpe(262);
    let built = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&config).unwrap().cached())).collect();
        runs.into_iter().map(|run| run.join().unwrap()).filter(|cached| !cached).count()
    });
    assert_eq!(built, 1);
}

#[test]
fn a_separator_stands_between_training_documents_only() {
    let place = TestCorpus::new(&[
        ("train/a.txt", b"one"),
        ("train/b.txt", b""),
        ("train/c.txt", b"two"),
        ("test/d.txt", b"three"),
        ("test/e.txt", b"four"),
    ]);
    let dataset = open(&DataConfig { separator: Some("<|>".into()), ..place.config("") }).unwrap();
    let train = dataset.tokens(Split::Train);
    let text = |split| {
        let tokens = dataset.tokens(split);
        dataset.tokenizer().decode(&tokens.read(0..tokens.len())).unwrap()
    };
    assert_eq!(text(Split::Train), "one<|>two");
    assert_eq!((train.document(0), train.document(1)), (0..3, 6..9));
    assert_eq!(documents(&dataset, Split::Train), pairs(&[("a.txt", "one"), ("c.txt", "two")]));
    assert_eq!(text(Split::Test), "threefour");
    assert!(dataset.tokens(Split::Valid).is_empty());
    assert_eq!(dataset.tokens(Split::Valid).documents(), 0);
}

#[test]
fn documents_of_files_lines_and_globs_are_split_by_name() {
    let lines: Vec<String> = (0..40).map(|i| json!({ "body": format!("line {i}") }).to_string()).collect();
    let lines = lines.join("\n");
    let place = TestCorpus::new(&[("x/l.jsonl", lines.as_bytes())]);
    let config = DataConfig { text_field: "body".into(), ..place.config("x") };
    let dataset = open(&config).unwrap();
    let all: Vec<_> = Split::ALL.iter().flat_map(|split| documents(&dataset, *split)).collect();
    assert_eq!(Split::ALL.map(|split| dataset.tokens(split).documents()), [36, 2, 2]);
    assert_eq!(all.len(), 40);
    for (name, text) in all {
        let number: usize = name.strip_prefix("l.jsonl:").unwrap().parse().unwrap();
        assert_eq!(text, format!("line {}", number - 1));
    }
    let glob = DataConfig { text_field: "body".into(), ..place.config("**/*.jsonl") };
    assert_eq!(open(&glob).unwrap().tokens(Split::Train).documents(), 36);
    assert!(message(&place.config("x")).contains("line 1 has no field `text`"));
}

#[test]
fn a_tokenizer_file_is_used_as_it_is() {
    let place = three();
    let config = place.bpe(270);
    let trained = open(&config).unwrap();
    let path = place.path("tokenizer.json");
    trained.tokenizer().save(&path).unwrap();
    let file = TokenizerConfig::File { path: path.to_str().unwrap().to_owned() };
    let config = DataConfig { tokenizer: file, ..config };
    let read = open(&config).unwrap();
    for split in Split::ALL {
        let (a, b) = (trained.tokens(split), read.tokens(split));
        assert_eq!(a.read(0..a.len()), b.read(0..b.len()));
        assert_eq!(a.bytes(1..a.len()), b.bytes(1..b.len()));
    }
    assert!(open(&config).unwrap().cached());
    fs::remove_file(&path).unwrap();
    assert!(message(&config).contains("tokenizer.json"));
}

#[cfg(unix)]
#[test]
fn a_tokenizer_that_is_a_device_is_not_read() {
    let place = three();
    let path = place.path("tokenizer.json");
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let tokenizer = TokenizerConfig::File { path: path.to_str().unwrap().to_owned() };
    let said = message(&DataConfig { tokenizer, ..place.bpe(270) });
    assert!(said.contains("data.tokenizer.path") && said.contains("no regular file"), "{said}");
}

#[test]
fn every_byte_counts_once_for_tokenizers_that_drop_text() {
    let place = three();
    let path = place.path("words.json");
    let json = tokenizer(json!({
        "normalizer": { "type": "Lowercase" }, "pre_tokenizer": { "type": "Whitespace" },
        "model": { "type": "WordLevel", "vocab": { "[UNK]": 70_000, "käse": 1 }, "unk_token": "[UNK]" },
    }));
    fs::write(&path, json.to_string()).unwrap();
    let read = |separator: &str| {
        let file = TokenizerConfig::File { path: path.to_str().unwrap().to_owned() };
        DataConfig { tokenizer: file, separator: Some(separator.to_owned()), ..place.config("") }
    };
    let dataset = open(&read("käse")).unwrap();
    let train = dataset.tokens(Split::Train);
    assert_eq!(train.read(0..3), [70_000, 1, 70_000]);
    // "Der " with the space after it, then "Käse" with its two-byte letter.
    assert_eq!((train.bytes(0..1), train.bytes(1..2)), (4, 5));
    for index in 0..train.documents() {
        assert_eq!(train.bytes(train.document(index)), train.document_bytes(index));
    }
    assert_eq!(train.read(train.document(0).end..train.document(1).start), [1]);
    assert_eq!(train.bytes(0..train.len()), KAESE.len() as u64 + 6 + 5);
    // This tokenizer drops white space.
    let message = message(&read("\n"));
    assert!(message.contains("`data.separator = \"\\n\"` is not allowed"), "{message}");
}

#[test]
fn long_documents_are_whole_whatever_the_tokenizer() {
    let text = format!("{}\n{KAESE}", "some words é 日本\n".repeat(150_000));
    let place = TestCorpus::new(&[("train/a.txt", text.as_bytes())]);
    for tokenizer in [TokenizerConfig::Bytes, TokenizerConfig::Bpe { vocab_size: 300 }] {
        let dataset = open(&DataConfig { tokenizer, ..place.config("") }).unwrap();
        assert!(documents(&dataset, Split::Train) == pairs(&[("a.txt", &text)]));
        let train = dataset.tokens(Split::Train);
        assert_eq!(train.bytes(0..train.len()), text.len() as u64);
    }
}

#[test]
fn joined_rows_have_the_tokens_of_one_file() {
    let letters: Vec<char> = KAESE.chars().collect();
    let rows = letters.chunks(5).map(|row| json!({ "text": row.iter().collect::<String>() }).to_string());
    let rows = rows.collect::<Vec<_>>().join("\n");
    let place =
        TestCorpus::new(&[("one/train/a.txt", KAESE.as_bytes()), ("rows/train/a.jsonl", rows.as_bytes())]);
    let tokenizer = TokenizerConfig::Bpe { vocab_size: 270 };
    let one = open(&DataConfig { tokenizer: tokenizer.clone(), ..place.config("one") }).unwrap();
    let joined = open(&DataConfig { tokenizer, join_rows: true, ..place.config("rows") }).unwrap();
    assert_eq!(joined.tokenizer().to_json().unwrap(), one.tokenizer().to_json().unwrap());
    let ids = |dataset: &Dataset| {
        let tokens = dataset.tokens(Split::Train);
        tokens.read(0..tokens.len())
    };
    assert_eq!(ids(&joined), ids(&one));
    assert!(ids(&one).len() < KAESE.len(), "words are in it that rows cut");
}

#[test]
fn a_corpus_without_text_is_an_error() {
    let place = TestCorpus::new(&[
        ("train/a.txt", b""),
        ("lines/a.jsonl", b"\n{\"text\": \"\"}\n"),
        ("one/a.txt", b""),
    ]);
    let lines = DataConfig { split: SplitConfig::shares_of(0.0, 0.0), ..place.config("lines") };
    for config in [place.config("train"), lines, place.config("one"), place.config("one/a.txt")] {
        assert!(message(&config).contains("holds no text"));
    }
}
