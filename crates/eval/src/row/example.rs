//! A row for the tests of this crate and of those that read rows.

use super::{DocumentSums, FORMAT, ResultRow, Settings};
use crate::protocols::{Keys, Protocol};
use longwave_data::Split;

/// A row of the protocol `fixed_target`, with L = 128 and windows of 1024, of two documents that lose the same.
pub fn row(extend: &str, length: usize, nll: f64) -> ResultRow {
    ResultRow {
        format: FORMAT,
        run: "rope".into(),
        config_hash: "c0ffee".into(),
        encoding: "rope".into(),
        extend: extend.into(),
        extend_config: serde_json::json!({ "kind": extend }),
        checkpoint: "last".into(),
        step: 600,
        settings: Settings {
            protocol: Protocol::FixedTarget,
            split: Split::Test,
            train_length: 128,
            length,
            keys: Keys::of(&[("target", 128), ("max_length", 1024), ("window_stride", 1024)]),
            ..Settings::default()
        },
        corpus: Some("data/sotu".into()),
        text_hash: Some("7e47".into()),
        tokens: 4096,
        documents: 8,
        skipped_documents: 1,
        bytes: 10_240,
        per_document: Some(
            DocumentSums::new(vec![2048, 2048])
                .with_numbers("nll", vec![2048.0 * nll; 2])
                .with_counts("correct", vec![1024, 1024]),
        ),
        device: "cpu".into(),
        threads: 2,
        version: "0.1.0".into(),
        ..ResultRow::default()
    }
    .with("nll", nll)
    .with("nll_se", 0.01)
    .with("ppl", nll.exp())
    .with("bpb", 1.5)
    .with("accuracy", 0.5)
    .with("accuracy_se", 0.01)
}
