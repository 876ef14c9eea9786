//! Every config that ships can be run as it is.

#![allow(clippy::unwrap_used, missing_docs)]

use burn::tensor::Device;
use longwave_eval::Config;
use longwave_model::Gpt;
use longwave_position::encodings::ENCODINGS;
use longwave_position::{Init, Lengths};
use longwave_train::reading_after;
use std::path::Path;

#[test]
fn every_config_builds_its_model_and_reads_its_lengths() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let config = Config::load(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(config.run.name, name, "a config is named after its file");
        let resolved = config.run.model.resolve(512, config.run.train.length).unwrap();
        let init = Init::new(0, &Device::flex());
        let model = Gpt::new(&resolved, &config.run.position, &init)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let last = reading_after(&config.run, &model.position, config.run.last_stage())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for evaluation in config.evaluations().unwrap() {
            for extension in &evaluation.extensions {
                for &length in &evaluation.block.lengths {
                    let lengths = Lengths { train: config.run.train.length, length };
                    extension
                        .apply(&last, lengths)
                        .and_then(|reading| reading.check(&reading.layout().positions(length)))
                        .unwrap_or_else(|error| panic!("{name}: {error}"));
                }
            }
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let tells = ["# Command ", "# Time ", "# Result "].iter().all(|key| text.contains(key));
        assert!(
            text.starts_with("# ") && tells,
            "{name} says what it is for, how to run it, how long it takes and what comes out"
        );
        found.push(name);
    }
    for entry in ENCODINGS {
        assert!(found.iter().any(|name| name == entry.kind), "no config for `{}`", entry.kind);
    }
}
