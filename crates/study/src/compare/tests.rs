mod holm;

use super::*;
use crate::difference::tests::{row, set_key};
use longwave_eval::{Reference, ResultRow, Split};
use longwave_position::ExtensionConfig;
use longwave_position::tokens::Tokens;

fn all(a: &[ResultRow], b: &[ResultRow], metric: Metric) -> Result<Vec<Comparison>> {
    let (a, b) = (Side::new("a", a.to_vec()), Side::new("b", b.to_vec()));
    compare(&a, &b, &Filter::default(), metric).map(|found| found.list)
}

fn by_loss(a: &Side, b: &Side) -> Result<Comparisons> {
    compare(a, b, &Filter::default(), Metric::Loss)
}

fn seeds(name: &str, runs: &[Vec<ResultRow>]) -> Side {
    Side { runs: runs.to_vec(), ..Side::new(name, Vec::new()) }
}

#[test]
fn compares_what_both_have_and_corrects_for_all() {
    let a = [row("ntk", 256, 0, &[1.0, 2.1, 3.2]), row("ntk", 512, 0, &[1.0, 2.0, 3.0])];
    let b = [row("ntk", 256, 5, &[1.5, 2.5, 3.5]), row("yarn", 512, 5, &[1.0, 2.0, 3.0])];
    let found = all(&a, &b, Metric::Loss).unwrap();
    assert_eq!(found.len(), 1);
    assert!((found[0].difference + 0.4).abs() < 1e-12);
    assert_eq!((found[0].p, found[0].documents), (found[0].p_holm, 3));
}

#[test]
fn what_hinders_is_named_by_its_key() {
    let a = [row("ntk", 256, 0, &[1.0, 2.0])];
    let message = |b: ResultRow| all(&a, &[b], Metric::Loss).unwrap_err().message().to_owned();
    assert!(message(row("yarn", 256, 0, &[1.0])).ends_with("differ in `extend` (ntk and yarn)"));
    assert!(message(row("ntk", 512, 0, &[1.0])).ends_with("differ in `length` (256 and 512)"));
    let mut best = row("ntk", 256, 0, &[1.0]);
    best.checkpoint = "best".to_owned();
    assert!(message(best).ends_with("differ in `checkpoint` (last and best)"));
    let mut other = row("ntk", 512, 0, &[1.0]);
    other.extend_config = serde_json::json!({ "kind": "ntk", "scale": 2.0 });
    assert!(
        message(other.clone()).ends_with("differ in `length` (256 and 512) and `extend.scale` (- and 2.0)"),
        "{}",
        message(other)
    );
}

#[test]
fn a_checkpoint_beside_none_is_compared_with_the_end() {
    let at = |checkpoint: &str, step: u64, nll: [f64; 2]| ResultRow {
        checkpoint: checkpoint.to_owned(),
        step,
        ..row("direct", 256, 0, &nll)
    };
    let rows = vec![at("step-2", 2, [4.0, 5.0]), at("step-4", 4, [3.0, 4.5]), at("last", 6, [2.0, 3.0])];
    let side = |checkpoint: Option<&str>| Side {
        checkpoint: checkpoint.map(str::to_owned),
        ..Side::new("a", rows.clone())
    };
    for (left, right, reading, difference) in [
        (Some("step-2"), None, "direct (checkpoint = step-2 - last)", 2.0),
        (None, Some("step-4"), "direct (checkpoint = last - step-4)", -1.25),
        (Some("step-2"), Some("step-4"), "direct (checkpoint = step-2 - step-4)", 0.75),
    ] {
        let found = by_loss(&side(left), &side(right)).unwrap().list;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].reading, reading);
        assert!((found[0].difference - difference).abs() < 1e-12, "{reading}: {}", found[0].difference);
    }
    // A side that was read at no end has what it has.
    let best = Side::new("b", vec![at("best", 4, [3.0, 4.5])]);
    let found = by_loss(&side(Some("step-2")), &best).unwrap().list;
    assert_eq!(found[0].other_checkpoint, "best");
}

#[test]
fn two_readings_of_one_run_are_compared() {
    let rows = vec![
        row("direct", 256, 0, &[3.0, 4.0, 5.5]),
        row("yarn", 256, 0, &[1.0, 2.0, 3.0]),
        row("yarn", 512, 0, &[1.0, 2.0, 3.0]),
    ];
    let side =
        |kind: &str| Side { extend: Some(Reference::Kind(kind.to_owned())), ..Side::new("a", rows.clone()) };
    let found = by_loss(&side("yarn"), &side("direct")).unwrap();
    assert_eq!(found.list.len(), 1);
    assert_eq!(found.list[0].reading, "yarn - direct");
    assert!((found.list[0].difference + 13.0 / 6.0).abs() < 1e-12);
    assert!(found.notes[0].contains("`length`"), "{:?}", found.notes);
    // One side alone names what both are read with.
    let found = by_loss(&side("yarn"), &Side::new("b", rows.clone())).unwrap();
    assert_eq!(found.list.iter().map(|one| one.reading.as_str()).collect::<Vec<_>>(), ["yarn", "yarn"]);
    let error = by_loss(&side("ntk"), &side("direct")).unwrap_err();
    assert!(error.hint_text().unwrap().contains("its extensions direct, yarn"), "{error}");
}

#[test]
fn filters_keep_lengths_and_extensions() {
    let rows =
        [row("ntk", 256, 0, &[1.0, 2.0]), row("ntk", 512, 0, &[1.5, 2.0]), row("yarn", 512, 0, &[1.0, 2.5])];
    let side = Side::new("a", rows.to_vec());
    let kept = |lengths: &[Tokens], extend: &[&str]| {
        let extend = extend.iter().map(|kind| Reference::Kind((*kind).to_owned())).collect();
        compare(&side, &side, &Filter { lengths: lengths.to_vec(), extend }, Metric::Loss)
            .map(|found| found.list.len())
    };
    assert_eq!(kept(&[Tokens::times(4.0)], &[]).unwrap(), 2);
    assert_eq!(kept(&[Tokens::Count(512)], &["yarn"]).unwrap(), 1);
    assert!(kept(&[Tokens::Count(64)], &[]).unwrap_err().hint_text().unwrap().contains("256 and 512"));
}

#[test]
fn what_is_asked_for_and_not_compared_is_named() {
    let of = |extend: &str, length: usize| row(extend, length, 0, &[1.0, 2.0]);
    let a = Side::new("a", vec![of("ntk", 256), of("ntk", 512)]);
    let b = Side::new("b", vec![of("ntk", 256), of("yarn", 256)]);
    let notes = |a: &Side, b: &Side, lengths: &[Tokens], extend: &[&str]| {
        let extend = extend.iter().map(|kind| Reference::Kind((*kind).to_owned())).collect();
        let found = compare(a, b, &Filter { lengths: lengths.to_vec(), extend }, Metric::Loss).unwrap();
        assert_eq!(found.list.len(), 1);
        found.notes
    };
    // L is 128.
    let asked = [Tokens::times(2.0), Tokens::times(4.0), Tokens::Count(64)];
    assert_eq!(
        notes(&a, &b, &asked, &["ntk", "yarn", "linear"]),
        [
            "1 measured for a have no partner in b: the nearest differs in `length`",
            "nothing is compared at 4L: b has no such measurement",
            "nothing is compared at 64: neither side has such a measurement",
            "nothing is compared with yarn: a has no such measurement",
            "nothing is compared with linear: neither side has such a measurement",
        ]
    );
    assert_eq!(notes(&a, &b, &asked[..1], &["ntk"]), [""; 0]);
    // Two readings are what was asked for, each on its side.
    let read =
        |side: &Side, kind: &str| Side { extend: Some(Reference::Kind(kind.to_owned())), ..side.clone() };
    assert_eq!(notes(&read(&a, "ntk"), &read(&b, "yarn"), &asked[..1], &["ntk", "yarn"]), [""; 0]);
}

#[test]
fn seeds_are_paired_by_number_and_others_are_named() {
    let run = |seed: u64, nll: f64| vec![row("ntk", 256, seed, &[nll, nll + 1.0])];
    let a = seeds("a", &[run(0, 1.0), run(1, 1.5), run(2, 2.0)]);
    let b = seeds("b", &[run(1, 2.0), run(2, 3.0), run(3, 9.0)]);
    let found = by_loss(&a, &b).unwrap();
    assert_eq!(found.list[0].seeds, 2);
    assert!((found.list[0].difference + 0.75).abs() < 1e-12);
    // The perplexities are those of the paired seeds.
    assert!((found.list[0].ppl - 2.25f64.exp()).abs() < 1e-9);
    assert_eq!(found.notes, ["one side alone has seed 0 and 3: left out"]);
    let other = seeds("c", &[run(5, 1.0), run(6, 1.0)]);
    let error = by_loss(&a, &other).unwrap_err();
    assert_eq!(error.message(), "`a` and `c` have no `seed` in common: 0, 1 and 2, and 5 and 6");
    let twice = seeds("d", &[run(0, 1.0), run(0, 2.0)]);
    let error = by_loss(&twice, &b).unwrap_err();
    assert_eq!((error.message(), error.exit_code()), ("`d` has `seed` 0 twice", 2));
}

#[test]
fn seeds_of_several_runs_are_no_pair_where_each_side_has_one_of_them() {
    let (short, long) =
        (|seed| row("ntk", 256, seed, &[1.0, 2.0]), |seed| row("ntk", 512, seed, &[1.0, 2.0]));
    let a = seeds("a", &[vec![short(0), long(0)], vec![short(1)]]);
    let b = seeds("b", &[vec![short(0)], vec![short(1), long(1)]]);
    let found = by_loss(&a, &b).unwrap();
    assert_eq!(found.list.iter().map(|one| one.settings.length).collect::<Vec<_>>(), [256]);
}

#[test]
fn of_one_run_the_latest_step_stands() {
    let mut later = row("ntk", 256, 0, &[2.0, 3.0]);
    later.step = 12;
    let a = [row("ntk", 256, 0, &[9.0, 9.0]), later];
    let found = all(&a, &[row("ntk", 256, 0, &[2.0, 3.0])], Metric::Loss).unwrap();
    assert_eq!((found.len(), found[0].seeds, found[0].difference), (1, 1, 0.0));
}

#[test]
fn a_run_that_was_trained_further_is_compared_as_it_is_now() {
    let at = |step: u64, extend: &str, length: usize, nll: f64| ResultRow {
        step,
        config_hash: format!("of {step} steps"),
        ..row(extend, length, 0, &[nll, nll + 1.0, nll + 2.5])
    };
    // At L `linear` reads as trained: its difference to `direct` is 0 for one model, and not for two.
    let mut rows = vec![at(7, "direct", 128, 3.5), at(7, "linear", 128, 3.5), at(7, "linear", 256, 4.0)];
    rows.extend([at(40, "direct", 128, 2.0), at(40, "direct", 256, 2.5)]);
    let read = |kind: &str, rows: &[ResultRow]| Side {
        extend: Some(Reference::Kind(kind.to_owned())),
        ..Side::new(kind, rows.to_vec())
    };
    let error = by_loss(&read("linear", &rows), &read("direct", &rows)).unwrap_err();
    assert_eq!(error.message(), "`linear` was measured so at step 7 alone, and was trained to step 40 since");
    let hint = "measure it again: `longwave eval RUN --lengths 128,256 --extend linear`";
    assert_eq!(error.hint_text(), Some(hint));
    // Measured again at L, it is compared there.
    rows.push(at(40, "linear", 128, 2.0));
    let found = by_loss(&read("linear", &rows), &read("direct", &rows)).unwrap();
    assert_eq!(
        found.list.iter().map(|one| (one.settings.length, one.difference)).collect::<Vec<_>>(),
        [(128, 0.0)]
    );
    assert_eq!(
        found.notes,
        [
            "linear was trained to step 40: what was measured only before, at step 7, is left out (1 of its rows); \
          `longwave eval RUN --lengths 256 --extend linear` measures it again"
        ]
    );
}

#[test]
fn equal_shares_of_other_answers_are_no_repetition() {
    // Both lengths have 1 and 2 of 4 right, of other questions.
    let of = |length: usize, right: f64, losses: &[f64]| {
        row("direct", length, 0, losses).with("exact_match", right / 4.0)
    };
    let a = [of(256, 1.0, &[1.0, 2.0]), of(512, 1.0, &[1.1, 2.3])];
    let b = [of(256, 2.0, &[1.2, 2.1]), of(512, 2.0, &[1.5, 2.4])];
    let found = all(&a, &b, Metric::ExactMatch).unwrap();
    assert_eq!(found.iter().map(|one| one.repeats).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn lines_of_one_name_say_what_tells_them_apart() {
    let of = |split: Split, windows: u32| {
        let mut it = row("direct", 256, 0, &[1.0 + f64::from(windows), 2.0]);
        it.settings.split = split;
        let mut settings = serde_json::to_value(&it.settings).unwrap();
        settings["windows_per_document"] = windows.into();
        it.settings = serde_json::from_value(settings).unwrap();
        it
    };
    let rows = [of(Split::Test, 1), of(Split::Valid, 1), of(Split::Test, 2)];
    let names: Vec<String> =
        all(&rows, &rows, Metric::Loss).unwrap().into_iter().map(|one| one.reading).collect();
    assert_eq!(
        names,
        [
            "direct (split = test, windows_per_document = 1)",
            "direct (split = valid, windows_per_document = 1)",
            "direct (split = test, windows_per_document = 2)"
        ]
    );
    // One of each needs no more than the extension.
    let names: Vec<String> =
        all(&rows[..1], &rows[..1], Metric::Loss).unwrap().into_iter().map(|one| one.reading).collect();
    assert_eq!(names, ["direct"]);
}

#[test]
fn models_of_other_training_lengths_compare_where_they_read_alike() {
    let mut b = row("direct", 512, 0, &[1.5, 2.5]);
    b.settings.train_length = 256;
    let side = |row: ResultRow| Side::new("a", vec![row]);
    let found = by_loss(&side(row("direct", 512, 0, &[1.0, 2.0])), &side(b)).unwrap();
    assert!((found.list[0].difference + 0.5).abs() < 1e-12);
    assert_eq!(found.notes, ["the sides were trained at 128 and at 256 tokens"]);
}

/// Each was read as its config says: at up to 8L, its last L tokens scored.
#[test]
fn the_hint_for_other_training_lengths_says_what_both_can_be_read_with() {
    let read = |train: usize, times: &[usize]| -> Vec<ResultRow> {
        let of = |times: &usize| {
            let mut row = row("direct", times * train, 0, &[1.0, 2.0]);
            row.settings.train_length = train;
            let keys = [("target", train), ("max_length", 8 * train), ("window_stride", 8 * train)];
            for (key, value) in keys {
                set_key(&mut row, key, value);
            }
            row
        };
        times.iter().map(of).collect()
    };
    let (a, b) = (read(64, &[1, 8]), read(32, &[1, 8]));
    for metric in [Metric::Loss, Metric::BitsPerByte] {
        let error = all(&a, &b, metric).unwrap_err();
        assert!(error.message().contains("`target` (64 and 32)"), "{error}");
        let hint = "evaluate both alike, as `longwave eval RUN --lengths 256 --set target=32`; `compare A:yarn B:direct` \
                    compares two readings";
        assert_eq!(error.hint_text(), Some(hint));
    }
    // Of one training length, any multiple of it is the same length on both sides.
    let hint = all(&a[..1], &a[1..], Metric::Loss).unwrap_err();
    assert!(hint.hint_text().unwrap().contains("`longwave eval RUN --lengths 8L --extend yarn`"), "{hint}");
}

#[test]
fn a_perplexity_over_seeds_is_that_of_the_mean_loss() {
    let a = seeds("a", &[vec![row("ntk", 256, 0, &[2.0])], vec![row("ntk", 256, 1, &[4.0])]]);
    let found = by_loss(&a, &a).unwrap().list.remove(0);
    assert_eq!((found.ppl, found.other_ppl, found.value), (3f64.exp(), 3f64.exp(), 3.0));
}

#[test]
fn other_text_and_other_tokens_are_refused() {
    let a = [row("ntk", 256, 0, &[1.0, 2.0]), row("yarn", 256, 0, &[1.0, 2.0])];
    let mut b = a.clone();
    b[0].corpus = Some("b".to_owned());
    let mut named = a.clone();
    named[0].corpus = Some("a".to_owned());
    let error = all(&named[..1], &b[..1], Metric::Loss).unwrap_err();
    assert_eq!(error.message(), "the two runs read different text: `a` and `b`");
    // What was read alike is compared.
    assert_eq!(all(&named, &b, Metric::Loss).unwrap()[0].extend, "yarn");
    let mut c = row("ntk", 256, 0, &[1.0, 2.0]);
    (c.tokens, c.bytes) = (30, 90);
    let c = c.with("bpb", 0.5);
    let mut a = a[0].clone();
    a.bytes = 90;
    let (a, c) = ([a.with("bpb", 0.75)], [c]);
    let error = all(&a, &c, Metric::Loss).unwrap_err();
    assert!(error.message().contains("scored different tokens") && error.hint_text().is_some(), "{error}");
    assert_eq!(all(&a, &c, Metric::BitsPerByte).unwrap()[0].difference, 0.25);
    let none = all(&a, &a, Metric::ExactMatch).unwrap_err();
    assert!(none.message().contains("holds a `exact_match`"), "{none}");
}

/// Each seed chooses for itself, on the validation split: the two are one reading, and what was tried is none.
#[test]
fn what_was_chosen_is_compared_and_what_was_tried_is_not() {
    let run = |seed: u64, chosen: f64, loss: f64| {
        let at = |scale: f64| {
            let config: toml::Table = format!("kind = \"ntk\"\nscale = {scale:?}").parse().unwrap();
            let config = ExtensionConfig::from_value(&config.into(), "extend").unwrap();
            ResultRow {
                extend_config: serde_json::to_value(config).unwrap(),
                ..row("ntk", 256, seed, &[loss, loss + 0.5])
            }
        };
        // The last one was asked for on this split, and never tried.
        let tried = [1.5, 2.0, 5.0].map(|scale| {
            let mut row = at(scale);
            row.settings.split = Split::Valid;
            row
        });
        let among = serde_json::json!({ "scale": [1.5, 2] });
        let read = ResultRow { chosen_among: Some(among), ..at(chosen) };
        [tried.to_vec(), vec![read]].concat()
    };
    let (a, b) = (
        seeds("a", &[run(0, 1.5, 3.0), run(1, 2.0, 3.1)]),
        seeds("b", &[run(0, 2.0, 2.0), run(1, 1.5, 2.2)]),
    );
    let found = by_loss(&a, &b).unwrap().list;
    let read: Vec<_> =
        found.iter().map(|one| (one.reading.as_str(), one.settings.split, one.seeds)).collect();
    let expected = [("ntk (split = valid)", Split::Valid, 2), ("ntk chosen (split = test)", Split::Test, 2)];
    assert_eq!(read, expected);
    // (3 - 2 + 3.1 - 2.2) / 2.
    assert!(found.iter().all(|one| (one.difference - 0.95).abs() < 1e-12));
    // Values that were tried and never read are all there is.
    let tried = |seed: u64| run(seed, 1.5, 3.0)[..2].to_vec();
    assert_eq!(by_loss(&seeds("a", &[tried(0)]), &seeds("b", &[tried(0)])).unwrap().list.len(), 2);
}
