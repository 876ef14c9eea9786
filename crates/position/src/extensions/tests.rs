mod layers;
mod reach;
mod temperature;

use super::*;
use crate::encoding::Dimensions;
use crate::extension::Band;
use crate::frequency::Frequencies;
use crate::reading::LogN;
use crate::registry::Entry;
use crate::testing::{self, extension as parse};
use toml::Value;

const TRAIN: usize = 64;
const LENGTHS: Lengths = Lengths { train: TRAIN, length: 256 };

fn reading(kind: &str) -> Reading {
    built(kind, 2, LogN::Off)
}

fn built(kind: &str, layers: usize, log_n: LogN) -> Reading {
    let sizes = Dimensions { layers, width: 16, head_dim: 8, train_length: TRAIN, ..testing::dimensions() };
    testing::reading(kind, &sizes, log_n).unwrap()
}

fn rope() -> Reading {
    reading("'rope'")
}

fn extension(text: &str) -> ExtensionConfig {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn frequencies(reading: &Reading) -> &Frequencies {
    reading.encodings()[0].frequencies().unwrap()
}

/// The examples that are tested with `rope`, and leave it its rotation.
fn with_rope() -> impl Iterator<Item = (ExtensionConfig, Example)> {
    let rotates = |example: &Example| example.encoding == "rope" && example.bands != [Band::Absent; 2];
    examples(4, LENGTHS).unwrap().into_iter().filter(move |(_, example)| rotates(example))
}

#[test]
fn every_extension_is_one_that_a_program_may_register() {
    for entry in KINDS.entries() {
        entry.check(&[]).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn frequencies_stay_in_order_and_zeros_stay_zeros() {
    let mut hope = rope();
    let cut = frequencies(&hope).map(|band, f| if band == 3 { 0.0 } else { f });
    hope.encodings_mut()[0].set_frequencies(cut);
    for (extension, _) in with_rope() {
        let inv_freq = frequencies(&extension.apply(&rope(), LENGTHS).unwrap()).inv_freq.clone();
        // Several bands may stand still.
        let in_order = inv_freq.is_sorted_by(|fast, slow| fast > slow || (*fast == 0.0 && *slow == 0.0));
        assert!(in_order, "{extension:?}: {inv_freq:?}");
        let read = extension.apply(&hope, LENGTHS).unwrap();
        assert!(frequencies(&read).inv_freq[3].abs() < 1e-300, "{extension:?}");
    }
}

#[test]
fn names_of_one_method_agree() {
    let same = |a: &str, b: &str, lengths| {
        let read = |text: &str| extension(text).apply(&rope(), lengths).unwrap();
        let (a, b) = (read(a), read(b));
        let pairs = frequencies(&a).inv_freq.iter().zip(&frequencies(&b).inv_freq);
        pairs.clone().all(|(a, b)| (a - b).abs() <= 1e-12 * b)
            && a.layer(0).geometry == b.layer(0).geometry
            && a.layer(0).mask == b.layer(0).mask
    };
    for (a, b) in [
        ("{ kind = 'su_ntk_mixed', exponent = 0.0 }", "'linear'"),
        ("{ kind = 'su_ntk_mixed', exponent = 1.0 }", "'su_ntk_fixed'"),
        ("'dynamic_ntk'", "'ntk'"),
        ("'dynamic_linear'", "'linear'"),
        ("{ kind = 'linear', scale = 4.0 }", "'linear'"),
        ("{ kind = 'abf', new_base = 40000.0 }", "'su_ntk_old'"),
        ("{ kind = 'ntk_by_parts', ramp = 'paper', beta = 4.0 }", "'llama3'"),
        // Two of the four bands take more than 64 tokens for a turn.
        ("{ kind = 'clip', soft = false }", "{ kind = 'bands', keep = 0.5 }"),
        ("'clip'", "{ kind = 'bands', without = 3 }"),
        ("{ kind = 'clip', bands = 9, soft = false }", "{ kind = 'bands', keep = 0 }"),
        ("{ kind = 'clip', bands = 0 }", "'direct'"),
        ("{ kind = 'clip', bands = 1 }", "'direct'"),
        ("{ kind = 'rerope', window = 'L/4' }", "{ kind = 'rerope', window = 16 }"),
        (
            "{ kind = 'dual_chunk', mscale = false }",
            "{ kind = 'dual_chunk', chunk = 48, local = 8, mscale = false }",
        ),
    ] {
        assert!(same(a, b, LENGTHS), "{a} is not {b}");
    }
    assert!(!same("'ntk'", "'su_ntk_old'", LENGTHS));
}

#[test]
fn another_base_is_read_in_the_place_of_that_of_the_frequencies() {
    // 16^(-2i/8); of the second formula the base is 500, and not the key `base` that nothing reads.
    let expected = [1.0, 0.5, 0.25, 0.125];
    let given = "{ kind = 'formula', inv_freq = 'base^(-2*band/d)', base = 500.0 }";
    for (encoding, fastest) in [
        (given, 1.0),
        ("{ kind = 'formula', inv_freq = '500^(-2*band/d)' }", 1.0),
        ("{ kind = 'rope', base = 500.0 }", 1.0),
        ("{ kind = 'formula', inv_freq = '0.5*500^(-2*band/d)' }", 0.5),
        ("{ kind = 'formula', inv_freq = '500^(-2*(band + 1)/d)' }", 500_f64.powf(-0.25)),
    ] {
        let abf = extension("{ kind = 'abf', new_base = 16.0 }");
        let read = abf.apply(&reading(encoding), LENGTHS).unwrap();
        let found = &frequencies(&read).inv_freq;
        let is_it = |(f, e): (&f64, f64)| (f / fastest - e).abs() < 1e-12;
        assert!(found.iter().zip(expected).all(is_it), "{encoding}: {found:?}");
    }
}

/// What enters before the first layer is not changed for later ones alone.
#[test]
fn layers_without_the_first_leave_nothing_to_change_in_what_enters_there() {
    for (encoding, keys) in [
        ("'sinusoidal'", "kind = 'linear'"),
        ("'sinusoidal'", "kind = 'yarn'"),
        ("'learned'", "kind = 'table'"),
        ("{ kind = 'mixed', layers = [{ encodings = ['sinusoidal', 't5'] }, 'none'] }", "kind = 'ntk'"),
    ] {
        let of = |layers: &str| {
            let read = extension(&format!("{{ {keys}, layers = {layers} }}"));
            read.apply(&reading(encoding), LENGTHS)
        };
        let error = of("[1]").unwrap_err();
        assert!(error.message().contains("does not apply to `layers [1] of "), "{error}");
        if !encoding.contains("mixed") {
            assert!(error.hint_text().unwrap().contains("enters at the first layer"), "{error}");
        }
        assert!(of("[0]").is_ok(), "{encoding} {keys}");
    }
    // What is of the layer itself is changed for it alone.
    let direct = extension("{ kind = 'direct', temperature = 2.0, layers = [1] }");
    assert!(direct.apply(&reading("'sinusoidal'"), LENGTHS).is_ok());
}

#[test]
fn a_config_survives_the_round_trip() {
    for (config, _) in examples(4, LENGTHS).unwrap() {
        let written = Value::try_from(&config).unwrap();
        assert_eq!(ExtensionConfig::from_value(&written, "extend").unwrap(), config, "{written}");
    }
}

#[test]
fn waves_that_are_added_are_extended_too() {
    let (trained, rope) = (reading("'sinusoidal'"), rope());
    let read = extension("'yarn'").apply(&trained, LENGTHS).unwrap();
    assert!((frequencies(&read).attention_factor - 1.0).abs() < 1e-15);
    let factor = frequencies(&extension("'yarn'").apply(&rope, LENGTHS).unwrap()).attention_factor;
    assert!((read.layer(0).logit_scale - factor.powi(2)).abs() < 1e-12, "the logits are scaled instead");
    let both = extension("'yarn'").apply(&reading("['sinusoidal', 'rope']"), LENGTHS).unwrap();
    assert!((both.layer(0).logit_scale - 1.0).abs() < 1e-15, "once is enough");
    // A temperature takes the place of the factor, wherever frequencies change.
    let stack = "{ kind = 'mixed', layers = [{ encodings = ['rope', 'alibi'] }, 'none'] }";
    let divided = extension("{ kind = 'yarn', temperature = 0.5 }").apply(&reading(stack), LENGTHS).unwrap();
    let scales = divided.layers().iter().map(|layer| (layer.logit_scale, layer.temperature.of_head(0)));
    assert_eq!(scales.collect::<Vec<_>>(), [(1.0, 0.5), (1.0, 1.0)]);
}

#[test]
fn a_refusal_lists_what_applies() {
    let error = extension("'ntk'").apply(&reading("'learned'"), LENGTHS).unwrap_err();
    let hint =
        "what applies to `learned`: `direct`, `linear`, `dynamic_linear`, `window`, `segments`, `table`";
    assert_eq!(error.hint_text(), Some(hint));
    let error = extension("'rerope'").apply(&reading("'none'"), LENGTHS).unwrap_err();
    assert_eq!(error.hint_text(), Some("what applies to `none`: `direct`, `window`, `segments`"));
    let error = extension("'sinks'").apply(&reading("'none'"), LENGTHS).unwrap_err();
    assert!(error.hint_text().unwrap().contains("reindex = false"), "{error}");
    assert!(extension("{ kind = 'sinks', reindex = false }").apply(&reading("'none'"), LENGTHS).is_ok());
}

#[test]
fn digits_are_converted_to_a_larger_base() {
    let digits = |position: &str, extend: &str, m: f64| -> Result<Vec<f64>> {
        let read = extension(extend).apply(&reading(position), LENGTHS)?;
        let table = &read.encodings()[0].summaries(&crate::Positions::explicit(1, [m]))[0];
        Ok(table.rows[0][1..].to_vec())
    };
    let numbers = "{ kind = 'radix', digits_as = 'numbers', digits = 3 }";
    for (position, extend, m, expected) in [
        ("'radix'", "'direct'", 1749.0, vec![9.0, 4.0, 7.0, 1.0]),
        (numbers, "{ kind = 'convert', beta_new = 16, reading = 'raw' }", 1749.0, vec![5.0, 13.0, 6.0]),
        (numbers, "{ kind = 'convert', beta_new = 10 }", 749.0, vec![9.0, 4.0, 7.0]),
        // L = 64 has two digits, the higher up to 6: 7 times 37 reach 256.
        (numbers, "{ kind = 'convert', reading = 'raw' }", 255.0, vec![33.0, 6.0, 0.0]),
        ("'radix'", "{ kind = 'convert', beta_new = 20 }", 3.0, vec![1.25, 0.0, 0.0, 0.0]),
    ] {
        assert_eq!(digits(position, extend, m).unwrap(), expected, "{position} {extend}");
    }
    for (position, extend, start) in [
        ("'radix'", "{ kind = 'convert', reading = 'raw' }", "`reading = \"raw\"`"),
        ("'radix'", "{ kind = 'convert', beta_new = 8 }", "`beta_new = 8`"),
        ("{ kind = 'radix', variant = 'interpolate', s = 2.0 }", "'convert'", "`radix` was trained"),
        ("'rope'", "'convert'", "`convert` does not apply to `rope`"),
    ] {
        let error = digits(position, extend, 0.0).unwrap_err();
        assert!(error.message().starts_with(start), "{extend}: {error}");
        assert!(error.hint_text().is_some(), "{extend}: {error}");
    }
    let error = extension("'ntk'").apply(&reading("'radix'"), LENGTHS).unwrap_err();
    assert!(error.hint_text().unwrap().contains("`convert`"), "{error}");
    let read = extension("{ kind = 'convert', beta_new = 11 }").apply(&reading(numbers), LENGTHS).unwrap();
    let error = read.check(&crate::Positions::range(0..1332)).unwrap_err();
    assert!(error.message().contains("3 of base 11 end at 1331"), "{error}");
    assert!(read.check(&crate::Positions::range(0..1331)).is_ok());
}

#[test]
fn impossible_values_are_refused_by_key() {
    for (text, start) in [
        ("{ kind = 'linear', scale = 0.5 }", "`extend.scale = 0.5`"),
        ("{ kind = 'dynamic_ntk', factor = 0.5 }", "`extend.factor = 0.5`"),
        ("{ kind = 'su_ntk_mixed', exponent = -1.0 }", "`extend.exponent = -1`"),
        ("{ kind = 'yarn', mscale = -1.0 }", "`extend.mscale = -1`"),
        ("{ kind = 'yarn', mscale = 2.0, attention_factor = 1.2 }", "`extend.mscale = 2`"),
        ("{ kind = 'yarn', mscale = 2.0, temperature = 0.5 }", "`extend.mscale = 2`"),
        ("{ kind = 'yarn', ramp = 'blog' }", "`extend.ramp = \"blog\"`"),
        ("{ kind = 'yarn', temperature = -1.0 }", "`extend.temperature = -1`"),
        ("{ kind = 'mrrope', alpha = 64.0 }", "`extend.beta = 32`"),
        ("{ kind = 'llama3', high_freq_factor = 0.5 }", "`extend.high_freq_factor = 0.5`"),
        ("'longrope'", "`extend.long_factor` is missing"),
        ("{ kind = 'abf', new_base = 1.0 }", "`extend.new_base = 1`"),
        ("{ kind = 'frequencies', inv_freq = [nan] }", "`extend.inv_freq[0] = NaN`"),
        ("{ kind = 'clip', bands = -1 }", "`extend.bands = -1`"),
        ("{ kind = 'clip', bands = 'all' }", "`extend.bands = \"all\"`"),
        ("{ kind = 'rerope', window = 0 }", "`extend.window = 0`"),
        ("{ kind = 'rerope', window = 'half' }", "`extend.window = \"half\"`"),
        ("{ kind = 'self_extend', group = 0 }", "`extend.group = 0`"),
        ("{ kind = 'convert', beta_new = 1 }", "`extend.beta_new = 1`"),
        ("{ kind = 'convert', reading = 'exact' }", "`extend.reading = \"exact\"`"),
        ("{ kind = 'rerope', log_n = 1 }", "`extend.log_n = 1`"),
        ("{ kind = 'rerope', windows = 4 }", "unknown key `extend.windows`"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.message().starts_with(start), "{text}: {error}");
        assert!(error.hint_text().is_some(), "{text}: {error}");
    }
    for text in [
        "{ kind = 'dual_chunk', chunk = 8, local = 8 }",
        "{ kind = 'leaky_rerope', window = 'L/2', far_end = 'L/4' }",
        "{ kind = 'self_extend', window = 'L' }",
        "{ kind = 'sinks', n_sink = 64 }",
        "{ kind = 'rerope', window = 'L/128' }",
        "{ kind = 'longrope', long_factor = [2.0] }",
        "{ kind = 'yarn', alpha = 11.0, truncate = false }",
        "{ kind = 'randpos', max_position = '2L' }",
        "{ kind = 'segments', length = 'L/128' }",
        "{ kind = 'dynamic_ntk', factor = 1e308 }",
        "{ kind = 'yarn', mscale = 1e300 }",
        "{ kind = 'yarn', temperature = 1e-320 }",
        "{ kind = 'direct', temperature = 1e-300 }",
        "{ kind = 'frequencies', inv_freq = [1.0, 0.5, 0.25, 0.0], attention_factor = 1e20 }",
        // 1e28 and 1e20 each fit, and their product does not.
        "{ kind = 'frequencies', inv_freq = [1.0, 0.5, 0.25, 0.0], attention_factor = 1e14, temperature = 1e-20 }",
        // A turn takes 0.3 tokens, or 1.26.
        "{ kind = 'frequencies', inv_freq = [20.0, 0.5, 0.25, 0.0], resonance = true }",
        "{ kind = 'frequencies', inv_freq = [5.0, 0.5, 0.25, 0.0], resonance = true }",
    ] {
        let error = extension(text).apply(&rope(), LENGTHS).unwrap_err();
        assert!(error.hint_text().is_some(), "{text}: {error}");
        assert!(!text.contains("resonance") || error.message().starts_with("`resonance = true`"), "{error}");
    }
}

#[test]
fn an_unknown_key_lists_those_that_every_extension_takes_too() {
    let message = parse("{ kind = 'yarn', scale = 4, foo = 1 }").unwrap_err().message().to_owned();
    for key in ["scale", "mscale_all_dim", "log_n", "temperature_law", "temperature", "layers", "resonance"] {
        assert_eq!(message.matches(&format!("`{key}`")).count(), 1, "{key}: {message}");
    }
    let message = parse("{ kind = 'direct', foo = 1 }").unwrap_err().message().to_owned();
    assert!(message.contains("allowed are `log_n`"), "{message}");
}

#[test]
fn kinds_and_tables_read_alike() {
    assert_eq!(extension("{ kind = 'linear', scale = 'auto' }"), extension("'linear'"));
    let bad: toml::Table = "kind = \"linear\"\nscale = 0.5".parse().unwrap();
    let error = ExtensionConfig::from_value(&Value::Table(bad), "evaluate[0].extend[1]").unwrap_err();
    assert!(error.message().starts_with("`evaluate[0].extend[1].scale = 0.5`"), "{error}");
}

#[test]
fn a_longer_table_is_read_as_its_rule_says() {
    use crate::encoding::Rows;
    use burn::tensor::{Device, Tensor};
    let vectors = |reading: &Reading, length: usize| -> Vec<f32> {
        let (tokens, positions) =
            (Tensor::zeros([1, length], &Device::flex()), crate::Positions::range(0..length));
        let rows = Rows::new(0, &tokens, &positions);
        reading.check(&positions).unwrap();
        let hidden = Tensor::<3>::ones([1, length, 16], &Device::flex());
        reading.embed(hidden, rows).into_data().try_to_vec().unwrap()
    };
    for kind in ["'learned'", "'multiplicative'"] {
        let trained = reading(kind);
        let table = vectors(&trained, TRAIN);
        for fill in ["interpolate", "random", "hierarchical"] {
            let extend = extension(&format!("{{ kind = 'table', fill = '{fill}' }}"));
            let longer = extend.apply(&trained, LENGTHS).unwrap();
            let read = vectors(&longer, 256);
            let row = |at: usize| &read[16 * at..16 * (at + 1)];
            let old = |at: usize| &table[16 * at..16 * (at + 1)];
            let same = extend.apply(&trained, Lengths { train: TRAIN, length: TRAIN }).unwrap();
            assert_eq!(vectors(&same, TRAIN), table, "{kind} {fill}: at L as trained");
            match fill {
                "interpolate" => assert_eq!((row(4), row(252)), (old(1), old(63)), "{kind}"),
                _ => assert_eq!((row(4), row(63)), (old(4), old(63)), "{kind} {fill}"),
            }
            assert_ne!(row(130), old(2), "{kind} {fill}");
        }
    }
    // As the encoding's own rule for what lies past its table.
    for fill in ["random", "hierarchical"] {
        let own = reading(&format!("{{ kind = 'learned', past_table = '{fill}' }}"));
        let longer = extension(&format!("{{ kind = 'table', fill = '{fill}' }}"))
            .apply(&reading("'learned'"), LENGTHS);
        for (a, b) in vectors(&own, 256).iter().zip(vectors(&longer.unwrap(), 256)) {
            assert!((a - b).abs() < 1e-6, "{fill}");
        }
    }
    let interpolated = extension("'linear'").apply(&reading("'learned'"), LENGTHS).unwrap();
    assert!(extension("'table'").apply(&interpolated, LENGTHS).is_err(), "both at once");
    assert!(parse("{ kind = 'table', alpha = 0.5 }").is_err());
}

#[test]
fn keys_that_take_lists_are_known_by_their_schema() {
    let listed: Vec<(&str, &str)> = [
        ("longrope", "long_factor"),
        ("longrope", "short_factor"),
        ("frequencies", "inv_freq"),
        ("longrope", "n_hat"),
        ("rerope", "window"),
        ("yarn", "beta"),
        ("yarn", "log_n"),
        ("yarn", "temperature"),
        ("linear", "temperature"),
        ("linear", "scale"),
        ("nothing", "window"),
    ]
    .into_iter()
    .filter(|(kind, key)| ExtensionConfig::takes_list(kind, key))
    .collect();
    assert_eq!(
        listed,
        [("longrope", "long_factor"), ("longrope", "short_factor"), ("frequencies", "inv_freq")]
    );
    assert!(ExtensionConfig::takes_rows("yarn", "temperature"));
    assert!(ExtensionConfig::takes_rows("linear", "temperature"));
    assert!(!ExtensionConfig::takes_rows("longrope", "long_factor"));
}
