use super::*;
use crate::metrics::Tally;
use crate::text::Material;

fn keys() -> KeyTokens {
    KeyTokens {
        format: FORMAT,
        reference: ReferenceRun {
            run: "long".into(),
            config_hash: "0123".into(),
            checkpoint: "last".into(),
            step: 10,
            sha256: "4567".into(),
        },
        rule: Rule { alpha: 2.0, beta: -2.0, short: 4, sliding: 1, long: 32 },
        tokenizer: "89ab".into(),
        corpus: "texts".into(),
        split: Split::Test,
        text: "cdef".into(),
        documents: vec![
            Document { tokens: 10, key: vec![4, 5, 9] },
            Document { tokens: 3, key: Vec::new() },
            Document { tokens: 8, key: vec![6] },
        ],
    }
}

#[test]
fn a_file_comes_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    keys().write(&path).unwrap();
    let (read, hash) = KeyTokens::read(&path).unwrap();
    assert_eq!((read, hash.len()), (keys(), DIGITS));
    assert_eq!((keys().count(), keys().candidates()), (4, 6 + 4));
    let text = std::fs::read_to_string(&path).unwrap();
    let altered = |text: String, why: &str| {
        std::fs::write(&path, text).unwrap();
        let error = KeyTokens::read(&path).unwrap_err();
        assert!(error.message().contains(why) && error.hint_text().is_some(), "{error}");
    };
    altered(text.replace("[4,5,9]", "[4,5,8]"), "it was cut or altered");
    let unsealed = |text: &str| text.split_once(",\"checksum\"").unwrap().0.to_owned() + "}";
    altered(unsealed(&text).replace("[4,5,9]", "[4,9,5]"), "out of order");
    altered(unsealed(&text).replace("[4,5,9]", "[4,5,10]"), "past its end");
    altered(unsealed(&text).replace("\"format\":1", "\"format\":2"), "has format 2");
    altered(unsealed(&text).replace("\"rule\"", "\"rules\""), "`rules`");
    altered("{}".into(), "`format`");
    assert!(KeyTokens::read(&folder.path().join("none")).is_err());
}

#[test]
fn key_tokens_alone_are_summed() {
    let plan = Plan {
        windows: vec![
            Window { document: 0, start: 0, first: 1, end: 6 },
            Window { document: 0, start: 2, first: 6, end: 9 },
            Window { document: 2, start: 0, first: 5, end: 8 },
        ],
        skipped_documents: 1,
    };
    let score = |window: &Window| -> Vec<Score> {
        (window.first..window.end).map(|token| Score { nll: token as f64, correct: token % 2 == 0 }).collect()
    };
    let scores: Vec<_> = plan.windows.iter().map(score).collect();
    let (only, kept) = keys().only(&plan, &scores);
    let places: Vec<_> = only.windows.iter().map(|it| (it.document, it.start, it.first, it.end)).collect();
    assert_eq!(places, [(0, 0, 4, 5), (0, 0, 5, 6), (2, 0, 6, 7)]);
    let mut tally = Tally::new(3, only.skipped_documents);
    for (window, scores) in only.windows.iter().zip(&kept) {
        tally.add(window.document, scores, 0);
    }
    assert_eq!((tally.tokens(), tally.documents(), tally.skipped_documents()), (3, 2, 1));
    assert_eq!(tally.values(Material::Documents).unwrap().get("nll"), Some(5.0));
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let scored = |first, end| Plan {
        windows: vec![Window { document: 0, start: 0, first, end }],
        skipped_documents: 0,
    };
    keys().check_plan(&scored(1, 5), "evaluate[0]", "k").unwrap();
    let none = keys().check_plan(&scored(6, 9), "evaluate[0]", "k").unwrap_err();
    assert!(
        none.message().starts_with("`evaluate[0].key_tokens = \"k\"` is not allowed: none of its 4"),
        "{none}"
    );
    keys().check_model("other", "evaluate[0]", "k").unwrap();
    let own = keys().check_model("0123", "evaluate[0]", "k").unwrap_err();
    assert!(own.message().contains("`long` chose these key tokens"), "{own}");
    assert!(none.hint_text().is_some() && own.hint_text().is_some());
}
