//! Sizes that are filled in, and sizes that are rejected.

use super::*;
use longwave_position::encoding::MAX_SIZE;
use longwave_position::reading::EntmaxKeys;

#[test]
fn explicit_sizes_change_a_named_one() {
    let config = ModelConfig { width: Some(96), ..ModelConfig::default() };
    let resolved = config.resolve(512, 128).unwrap();
    assert_eq!((resolved.dimensions.layers, resolved.dimensions.head_dim), (4, 24));
    assert_eq!(resolved.feed_forward_width, 384);
}

#[test]
fn an_embedding_may_have_more_entries_than_there_are_tokens() {
    let padded =
        |entries| ModelConfig { vocab_size: Some(entries), ..ModelConfig::default() }.resolve(512, 128);
    assert_eq!(padded(576).unwrap().dimensions.vocab_size, 576);
    assert_eq!(padded(512).unwrap().dimensions.vocab_size, 512);
    let error = padded(511).unwrap_err();
    assert_eq!(error.message(), "`model.vocab_size = 511` is not allowed: the tokenizer has 512 tokens");
    assert!(
        padded(usize::MAX).unwrap_err().message().starts_with("`model.vocab_size = 18446744073709551615`")
    );
}

#[test]
fn wrong_sizes_are_named() {
    let error = |config: ModelConfig| config.resolve(512, 128).unwrap_err().message().to_owned();
    assert!(error(ModelConfig { heads: Some(3), ..ModelConfig::default() }).starts_with("`model.heads = 3`"));
    assert!(
        error(ModelConfig { kv_heads: Some(3), ..ModelConfig::default() }).contains("divide `model.heads")
    );
    assert!(error(ModelConfig { dropout: 1.0, ..ModelConfig::default() }).contains("below 1"));
    let linear = ModelConfig { attention: AttentionKind::Linear, ..ModelConfig::default() };
    assert!(linear.resolve(512, 128).is_ok());
    assert!(error(ModelConfig { log_n: LogNKind::Fixed, ..linear.clone() }).contains("`model.log_n` scales"));
    assert!(error(ModelConfig { qk_norm: QkNorm::Key, ..linear }).contains("`model.qk_norm` scales"));
    let bias = ModelConfig { attention_gate_bias: true, ..ModelConfig::default() };
    assert!(error(bias).starts_with("`model.attention_gate_bias = true`"));
    let twice = ModelConfig { canon: vec![CanonPlace::Attention; 2], ..ModelConfig::default() };
    assert!(error(twice).contains("names a place twice"));
    assert!(error(ModelConfig { layers: Some(0), ..ModelConfig::default() }).contains("at least 1"));
    let lssar = ModelConfig { attention: AttentionKind::Lssa, ..ModelConfig::default() };
    assert!(lssar.resolve(512, 128).is_ok());
    assert!(error(ModelConfig { qk_norm: QkNorm::Rms, ..lssar.clone() }).contains("has a scale of its own"));
    assert!(
        error(ModelConfig { log_n: LogNKind::Adaptive, ..lssar.clone() }).contains("`model.log_n` scales")
    );
    assert!(error(ModelConfig { head_dim: Some(1), ..lssar }).contains("ln of `model.head_dim`, which is 1"));
    let entmax = |alpha| ModelConfig {
        attention: AttentionKind::Entmax(EntmaxKeys { alpha }),
        log_n: LogNKind::Adaptive,
        ..ModelConfig::default()
    };
    assert!(entmax(2.0).resolve(512, 128).is_ok());
    assert!(error(entmax(0.99)).starts_with("`model.attention.alpha = 0.99`"));
}

#[test]
fn sizes_that_no_memory_holds_are_named() {
    let assert_rejected = |config: ModelConfig, start: &str, part: &str| {
        let error = config.resolve(512, 128).unwrap_err();
        assert!(error.message().starts_with(start) && error.message().contains(part), "{error}");
        assert!(error.hint_text().is_some());
    };
    let default = ModelConfig::default;
    let most = "it must be at most 16777216";
    let absurd = usize::MAX / 2;
    assert_rejected(ModelConfig { width: Some(absurd), ..default() }, "`model.width = 9223", most);
    assert_rejected(ModelConfig { head_dim: Some(absurd), ..default() }, "`model.head_dim = 9223", most);
    assert_rejected(
        ModelConfig { feed_forward_width: Some(absurd), ..default() },
        "`model.feed_forward_width",
        most,
    );
    let weights = "the model's weights alone take about";
    assert_rejected(ModelConfig { width: Some(MAX_SIZE), ..default() }, "`model.width = 16777216`", weights);
    let many = |layers| ModelConfig { layers: Some(layers), width: Some(4096), heads: Some(32), ..default() };
    assert_rejected(many(MAX_LAYERS), "`model.layers = 8192`", weights);
    assert_rejected(many(MAX_LAYERS + 1), "`model.layers = 8193`", "it must be at most 8192");
    let heads = ModelConfig { heads: Some(MAX_SIZE), head_dim: Some(MAX_SIZE), ..default() };
    assert_rejected(heads, "`model.heads = 16777216`", weights);
    let error = default().resolve(1 << 50, 128).unwrap_err();
    assert!(error.message().starts_with("`data.tokenizer.vocab_size = 1125899906842624`"), "{error}");
}
