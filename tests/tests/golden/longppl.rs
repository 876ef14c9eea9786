//! File `longppl`: which tokens are key tokens, and the perplexity over them.

use crate::file::Case;
use longwave_data::Split;
use longwave_eval::key_tokens::{Document, KeyTokens, ReferenceRun, Rule};
use longwave_eval::text::Material;
use longwave_eval::{Plan, Score, Tally, Window};

/// Checks one case: a text that the reference reads from its beginning.
pub fn check(case: &Case) {
    let [long, short, loss] = ["loss_long", "loss_short", "loss"].map(|name| case.input(name).data);
    let tokens = loss.len();
    let rule = Rule {
        alpha: case.f64("alpha"),
        beta: case.f64("beta"),
        short: case.usize("trunc"),
        sliding: case.usize("sliding"),
        long: tokens,
    };
    let of = |plan: &Plan, losses: &[f64]| -> Vec<Vec<Score>> {
        let score = |window: &Window| {
            losses[window.first..window.end].iter().map(|&nll| Score { nll, correct: false }).collect()
        };
        plan.windows.iter().map(score).collect()
    };
    let [of_short, of_long] = [rule.short_reading(&[tokens]), rule.long_reading(&[tokens])];
    let mut key = rule.key_tokens(&[tokens], &of(&of_short, &short), &of(&of_long, &long));
    let key = key.remove(0);
    let is_key: Vec<f64> = (0..tokens).map(|token| f64::from(u8::from(key.contains(&token)))).collect();
    let starts: Vec<f64> = (0..tokens)
        .map(|token| {
            let window = of_short.windows.iter().find(|window| (window.first..window.end).contains(&token));
            window.map_or(-1.0, |window| window.start as f64)
        })
        .collect();
    let mut outputs = case.outputs();
    outputs.compare_f64("key", &is_key);
    outputs.compare_f64("count", &[key.len() as f64]);
    outputs.compare_f64("short_start", &starts);
    // The model under test reads the whole text.
    let whole = Window { document: 0, start: 0, first: 1, end: tokens };
    let plan = Plan { windows: vec![whole], skipped_documents: 0 };
    let scores = of(&plan, &loss);
    outputs.compare_f64("ppl", &[perplexity(&plan, &scores).unwrap()]);
    let keys = KeyTokens {
        format: 1,
        reference: ReferenceRun {
            run: String::new(),
            config_hash: String::new(),
            checkpoint: String::new(),
            step: 0,
            sha256: String::new(),
        },
        rule,
        tokenizer: String::new(),
        corpus: String::new(),
        split: Split::Test,
        text: String::new(),
        documents: vec![Document { tokens, key }],
    };
    let (plan, scores) = keys.only(&plan, &scores);
    match perplexity(&plan, &scores) {
        Some(perplexity) => outputs.compare_f64("longppl", &[perplexity]),
        None => assert!(!outputs.has("longppl"), "a value without a key token"),
    }
    outputs.done();
}

fn perplexity(plan: &Plan, scores: &[Vec<Score>]) -> Option<f64> {
    let mut tally = Tally::new(1, 0);
    for (window, scores) in plan.windows.iter().zip(scores) {
        tally.add(window.document, scores, 0);
    }
    tally.values(Material::Documents)?.get("ppl")
}
