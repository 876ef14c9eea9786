//! A folder with a small corpus and a config, and the program run in it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod csv;
pub mod halves;
pub mod models;
pub mod trainer;
pub mod training;

use longwave_eval::ResultRow;
use longwave_eval::row::read_rows;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_longwave-under-test");

/// The run of `small.toml`, and two of its checkpoints.
pub const RUN: &str = "runs/small-0";
pub const LAST: &str = "checkpoints/last.safetensors";
pub const BEST: &str = "checkpoints/best.safetensors";

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

impl Outcome {
    /// Runs a program to its end.
    pub fn of(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::at_end(command.spawn().unwrap())
    }

    /// Waits for the end of a program.
    pub fn at_end(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It succeeded.
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// It ended with this code: what was said.
    #[track_caller]
    pub fn refused(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }

    /// It ended with this code, and said each of these.
    #[track_caller]
    pub fn refuses(self, code: i32, parts: &[&str]) {
        let told = self.refused(code);
        for part in parts {
            assert!(told.contains(part), "no `{part}` in {told}");
        }
    }

    /// What it printed, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The mean losses of the rows that it printed.
    pub fn losses(&self) -> Vec<f64> {
        self.rows::<Value>().iter().map(|row| row["nll"].as_f64().unwrap()).collect()
    }

    /// The lines of JSON that it printed.
    pub fn rows<T: DeserializeOwned>(&self) -> Vec<T> {
        json_lines(&self.stdout)
    }
}

/// Lines of JSON, such as the rows of `results.jsonl`.
pub fn json_lines<T: DeserializeOwned>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The row of a reading at a length.
#[track_caller]
pub fn row_of<'a>(rows: &'a [ResultRow], extend: &str, length: usize) -> &'a ResultRow {
    let is_it = |row: &&ResultRow| row.extend == extend && row.settings.length == length;
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no row of {extend} at {length}"))
}

/// The arguments that change these keys of a config.
pub fn set<'a>(changes: &[&'a str]) -> Vec<&'a str> {
    changes.iter().flat_map(|change| ["--set", change]).collect()
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
        Self::in_folder(tempfile::tempdir().unwrap(), program)
    }

    /// A copy of what the first test that asks makes of a project. A static is never dropped: each run of the tests leaves its folder below
    /// `target/tmp`.
    pub fn copy_of(made: &OnceLock<Self>, make: impl FnOnce(&Self)) -> Self {
        let first = || {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let project = Self::in_folder(folder, PROGRAM);
            make(&project);
            project
        };
        made.get_or_init(first).copied()
    }

    fn in_folder(folder: TempDir, program: &'static str) -> Self {
        let project = Self { folder, program };
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

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    /// The lines of JSON of a file.
    pub fn rows<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        json_lines(&self.text(name))
    }

    /// The rows that a run measured.
    pub fn results(&self, run: &str) -> Vec<ResultRow> {
        read_rows(&self.path(run).join("results.jsonl")).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Starts the program in the folder.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command("", arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The program in a folder below, with no variable of who runs the tests.
    pub fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments).current_dir(self.path(folder)).env("NO_COLOR", "1").env_remove("RUST_LOG");
        command.env("LONGWAVE_CACHE", self.path(".cache")).stdin(Stdio::null());
        command
    }

    /// Runs the program in the folder.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_in("", arguments)
    }

    /// Runs the program in a folder below.
    pub fn run_in(&self, folder: &str, arguments: &[&str]) -> Outcome {
        Outcome::of(&mut self.command(folder, arguments))
    }

    /// Runs the program in the folder with a variable.
    pub fn run_with(&self, name: &str, value: &str, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command("", arguments).env(name, value))
    }

    /// Runs the program, which must succeed.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> Outcome {
        self.ok_in("", arguments)
    }

    /// Runs the program in a folder below, where it must succeed.
    #[track_caller]
    pub fn ok_in(&self, folder: &str, arguments: &[&str]) -> Outcome {
        self.run_in(folder, arguments).done()
    }

    /// What the program says where it rejects the arguments.
    #[track_caller]
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        outcome.refused(code)
    }

    /// The program rejects the arguments, and says each of these.
    #[track_caller]
    pub fn refuses(&self, code: i32, arguments: &[&str], parts: &[&str]) {
        let outcome = self.run(arguments);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        outcome.refuses(code, parts);
    }

    /// Trains `small.toml` with more arguments, which must succeed.
    #[track_caller]
    pub fn train(&self, more: &[&str]) -> Outcome {
        self.ok(&[&["train", "--config", "small.toml", "--device", "cpu"], more].concat())
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

/// The paths of all files below a folder, half-written folders among them.
pub fn files(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] })
        .collect()
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

/// Looks every few milliseconds, for two minutes at most, until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_mins(2), "not after two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a program, which must succeed: what it printed, and the most memory that it held, in KiB.
#[cfg(target_os = "linux")]
pub fn peak_of(mut child: Child) -> (String, u64) {
    let (status, mut peak) = (format!("/proc/{}/status", child.id()), 0);
    while child.try_wait().unwrap().is_none() {
        // The high-water mark is the kernel's own: the last reading before the end has it.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(kibibytes.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    (Outcome::at_end(child).done().stdout, peak)
}

/// The files of rows in the folder of a run of a study.
pub fn rows_files(run: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let is_of_rows = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "jsonl")
            && path.file_name().unwrap().to_string_lossy().starts_with("rows-")
    };
    paths.filter(is_of_rows).collect()
}

/// Sends a signal to a process, or with a `-` before its id to its group.
pub fn signal(name: &str, process: &str) {
    Command::new("kill").args([name, "--", process]).stderr(Stdio::null()).status().unwrap();
}

/// Whether two files have the same bytes.
pub fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}
