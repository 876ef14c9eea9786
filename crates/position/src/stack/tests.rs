use super::*;
use crate::encodings::learned::Learned;
use crate::prelude::*;
use crate::reading::AttentionKind;
use crate::testing::{self, extension, value};

fn build(position: &str) -> Result<Reading> {
    stack(position, 2)
}

/// `position` of a model of so many layers.
fn stack(position: &str, layers: usize) -> Result<Reading> {
    let sizes = Dimensions { layers, train_length: 8, ..testing::dimensions() };
    testing::reading(position, &sizes, LogN::Off)
}

#[test]
fn a_list_composes_in_order() {
    let reading = build("[{ kind = \"learned\" }, { kind = \"rope\" }]").unwrap();
    assert_eq!(reading.name(), "learned+rope");
    assert!(reading.rotation(1).is_some());
    let hidden = Tensor::zeros([1, 4, 8], &Device::flex());
    let tokens = Tensor::zeros([1, 4], &Device::flex());
    let positions = Positions::range(0..4);
    let at = |layer| Rows::new(layer, &tokens, &positions);
    let sum = |hidden: Tensor<3>| hidden.abs().sum().into_scalar::<f32>();
    assert!(sum(reading.embed(hidden.clone(), at(0))) > 0.0);
    assert!(sum(reading.embed(hidden, at(1))) == 0.0);
    assert!(reading.check(&Positions::range(0..9)).is_err());
}

#[test]
fn two_rotations_and_an_empty_list_are_refused() {
    assert!(build("[{ kind = \"rope\" }, { kind = \"rope\" }]").is_err());
    assert!(build("[]").is_err());
    let both = build("[{ kind = \"shaw\" }, { kind = \"pope\" }]").unwrap_err();
    assert!(both.message().contains("cannot share q and k"), "{both}");
}

/// The middle of the text cancels in q.k alone: a fixed centre does not move with what follows.
#[test]
fn a_decay_around_the_middle_of_the_text_stands_beside_what_reads_neither_q_nor_k() {
    let readers = [
        "cope",
        "shaw",
        "deberta",
        "grape_a",
        "pope",
        "fope",
        "transformer_xl",
        "selective_rope",
        "{ kind = 'rope', learned = 'layer' }",
    ];
    let named = |encoding: &str| {
        if encoding.starts_with('{') { encoding.to_owned() } else { format!("'{encoding}'") }
    };
    for reader in readers.map(named) {
        for list in [format!("['xpos', {reader}]"), format!("[{reader}, 'xpos']")] {
            let error = build(&list).unwrap_err();
            assert!(error.message().contains("lists `xpos` without a `centre` beside"), "{list}: {error}");
            assert!(error.hint_text().is_some_and(|hint| hint.contains("centre = 0")), "{list}");
        }
        build(&format!("[{{ kind = 'xpos', centre = 0 }}, {reader}]"))
            .unwrap_or_else(|error| panic!("{reader}: {error}"));
        build(&format!("{{ kind = 'mixed', layers = ['xpos', {reader}] }}"))
            .unwrap_or_else(|error| panic!("two layers, {reader}: {error}"));
    }
    for other in ["tupe", "dape", "scale_invariant", "alibi", "fox", "sink_logit", "learned", "none"] {
        build(&format!("['xpos', '{other}']")).unwrap_or_else(|error| panic!("{other}: {error}"));
    }
}

#[test]
fn what_computes_scores_stands_beside_biases_alone() {
    for other in [
        "rope",
        "cope",
        "dape",
        "shaw",
        "pope",
        "scale_invariant",
        "selective_rope",
        "wall",
        "grape_a",
        "path",
    ] {
        for list in [["path", other], [other, "path"]] {
            let error = build(&format!("{list:?}")).unwrap_err();
            assert!(error.message().contains("computes the scores of q and k as they are"), "{error}");
        }
    }
    for other in ["fox", "alibi", "t5", "sinusoidal", "learned", "causal_conv", "sink_logit", "none"] {
        build(&format!("[{other:?}, 'path']")).unwrap_or_else(|error| panic!("{error}"));
    }
}

const RNOPE: &str = "{ kind = \"mixed\", layers = [{ kind = \"rope\", window = \"L/2\" }, { kind = \"none\", \
                     log_n = true }], pattern = [0, 0, 0, 1] }";

#[test]
fn a_pattern_repeats_over_the_depth() {
    let reading = stack(RNOPE, 6).unwrap();
    assert_eq!(reading.name(), "rope[L/2]:3/none");
    let rotates: Vec<bool> = (0..6).map(|layer| reading.rotation(layer).is_some()).collect();
    assert_eq!(rotates, [true, true, true, false, true, true]);
    let windows: Vec<_> = reading.layers().iter().map(|layer| layer.mask.window).collect();
    assert_eq!(windows, [Some(4), Some(4), Some(4), None, Some(4), Some(4)]);
    let scaled: Vec<_> = reading.layers().iter().map(|layer| layer.log_n).collect();
    let trained = LogN::Trained { train_length: 8 };
    assert_eq!(scaled, [LogN::Off, LogN::Off, LogN::Off, trained, LogN::Off, LogN::Off]);
    // One of each, whatever the depth.
    assert_eq!(reading.encodings().len(), 2);
}

/// `model.log_n_bias` is about every layer whose scaling can have a bias, also where `model.log_n` is another kind.
#[test]
fn entries_that_learn_their_scaling_have_the_bias_of_the_model() {
    let sizes = Dimensions { train_length: 8, ..testing::dimensions() };
    let biases = |of_model: LogN, entries: [&str; 2]| {
        let entries = entries.map(|log_n| format!("{{ kind = 'rope', log_n = {log_n} }}")).join(", ");
        let reading =
            testing::reading(&format!("{{ kind = 'mixed', layers = [{entries}] }}"), &sizes, of_model)?;
        Ok::<_, Error>(reading.layers()[..2].iter().map(|layer| layer.log_n.has_bias()).collect::<Vec<_>>())
    };
    for bias in [true, false] {
        let learned = LogN::Learned { row: 0, bias, scale_bias: false };
        let adaptive = LogN::Adaptive { row: 0, from_input: true, bias };
        for of_model in [learned, adaptive] {
            assert_eq!(biases(of_model, ["'learned'", "'adaptive'"]).unwrap(), [bias; 2], "{of_model:?}");
            assert_eq!(biases(of_model, ["'learned'", "'power'"]).unwrap(), [bias, false], "{of_model:?}");
        }
    }
    let error =
        biases(LogN::Learned { row: 0, bias: true, scale_bias: false }, ["false", "true"]).unwrap_err();
    assert!(error.message().starts_with("`model.log_n_bias = true`"), "{error}");
}

#[test]
fn what_is_read_is_written() {
    for text in [
        RNOPE,
        "{ kind = \"mixed\", layers = [{ encodings = [\"learned\", { kind = \"rope\", base = 50.0 }], window = 3, \
         sinks = 1 }, \"none\"] }",
        "[\"learned\", \"rope\"]",
        "\"rope\"",
    ] {
        let config = PositionConfig::from_value(&value(text), "position").unwrap();
        let written = Value::try_from(&config).unwrap();
        assert_eq!(PositionConfig::from_value(&written, "position").unwrap(), config, "{text}");
    }
}

#[test]
fn an_encoding_enters_where_its_first_layer_is() {
    let reading =
        stack("{ kind = \"mixed\", layers = [\"none\", \"learned\"], pattern = [0, 1] }", 4).unwrap();
    let hidden = Tensor::zeros([1, 4, 8], &Device::flex());
    let tokens = Tensor::zeros([1, 4], &Device::flex());
    let positions = Positions::range(0..4);
    let enters: Vec<bool> = (0..4)
        .map(|layer| {
            let rows = Rows::new(layer, &tokens, &positions);
            reading.embed(hidden.clone(), rows).abs().sum().into_scalar::<f32>() > 0.0
        })
        .collect();
    assert_eq!(enters, [false, true, false, false]);
}

#[test]
fn parameters_are_those_of_the_layers_that_read_them() {
    let of = |layers: &str| stack(&format!("{{ kind = \"mixed\", layers = {layers} }}"), 4).unwrap();
    // KERPLE has two numbers for each head and layer: 2 layers of 4 read it.
    assert_eq!(of("[\"kerple\", \"none\"]").num_params(), 2 * 2 * 2);
    let twice = of("[\"learned\", { kind = \"learned\", window = 2 }]");
    let table = |index: usize| twice.encodings()[index].get::<Learned>().unwrap().table.val();
    let difference: f32 = (table(0) - table(1)).abs().max().into_scalar();
    assert!(difference > 1e-3, "each entry draws its own");
}

#[test]
fn a_stack_that_cannot_be_is_refused() {
    for (keys, message) in [
        ("layers = []", "`position.layers = []`"),
        ("layers = [\"rope\"], pattern = [1]", "`position.pattern = [1]`"),
        ("layers = [\"rope\"], pattern = []", "`position.pattern = []`"),
        ("layers = [\"rope\", \"none\", \"none\"]", "no layer reads `position.layers[2]`"),
        ("layers = [\"rope\", \"complex_order\"]", "`position.layers[1]` is first read by layer 1"),
        ("layers = [{ kind = \"rope\", sinks = 2 }]", "`position.layers[0].sinks = 2`"),
        ("layers = [{ kind = \"rope\", window = \"L/100\" }]", "`position.layers[0].window = \"L/100\"`"),
        ("layers = [{ kind = \"rope\", window = -1 }]", "`position.layers[0].window = -1`"),
        ("layers = [{ kind = \"rope\", basis = 2.0 }]", "unknown key `position.layers[0].basis`"),
        ("layers = [{ encodings = [\"rope\"], base = 2.0 }]", "`position.layers[0].base` stands beside"),
        (
            "layers = [{ encodings = [\"learned\", \"complex_order\"] }]",
            "`position.layers[0]` lists `complex_order` after",
        ),
        (
            "layers = [{ encodings = [\"learned\", { kind = \"rope\", base = 0.5 }] }]",
            "`position.layers[0].encodings[1].base = 0.5`",
        ),
        ("layers = [\"rope\"], depth = 3", "unknown key `position.depth`"),
        ("layers = [{ kind = \"mixed\", layers = [] }]", "`position.layers[0].kind = \"mixed\"`"),
    ] {
        let error = build(&format!("{{ kind = \"mixed\", {keys} }}")).unwrap_err();
        assert!(error.message().starts_with(message), "{keys}: {error}");
        assert!(error.hint_text().is_some(), "{keys}");
    }
    let error = build("{ kind = \"mxied\" }").unwrap_err();
    assert_eq!(error.hint_text(), Some("did you mean `mixed`?"));
}

#[test]
fn an_extension_changes_the_layers_it_makes_sense_for() {
    let extended = |position: &str, extend: &str| -> Result<Reading> {
        extension(extend)?.apply(&stack(position, 4)?, Lengths { train: 8, length: 32 })
    };
    let trained = stack(RNOPE, 4).unwrap();
    for kind in ["linear", "ntk", "yarn"] {
        let reading = extended(RNOPE, &format!("\"{kind}\"")).unwrap();
        assert_ne!(reading.rotation(0), trained.rotation(0), "{kind}");
        assert_eq!(reading.layer(3), trained.layer(3), "{kind}");
    }
    let reading = extended(RNOPE, "\"rerope\"").unwrap();
    assert!(reading.layer(0).geometry.is_some() && reading.layer(3).geometry.is_none());
    // Layers narrower than the window stay as they are; the others get it.
    let reading = extended(RNOPE, "{ kind = \"lambda_mask\", n_global = 2 }").unwrap();
    let masks: Vec<_> = reading.layers().iter().map(|layer| layer.mask).collect();
    let own = Mask { window: Some(4), sinks: 0 };
    assert_eq!(masks, [own, own, own, Mask { window: Some(8), sinks: 2 }]);
    let sinks = RNOPE.replace("window = \"L/2\"", "window = \"2L\", sinks = 3");
    let reading = extended(&sinks, "\"window\"").unwrap();
    assert_eq!(reading.layer(0).mask, Mask { window: Some(8), sinks: 3 });
    // Post-hoc log-n scales what sees more keys in a longer text, once.
    let error = extended(RNOPE, "{ kind = \"direct\", log_n = true }").unwrap_err();
    assert!(error.message().contains("twice"), "{error}");
    let untrained = RNOPE.replace(", log_n = true", "");
    let reading = extended(&untrained, "{ kind = \"direct\", log_n = true }").unwrap();
    let post_hoc: Vec<bool> =
        reading.layers().iter().map(|layer| matches!(layer.log_n, LogN::PostHoc { .. })).collect();
    assert_eq!(post_hoc, [false, false, false, true]);
    let windows = RNOPE.replace("log_n = true", "window = 5");
    let error = extended(&windows, "{ kind = \"direct\", log_n = true }").unwrap_err();
    assert!(error.message().contains("nothing to scale"), "{error}");
    let biases = "{ kind = \"mixed\", layers = [\"fox\", \"none\"] }";
    for kind in ["ntk", "linear", "rerope"] {
        let error = extended(biases, &format!("\"{kind}\"")).unwrap_err();
        assert!(error.message().contains("does not apply to `fox/none`"), "{error}");
    }
}

#[test]
fn linear_attention_takes_what_does_not_act_on_scores() {
    let taken: Vec<&str> = encodings::kinds()
        .iter()
        .map(|entry| entry.kind)
        .filter(|kind| {
            let reading = build(&format!("\"{kind}\"")).unwrap();
            match reading.with_attention(AttentionKind::Linear) {
                Ok(_) => true,
                Err(error) => {
                    assert!(error.message().contains(&format!("`{kind}` acts on softmax scores")), "{error}");
                    assert!(error.hint_text().is_some());
                    false
                }
            }
        })
        .collect();
    assert_eq!(
        taken,
        [
            "none",
            "learned",
            "sinusoidal",
            "rope",
            "xpos",
            "index",
            "multiplicative",
            "radix",
            "recursive",
            "causal_conv",
            "abacus",
            "floater",
            "complex_order"
        ]
    );
    let refused = stack(RNOPE, 4).unwrap().with_attention(AttentionKind::Linear).unwrap_err();
    assert!(refused.message().contains("a window masks scores"), "{refused}");
    let rope = build("\"rope\"").unwrap().with_attention(AttentionKind::Linear).unwrap();
    for (extend, applies) in [
        ("'ntk'", true),
        ("'linear'", true),
        ("'rerope'", false),
        ("'window'", false),
        ("'yarn'", false),
        ("{ kind = 'direct', log_n = true }", false),
        ("{ kind = 'direct', temperature = 2.0 }", false),
    ] {
        match extension(extend).unwrap().apply(&rope, Lengths { train: 8, length: 32 }) {
            Ok(_) => assert!(applies, "{extend}"),
            Err(error) => {
                assert!(!applies && error.message().contains("no scores"), "{extend}: {error}");
                assert!(
                    error.hint_text().is_some_and(|hint| hint.contains("`ntk`") && !hint.contains("`yarn`"))
                );
            }
        }
    }
}
