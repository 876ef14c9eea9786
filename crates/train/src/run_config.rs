//! A whole config but its evaluations, and the run's identity made from it.

use crate::config::TrainConfig;
use crate::imported::Imported;
use crate::stage::{StageConfig, TrainedPart};
use burn::tensor::Device;
use longwave_core::file::sha256_of;
use longwave_core::{Result, canonical, written};
use longwave_data::DataConfig;
use longwave_kernels::Precision;
use longwave_model::ModelConfig;
use longwave_position::{Lengths, PositionConfig, Reading};
use schemars::JsonSchema;
use serde::Serialize;
use toml::{Table, Value};

/// What a run trains.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunConfig {
    /// Names the run's folder and its rows.
    pub name: String,
    /// Decides weights, batches and dropout.
    pub seed: u64,
    /// Written by `longwave import` where the weights were not trained here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The corpus and its tokenizer.
    pub data: DataConfig,
    /// The model's sizes and parts.
    pub model: ModelConfig,
    /// The positional encoding.
    pub position: PositionConfig,
    /// The training: its first stage, whose length is L.
    pub train: TrainConfig,
    /// Stages of training after it.
    #[serde(rename = "stage", skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageConfig>,
}

/// Keys of `[train]` and of stages that decide what happens between steps, and change none.
const CHANGES_NO_STEP: [&str; 3] = ["on_non_finite", "validate_every", "checkpoint_every"];

/// Whether a key of a stage changes no step. How often a stage validates decides where its `patience` ends it.
pub(crate) fn changes_no_step(key: &str, has_patience: bool) -> bool {
    CHANGES_NO_STEP.contains(&key) && !(has_patience && key == "validate_every")
}

impl RunConfig {
    /// Training by stage: 0 is `[train]`, n the n-th `[[stage]]`.
    pub fn stage(&self, stage: usize) -> &TrainConfig {
        if stage == 0 { &self.train } else { &self.stages[stage - 1].train }
    }

    /// The same, to be changed.
    pub fn stage_mut(&mut self, stage: usize) -> &mut TrainConfig {
        if stage == 0 { &mut self.train } else { &mut self.stages[stage - 1].train }
    }

    /// Which parameters a stage trains: all of them in `[train]`.
    pub fn trained_part(&self, stage: usize) -> &TrainedPart {
        if stage == 0 { &TrainedPart::All } else { &self.stages[stage - 1].trained }
    }

    /// The lengths of a stage: L is that of `[train]`, L' its own.
    pub fn lengths(&self, stage: usize) -> Lengths {
        Lengths { train: self.train.length, length: self.stage(stage).length }
    }

    /// A stage's place in the file, for messages.
    pub fn section(stage: usize) -> String {
        if stage == 0 { "train".to_owned() } else { format!("stage[{}]", stage - 1) }
    }

    /// The reading of a model as its file says it, where it was imported; else the same.
    pub fn as_published(&self, reading: Reading) -> Result<Reading> {
        match self.imported.as_ref().map(Imported::published).transpose()?.flatten() {
            Some(published) => reading.with_published(published, self.train.length),
            None => Ok(reading),
        }
    }

    pub fn last_stage(&self) -> usize {
        self.stages.len()
    }

    pub fn steps_before(&self, stage: usize) -> u64 {
        (0..stage).map(|stage| self.stage(stage).steps).sum()
    }

    pub fn total_steps(&self) -> u64 {
        self.steps_before(self.last_stage() + 1)
    }

    /// The steps whose weights are kept, counted through all stages; the last one of all is the checkpoint `last`.
    pub fn kept_steps(&self) -> Vec<u64> {
        let of_stage = |stage: usize| {
            let (train, before) = (self.stage(stage), self.steps_before(stage));
            let kept = train.keep_checkpoints.iter().flat_map(|kept| kept.of(train.steps));
            kept.map(|step| before + step).collect::<Vec<_>>()
        };
        let total = self.total_steps();
        (0..=self.last_stage()).flat_map(of_stage).filter(|step| *step < total).collect()
    }

    pub fn tokens_before(&self, stage: usize) -> u64 {
        (0..stage).map(|stage| self.stage(stage).steps * self.stage(stage).batch_tokens as u64).sum()
    }

    /// Training tokens read after so many steps.
    pub fn tokens_after(&self, step: u64) -> u64 {
        let of = |stage: usize| self.steps_done(stage, step) * self.stage(stage).batch_tokens as u64;
        (0..=self.last_stage()).map(of).sum()
    }

    /// How many steps of a stage are done after `step`, counted through all stages.
    pub fn steps_done(&self, stage: usize, step: u64) -> u64 {
        step.saturating_sub(self.steps_before(stage)).min(self.stage(stage).steps)
    }

    /// The stage of a step, counted through all of them from 1.
    pub fn stage_of(&self, step: u64) -> usize {
        (0..self.last_stage()).find(|stage| step <= self.steps_before(stage + 1)).unwrap_or(self.last_stage())
    }

    /// The precision that every stage trains in, on a device that has it.
    pub fn check_precision(&self, device: &Device) -> Result<Precision> {
        let precision = self.train.precision;
        precision.check("train.precision", device).map(|()| precision)
    }

    /// The document with every default written out.
    pub fn to_table(&self) -> Result<Table> {
        written::toml_table("the config", self)
    }

    /// Identifies what is trained on which data: SHA-256 over data, model, position, train, stages and
    /// seed, not the name, not the evaluations, not where the data lies. `content_hash` is the corpus's and
    /// its tokenizer's. What changes no step is left out, such as `checkpoint_every`, so that a run can go on with another value of it.
    pub fn hash(&self, content_hash: &str) -> Result<String> {
        Ok(self.hash_by_seed(content_hash)?(self.seed))
    }

    /// The [`hash`](Self::hash) that the config has with any seed: runs that differ by their seed alone are hashed faster.
    pub fn hash_by_seed(&self, content_hash: &str) -> Result<impl Fn(u64) -> String + use<>> {
        let mut table = self.to_table()?;
        table.remove("name");
        table.remove("data");
        table.insert("data".to_owned(), Value::String(content_hash.to_owned()));
        let stages = table.get("stage").and_then(Value::as_array).map_or(0, Vec::len);
        for stage in 0..=stages {
            let keys = match stage.checked_sub(1) {
                None => table.get_mut("train"),
                Some(index) => table.get_mut("stage").and_then(|stages| stages.get_mut(index)),
            };
            if let Some(keys) = keys.and_then(Value::as_table_mut) {
                let has_patience = keys.contains_key("patience");
                keys.retain(|key, _| !changes_no_step(key, has_patience));
            }
        }
        let (before, after) = canonical::around(written::json_value("the config", &table)?, "seed");
        Ok(move |seed: u64| sha256_of(format!("{before}{seed}{after}").as_bytes())[..16].to_owned())
    }

    /// Identifies a model by its config alone: what an imported one is held against, whose weights (by
    /// [`imported`](Self::imported)) are no matter of the text that it is read on.
    pub fn weights_hash(&self) -> Result<String> {
        self.hash("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n[data]\ncorpus = \"data/sotu\"\n[position]\nkind = \"rope\"\n";

    fn config(text: &str) -> Result<RunConfig> {
        RunConfig::from_table(text.parse().unwrap())
    }

    #[test]
    fn the_resolved_document_reads_back_the_same() {
        let first = config(TEXT).unwrap();
        let second = RunConfig::from_table(first.to_table().unwrap()).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn the_hash_covers_what_is_trained_only() {
        let hash = |text: &str| config(text).unwrap().hash("corpus").unwrap();
        assert_eq!(hash(TEXT), hash(&TEXT.replace("\"x\"", "\"y\"")));
        assert_ne!(hash(TEXT), hash(&TEXT.replace("\n[data]", "\nseed = 1\n[data]")));
        assert_ne!(hash(TEXT), hash(&TEXT.replace("rope", "none")));
        assert_ne!(hash(TEXT), config(TEXT).unwrap().hash("another corpus").unwrap());
        let stage = "[[stage]]\nlength = 256\nsteps = 10\n";
        let rollback = format!("{TEXT}[train]\non_non_finite = \"rollback\"\n{stage}");
        let often = format!("{TEXT}[train]\nvalidate_every = 3\n{stage}checkpoint_every = 2\n");
        assert_eq!([&rollback, &often].map(|text| hash(text)), [&*hash(&format!("{TEXT}{stage}")); 2]);
        // Where a patience ends training follows from how often it validates.
        let patient = |every: u64| hash(&format!("{TEXT}[train]\npatience = 2\nvalidate_every = {every}\n"));
        assert!(patient(3) != patient(4) && patient(60) != hash(TEXT));
        let resolved = config(&rollback).unwrap().to_table().unwrap();
        assert_eq!(RunConfig::from_table(resolved).unwrap(), config(&rollback).unwrap());
    }

    #[test]
    fn positions_that_the_encoding_cannot_take_are_rejected() {
        let drawn = |position: &str, kind: &str| {
            let train = format!("[train]\npositions = {{ kind = \"{kind}\", max_position = 512 }}\n");
            config(&(TEXT.replace("\"rope\"", position) + &train))
        };
        assert!(drawn("\"rope\"", "randpos").is_ok());
        let error = drawn("\"learned\"", "randpos").unwrap_err();
        assert!(error.to_string().contains("positions up to 511"), "{error}");
        assert!(drawn("\"learned\"\ntable_size = 512", "randpos").is_ok());
        assert!(drawn("\"causal_conv\"", "pose").is_err());
        assert!(drawn("\"rope\"", "offset").is_err());
    }

    #[test]
    fn every_stage_has_positions_of_its_own_and_the_first_length() {
        let stage = |keys: &str| config(&format!("{TEXT}[[stage]]\nlength = 256\nsteps = 9\n{keys}\n"));
        let pose = stage("positions = { kind = \"pose\", max_position = \"4L\" }").unwrap();
        let (lengths, positions) = (pose.lengths(1), &pose.stage(1).positions);
        assert!(pose.train.positions.is_contiguous());
        assert_eq!((lengths.train, positions.reach(lengths)), (128, 512));
        let short = stage("positions = { kind = \"offset\", max_position = \"L\" }").unwrap_err();
        assert!(short.message().starts_with("`stage[0].positions.max_position = 128`"), "{short}");
        let laid_out = stage("extend = \"segments\"\npositions = { kind = \"pose\" }").unwrap_err();
        assert!(laid_out.message().contains("lays out texts that are read"), "{laid_out}");
        let segments = stage("positions = { kind = \"segments\", count = 3 }").unwrap_err();
        assert!(segments.message().starts_with("`stage[0].positions.count = 3`"), "{segments}");
        let memory = TEXT.replace("\"rope\"", "\"xlnet\"\nmemory = 8");
        let text =
            format!("{memory}[train]\nsampling = \"sequential\"\n[[stage]]\nlength = 256\nsteps = 9\n");
        assert!(config(&text).is_ok());
        let error = config(&format!("{text}sampling = \"random\"")).unwrap_err();
        assert!(error.hint_text().unwrap().contains("stage[0].sampling"), "{error}");
    }

    #[test]
    fn a_task_is_read_whole_and_without_a_memory() {
        let task = TEXT.replace("corpus = \"data/sotu\"", "task = { kind = \"copy\" }");
        let drawn = |positions: &str| config(&format!("{task}[train]\npositions = {{ {positions} }}"));
        assert!(drawn("kind = \"randpos\"").is_ok());
        assert!(drawn("kind = \"pose\", max_skip = 0").is_ok());
        for (positions, start) in [
            ("kind = \"pose\"", "`train.positions.max_skip` is missing"),
            ("kind = \"pose\", max_skip = 3", "`train.positions.max_skip = 3`"),
            ("kind = \"segments\", count = 2", "`train.positions.count = 2`"),
        ] {
            let error = drawn(positions).unwrap_err();
            assert!(error.message().starts_with(start) && error.hint_text().is_some(), "{error}");
        }
        let staged = format!("{task}[[stage]]\nlength = 256\nsteps = 9\npositions = {{ kind = \"pose\" }}\n");
        let error = config(&staged).unwrap_err();
        assert!(error.message().starts_with("`stage[0].positions.max_skip` is missing"), "{error}");
        let memory = task.replace("\"rope\"", "\"transformer_xl\"\nmemory = 4");
        let error = config(&memory).unwrap_err();
        assert!(error.message().contains("a task draws new sequences"), "{error}");
    }

    #[test]
    fn stages_follow_each_other() {
        let stages = "[[stage]]\nlength = 256\nsteps = 10\nextend = \"linear\"\n\
                      [[stage]]\nlength = 512\nsteps = 5\noptimizer = \"keep\"\nlearning_rate = 0.001\n";
        let staged = config(&format!("{TEXT}{stages}")).unwrap();
        assert_eq!(RunConfig::from_table(staged.to_table().unwrap()).unwrap(), staged);
        assert_eq!((staged.steps_before(1), staged.steps_before(2), staged.total_steps()), (600, 610, 615));
        assert_eq!(staged.tokens_before(2), 610 * 4096);
        assert_eq!([1, 600, 601, 610, 611, 615].map(|step| staged.stage_of(step)), [0, 0, 1, 1, 2, 2]);
        let hash = |text: &str| config(text).unwrap().hash("corpus").unwrap();
        assert_ne!(hash(TEXT), hash(&format!("{TEXT}{stages}")));
        let error = config(&format!("{TEXT}[stage]\nlength = 256")).unwrap_err();
        assert!(error.hint_text().unwrap().contains("[[stage]]"), "{error}");
    }
}
