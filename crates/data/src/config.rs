//! The `[data]` section.

use crate::split_config::{SplitConfig, also_named};
use crate::task::TaskConfig;
use crate::tokenizer::{BYTES, MAX_VOCABULARY};
use longwave_core::config::{check_keys_of_kind, check_path, missing_key_of_kind};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::PathBuf;

/// What is read, how it becomes tokens, and where the tokens are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = other_names)]
pub struct DataConfig {
    /// A folder, a glob such as `"texts/**/*.rs"`, or a file. A folder is read through all its subfolders for `.txt`,
    /// `.text`, `.jsonl` and `.parquet` files, also packed (`.gz`, `.zst`). Folders and files whose names say `train`,
    /// `validation` (or `valid`, `val`, `dev`) or `test` are the splits. A `MANIFEST.json` in it is checked. A relative path
    /// starts at the folder of the config, or else at the current folder. `"data/sotu"` is part of the program where there is
    /// no such folder. Either this or `task` is given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub corpus: String,
    /// A synthetic task in place of a corpus; its tokens are bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskConfig>,
    /// How text becomes tokens.
    #[serde(default)]
    pub tokenizer: TokenizerConfig,
    /// The field or column that holds a document's text in `.jsonl` and `.parquet` files; `field` is another name of the key.
    #[serde(default = "default_text_field", alias = "field")]
    pub text_field: String,
    /// Whether training goes on without the lines of `.jsonl` files that hold no document. They are counted, and the first
    /// is named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_bad_lines: bool,
    /// Whether the lines or rows of a `.jsonl` or `.parquet` file are one document together, as those of `WikiText` are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub join_rows: bool,
    /// A string that is put between the documents of the training stream. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<String>,
    /// A token that every document begins with, and every text that the model reads, in the place of its first token: the
    /// tokenizer's beginning-of-text token, which `import` finds. An empty string means none, as in a config without the key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bos: String,
    /// Which documents are held out, where the names of files and folders do not say it.
    #[serde(default)]
    pub split: SplitConfig,
    /// The folder where token files are kept for the next run. Default: `longwave` in the user's cache folder, such as
    /// `~/.cache/longwave`. The option `--cache` and the environment variable `LONGWAVE_CACHE` come before both.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cache: String,
    /// Where the corpus was looked for beside the config, and is not; for messages.
    #[serde(skip)]
    pub beside: Option<PathBuf>,
}

/// How text becomes tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TokenizerConfig {
    /// One token per byte, 256 in all; documents need not be text.
    #[default]
    Bytes,
    /// Byte-level byte-pair encoding trained on the training split.
    Bpe {
        /// Exact number of entries, from 256 to 16,777,216.
        vocab_size: usize,
    },
    /// An existing `tokenizer.json`.
    File {
        /// Path of the file; a relative one starts at the folder of the config, or else at the current folder.
        path: String,
    },
}

/// The keys of a tokenizer as written; read first, so that an unknown key is named with its path.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with a `kind`\nhint: write `{ kind = \"bytes\" }`, `{ kind = \"bpe\", vocab_size = 512 }`, or \
                 `{ kind = \"file\", path = \"tokenizer.json\" }` for a file that is there"
)]
struct Written {
    kind: TokenizerKind,
    vocab_size: Option<usize>,
    path: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TokenizerKind {
    Bytes,
    Bpe,
    File,
}

impl<'de> Deserialize<'de> for TokenizerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { kind, vocab_size, path } = Written::deserialize(deserializer)?;
        let keys = [("vocab_size", vocab_size.is_some()), ("path", path.is_some())];
        let missing = missing_key_of_kind::<D::Error>;
        let (name, takes, tokenizer): (_, &[&str], _) = match kind {
            TokenizerKind::Bytes => ("bytes", &[], Self::Bytes),
            TokenizerKind::Bpe => {
                let vocab_size = vocab_size
                    .ok_or_else(|| missing("vocab_size", "{ kind = \"bpe\", vocab_size = 512 }"))?;
                ("bpe", &["vocab_size"], Self::Bpe { vocab_size })
            }
            TokenizerKind::File => {
                let path =
                    path.ok_or_else(|| missing("path", "{ kind = \"file\", path = \"tokenizer.json\" }"))?;
                ("file", &["path"], Self::File { path })
            }
        };
        check_keys_of_kind(name, takes, &keys).map(|()| tokenizer)
    }
}

fn other_names(schema: &mut Schema) {
    also_named(schema, "text_field", &["field"]);
}

fn default_text_field() -> String {
    "text".to_owned()
}

impl DataConfig {
    /// Entries of the vocabulary; `None` where only the tokenizer's file says it.
    pub fn vocab_size(&self) -> Option<usize> {
        match self.tokenizer {
            TokenizerConfig::Bytes => Some(BYTES),
            TokenizerConfig::Bpe { vocab_size } => Some(vocab_size),
            TokenizerConfig::File { .. } => None,
        }
    }

    /// The config that reads `corpus` and leaves every other key at its default.
    pub fn new(corpus: impl Into<String>) -> Self {
        Self {
            corpus: corpus.into(),
            task: None,
            tokenizer: TokenizerConfig::default(),
            text_field: default_text_field(),
            skip_bad_lines: false,
            join_rows: false,
            separator: None,
            bos: String::new(),
            split: SplitConfig::default(),
            cache: String::new(),
            beside: None,
        }
    }

    /// Checks what the types cannot say; no file is looked at.
    pub fn validate(&self) -> Result<()> {
        if let Some(task) = &self.task {
            self.validate_beside_task()?;
            return task.validate();
        }
        let strings = [
            (
                "data.corpus",
                &self.corpus,
                "name a folder, a file or a glob, e.g. `corpus = \"data/sotu\"`, or a `task`",
            ),
            ("data.text_field", &self.text_field, "name the field that holds the text, e.g. `\"text\"`"),
        ];
        for (key, value, hint) in strings {
            if value.is_empty() {
                return Err(Error::value(key, "\"\"", "it must not be empty").hint(hint));
            }
        }
        check_path("data.corpus", &self.corpus)?;
        check_path("data.cache", &self.cache)?;
        if self.separator.as_deref() == Some("") {
            return Err(Error::value("data.separator", "\"\"", "an empty string separates nothing")
                .hint("leave the key out to put documents directly after each other"));
        }
        match &self.tokenizer {
            TokenizerConfig::Bpe { vocab_size } if !(BYTES..=MAX_VOCABULARY).contains(vocab_size) => {
                let few = "it must be at least 256, one entry per byte".to_owned();
                let (allowed, hint) = if *vocab_size < BYTES {
                    (few, "use 512 or more, or `{ kind = \"bytes\" }`")
                } else {
                    let hint =
                        "published models have 32,000 to 262,144 entries; small corpora support far fewer";
                    (format!("it must be at most {MAX_VOCABULARY}"), hint)
                };
                return Err(Error::value("data.tokenizer.vocab_size", vocab_size, allowed).hint(hint));
            }
            TokenizerConfig::File { path } if path.is_empty() => {
                return Err(Error::value("data.tokenizer.path", "\"\"", "it must not be empty")
                    .hint("give the path of a tokenizer.json"));
            }
            TokenizerConfig::File { path } => check_path("data.tokenizer.path", path)?,
            TokenizerConfig::Bytes | TokenizerConfig::Bpe { .. } => {}
        }
        self.split.validate()
    }

    /// A task makes its own text, so that keys about text mean nothing beside it.
    fn validate_beside_task(&self) -> Result<()> {
        let plain = Self::new("");
        // Each with its default as it is written: studies and `--set` change a config, and take no key out of it.
        let keys = [
            ("corpus", self.corpus == plain.corpus, Some("\"\"")),
            ("tokenizer", self.tokenizer == plain.tokenizer, Some("{ kind = \"bytes\" }")),
            ("text_field", self.text_field == plain.text_field, Some("\"text\"")),
            ("skip_bad_lines", self.skip_bad_lines == plain.skip_bad_lines, Some("false")),
            ("join_rows", self.join_rows == plain.join_rows, Some("false")),
            ("separator", self.separator == plain.separator, None),
            ("bos", self.bos == plain.bos, Some("\"\"")),
            ("split", self.split == plain.split, None),
        ];
        match keys.into_iter().find(|(_, as_default, _)| !as_default) {
            None => Ok(()),
            Some((key, _, default)) => {
                let or = default.map_or_else(String::new, |default| format!(", or set it to {default}"));
                Err(Error::usage(format!("`data.{key}` has no meaning beside `data.task`"))
                    .hint(format!("remove it{or}: a task makes its own sequences, of bytes")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DataConfig> {
        longwave_core::config::read(&text.parse().unwrap(), "data")
    }

    #[test]
    fn defaults() {
        assert_eq!(read("corpus = \"x\"").unwrap(), DataConfig::new("x"));
    }

    #[test]
    fn every_tokenizer_survives_writing_and_reading() {
        for tokenizer in [
            TokenizerConfig::Bytes,
            TokenizerConfig::Bpe { vocab_size: 512 },
            TokenizerConfig::File { path: "t.json".into() },
        ] {
            let config = DataConfig { tokenizer, separator: Some("\n".into()), ..DataConfig::new("x") };
            assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn what_is_not_allowed_is_explained() {
        for (text, expected) in [
            ("corpus = ''", "data.corpus"),
            ("corpus = 'x'\ntext_field = ''", "data.text_field"),
            ("corpus = 'x'\nseparator = ''", "data.separator"),
            ("tokenizer = { kind = 'bpe', vocab_siz = 512 }", "unknown key `data.tokenizer.vocab_siz`"),
            ("tokenizer = { kind = 'bytes', vocab_size = 3 }", "takes no other key"),
            ("tokenizer = { kind = 'bpe' }", "`data.tokenizer.vocab_size` is missing"),
            ("tokenizer = { kind = 'file' }", "`data.tokenizer.path` is missing"),
            ("corpus = 'x'\ntokenizer = { kind = 'file', path = '' }", "data.tokenizer.path"),
            (
                "tokenizer = { kind = 'bpe', vocab_size = 300 }\ntask = { kind = 'copy' }",
                "`data.tokenizer` has no",
            ),
            ("split = { test = '' }", "it must be a share such as 0.05, or files such as \"eval\""),
            ("split = { tset = 0.1 }", "unknown key `data.split.tset`"),
            ("corpus = 'x'\nsplit = { valid = -0.1, test = 0.0 }", "data.split.valid = -0.1"),
            ("corpus = 'x'\nsplit = { valid = 0.0, test = nan }", "data.split.test = NaN"),
            ("corpus = 'x'\nsplit = { valid = 0.5, test = 0.5 }", "data.split = "),
        ] {
            let error = read(text).and_then(|config| config.validate()).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
            assert!(error.hint_text().is_some());
            assert_eq!(error.exit_code(), 2);
        }
        let mistyped = read("tokenizer = { kind = 'bpe', vocab_siz = 512 }").unwrap_err();
        assert_eq!(mistyped.hint_text(), Some("did you mean `vocab_size`?"));
        DataConfig::new("x").validate().unwrap();
    }

    #[test]
    fn hints_write_the_table_that_was_meant() {
        let told = |text: &str| {
            let error = read(text).unwrap_err();
            (error.message().to_owned(), error.hint_text().unwrap().to_owned())
        };
        for word in ["bytes", "gpt2", "tok.json"] {
            let (message, hint) = told(&format!("tokenizer = '{word}'"));
            let why = "is not allowed: it must be a table with a `kind`";
            assert_eq!(message, format!("`data.tokenizer = \"{word}\"` {why}"));
            for table in ["{ kind = \"bytes\" }", "{ kind = \"file\", path = \"tokenizer.json\" }"] {
                assert!(hint.contains(table), "{hint}");
            }
        }
        assert_eq!(told("task = 'needle'").1, "write `{ kind = \"needle\" }`");
        let (_, hint) = told("tokenizer = { kind = 'bpe' }");
        assert_eq!(hint, "write the whole table, as `{ kind = \"bpe\", vocab_size = 512 }`");
        // What `--set data.tokenizer.kind=file --set data.tokenizer.path=tok.json` leaves of a config with `bpe`.
        let (message, hint) = told("tokenizer = { kind = 'file', vocab_size = 512, path = 'tok.json' }");
        assert!(
            message
                .ends_with("kind \"file\" takes `path` and no other key; `vocab_size` has no meaning for it"),
            "{message}"
        );
        let table = "--set 'data.tokenizer={ kind = \"file\", path = \"tok.json\" }'";
        assert_eq!(hint, format!("leave it out; `{table}` replaces the whole table"));
    }

    #[test]
    fn the_schema_takes_every_name_that_is_read() {
        let schema = schemars::schema_for!(DataConfig).to_value();
        let split = &schema["$defs"]["SplitConfig"];
        for (table, pattern, key) in
            [(&schema, "^(field)$", "text_field"), (split, "^(validation|val|dev)$", "valid")]
        {
            assert!(!table["properties"][key].is_null(), "{key}");
            assert_eq!(table["patternProperties"][pattern], table["properties"][key], "{key}");
        }
        read("corpus = 'x'\nfield = 'text'").unwrap();
        for name in ["valid", "validation", "val", "dev"] {
            read(&format!("corpus = 'x'\nsplit = {{ {name} = 0.1 }}")).unwrap();
            let known = schemars::schema_for!(crate::Split).to_value();
            let mut choices = known["oneOf"].as_array().unwrap().iter();
            let is_name = |it: &serde_json::Value| it == name;
            let takes = |choice: &serde_json::Value| {
                is_name(&choice["const"])
                    || choice["enum"].as_array().is_some_and(|all| all.iter().any(is_name))
            };
            assert!(choices.any(takes), "{name}: {known}");
        }
    }

    #[test]
    fn a_task_stands_in_place_of_a_corpus() {
        let good = read("task = { kind = \"copy\", alphabet = 4 }").unwrap();
        good.validate().unwrap();
        assert_eq!(read(&toml::to_string(&good).unwrap()).unwrap(), good);
        // What the hints say to write in place of each.
        let emptied = "corpus = \"\"\ntokenizer = { kind = \"bytes\" }\ntext_field = \"text\"\nskip_bad_lines = false\n\
                       join_rows = false\nbos = \"\"\ntask = { kind = \"copy\" }";
        read(emptied).unwrap().validate().unwrap();
    }
}
