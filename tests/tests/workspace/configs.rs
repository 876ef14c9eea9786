//! Every config that ships can be run as it is.

use burn::tensor::Device;
use longwave_core::Result;
use longwave_experiment::{Config, Silent, check, obstacles};
use longwave_model::Gpt;
use longwave_position::encodings;
use longwave_position::{Init, Lengths};
use longwave_train::reading_after;
use std::path::{Path, PathBuf};

/// The configs that ship, by name.
fn shipped() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = paths.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path));
    let mut named: Vec<(String, PathBuf)> = named.collect();
    named.sort();
    named
}

/// Checks a config and its text as `validate` does, with a cache in `folder`.
fn validate(mut config: Config, folder: &Path) -> Result<()> {
    let data = &mut config.run.data;
    if !data.corpus.is_empty() {
        // One text is fetched by a script.
        let corpus = if data.corpus == "data/enwik8" { "data/sotu" } else { data.corpus.as_str() };
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(corpus);
        data.corpus = corpus.to_string_lossy().into_owned();
    }
    data.cache = folder.to_string_lossy().into_owned();
    check(&config, &mut Silent).map(|_| ())
}

/// Builds the model of a config and reads it at every length of every evaluation.
fn build_and_read(config: &Config) -> Result<()> {
    let train = config.run.train.length;
    let resolved = config.run.model.resolve(512, train)?;
    let model = Gpt::new(&resolved, &config.run.position, &Init::new(0, &Device::flex()))?;
    let last = reading_after(&config.run, &model.position, config.run.last_stage())?;
    for evaluation in config.evaluations() {
        for &length in &evaluation.block.lengths {
            for extension in &evaluation.extensions {
                let reading = extension.apply(&last, Lengths { train, length })?;
                reading.check(&reading.layout().positions(length))?;
            }
        }
    }
    Ok(())
}

/// The same without a drawn weight, and what the task says of the lengths.
fn read_undrawn(config: &Config) -> Result<()> {
    // `None` would be a model that does not fit in memory.
    if let Some(obstacle) = obstacles(config)?.unwrap().into_iter().flatten().next() {
        return Err(obstacle.error);
    }
    let Some(task) = &config.run.data.task else { return Ok(()) };
    let mut lengths = config.evaluations().iter().flat_map(|it| &it.block.lengths);
    lengths.try_for_each(|&length| task.check_length("evaluate.lengths", length))
}

#[test]
fn every_config_builds_its_model_and_reads_its_lengths() {
    let cache = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for (name, path) in shipped() {
        let config = Config::load(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(config.run.name, name, "a config is named after its file");
        build_and_read(&config)
            .and_then(|()| validate(config, cache.path()))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = std::fs::read_to_string(&path).unwrap();
        let tells = ["# Command ", "# Time ", "# Result "].iter().all(|key| text.contains(key));
        assert!(
            text.starts_with("# ") && tells,
            "{name} says what it is for, how to run it, how long it takes and what comes out"
        );
        found.push(name);
    }
    for entry in encodings::kinds() {
        assert!(found.iter().any(|name| name == entry.kind), "no config for `{}`", entry.kind);
    }
}

/// A config whose header has more than one seed is past its transition, or says that it is not there yet.
#[test]
fn seeds_in_headers_agree_within_5_percent() {
    let mut compared = 0;
    for (name, path) in shipped() {
        let text = std::fs::read_to_string(&path).unwrap();
        let Some(line) = text.lines().find_map(|line| line.strip_prefix("# Seeds ")) else { continue };
        let numbers = line.split_once(": ").unwrap().1.split(['(', ';']).next().unwrap().split(',');
        let numbers: Vec<f64> = numbers.map(|number| number.trim().parse().unwrap()).collect();
        let [least, most] =
            numbers.iter().fold([f64::INFINITY, 0.0], |[low, high], x| [low.min(*x), high.max(*x)]);
        assert!(numbers.len() >= 3, "{name}: {line}");
        assert!(most <= 1.05 * least || line.contains("not there yet"), "{name}: {line}");
        compared += 1;
    }
    assert!(compared >= 2, "{compared}");
}

#[test]
fn every_config_follows_the_training_length() {
    let cache = tempfile::tempdir().unwrap();
    for (name, path) in shipped() {
        let original = Config::load(&path, &[]).unwrap();
        let multiples = |config: &Config| -> Vec<Vec<f64>> {
            let of = |length: usize| length as f64 / config.run.train.length as f64;
            let evaluations = config.evaluations();
            evaluations.iter().map(|it| it.block.lengths.iter().map(|&length| of(length)).collect()).collect()
        };
        for length in [64, 256, 512] {
            let set = format!("train.length={length}");
            let config =
                Config::load(&path, &[set]).unwrap_or_else(|error| panic!("{name}, L = {length}: {error}"));
            assert_eq!(multiples(&config), multiples(&original), "{name}, L = {length}");
            // The text is checked at one of them.
            let read = if length == 256 { validate(config, cache.path()) } else { read_undrawn(&config) };
            read.unwrap_or_else(|error| panic!("{name}, L = {length}: {error}"));
        }
    }
}
