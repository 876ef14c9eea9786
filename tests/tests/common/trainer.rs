//! Training in this process, stopped where a test says.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]

use super::Project;
use burn::tensor::Device;
use longwave_data::Dataset;
use longwave_experiment::Config;
pub use longwave_train::metrics::Metric;
use longwave_train::trainer::open_folder;
use longwave_train::{Outcome, Run, Start, Trainer, fresh_model};
use std::cell::Cell;

/// Trains `small.toml` in `folder` on the CPU until `stop` has been asked so many times.
pub fn train_until(project: &Project, folder: &str, asked: usize, changes: &[impl AsRef<str>]) -> Outcome {
    train_until_on(project, folder, asked, changes, &Device::flex())
}

/// The same on any device.
pub fn train_until_on(
    project: &Project,
    folder: &str,
    asked: usize,
    changes: &[impl AsRef<str>],
    device: &Device,
) -> Outcome {
    train(project, folder, asked, changes, device, None)
}

/// Trains `small.toml` in `folder` to its end on the CPU, with a model of a vocabulary that is larger than the corpus has
/// tokens.
pub fn train_with_vocabulary(project: &Project, folder: &str, vocabulary: usize, changes: &[&str]) {
    let outcome = train(project, folder, usize::MAX, changes, &Device::flex(), Some(vocabulary));
    assert_eq!(outcome, Outcome::Done);
}

fn train(
    project: &Project,
    folder: &str,
    asked: usize,
    changes: &[impl AsRef<str>],
    device: &Device,
    vocabulary: Option<usize>,
) -> Outcome {
    let changes: Vec<String> = changes.iter().map(|change| change.as_ref().to_owned()).collect();
    let mut config = Config::load(&project.path("small.toml"), &changes).unwrap();
    let data = &mut config.run.data;
    if !data.corpus.is_empty() {
        data.corpus = project.path(&data.corpus).to_string_lossy().into_owned();
    }
    data.cache = project.path(".cache").to_string_lossy().into_owned();
    let dataset = Dataset::open(&config.run.data, &mut |_| {}).unwrap();
    let vocabulary = vocabulary.unwrap_or_else(|| dataset.tokenizer().vocab_size());
    let resolved = config.run.model.resolve(vocabulary, config.run.train.length).unwrap();
    let content = dataset.content_hash();
    let (run, start) = Run::prepare(&project.path(folder), config.run.clone(), content, true).unwrap();
    let from = match &start {
        Start::Resume(checkpoint) | Start::Longer(checkpoint, _) => Some(&**checkpoint),
        Start::Fresh | Start::Finished(_) => None,
    };
    config.run = run.config.clone();
    let document = config.to_table().unwrap();
    let is_new = !run.folder.join("config.toml").exists();
    if is_new {
        open_folder(&run, &document, &dataset).unwrap();
    }
    let _lock = run.lock().unwrap();
    let count = Cell::new(0);
    let stop = || {
        count.set(count.get() + 1);
        count.get() > asked
    };
    let fresh = fresh_model(&run.config, &resolved, &device.clone().autodiff()).unwrap();
    let mut trainer = Trainer::new(&run, &dataset, fresh, device, from).unwrap();
    if !is_new {
        trainer.take_over().unwrap();
        open_folder(&run, &document, &dataset).unwrap();
    }
    trainer.train(&stop, &mut |_| {}).unwrap()
}

/// The lines of a run's `metrics.jsonl`.
pub fn metrics(project: &Project, folder: &str) -> Vec<Metric> {
    project.rows(&format!("{folder}/metrics.jsonl"))
}
