//! What counts among the comparisons of a list.

use super::*;

#[test]
fn the_same_numbers_are_one_comparison_to_holm() {
    // At L both extensions read as trained.
    let a: Vec<ResultRow> =
        ["direct", "ntk", "yarn"].map(|extend| row(extend, 128, 0, &[1.0, 2.1, 3.0])).into_iter().collect();
    let b: Vec<ResultRow> =
        ["direct", "ntk", "yarn"].map(|extend| row(extend, 128, 0, &[1.5, 2.5, 3.7])).into_iter().collect();
    let found = all(&a, &b, Metric::Loss).unwrap();
    assert_eq!(found.iter().map(|one| one.repeats).collect::<Vec<_>>(), [false, true, true]);
    assert!(found.iter().all(|one| one.p_holm == one.p));
    let mut other = b.clone();
    other[2] = row("yarn", 128, 0, &[1.6, 2.5, 3.8]);
    let found = all(&a, &other, Metric::Loss).unwrap();
    assert!(found[0].p_holm > found[0].p);
}

#[test]
fn what_is_no_number_counts_for_holm() {
    let side = |more: f64, lost: bool| {
        let of = |length: usize, seed: u64, lost: bool| {
            let nll = if lost { f64::NAN } else { 1.0 + more * (1.0 + 0.3 * seed as f64) };
            row("direct", length, seed, &[nll, nll + 1.0])
        };
        let seeds = [0, 1, 2].map(|seed| vec![of(256, seed, false), of(512, seed, lost && seed > 0)]);
        Side { runs: seeds.to_vec(), ..Side::new("run", Vec::new()) }
    };
    let of = |lost: bool| by_loss(&side(0.0, false), &side(0.1, lost)).unwrap().list;
    let (whole, lost) = (of(false), of(true));
    assert!(lost[0].p == whole[0].p && lost[1].p.is_none() && lost[1].p_holm.is_none(), "{lost:?}");
    assert_eq!(lost[0].p_holm, lost[0].p.map(|p| 2.0 * p));
}

#[test]
fn a_reading_that_equals_the_other_is_no_test() {
    let read =
        |extend: &str, length: usize, more: f64| row(extend, length, 0, &[1.0 + more, 2.1 + 0.5 * more, 3.0]);
    // At L `yarn` reads as trained; at 2L it is better.
    let rows = vec![
        read("yarn", 128, 0.0),
        read("yarn", 256, 0.0),
        read("direct", 128, 0.0),
        read("direct", 256, 0.4),
    ];
    let side = |extend: &str| Side {
        extend: Some(Reference::Kind(extend.to_owned())),
        ..Side::new(extend, rows.clone())
    };
    let found = by_loss(&side("yarn"), &side("direct")).unwrap().list;
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].difference, found[0].p_holm), (0.0, Some(1.0)));
    assert_eq!(found[1].p_holm, found[1].p);
    // The same rows on both sides are no comparison.
    assert!(by_loss(&side("yarn"), &side("yarn")).is_err());
}
