//! What is stated of encodings that read distances.

use super::{Matrix, ROWS, SIZES, assert_close, build, logits, queries_and_keys};
use longwave_position::encodings::t5::Buckets;
use longwave_position::{Encoding, Positions};

/// The logits at positions from `start`, less each row's own: what a softmax can see.
fn seen(encoding: &Encoding, start: usize) -> Vec<f64> {
    let logits = logits(encoding, queries_and_keys(), &Positions::range(start..start + ROWS));
    let row =
        |(i, row): (usize, &Vec<f64>)| row[..=i].iter().map(move |logit| logit - row[i]).collect::<Vec<_>>();
    logits.iter().flat_map(|head: &Matrix| head.iter().enumerate().flat_map(row)).collect()
}

fn moved(text: &str, shift: usize) -> f64 {
    let encoding = build(text);
    let pairs = seen(&encoding, 0).into_iter().zip(seen(&encoding, shift));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn relative_scores_do_not_see_a_shift_of_all_positions() {
    for text in [
        "kind = 'rope'",
        "kind = 'xpos'",
        "kind = 'pope'",
        "kind = 'alibi'",
        "kind = 'kerple'",
        "kind = 'kerple'\nvariant = 'power'",
        "kind = 'grape_a'\ngate = 'both'",
        "kind = 't5'\nbuckets = 4\nmax_distance = 8",
        "kind = 'sandwich'",
        "kind = 'cpb'",
        "kind = 'shaw'\np_max = 4",
        "kind = 'transformer_xl'",
        "kind = 'deberta'\nspan = 4",
        "kind = 'dape'",
    ] {
        assert!(moved(text, 1000) < 2e-3, "{text}: {:.1e}", moved(text, 1000));
    }
}

#[test]
fn fire_sees_a_shift_past_its_threshold() {
    // It measures a distance against the query's own position, where that is larger than the threshold (the
    // training length at first): a token ten back is nearer in a long text than in a short one.
    let shorter = "kind = 'fire'\ninit_length = 4000.0";
    assert!(
        moved(shorter, 1000) < 1e-4,
        "below the threshold it reads distances: {:.1e}",
        moved(shorter, 1000)
    );
    let longer = "kind = 'fire'\ninit_length = 0.001";
    assert!(moved(longer, 1000) > 1e-2, "past it, positions too: {:.1e}", moved(longer, 1000));
}

#[test]
fn absolute_positions_in_the_scores_see_it() {
    // One table of positions on both sides: what is shifted reads other rows.
    assert!(moved("kind = 'tupe'", SIZES.train_length - ROWS) > 1e-2);
}

#[test]
fn the_printed_bucket_table() {
    // The table is one side of the form for both directions: 16 buckets of distances up to 128.
    let buckets = Buckets { buckets: 16, max_distance: 128 };
    let printed = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9].as_slice(),
        [10, 10, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 11, 11].as_slice(),
    ]
    .concat();
    for (distance, bucket) in printed.into_iter().enumerate() {
        assert_eq!(buckets.of(distance as f64), bucket, "distance {distance}");
    }
    assert_eq!([127.0, 128.0, 1e6].map(|n| buckets.of(n)), [15, 15, 15], "the last one takes the rest");
}

#[test]
fn clipped_distances_need_few_vectors_at_any_length() {
    let encoding = build("kind = 'shaw'\np_max = 4");
    let shaw = encoding.get::<longwave_position::encodings::shaw::Shaw>().unwrap();
    assert_eq!(shaw.rel_k.dims(), [SIZES.layers, 5, SIZES.head_dim]);
    let far = Positions::explicit(1, (0..ROWS).map(|row| (10_000 * row) as f64).collect::<Vec<_>>());
    let clipped = Positions::explicit(1, (0..ROWS).map(|row| (4 * row) as f64).collect::<Vec<_>>());
    assert_eq!(logits(&encoding, queries_and_keys(), &far), logits(&encoding, queries_and_keys(), &clipped));
}

#[test]
fn interpolated_positions_are_denser_by_the_scale() {
    // 1,024 positions are read within the 512 of the training.
    let mut encoding = build("kind = 'rope'");
    let trained = logits(&encoding, queries_and_keys(), &Positions::range(0..ROWS).map(|m| m / 2.0));
    assert!(encoding.interpolate(2.0));
    let read = logits(&encoding, queries_and_keys(), &Positions::range(0..ROWS));
    for (read, trained) in read.iter().flatten().flatten().zip(trained.iter().flatten().flatten()) {
        assert_close(*read, *trained, 1e-5, "half the position");
    }
}
