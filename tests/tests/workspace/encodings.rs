//! Every encoding trains: the loss falls, the encoding is used, its parameters follow their slopes, and a longer
//! text is read or refused. `gpu.rs` holds the same of a GPU.

use crate::common::training;
use burn::tensor::Device;
use longwave_position::EncodingConfig;
use longwave_position::encoding::Extrapolation;
use longwave_position::encodings;
use std::panic::catch_unwind;

/// Trains one config and checks everything.
fn check_law(text: &str) {
    let trained = training::train(text, &Device::flex());
    trained.assert_it_matters();
    trained.assert_gradients_are_slopes();
    let reads = trained.assert_longer_texts_are_read_or_refused();
    // What its file states of longer texts holds with its default keys.
    if let Some(info) = encodings::kinds().iter().find(|info| text == format!("kind = '{}'", info.kind)) {
        let config = EncodingConfig::from_value(&info.kind.into(), "position").unwrap();
        let supported = matches!(config.extrapolation(), Extrapolation::Supported(_));
        assert_eq!(reads, supported, "{text}: {:?}", config.extrapolation());
    }
}

#[test]
fn every_encoding_trains_and_is_used() {
    // All are tried: one that fails says nothing of the others.
    let fails = |text: &String| catch_unwind(|| check_law(text)).is_err();
    let failed: Vec<String> = training::every().into_iter().filter(fails).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn no_encoding_is_left_out() {
    let every = training::every();
    assert!(encodings::kinds().iter().all(|entry| every.contains(&format!("kind = '{}'", entry.kind))));
}
