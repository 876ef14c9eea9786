//! `layers`: an extension changes the layers that it selects, and no others.

use super::{LENGTHS, TRAIN, built, extension, parse, reading, rope};
use crate::positions::Positions;
use crate::reading::{LogN, Reading};
use burn::tensor::{Device, Int, Tensor};

/// Windowed, full, windowed, full: all four turn by the frequencies of their entry.
fn stack() -> Reading {
    built("{ kind = 'mixed', layers = [{ kind = 'rope', window = 16 }, 'rope'] }", 4, LogN::Off)
}

/// The slowest frequency that each layer reads.
fn slowest(reading: &Reading) -> Vec<f64> {
    let of = |layer| *reading.rotation(layer).unwrap().frequencies.inv_freq.last().unwrap();
    (0..reading.layers().len()).map(of).collect()
}

fn changed(reading: &Reading, trained: &Reading) -> Vec<usize> {
    let pairs = slowest(reading).into_iter().zip(slowest(trained)).enumerate();
    pairs.filter(|(_, (read, trained))| (read / trained - 1.0).abs() > 1e-9).map(|(layer, _)| layer).collect()
}

#[test]
fn only_selected_layers_change() {
    for (layers, expected) in [
        ("'all'", vec![0, 1, 2, 3]),
        ("'full'", vec![1, 3]),
        ("'windowed'", vec![0, 2]),
        ("[2]", vec![2]),
        ("[3, 0, 3]", vec![0, 3]),
    ] {
        let linear = extension(&format!("{{ kind = 'linear', layers = {layers}, temperature = 0.5 }}"));
        let read = linear.apply(&stack(), LENGTHS).unwrap();
        assert_eq!(changed(&read, &stack()), expected, "{layers}");
        for (layer, reading) in read.layers().iter().enumerate() {
            let temperature = if expected.contains(&layer) { 0.5 } else { 1.0 };
            assert!((reading.temperature.of_head(0) - temperature).abs() < 1e-12, "{layers} {layer}");
            assert_eq!(reading.mask, stack().layer(layer).mask, "windows stay");
        }
        // What is written reads back, and an extension on top finds its layers again.
        let written = toml::Value::try_from(&linear).unwrap();
        assert_eq!(crate::ExtensionConfig::from_value(&written, "extend").unwrap(), linear);
        let twice = extension("{ kind = 'linear', layers = [1] }").apply(&read, LENGTHS).unwrap();
        let ratio = slowest(&read)[1] / slowest(&twice)[1];
        assert!((ratio - 4.0).abs() < 1e-9 && slowest(&twice)[0] == slowest(&read)[0], "{layers}");
    }
}

#[test]
fn geometry_and_log_n_reach_selected_layers_alone() {
    let read = extension("{ kind = 'rerope', window = 'L/2', layers = 'full', log_n = true }")
        .apply(&stack(), LENGTHS)
        .unwrap();
    for (layer, reading) in read.layers().iter().enumerate() {
        let full = layer % 2 == 1;
        assert_eq!(reading.geometry.is_some(), full, "{layer}");
        assert_eq!(reading.log_n == LogN::PostHoc { train_length: TRAIN }, full, "{layer}");
    }
}

#[test]
fn a_learned_encoding_stays_for_the_layers_that_are_not_selected() {
    let trained = reading("'shaw'");
    let read = extension("{ kind = 'linear', layers = [1] }").apply(&trained, LENGTHS).unwrap();
    assert!(read.has_learned_copies(&trained));
    let tokens = Tensor::<2, Int>::zeros([1, 8], &Device::flex());
    let positions = Positions::range(0..8);
    let input = Tensor::<3>::zeros([1, 8, 16], &Device::flex());
    let vectors = |reading: &Reading, layer| {
        let rows = crate::encoding::Rows::new(layer, &tokens, &positions);
        let block = crate::encoding::QueryBlock { rows, queries: &(0..8), input: &input };
        format!("{:?}", reading.score_form(block))
    };
    assert_eq!(vectors(&read, 0), vectors(&trained, 0));
    assert_ne!(read.layer(0).encodings[0].encoding, read.layer(1).encodings[0].encoding);
    assert!(!rope().has_learned_copies(&rope()));
}

#[test]
fn what_selects_nothing_is_an_error() {
    let message = |text: &str, reading: &Reading| {
        let error = extension(text).apply(reading, LENGTHS).unwrap_err();
        assert!(error.hint_text().is_some(), "{text}");
        error.message().to_owned()
    };
    let windowed = message("{ kind = 'linear', layers = 'windowed' }", &rope());
    assert!(windowed.contains("no layer has a window in `rope`"), "{windowed}");
    let full = reading("{ kind = 'mixed', layers = [{ kind = 'rope', window = 16 }] }");
    assert!(message("{ kind = 'linear', layers = 'full' }", &full).contains("every layer has a window"));
    let far = message("{ kind = 'linear', layers = [0, 7] }", &rope());
    assert!(far.contains("the model has no layer 7: its last is 1"), "{far}");
    let segments = message("{ kind = 'segments', layers = [0] }", &rope());
    assert!(segments.contains("it lays out the whole text"), "{segments}");
    let scaled = message("{ kind = 'direct', log_n = true, layers = 'windowed' }", &stack());
    assert!(scaled.contains("nothing to scale"), "{scaled}");
    // A mask that hides nothing more is that of `direct`.
    for extend in ["'window'", "'lambda_mask'", "{ kind = 'sinks', reindex = false, window = 16 }"] {
        let hidden = message(extend, &full);
        assert!(hidden.contains("it needs a layer that sees more than the last"), "{hidden}");
    }
    // What the other layers read does not count: nothing would change in this one.
    let mixed = reading("{ kind = 'mixed', layers = ['none', 'rope'] }");
    for kind in ["linear", "ntk", "rerope", "dual_chunk", "drop", "clip"] {
        let unread = message(&format!("{{ kind = '{kind}', layers = [0] }}"), &mixed);
        assert!(
            unread.contains(&format!("`{kind}` does not apply to `layers [0] of none/rope`")),
            "{unread}"
        );
        extension(&format!("{{ kind = '{kind}', layers = [1] }}")).apply(&mixed, LENGTHS).unwrap();
    }
    for wrong in ["'some'", "3", "[]", "[-1]", "['0']"] {
        let error = parse(&format!("{{ kind = 'linear', layers = {wrong} }}")).unwrap_err();
        assert!(error.message().contains("extend.layers") && error.hint_text().is_some(), "{error}");
    }
}
