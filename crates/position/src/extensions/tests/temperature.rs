//! Temperatures and log-n scaling beside any extension.

use super::*;
use crate::reading::Temperature;

#[test]
fn log_n_and_temperature_go_with_every_extension() {
    for (plain, _) in with_rope() {
        let Value::Table(mut table) = Value::try_from(&plain).unwrap() else { panic!("{plain:?}") };
        // Where `yarn` has a factor in place of its formula, a temperature has no place.
        let has_factor = plain.kind() == "yarn"
            && ["attention_factor", "mscale_all_dim"].iter().any(|key| table.contains_key(*key));
        let has_own = ["log_n", "temperature_law", "temperature"].iter().any(|key| table.contains_key(*key));
        if has_own || has_factor {
            continue;
        }
        table.insert("log_n".to_owned(), true.into());
        table.insert("temperature".to_owned(), 0.5.into());
        let both = ExtensionConfig::from_value(&Value::Table(table), "extend").unwrap();
        let (with, without) = (both.apply(&rope(), LENGTHS).unwrap(), plain.apply(&rope(), LENGTHS).unwrap());
        let layer = with.layer(1);
        assert_eq!(layer.log_n, LogN::PostHoc { train_length: TRAIN }, "{both:?}");
        assert_eq!(layer.temperature, Temperature::All(0.5), "{both:?}");
        // What multiplies q.k stays; but `yarn` has a temperature in place of its formula.
        let factor =
            |reading: &Reading| reading.layer(1).logit_scale * frequencies(reading).attention_factor.powi(2);
        let expected = if both.kind() == "yarn" { 1.0 } else { factor(&without) };
        assert!((factor(&with) - expected).abs() < 1e-12, "{both:?}: {}", factor(&with));
        let written = serde_json::to_value(&both).unwrap();
        assert_eq!((&written["log_n"], &written["temperature"]), (&true.into(), &0.5.into()));
    }
    let error = parse("{ kind = 'ntk', temperature = 0.0 }").unwrap_err();
    assert!(error.message().starts_with("`extend.temperature = 0`"), "{error}");
    let trained = built("'rope'", 2, LogN::Trained { train_length: TRAIN });
    let error = extension("{ kind = 'direct', log_n = true }").apply(&trained, LENGTHS).unwrap_err();
    assert!(error.message().contains("twice"), "{error}");
}

#[test]
fn temperature_laws_scale_layers_that_see_more_keys() {
    let with = |law: &str| format!("{{ kind = 'ntk', temperature_law = {law} }}");
    let layer = |law: &str| extension(&with(law)).apply(&rope(), LENGTHS).unwrap().layer(1).clone();
    // s = 4.
    for (c, factor) in [("0.412", 1.571), ("0.103", 1.143), ("0", 1.0)] {
        let layer = layer(&format!("{{ kind = 'one_plus_log', c = {c} }}"));
        assert!((layer.logit_scale - factor).abs() < 5e-4, "{c}: {}", layer.logit_scale);
        assert_eq!(layer.log_n, LogN::Off);
    }
    let shifted = layer("{ kind = 'log_shift', a = 7 }").log_n;
    assert_eq!(shifted, LogN::Shifted { a: 7.0, train_length: TRAIN });
    assert_eq!(layer("'info'").log_n, LogN::Info { head_dim: 8, train_length: TRAIN });
    assert_eq!(layer("{ kind = 'entropy' }").log_n, LogN::ByEntropy);
    // One law has two names, and is written with the older one.
    assert_eq!(extension(&with("'log_ratio'")), extension("{ kind = 'ntk', log_n = true }"));
    for law in ["{ kind = 'log_shift', a = 7.0 }", "'entropy'"] {
        let one = extension(&with(law));
        let table = Value::try_from(&one).unwrap();
        assert_eq!(ExtensionConfig::from_value(&table, "extend").unwrap(), one);
    }
    for (law, words) in [
        ("'log_n'", "`extend.temperature_law = \"log_n\"`"),
        ("{ kind = 'one_plus_log', c = -1 }", "`extend.temperature_law.c = -1`"),
        ("{ kind = 'one_plus_log', c = nan }", "`extend.temperature_law.c = NaN`"),
        ("'one_plus_log'", "`extend.temperature_law.c` is missing"),
        ("{ kind = 'info', a = 1 }", "`extend.temperature_law.a"),
        ("'info', log_n = true", "`extend.log_n = true` is a law already"),
    ] {
        let error = parse(&with(law)).unwrap_err();
        assert!(error.message().contains(words) && error.hint_text().is_some(), "{law}: {error}");
    }
    let trained = built("'rope'", 2, LogN::Trained { train_length: TRAIN });
    let error = extension(&with("'info'")).apply(&trained, LENGTHS).unwrap_err();
    assert!(error.message().starts_with("`temperature_law` would scale the queries twice"), "{error}");
}

/// A stage leaves its law in the model: an extension neither replaces it nor scales the queries by a second one.
#[test]
fn the_law_of_a_stage_stays() {
    let of = |keys: &str| extension(&format!("{{ kind = 'direct', {keys} }}"));
    let laws = [
        "log_n = true",
        "temperature_law = { kind = 'log_shift', a = 50 }",
        "temperature_law = 'info'",
        "temperature_law = 'entropy'",
        "temperature_law = { kind = 'one_plus_log', c = 0.4 }",
        "temperature_law = { kind = 'one_plus_log', c = 0.1 }",
    ];
    for (index, first) in laws.iter().enumerate() {
        let stage = of(first).apply(&rope(), LENGTHS).unwrap();
        let key = if index == 0 { "log_n" } else { "temperature_law" };
        let why = format!("would scale the queries twice: the model was trained with `{key}`");
        for other in laws {
            if *first == other {
                let again = of(other).apply(&stage, LENGTHS).unwrap();
                assert_eq!(again.layers(), stage.layers(), "{first}");
                continue;
            }
            let error = of(other).apply(&stage, LENGTHS).unwrap_err();
            assert!(
                error.message().contains(&why) && error.hint_text().is_some(),
                "{first}, {other}: {error}"
            );
        }
        // Everything else still comes on top of it.
        let linear = extension("'linear'").apply(&stage, LENGTHS).unwrap();
        assert_eq!(linear.layer(1).log_n, stage.layer(1).log_n, "{first}");
    }
    // `1 + c ln s` of 4L in a stage, and of 8L in a text, as one law: at 8L its factor is 1 + 0.4 ln 8 and no product.
    let stage = of(laws[4]).apply(&rope(), LENGTHS).unwrap();
    let longer = Lengths { length: 8 * TRAIN, ..LENGTHS };
    let scale = |read: &Reading| read.layer(1).logit_scale;
    assert!((scale(&stage) - 1.554_518).abs() < 1e-6);
    assert!((scale(&of(laws[4]).apply(&stage, longer).unwrap()) - 1.831_777).abs() < 1e-6);
    assert_eq!(scale(&extension("'direct'").apply(&stage, longer).unwrap()), scale(&stage));
    // Layers that the stage left as they were have no law yet.
    let stage = of("log_n = true, layers = [0]").apply(&rope(), LENGTHS).unwrap();
    let read = of("temperature_law = 'info'").apply(&stage, LENGTHS).unwrap();
    let found = read.layers().iter().map(|layer| layer.log_n).collect::<Vec<_>>();
    let post_hoc = LogN::PostHoc { train_length: TRAIN };
    assert_eq!(found, [post_hoc, LogN::Info { head_dim: 8, train_length: TRAIN }]);
}

#[test]
fn a_temperature_may_be_one_for_each_head() {
    let heads = |text: &str| {
        let read = extension(text).apply(&rope(), LENGTHS)?;
        Ok(read.layers().iter().map(|layer| layer.temperature.clone()).collect::<Vec<_>>())
    };
    let rows = [vec![0.5, 1.0], vec![2.0, 0.25]].map(Temperature::Heads).to_vec();
    for kind in ["direct", "ntk", "yarn", "window"] {
        let given: Result<_> =
            heads(&format!("{{ kind = '{kind}', temperature = [[0.5, 1], [2.0, 0.25]] }}"));
        assert_eq!(given.unwrap(), rows, "{kind}");
    }
    // A row for each layer that is changed; a second extension multiplies.
    let one = "{ kind = 'direct', layers = [1], temperature = [[0.5, 4.0]] }";
    let expected = [Temperature::All(1.0), Temperature::Heads(vec![0.5, 4.0])];
    assert_eq!(heads(one).unwrap(), expected);
    let read = extension(one).apply(&rope(), LENGTHS).unwrap();
    let twice = extension("{ kind = 'direct', temperature = 2.0 }").apply(&read, LENGTHS).unwrap();
    assert_eq!(twice.layer(1).temperature, Temperature::Heads(vec![1.0, 8.0]));
    for (value, what) in [
        ("[[0.5, 1.0]]", "`temperature` has 1 rows; it changes 2 layers of 2 heads each"),
        ("[[0.5, 1.0], [0.5]]", "`temperature` has 1 numbers in row 1"),
    ] {
        let error: Error = heads(&format!("{{ kind = 'direct', temperature = {value} }}")).unwrap_err();
        assert!(error.message().starts_with(what) && error.hint_text().is_some(), "{error}");
    }
    let message =
        |value: &str| parse(&format!("{{ kind = 'ntk', temperature = {value} }}")).unwrap_err().to_string();
    assert!(message("[[0.5, -1.0]]").starts_with("`extend.temperature[0][1] = -1`"));
    assert!(message("[0.5, 1.0]").contains("a list with a row of numbers for each layer"));
}
