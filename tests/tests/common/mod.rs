//! A folder with a small corpus and a config, and the program run in it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod halves;
pub mod trainer;
pub mod training;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_longwave-under-test");

/// A small model on a small corpus of bytes; three evaluations of two lengths.
pub const CONFIG: &str = r#"
name = "small"
seed = 0

[data]
corpus = "corpus"

[model]
layers = 2
width = 32
heads = 2

[position]
kind = "rope"

[train]
length = 32
steps = 6
batch_tokens = 256
accumulation = 2
validate_every = 3
validation_tokens = 256

[[evaluate]]
lengths = [32, 64]
extend = ["direct", "linear", "ntk"]
windows_per_document = 2
"#;

/// What a run of the program gave.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A folder of its own.
#[derive(Debug)]
pub struct Project {
    folder: TempDir,
    program: &'static str,
}

impl Project {
    /// A corpus of three splits and `small.toml`.
    pub fn new() -> Self {
        Self::with_program(PROGRAM)
    }

    /// The same, in which another program runs.
    pub fn with_program(program: &'static str) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap(), program };
        for (split, documents) in [("train", 6), ("valid", 2), ("test", 3)] {
            for index in 0..documents {
                project.write(&format!("corpus/{split}/{index}.txt"), &text(600 + 40 * index, index));
            }
        }
        project.write("small.toml", CONFIG);
        project
    }

    pub fn program(&self) -> &'static str {
        self.program
    }

    /// The same files in another folder.
    pub fn copied(&self) -> Self {
        let copy = Self { folder: tempfile::tempdir().unwrap(), program: self.program };
        copy_folder(self.folder.path(), copy.folder.path());
        copy
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Starts the program in the folder.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.start_in("", arguments)
    }

    /// Starts the program in a folder below.
    pub fn start_in(&self, folder: &str, arguments: &[&str]) -> Child {
        Command::new(self.program)
            .args(arguments)
            .current_dir(self.path(folder))
            .env("NO_COLOR", "1")
            .env("LONGWAVE_CACHE", self.path(".cache"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the program in the folder.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_in("", arguments)
    }

    /// Runs the program in a folder below.
    pub fn run_in(&self, folder: &str, arguments: &[&str]) -> Outcome {
        let output = self.start_in(folder, arguments).wait_with_output().unwrap();
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What the program says where it rejects the arguments.
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
        assert!(!outcome.stderr.contains("panicked"));
        outcome.stderr
    }

    /// Trains `small.toml` with more arguments, which must succeed.
    pub fn train(&self, more: &[&str]) -> Outcome {
        let outcome = self.run(&[&["train", "--config", "small.toml", "--device", "cpu"], more].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome
    }
}

/// Copies what is in a folder into another one, which is made.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

/// Words in an order that a model can learn something of.
pub fn text(words: usize, seed: usize) -> String {
    const WORDS: [&str; 8] = ["the", "wave", "is", "long", "and", "its", "phase", "turns"];
    let mut state = seed as u64 + 1;
    let mut text = String::new();
    for index in 0..words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += WORDS[(index + usize::from(state >> 62 == 0)) % WORDS.len()];
        text += if index % 11 == 10 { ".\n" } else { " " };
    }
    text
}

/// Whether two files have the same bytes.
pub fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}
