//! What a user writes: configs, studies, claims, formulas and extensions.

use crate::readers::{ROOT, Workplace, files, owned};
use crate::samples::{BASE, STUDY};
use burn::tensor::{Device, Tensor};
use longwave_core::{Error, Result};
use longwave_experiment::{Config, obstacles};
use longwave_model::{Pass, upload};
use longwave_position::formula::Formula;
use longwave_position::{ExtensionConfig, Lengths, Positions};
use longwave_study::{Plan, Study, judge, ranking};
use longwave_train::{fresh_model, memory_check};
use std::path::Path;
use toml::Table;

/// Every file of the program that holds text is read as UTF-8 first.
fn utf8(input: &[u8]) -> Result<&str> {
    std::str::from_utf8(input).map_err(|error| Error::failed(error.to_string()))
}

pub(crate) fn toml(input: &[u8]) -> Result<Table> {
    utf8(input)?.parse().map_err(|error: toml::de::Error| Error::usage(error.to_string()))
}

pub(crate) fn config(_: &mut Workplace, input: &[u8]) -> Result<()> {
    let config = Config::parse(utf8(input)?)?;
    memory_check::check(&config.run, config.run.data.vocab_size().unwrap_or(1), &Device::flex())?;
    obstacles(&config)?;
    let written = config.to_table()?;
    assert_eq!(Config::from_table(written)?.run, config.run, "the resolved config reads back as another one");
    Ok(())
}

pub(crate) fn studies(_: &Path) -> Vec<Vec<u8>> {
    let mut studies = files(ROOT, "experiments", ".toml");
    studies.push(STUDY.into());
    studies
}

/// More runs than these are planned by nobody here: the plan of each takes a fraction of a millisecond.
const RUNS: usize = 64;

pub(crate) fn planned(document: Table) -> Result<()> {
    let base: Table = BASE.parse().unwrap();
    let study = Study::from_table(document, &|_| Ok(base.clone()))?;
    let runs = study.axes.iter().map(|axis| axis.points.len()).product::<usize>() * study.seeds.len();
    if runs > RUNS {
        return Ok(());
    }
    let plan = Plan::new(&study, "cpu", &mut |_| Ok("content".to_owned()));
    plan.check()?;
    plan.left_out();
    study.claims.iter().try_for_each(|claim| judge::check(claim, &plan))?;
    study.best.map_or(Ok(()), |best| ranking::check(&plan, best))
}

pub(crate) const CLAIMS: &[&str] = &[
    "says = 'rope, a, ntk < rope, a at 2L'\ntolerance = 0.1",
    "says = 'alibi, b > rope, b, window_baseline at 32'\nmetric = 'accuracy'\nprotocol = 'sliding'",
    "says = 'rope, a, direct = alibi, a, direct at 1.5L'\nsplit = 'valid'\nwhy = 'because'",
];

pub(crate) fn claim(_: &mut Workplace, input: &[u8]) -> Result<()> {
    let mut study: Table = STUDY.parse().unwrap();
    study.insert("claim".to_owned(), toml::Value::Array(vec![toml(input)?.into()]));
    planned(study)
}

pub(crate) const FORMULAS: &[&str] = &[
    "bias = '-softplus(a) * log1p(softplus(b) * n)'\nparameters = { a = 0.0, b = 0.0 }",
    "bias = '-2^(-8*head/heads) * n'",
    "inv_freq = 'base^(-2*band/d)'\nbase = 500.0",
    "bias = 'sin(i - j) / (1 + abs(cos(layer)))' ",
    "bias = '-p * min(n, L) ^ sigmoid(q) + clamp(r, -1, 1) * sqrt(n)'\nparameters = { p = 1, q = { start = 0.5 }, r = { \
     start = 0.0, per = 'head', min = 0.0, decay = true } }",
    "-p * log1p(a * n)",
];

/// A table of the encoding's keys, or the text of one formula.
pub(crate) fn formula(_: &mut Workplace, input: &[u8]) -> Result<()> {
    let text = utf8(input)?;
    let Ok(mut position) = text.parse::<Table>() else {
        return Formula::read("bias", text, &["n", "p", "a", "L"]).map(|formula| drop(formula.names()));
    };
    position.insert("kind".to_owned(), "formula".into());
    let mut document: Table = BASE.parse().unwrap();
    document.insert("position".to_owned(), position.into());
    let config = Config::from_table(document)?.run;
    let resolved = config.model.resolve(16, config.train.length)?;
    let model = fresh_model(&config, &resolved, &Device::flex())?;
    let positions = Positions::range(0..20);
    model.position.check(&positions)?;
    let tokens = upload(&[3; 20], [1, 20], &Device::flex());
    let pass = Pass { tokens, positions: &positions, reading: &model.position, dropout: None };
    let logits: Tensor<3> = model.logits(model.hidden(&pass));
    assert_eq!(logits.dims(), [1, 20, 16]);
    Ok(())
}

pub(crate) fn extensions(_: &Path) -> Vec<Vec<u8>> {
    let mut texts = owned(&[
        "{ kind = \"sinks\", window = \"1.5L\", sinks = 2 }",
        "{ kind = \"rerope\", window = \"L/2\", layers = [0] }",
        "{ kind = \"yarn\", ramp = \"paper\", temperature = 1.1, scale = 4.0 }",
        "{ kind = \"longrope\", factors = [1.0, 2.0] }",
        "{ kind = \"formula\", inv_freq = \"f / s\" }",
        "{ \"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \
         \"original_max_position_embeddings\": 16 }",
        "{ \"rope_type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": [1, 1], \"factor\": 4 }",
    ]);
    // Every kind, and the tables of its examples.
    texts.extend(longwave_position::extensions::kinds().iter().map(|kind| kind.kind.into()));
    let lengths = Lengths { train: 16, length: 64 };
    for (example, _) in longwave_position::extensions::examples(2, lengths).unwrap() {
        let value = toml::Value::try_from(&example).unwrap();
        texts.push(value.to_string().into_bytes());
    }
    texts
}

pub(crate) fn extension(place: &mut Workplace, input: &[u8]) -> Result<()> {
    let text = utf8(input)?;
    let table = format!("extend = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("extend"));
    let value = table.unwrap_or_else(|| text.trim().into());
    let extension = ExtensionConfig::from_value(&value, "--extend")?;
    let mut result = Ok(());
    for reading in &place.readings {
        for length in [8, 16, 17, 64] {
            let applied = extension.apply(reading, Lengths { train: 16, length });
            let checked = applied.and_then(|reading| reading.check(&reading.layout().positions(length)));
            result = result.and(checked);
        }
    }
    result
}
