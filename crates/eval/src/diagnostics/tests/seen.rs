//! Which keys and which distances count, by hand: what windows, biases, geometries and trainings leave.

use super::super::rank::stable_rank;
use super::*;

/// A value of layer 0, of a head or of the whole model; none where nothing is found.
fn value(
    findings: &[Finding],
    diagnostic: Diagnostic,
    head: Option<usize>,
    bin: Option<usize>,
) -> Option<f64> {
    let place = (diagnostic, head.map(|_| 0), head, bin);
    findings.iter().find(|it| (it.diagnostic, it.layer, it.head, it.bin) == place).map(|it| it.value)
}

#[track_caller]
fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("nothing is found");
    assert!((found - expected).abs() < 2e-4 * expected.abs().max(0.05), "{found} for {expected}");
}

/// The angle of each of four bands at the base 100.
fn bands_at(position: f64) -> Vec<f64> {
    (0..4).map(|i| position * 100f64.powf(-f64::from(i) / 4.0)).collect()
}

/// The shares of four bands in the logits of a head, where a query sees keys `from(query)` on and reads distance n at `read(n)`.
fn shares(model: &Gpt, head: usize, from: impl Fn(usize) -> usize, read: impl Fn(usize) -> f64) -> Vec<f64> {
    let tokens = tokens();
    let mut sums = vec![0.0; 4];
    for query in FIRST..LENGTH {
        let seen = from(query)..=query;
        let pairs: Vec<[Vec<f64>; 2]> = seen
            .map(|key| {
                let q = turned(model, head, 0, tokens[query], &bands_at(read(query - key)));
                [q, turned(model, head, 1, tokens[key], &[])]
            })
            .collect();
        for (band, sum) in sums.iter_mut().enumerate() {
            let parts: Vec<f64> =
                pairs.iter().map(|[q, k]| q[band] * k[band] + q[band + 4] * k[band + 4]).collect();
            let mean = parts.iter().sum::<f64>() / parts.len() as f64;
            *sum += (parts.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / parts.len() as f64).sqrt();
        }
    }
    let total: f64 = sums.iter().sum();
    sums.into_iter().map(|sum| sum / total).collect()
}

/// H / ln N of what a query gives to the keys that it sees.
fn ratio(given: &[f64]) -> f64 {
    let total: f64 = given.iter().sum();
    let entropy: f64 = given.iter().map(|p| p / total).map(|p| if p > 0.0 { -p * p.ln() } else { 0.0 }).sum();
    entropy / (given.len() as f64).ln()
}

#[test]
fn keys_that_a_window_hides_count_nowhere() {
    let (model, _) = model("{ kind = 'rope', base = 100.0 }", "layers = 1");
    let found = watched(&model, "{ kind = 'window', window = 5 }", TRAIN);
    let tokens = tokens();
    for head in 0..2 {
        let of = |diagnostic| value(&found, diagnostic, Some(head), None);
        // The last five tokens lie at distances that training showed.
        assert_eq!((of(Diagnostic::UnseenPairs), of(Diagnostic::UnseenAngles)), (Some(0.0), Some(0.0)));
        for (band, share) in shares(&model, head, |query| query - 4, |n| n as f64).into_iter().enumerate() {
            near(value(&found, Diagnostic::BandShare, Some(head), Some(band)), share);
        }
        let of_query = |query: usize| {
            let q = turned(&model, head, 0, tokens[query], &bands_at(query as f64));
            let key = |at: usize| turned(&model, head, 1, tokens[at], &bands_at(at as f64));
            let powers: Vec<f64> =
                (query - 4..=query).map(|at| (dot(&q, &key(at)) / 8f64.sqrt()).exp()).collect();
            ratio(&powers)
        };
        let mean = (FIRST..LENGTH).map(of_query).sum::<f64>() / (LENGTH - FIRST) as f64;
        near(of(Diagnostic::Entropy), mean);
    }
}

/// Both lines about unseen angles are means over queries, so attention that is even has one number on both.
#[test]
fn even_attention_falls_on_unseen_angles_as_keys_do() {
    let (model, _) = model("{ kind = 'rope', base = 100.0 }", "layers = 1");
    let found = watched(&replaced(model, |_, old| old * 1e-4), "'direct'", TRAIN);
    // Out of four bands: the fastest has turned in training; the next one is past its largest angle, 15 * 0.316, from 16 to 19 and a
    // turn later from 35 to 39; the others are past theirs from 16 on.
    let new = |distance: usize| match distance {
        0..16 => 0.0,
        16..20 | 35..40 => 0.75,
        _ => 0.5,
    };
    let of_query = |query: usize| (0..=query).map(new).sum::<f64>() / (query as f64 + 1.0);
    let mean = (FIRST..LENGTH).map(of_query).sum::<f64>() / (LENGTH - FIRST) as f64;
    for head in 0..2 {
        for diagnostic in [Diagnostic::UnseenAngles, Diagnostic::UnseenPairs] {
            near(value(&found, diagnostic, Some(head), None), mean);
        }
    }
}

#[test]
fn keys_that_a_bias_or_a_stick_hides_are_not_seen() {
    let tokens = tokens();
    let logit = |model: &Gpt, head, query: usize, key: usize| {
        let q = turned(model, head, 0, tokens[query], &[]);
        dot(&q, &turned(model, head, 1, tokens[key], &[])) / 8f64.sqrt()
    };
    let mean = |of: &dyn Fn(usize) -> f64| (FIRST..LENGTH).map(of).sum::<f64>() / (LENGTH - FIRST) as f64;
    // Head 0 sees its own key alone, head 1 the one before too.
    let (hard, _) = model("{ kind = 'hard_alibi', masked_heads = 2 }", "layers = 1");
    let found = watched(&hard, "'direct'", TRAIN);
    assert_eq!(value(&found, Diagnostic::Entropy, Some(0), None), None);
    near(value(&found, Diagnostic::EffectiveKeys, Some(0), None), 1.0);
    let of_two = |query: usize| ratio(&[query - 1, query].map(|key| logit(&hard, 1, query, key).exp()));
    near(value(&found, Diagnostic::Entropy, Some(1), None), mean(&of_two));
    // A stick is broken at the keys before the query's own.
    let (stick, _) = model("'none'", "layers = 1\nattention = 'stick_breaking'");
    let found = watched(&stick, "'direct'", TRAIN);
    for head in 0..2 {
        let of_query = |query: usize| {
            let mut left = 1.0;
            let broken = (0..query).rev().map(|key| {
                let share = left / (1.0 + (-logit(&stick, head, query, key)).exp());
                left -= share;
                share
            });
            ratio(&broken.collect::<Vec<f64>>())
        };
        near(value(&found, Diagnostic::Entropy, Some(head), None), mean(&of_query));
    }
}

#[test]
fn the_shares_of_bands_are_those_of_the_distances_that_are_read() {
    let (model, _) = model("{ kind = 'rope', base = 100.0 }", "layers = 1");
    let found = watched(&model, "{ kind = 'rerope', window = 8 }", TRAIN);
    for head in 0..2 {
        for (band, share) in shares(&model, head, |_| 0, |n| n.min(8) as f64).into_iter().enumerate() {
            near(value(&found, Diagnostic::BandShare, Some(head), Some(band)), share);
        }
    }
    for several in ["{ kind = 'rerope', window = 8 }", "'self_extend'", "'dual_chunk'"] {
        let found = watched(&model, several, TRAIN);
        assert_eq!(value(&found, Diagnostic::StableRank, None, None), None, "{several}");
    }
    assert!(value(&watched(&model, "'yarn'", TRAIN), Diagnostic::StableRank, None, None).is_some());
    // The mean of the layers that do not turn would be no rank of the model.
    let (mixed, _) = self::model("{ kind = 'mixed', layers = ['rope', 'none'] }", "layers = 2");
    let found = watched(&mixed, "{ kind = 'rerope', window = 8 }", TRAIN);
    assert_eq!(value(&found, Diagnostic::StableRank, None, None), None);
}

#[test]
fn norms_are_those_of_q_and_k_whatever_turns_them() {
    let (model, _) = model("{ kind = 'rope', base = 100.0 }", "layers = 1");
    let tokens = tokens();
    for extension in ["'direct'", "'yarn'", "'dual_chunk'"] {
        let found = watched(&model, extension, TRAIN);
        for (which, diagnostic, first) in [(0, Diagnostic::QueryNorm, FIRST), (1, Diagnostic::KeyNorm, 0)] {
            let vectors: Vec<Vec<f64>> =
                tokens[first..].iter().map(|&token| turned(&model, 1, which, token, &[])).collect();
            for band in 0..4 {
                let sum: f64 = vectors.iter().map(|it| it[band].hypot(it[band + 4])).sum();
                near(value(&found, diagnostic, Some(1), Some(band)), sum / vectors.len() as f64);
            }
        }
    }
}

/// A long text comes in several blocks of queries, each with all keys before them.
#[test]
fn every_key_of_a_long_text_counts_once() {
    let (model, _) = model("{ kind = 'rope', base = 100.0 }", "layers = 1");
    // The tokens change on the way, so that early ones counted twice would show.
    let tokens: Vec<u32> = (0..300).map(|at| if at < 150 { at % 3 } else { 3 + at % 7 }).collect();
    let (reading, shown) = (model.position.clone(), shown(&model, TRAIN));
    let (mut watcher, mut gathered) = (Watcher::new(&model, &reading, TRAIN, &shown), Gathered::new(1));
    watcher.text(&tokens, 0, 0, &mut gathered).unwrap();
    let found = gathered.findings("x", 300);
    for (which, diagnostic) in [(0, Diagnostic::QueryNorm), (1, Diagnostic::KeyNorm)] {
        let norm = |token: u32, band: usize| {
            let vector = turned(&model, 0, which, token, &[]);
            vector[band].hypot(vector[band + 4])
        };
        for band in 0..4 {
            let sum: f64 = tokens.iter().map(|&token| norm(token, band)).sum();
            near(value(&found, diagnostic, Some(0), Some(band)), sum / 300.0);
        }
    }
    let keys = |at: usize| turned(&model, 0, 1, tokens[at], &bands_at(at as f64));
    let keys: Vec<f32> = (0..300).flat_map(keys).map(|x| x as f32).collect();
    near(value(&found, Diagnostic::StableRank, Some(0), None), stable_rank(&keys, 8).unwrap());
}

#[test]
fn distances_that_training_drew_are_seen() {
    let (model, _) = model("{ kind = 'rope', base = 10000.0 }", "layers = 1");
    let of = |below: usize| {
        let found = watched(&model, "'direct'", below);
        [Diagnostic::UnseenAngles, Diagnostic::UnseenPairs, Diagnostic::PredictedBand]
            .map(|diagnostic| value(&found, diagnostic, None, None).unwrap())
    };
    let predicted = |below: f64| 4.0 * (below / 3.657_21).ln() / 1e4_f64.ln();
    let [angles, pairs, band] = of(TRAIN);
    assert!(angles > 0.1 && pairs > 0.1 && (band - predicted(16.0)).abs() < 1e-9, "{angles} {pairs} {band}");
    let [angles, pairs, band] = of(8 * TRAIN);
    assert!(
        (angles, pairs) == (0.0, 0.0) && (band - predicted(128.0)).abs() < 1e-9,
        "{angles} {pairs} {band}"
    );
}

#[test]
fn the_predicted_band_is_of_all_layers_that_turn() {
    let predicted = |base: f64| 4.0 * (16.0 / 3.657_21_f64).ln() / base.ln();
    let of = |layers: &str| {
        let (model, _) = model(&format!("{{ kind = 'mixed', layers = [{layers}] }}"), "layers = 2");
        let found = watched(&model, "'direct'", TRAIN);
        let here = found.iter().filter(|it| it.diagnostic == Diagnostic::PredictedBand);
        here.map(|it| (it.layer, it.value)).collect::<Vec<_>>()
    };
    let rope = |base: &str| format!("{{ kind = 'rope', base = {base} }}");
    let close = |found: Vec<(Option<usize>, f64)>, expected: &[(Option<usize>, f64)]| {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-9, "{found:?} {expected:?}");
        }
    };
    let (fast, slow) = (predicted(100.0), predicted(1e6));
    let mean = f64::midpoint(fast, slow);
    close(
        of(&format!("{}, {}", rope("100.0"), rope("1e6"))),
        &[(None, mean), (Some(0), fast), (Some(1), slow)],
    );
    close(
        of(&format!("{}, {}", rope("1e6"), rope("100.0"))),
        &[(None, mean), (Some(0), slow), (Some(1), fast)],
    );
    close(of(&format!("'none', {}", rope("100.0"))), &[(None, fast), (Some(1), fast)]);
}
