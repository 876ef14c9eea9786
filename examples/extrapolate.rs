//! Trains a small GPT on 64 bytes of text at a time, reads up to four times as many with each extension, and prints
//! what that does to its perplexity. It takes about a minute:
//!
//!     cargo run --package longwave-experiment --example extrapolate

#![allow(clippy::print_stdout, reason = "the example's output")]

use longwave_experiment::{Config, DeviceChoice, Experiment, Machine, Result, ResultRow, Silent};
use std::path::Path;

const CONFIG: &str = r#"
    name = "extrapolate"
    data = { corpus = "data/sotu", tokenizer = { kind = "bytes" } }
    model = { size = "nano" }
    position = "rope"
    train = { length = 64, steps = 300 }
"#;

const EVALUATION: &str = r#"
    lengths = ["L", "2L", "4L"]
    extend = ["direct", "linear", "yarn"]
    windows_per_document = 4
"#;

fn main() -> Result<()> {
    for row in extrapolate(&Config::parse(CONFIG)?, Path::new("runs/extrapolate"))? {
        println!("{:<15} {:>4} bytes  perplexity {:>6.2}", row.extend, row.settings.length, row.ppl());
    }
    Ok(())
}

/// Trains the config's model in a folder, or finds it trained there, and reads longer texts.
fn extrapolate(config: &Config, folder: &Path) -> Result<Vec<ResultRow>> {
    let machine = Machine::open(DeviceChoice::Auto, None)?;
    let experiment = Experiment::open(config.clone(), folder, true, &machine, &mut Silent)?;
    let trained = experiment.train(&mut Silent)?;
    trained.evaluate_block(EVALUATION, &mut Silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_trains_extends_and_measures() -> Result<()> {
        let mut config = Config::parse(CONFIG)?;
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        config.run.train.steps = 3;
        config.run.data.corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sotu").to_owned();
        config.run.data.cache = folder.path().join("cache").to_string_lossy().into_owned();
        let rows = extrapolate(&config, &folder.path().join("run"))?;
        // Three extensions and the window baseline, at three lengths.
        assert_eq!(rows.len(), 12);
        // At the training length every extension reads as trained.
        let at_training: Vec<f64> =
            rows.iter().filter(|row| row.settings.length == 64).map(ResultRow::ppl).collect();
        assert!(at_training.iter().all(|ppl| ppl.is_finite() && (ppl / at_training[0] - 1.0).abs() < 1e-4));
        Ok(())
    }
}
