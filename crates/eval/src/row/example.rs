//! A row for the tests of this crate and of those that read rows.

use super::{DocumentSums, FORMAT, ResultRow, Settings};
use crate::block::Protocol;
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
            train_length: 128,
            length,
            target: Some(128),
            max_length: Some(1024),
            window_stride: Some(1024),
            windows_per_document: None,
            stride: None,
            bucket: None,
            passage: None,
            sequences: None,
            exact: None,
        },
        corpus: Some("data/sotu".into()),
        tokens: 4096,
        documents: 8,
        skipped_documents: 1,
        bytes: 10_240,
        nll,
        nll_se: Some(0.01),
        ppl: nll.exp(),
        bpb: Some(1.5),
        accuracy: Some(0.5),
        accuracy_se: Some(0.01),
        exact_match: None,
        exact_match_se: None,
        bigrams: None,
        positions: None,
        per_document: Some(DocumentSums {
            tokens: vec![2048, 2048],
            nll: vec![2048.0 * nll; 2],
            correct: Some(vec![1024, 1024]),
        }),
        difference: None,
        device: "cpu".into(),
        threads: 2,
        version: "0.1.0".into(),
    }
}
