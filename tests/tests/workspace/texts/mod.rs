//! The texts that people have: which documents are in which split, every format, and what is said of them.

mod formats;
mod overlap;
mod splits;
mod unknown;

use crate::common::{self, Outcome, Project};
use flate2::write::GzEncoder;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;

/// A document of its own, long enough for a sequence of training.
fn document(seed: usize) -> String {
    format!("{seed} {}", common::text(40, seed))
}

/// So many documents as JSON lines.
fn lines(count: usize, seed: usize) -> String {
    (0..count)
        .map(|index| format!("{}\n", json!({ "text": document(seed + index) })))
        .collect::<Vec<_>>()
        .concat()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
}

/// A Parquet file of one column.
fn parquet(column: &str, texts: &[String]) -> Vec<u8> {
    let schema = parse_message_type(&format!("message m {{ required binary {column} (UTF8); }}")).unwrap();
    let snappy = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(snappy)).unwrap();
    let mut rows = file.next_row_group().unwrap();
    let mut writer = rows.next_column().unwrap().unwrap();
    let texts: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
    writer.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    writer.close().unwrap();
    rows.close().unwrap();
    file.into_inner().unwrap()
}

fn documents(count: usize, seed: usize) -> Vec<String> {
    (0..count).map(|index| document(seed + index)).collect()
}

fn write(project: &Project, name: &str, bytes: &[u8]) {
    project.write(name, "");
    std::fs::write(project.path(name), bytes).unwrap();
}

/// Trains one step on a corpus.
fn run(project: &Project, corpus: &str, more: &[&str]) -> Outcome {
    let out = format!("runs/{}", std::fs::read_dir(project.path("runs")).map_or(0, Iterator::count));
    let corpus = format!("data.corpus={corpus}");
    let plain = ["train", "small.toml", "--device", "cpu", "--threads", "1", "--out", &out, "--set", &corpus];
    let short = ["--set", "train.steps=1", "--set", "evaluate=[]"];
    let outcome = project.run(&[&plain[..], &short, more].concat());
    if outcome.code != Some(0) {
        assert!(!project.exists(&out), "a text that cannot be read leaves no run");
    }
    outcome
}

/// The lines on the data.
fn told(outcome: &Outcome) -> String {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines = outcome.stderr.lines().skip_while(|line| !line.starts_with("data "));
    lines
        .take_while(|line| !line.starts_with("model "))
        .map(|line| format!("{line}\n"))
        .collect::<Vec<_>>()
        .concat()
}

/// Documents to train, validate and test.
fn counts(outcome: &Outcome) -> [usize; 3] {
    let told = told(outcome);
    let (before, _) = told.split_once(" documents to train / validate / test").unwrap();
    let numbers = before.rsplit(": ").next().unwrap().split(" / ").map(|count| count.parse().unwrap());
    numbers.collect::<Vec<usize>>().try_into().unwrap()
}

/// Tokens of the training split.
fn training_tokens(outcome: &Outcome) -> usize {
    let told = told(outcome);
    let (before, _) = told.split_once(" training tokens").unwrap();
    before.rsplit(", ").next().unwrap().replace(',', "").parse().unwrap()
}

/// What is wrong with a text, and what to do.
fn refused(outcome: &Outcome) -> &str {
    assert!(matches!(outcome.code, Some(1 | 2)), "{}", outcome.stderr);
    assert!(outcome.stdout.is_empty() && !outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\n\nhint: "), "no hint: {}", outcome.stderr);
    &outcome.stderr
}
