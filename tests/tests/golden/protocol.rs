//! Kind `protocol`: windows, sums, error and bits per byte of a toy scorer.

use crate::file::{Case, Outputs, Tensor};
use longwave_eval::plan::truncate;
use longwave_eval::protocols::by_position::by_position;
use longwave_eval::protocols::fixed_target::fixed_target;
use longwave_eval::protocols::sliding::sliding;
use longwave_eval::text::Material;
use longwave_eval::{Plan, PositionRow, PositionTally, Score, Tally, Window};
use serde_json::Value;

/// Checks one case of a file.
pub fn check(_name: &str, case: &Case) {
    if case.config.get("protocol").is_some() { windows(case) } else { positions(case) }
}

/// The nats of target `t` of `document` after `context` tokens, as the files define it.
struct Scorer {
    a: f64,
    b: f64,
    e: f64,
    g: f64,
}

impl Scorer {
    fn new(config: &Value) -> Self {
        let key = |key: &str| config[key].as_f64().unwrap();
        Self { a: key("a"), b: key("b"), e: key("e"), g: key("g") }
    }

    fn nll(&self, context: usize, t: usize, document: usize) -> f64 {
        self.a
            + self.b / (1.0 + context as f64)
            + self.e * (t as f64).sin()
            + self.g * (document as f64).cos()
    }

    fn window(&self, window: &Window) -> Vec<f64> {
        (window.first..window.end).map(|t| self.nll(t - window.start, t, window.document)).collect()
    }
}

fn counts(tensor: &Tensor) -> Vec<usize> {
    tensor.data.iter().map(|&number| number as usize).collect()
}

fn plan(config: &Value, documents: &[usize]) -> Plan {
    let key = |key: &str| usize::try_from(config[key].as_u64().unwrap()).unwrap();
    match config["protocol"].as_str().unwrap() {
        "fixed_target" => {
            let (target, max_length) = (key("target"), key("max_length"));
            fixed_target(documents, key("length"), target, max_length, key("window_stride"), None)
        }
        "sliding" => sliding(documents, key("length"), key("stride")),
        "non_overlapping" => sliding(documents, key("length"), key("length")),
        other => panic!("no protocol `{other}`"),
    }
}

fn windows(case: &Case) {
    let config = &case.config;
    let documents = counts(&case.input("lengths"));
    let bytes = counts(&case.input("token_bytes"));
    let offsets: Vec<usize> = documents
        .iter()
        .scan(0, |offset, tokens| {
            *offset += tokens;
            Some(*offset - tokens)
        })
        .collect();
    let mut outputs = case.outputs();
    let whole = plan(config, &documents);
    let rows: Vec<f64> = whole
        .windows
        .iter()
        .flat_map(|w| [w.document, w.start, w.first, w.end].map(|number| number as f64))
        .collect();
    outputs.compare_f64("windows", &rows);
    let read = match config["window"].as_u64() {
        Some(window) => truncate(&whole, usize::try_from(window).unwrap(), true),
        None => whole,
    };
    let scorer = Scorer::new(config);
    let mut tally = Tally::new(documents.len(), read.skipped_documents);
    for window in &read.windows {
        let offset = offsets[window.document];
        let bytes: usize = bytes[offset + window.first..offset + window.end].iter().sum();
        let scores: Vec<Score> =
            scorer.window(window).into_iter().map(|nll| Score { nll, correct: false }).collect();
        tally.add(window.document, &scores, bytes as u64);
    }
    check_tally(&tally, outputs);
}

fn check_tally(tally: &Tally, mut outputs: Outputs) {
    let (values, sums) = (tally.values(Material::Documents).unwrap(), tally.sums());
    let tokens: Vec<f64> = sums.tokens.iter().map(|&tokens| tokens as f64).collect();
    outputs.compare_f64("document_tokens", &tokens);
    outputs.compare_f64("document_nll", &sums.get("nll").unwrap());
    outputs.compare_f64("tokens", &[tally.tokens() as f64]);
    outputs.compare_f64("skipped_documents", &[tally.skipped_documents() as f64]);
    for column in ["nll", "ppl", "bpb"] {
        outputs.compare_f64(column, &[values.get(column).unwrap()]);
    }
    outputs.compare_f64("bytes", &[tally.bytes() as f64]);
    match values.get("nll_se") {
        Some(error) => outputs.compare_f64("nll_se", &[error]),
        None => assert!(!outputs.has("nll_se"), "an error of one document"),
    }
    outputs.done();
}

fn positions(case: &Case) {
    let config = &case.config;
    let key = |key: &str| usize::try_from(config[key].as_u64().unwrap()).unwrap();
    let plan = by_position(&counts(&case.input("lengths")), key("length"));
    let scorer = Scorer::new(config);
    let mut tally = PositionTally::new(key("length"), key("bucket"));
    for window in &plan.windows {
        tally.add(window.first - window.start - 1, &scorer.window(window));
    }
    let rows = tally.rows();
    let column = |of: fn(&PositionRow) -> f64| rows.iter().map(of).collect::<Vec<_>>();
    let mut outputs = case.outputs();
    outputs.compare_f64("position", &column(|row| row.position as f64));
    outputs.compare_f64("tokens", &column(|row| row.tokens as f64));
    outputs.compare_f64("nll", &column(|row| row.nll));
    outputs.done();
}
