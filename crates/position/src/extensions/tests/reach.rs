//! How far back a reading looks: no further than training did, unless it is asked to.

use super::{TRAIN, extension, rope};
use crate::extension::Lengths;
use crate::reading::Reading;

/// The largest distance that a text is read at, pair by pair.
fn farthest(reading: &Reading, length: usize) -> f64 {
    let (geometry, mask) = (reading.geometry(0), reading.layer(0).mask);
    let mut largest = 0.0f64;
    for i in 0..length {
        for j in (0..=i).filter(|&j| !mask.hides(i as f64, j as f64)) {
            let (query, key) = geometry.maps_of(i as f64, j as f64);
            let distance = query.at(i as f64) - key.at(j as f64);
            assert!(distance >= 0.0, "{i} reads {j} as if it came later");
            largest = largest.max(distance);
        }
    }
    largest
}

#[test]
fn untrained_distances_are_refused_and_trained_ones_are_not() {
    // Settings on both sides of the border at one or more of the lengths; the first ones keep inside it at all.
    let settings = [
        "kind = 'rerope'",
        "kind = 'leaky_rerope'",
        "kind = 'leaky_rerope', window = 20, far_end = 63",
        "kind = 'self_extend'",
        "kind = 'self_extend', shift = 'exact'",
        "kind = 'dual_chunk'",
        "kind = 'lambda_mask'",
        "kind = 'sinks'",
        "kind = 'rerope', window = 63",
        "kind = 'rerope', window = 'L'",
        "kind = 'leaky_rerope', k = 4.0",
        "kind = 'leaky_rerope', k = 2.5",
        "kind = 'leaky_rerope', window = 70, k = 1.5",
        "kind = 'leaky_rerope', far_end = 'L'",
        "kind = 'leaky_rerope', far_end = '2L'",
        "kind = 'self_extend', group = 4",
        "kind = 'self_extend', window = 7, group = 4",
        "kind = 'self_extend', window = 7, group = 4, shift = 'exact'",
        "kind = 'self_extend', window = 7, group = 3",
        "kind = 'self_extend', window = 70, group = 4",
        "kind = 'dual_chunk', chunk = 63, local = 8",
        "kind = 'dual_chunk', chunk = 'L', local = 8",
        "kind = 'dual_chunk', chunk = 100, local = 70",
        "kind = 'dual_chunk', chunk = 100, local = 60",
        "kind = 'lambda_mask', window = 65",
        "kind = 'lambda_mask', window = 200, n_global = 0",
        "kind = 'lambda_mask', window = 32, distance_cap = 65",
        "kind = 'lambda_mask', window = 32, distance_cap = 65, n_global = 0",
        "kind = 'sinks', window = 61",
        "kind = 'sinks', window = 60, n_sink = 0",
        "kind = 'sinks', window = 500",
        "kind = 'string'",
        "kind = 'string', shift = 'L', local = 0",
        "kind = 'string', shift = 40, local = 39",
        "kind = 'string', shift = 100, local = 0",
    ];
    let (mut refused, mut read) = (0, 0);
    for (place, setting) in settings.iter().enumerate() {
        for length in [40, TRAIN, TRAIN + 1, 2 * TRAIN, 180, 235, 236, 1000] {
            let lengths = Lengths { train: TRAIN, length };
            let held = extension(&format!("{{ {setting} }}")).apply(&rope(), lengths);
            let asked = extension(&format!("{{ {setting}, allow_untrained = true }}"));
            let distance = farthest(&asked.apply(&rope(), lengths).unwrap(), length);
            // As published, `lambda_mask` reads what it has left at L.
            let most = if *setting == "kind = 'lambda_mask'" { TRAIN as f64 } else { TRAIN as f64 - 1e-6 };
            // ReRoPE's window is a constant of the model that is read, so L is no window at any length.
            let fits = distance <= most && !setting.starts_with("kind = 'rerope', window = 'L'");
            assert_eq!(held.is_ok(), fits, "{setting} at {length}: {distance}");
            assert!(place >= 8 || fits, "{setting} at {length}: {distance}");
            if let Err(error) = held {
                assert!(error.hint_text().unwrap().contains("allow_untrained"), "{error}");
                refused += 1;
            } else {
                read += 1;
            }
        }
    }
    assert!(refused > 40 && read > 100, "{refused} {read}");
}

#[test]
fn segments_and_plain_readings_say_what_they_promise() {
    let at = |text: &str, length| extension(text).apply(&rope(), Lengths { train: TRAIN, length });
    assert!(at("{ kind = 'segments', length = 65 }", 256).is_err());
    assert!(at("{ kind = 'segments', length = 65 }", TRAIN).is_ok());
    assert!(at("{ kind = 'segments', length = 65, allow_untrained = true }", 256).is_ok());
    // Plain RoPE, distances stretched for training, and what only masks promise nothing.
    for text in [
        "{ kind = 'leaky_rerope', k = 1.0 }",
        "{ kind = 'leaky_rerope', k = 0.0625 }",
        "{ kind = 'window', window = '2L' }",
        "{ kind = 'sinks', window = '2L', reindex = false }",
    ] {
        assert!(at(text, 256).is_ok(), "{text}");
    }
    let message = |text: &str| at(text, 256).unwrap_err().to_string();
    let text = message("{ kind = 'leaky_rerope', k = 2.0 }");
    assert!(
        text.starts_with("`k = 2` is not allowed: `leaky_rerope` then reads distances up to 135.5 in"),
        "{text}"
    );
    assert!(text.contains("a text of 256 tokens,") && text.contains("take a `k` of 5 or more"), "{text}");
    assert!(message("{ kind = 'dual_chunk', chunk = 'L' }").contains("a chunk below L"));
}
