use super::*;
use crate::text::Material;
use std::f64::consts::LN_2;

fn scores(nll: &[f64]) -> Vec<Score> {
    nll.iter().map(|&nll| Score { nll, correct: false }).collect()
}

fn value(tally: &Tally, column: &str) -> Option<f64> {
    tally.values(Material::Documents).unwrap().get(column)
}

#[test]
fn equal_documents_have_the_error_of_their_means() {
    let mut tally = Tally::new(4, 1);
    tally.add(0, &scores(&[1.0, 3.0]), 4);
    tally.add(1, &scores(&[3.0, 3.0]), 4);
    tally.add(3, &scores(&[3.0, 5.0]), 8);
    // Document means 2, 3, 4: sd 1, over the root of 3 documents.
    assert!((value(&tally, "nll_se").unwrap() - 1.0 / 3f64.sqrt()).abs() < 1e-15);
    assert_eq!((value(&tally, "nll"), tally.tokens(), tally.documents()), (Some(3.0), 6, 3));
    assert_eq!((value(&tally, "ppl"), tally.bytes(), tally.skipped_documents()), (Some(3f64.exp()), 16, 1));
    assert!((value(&tally, "bpb").unwrap() - 18.0 / (LN_2 * 16.0)).abs() < 1e-15);
}

#[test]
fn one_document_has_no_error_and_none_has_no_values() {
    let mut tally = Tally::new(2, 0);
    assert_eq!(tally.values(Material::Documents), None);
    tally.add(1, &scores(&[2.0]), 0);
    assert_eq!((value(&tally, "nll_se"), value(&tally, "bpb")), (None, None));
}

#[test]
fn accuracy_counts_tokens_and_errs_by_documents() {
    let mut tally = Tally::new(2, 0);
    for (document, correct) in [(0, true), (0, true), (0, false), (0, true), (1, false), (1, true)] {
        tally.add(document, &[Score { nll: 1.0, correct }], 0);
    }
    assert_eq!(
        (value(&tally, "accuracy"), value(&tally, "nll"), tally.tokens()),
        (Some(4.0 / 6.0), Some(1.0), 6)
    );
    // 3 - 4 * 2/3 and 1 - 2 * 2/3: a third each way.
    assert!((value(&tally, "accuracy_se").unwrap() - (2.0 * 2.0 / 9.0f64).sqrt() / 6.0).abs() < 1e-15);
    assert_eq!(value(&tally, "exact_match"), None, "text has no answers");
}

#[test]
fn an_answer_matches_with_all_its_tokens() {
    let mut tally = Tally::new(4, 0);
    for (document, correct) in [(0, true), (0, true), (1, true), (1, false), (3, true)] {
        tally.add(document, &[Score { nll: 1.0, correct }], 0);
    }
    let values = tally.values(Material::Answers).unwrap();
    assert_eq!((values.get("exact_match"), tally.documents()), (Some(2.0 / 3.0), 3));
}

#[test]
fn a_mean_weighs_tokens_not_windows() {
    let mut tally = Tally::new(1, 0);
    tally.add(0, &scores(&[1.0; 9]), 9);
    tally.add(0, &scores(&[11.0]), 1);
    assert_eq!(value(&tally, "nll"), Some(2.0));
}

#[test]
fn sums_come_back_as_they_were_written() {
    let mut tally = Tally::new(2, 0);
    tally.add(0, &[Score { nll: 2.0, correct: true }], 0);
    tally.add(1, &[Score { nll: f64::INFINITY, correct: false }], 0);
    let text = serde_json::to_string(&tally.sums()).unwrap();
    assert_eq!(text, r#"{"tokens":[1,1],"nll":[2.0,null],"correct":[1,0]}"#);
    let read: DocumentSums = serde_json::from_str(&text).unwrap();
    assert!(read.get("nll").unwrap()[1].is_nan());
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

#[test]
fn every_metric_describes_itself() {
    for metric in Metric::all() {
        assert!(!metric.unit().is_empty() && !metric.title().is_empty() && !metric.held_by().is_empty());
        assert!(metric.column().is_some() || !metric.is_share(), "{}", metric.name());
        assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
    }
    for metric in Metric::comparable() {
        assert_eq!(metric.name().parse::<Metric>().unwrap(), metric);
    }
    assert!("perplexity".parse::<Metric>().is_err(), "it has no sums per document");
}

/// A loss that is no number is `null` in a file, and so is what is made of it.
#[test]
fn bits_per_byte_of_no_number_are_no_number() {
    let read = |nll: &str, bytes: u64| {
        let values = format!("{{\"nll\":{nll},\"ppl\":{nll},\"bpb\":null}}");
        let values = fields::deserialize(&mut serde_json::Deserializer::from_str(&values)).unwrap();
        let facts =
            Facts { tokens: 9, bytes, values: &values, per_document: None, difference: None, baseline: None };
        Metric::BitsPerByte.value(&facts)
    };
    assert!(read("null", 9).unwrap().is_nan());
    assert_eq!((read("null", 0), read("2.0", 9)), (None, None));
}
