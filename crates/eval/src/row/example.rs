//! A row for the tests of this crate and of those that read rows.

use super::{DocumentSums, FORMAT, ResultRow, Settings};
use crate::metrics::Values;
use crate::protocols::{Keys, Protocol};
use crate::task_keys::TaskKeys;
use longwave_data::Split;

/// A row of the protocol `fixed_target`, with L = 128 and windows of 1024, of two documents that lose the same.
pub fn row(extend: &str, length: usize, nll: f64) -> ResultRow {
    ResultRow {
        format: FORMAT,
        run: "rope".into(),
        config_hash: "c0ffee".into(),
        seed: 0,
        encoding: "rope".into(),
        extend: extend.into(),
        extend_config: serde_json::json!({ "kind": extend }),
        chosen_among: None,
        checkpoint: "last".into(),
        step: 600,
        stage: 0,
        settings: Settings {
            protocol: Protocol::FixedTarget,
            split: Split::Test,
            corpus_hash: None,
            key_tokens: None,
            bos: None,
            task: TaskKeys::default(),
            score: None,
            train_length: 128,
            length,
            keys: Keys::of(&[("target", 128), ("max_length", 1024), ("window_stride", 1024)]),
            exact: None,
        },
        corpus: Some("data/sotu".into()),
        key_tokens_file: None,
        text_hash: Some("7e47".into()),
        tokens: 4096,
        documents: 8,
        skipped_documents: 1,
        unknown_tokens: 0,
        unread_bytes: 0,
        bytes: 10_240,
        values: Values::default(),
        bigrams: None,
        positions: None,
        per_document: Some(
            DocumentSums::new(vec![2048, 2048])
                .with_numbers("nll", vec![2048.0 * nll; 2])
                .with_counts("correct", vec![1024, 1024]),
        ),
        difference: None,
        device: "cpu".into(),
        repeatable: None,
        threads: 2,
        version: "0.1.0".into(),
    }
    .with("nll", nll)
    .with("nll_se", 0.01)
    .with("ppl", nll.exp())
    .with("bpb", 1.5)
    .with("accuracy", 0.5)
    .with("accuracy_se", 0.01)
}
