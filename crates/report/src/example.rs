//! Rows for the tests of this crate.

use longwave_eval::protocols::Keys;
use longwave_eval::{PositionRow, Protocol, ResultRow};

/// A row of a run that is named after its encoding, without sums per document.
pub(crate) fn row(run: &str, extend: &str, length: usize, ppl: f64) -> ResultRow {
    ResultRow {
        run: run.into(),
        config_hash: format!("hash of {run}"),
        encoding: run.into(),
        per_document: None,
        ..longwave_eval::row::example::row(extend, length, ppl.ln()).with("ppl", ppl)
    }
}

/// One trained model read in a dozen ways.
pub(crate) fn rows() -> Vec<ResultRow> {
    let table: [(&str, [f64; 4]); 8] = [
        ("direct", [12.81, 16.1, 27.0, 40.0]),
        ("window_baseline", [12.81, 13.42, 13.4, 13.41]),
        ("linear", [12.81, 17.9, 29.4, 44.0]),
        ("ntk", [12.81, 13.5, 19.5, 39.6]),
        ("yarn", [12.81, 12.8, 13.7, 14.8]),
        ("rerope", [12.81, 12.7, 13.1, 13.9]),
        ("leaky_rerope", [12.9, 12.6, 13.0, 13.7]),
        ("broken", [12.9, 60.0, 9000.0, f64::INFINITY]),
    ];
    let lengths = [128, 256, 512, 1024];
    let cells = table.iter().flat_map(|(extend, ppl)| {
        lengths.iter().zip(ppl).map(move |(length, ppl)| row("rope", extend, *length, *ppl))
    });
    cells.collect()
}

/// The loss by position of two ways to read, over 512 places.
pub(crate) fn positions() -> Vec<ResultRow> {
    let curve = |extend: &str, slope: f64| {
        let mut row = row("rope", extend, 512, 14.0);
        row.settings.protocol = Protocol::ByPosition;
        row.settings.keys = Keys::of(&[("bucket", 16)]);
        let bucket = |index: usize| PositionRow {
            position: 16 * index,
            tokens: 256,
            nll: 2.5 + 1.0 / (1.0 + index as f64) + slope * index.saturating_sub(8) as f64,
        };
        row.positions = Some((0..32).map(bucket).collect());
        row
    };
    vec![curve("direct", 0.06), curve("yarn", 0.004)]
}
