//! Methods of golden files, written as formulas: the formula must give what the file says.

use crate::bias::found;
use crate::build::{applied, dimensions, encoding, reading};
use crate::file::{Case, File, Seen, assert_close, read_folder};
use longwave_position::Lengths;
use longwave_position::reading::LogN;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// A bias as a formula of its parameters, by the name of its file.
const BIASES: [(&str, &str, &[&str]); 3] = [
    ("alibi", "-2^(-8*head/heads) * n", &[]),
    ("kerple_log", "-max(p, 0.01) * log1p(max(a, 0.01) * n)", &["a", "p"]),
    ("kerple_power", "-max(a, 0.01) * n^clamp(p, 0.01, 2)", &["a", "p"]),
];

/// An extension as formulas, by the name of its file; words in braces are keys of the case.
const EXTENSIONS: [(&str, &str, Option<&str>); 3] = [
    ("ntk", "f * s^(-2*band/(d - 2))", None),
    ("su_ntk_mixed", "f * exp(-log(s) * ((band + 1)/bands)^{exponent})", None),
    (
        "yarn_paper",
        "f * (1 + (1/s - 1) * (1 - clamp((r - {alpha})/({beta} - {alpha}), 0, 1)))",
        Some("(0.1 * {mscale} * log(s) + 1)^2"),
    ),
];

fn table(keys: &[(&str, Value)]) -> Value {
    let kind = ("kind", Value::String("formula".into()));
    Value::Table(keys.iter().chain([&kind]).map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

fn bias(case: &Case, formula: &str, names: &[&str]) {
    let heads = case.usize("heads");
    let starts: Table = names.iter().map(|name| ((*name).to_owned(), Value::Float(1.0))).collect();
    let config = table(&[("bias", Value::String(formula.into())), ("parameters", Value::Table(starts))]);
    // The encoding lists its parameters by their place.
    let params: BTreeMap<_, _> = names
        .iter()
        .enumerate()
        .map(|(place, name)| (format!("values{place}"), case.params()[*name].clone()))
        .collect();
    let encoding = encoding(&config, &dimensions(heads, 4, 4 * heads), &params);
    let (queries, keys) = (case.input("q_positions"), case.input("k_positions"));
    let (seen, bias) = (Seen::of(case, heads), found(&encoding, &queries, &keys));
    assert_close("bias", &seen.keep(bias), &seen.keep(case.outputs().take("bias").data));
}

fn extension(case: &Case, inv_freq: &str, logit_scale: Option<&str>) {
    let filled = |text: &str| {
        let keys = ["exponent", "alpha", "beta", "mscale"]
            .into_iter()
            .filter(|key| text.contains(&format!("{{{key}}}")));
        let text = keys.fold(text.to_owned(), |text, key| {
            text.replace(&format!("{{{key}}}"), &case.f64(key).to_string())
        });
        Value::String(text)
    };
    let mut keys = vec![("inv_freq", filled(inv_freq)), ("scale", Value::Float(case.f64("scale")))];
    keys.extend(logit_scale.map(|text| ("logit_scale", filled(text))));
    let (dim, train) = (case.usize("d"), case.usize("L"));
    let base = Value::Float(case.f64("base"));
    // The rotation is a formula too.
    let schedule = Value::String("base^(-2*i/d)".into());
    let rope = table(&[("inv_freq", schedule), ("base", base)]);
    let rope = reading(&rope, &dimensions(1, dim, dim), LogN::Off);
    let changed = applied(table(&keys), &rope, Lengths { train, length: train }).unwrap();
    let frequencies = changed.encodings()[0].frequencies().expect("frequencies");
    let mut outputs = case.outputs();
    outputs.compare_f64("theta", &frequencies.inv_freq);
    outputs.compare_f64("attention_factor", &[frequencies.attention_factor]);
}

#[test]
fn formulas_give_what_they_restate() {
    let files = read_folder(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")));
    let cases = |name: &str| {
        let file: &File =
            files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no file `{name}`"));
        assert!(!file.cases.is_empty());
        file.cases.iter()
    };
    for (name, formula, parameters) in BIASES {
        // The formula is the published one for a power of two heads.
        let published = |case: &&Case| {
            name != "alibi"
                || (case.usize("heads").is_power_of_two() && case.config["learned_slopes"] == false)
        };
        let tried = cases(name).filter(published).map(|case| bias(case, formula, parameters)).count();
        assert!(tried > 0, "{name}");
    }
    for (name, inv_freq, logit_scale) in EXTENSIONS {
        // A temperature that is given takes the place of the formula.
        let tried =
            cases(name).filter(|case| case.config.get("temperature").is_none_or(serde_json::Value::is_null));
        assert!(tried.map(|case| extension(case, inv_freq, logit_scale)).count() > 0, "{name}");
    }
}
