//! A run's config from TOML: every key checked, also against the others.

use crate::config::TrainConfig;
use crate::imported::Imported;
use crate::optimizer::OptimizerConfig;
use crate::restore::reading_after;
use crate::run_config::RunConfig;
use crate::stage::StageConfig;
use burn::tensor::Device;
use longwave_core::config::{read, take_table, take_tables, unknown_key};
use longwave_core::error::nearest;
use longwave_core::file::check_folder_name;
use longwave_core::{Error, Result};
use longwave_data::{DataConfig, Sampling, TaskConfig};
use longwave_position::{Init, PositionConfig, TrainingPositions};
use serde::Deserialize;
use toml::{Table, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Top {
    name: String,
    #[serde(default)]
    seed: u64,
    imported: Option<Imported>,
}

impl RunConfig {
    /// Reads a config without its `[[evaluate]]` blocks, which the caller has taken out.
    pub fn from_table(mut table: Table) -> Result<Self> {
        let Some(position) = table.remove("position") else {
            let error = Error::usage("`position` is missing");
            return Err(match nearest("position", table.keys().map(String::as_str)) {
                Some(near) => error.hint(format!("write `position` in the place of `{near}`")),
                None => error.hint("add a section `[position]` with `kind = \"rope\"`"),
            });
        };
        let data = read::<DataConfig>(&take_table(&mut table, "data")?, "data")?;
        let model = read(&take_table(&mut table, "model")?, "model")?;
        let mut train = take_table(&mut table, "train")?;
        check_is_number(&train)?;
        let optimizer = train.remove("optimizer");
        // It is read by itself, so that it is none of the names that the reader of the others knows.
        if let Some(near) = nearest("optimizer", train.keys().map(String::as_str)) {
            return Err(Error::usage(format!("unknown key `train.{near}`")).hint("did you mean `optimizer`?"));
        }
        let optimizer =
            optimizer.map(|value| OptimizerConfig::from_value(&value, "train.optimizer")).transpose()?;
        let train = TrainConfig {
            optimizer: Some(optimizer.unwrap_or_default()),
            ..read::<TrainConfig>(&train, "train")?
        };
        let stages = take_tables(&mut table, "stage")?;
        let top = read_top(&table)?;
        data.validate()?;
        train.validate("train")?;
        let stages = stages
            .into_iter()
            .enumerate()
            .map(|(index, table)| StageConfig::from_table(table, &format!("stage[{index}]"), &train))
            .collect::<Result<Vec<_>>>()?;
        let later = stages.iter().map(|stage| &stage.train);
        for (stage, of_stage) in std::iter::once(&train).chain(later).enumerate() {
            check_task(data.task.as_ref(), &Self::section(stage), of_stage)?;
            of_stage.check_decay(&Self::section(stage), &train)?;
        }
        let position = PositionConfig::for_length(&position, "position", train.length)?;
        let config = Self {
            name: top.name,
            seed: top.seed,
            imported: top.imported,
            data,
            model,
            position,
            train,
            stages,
        };
        check_folder_name(&config.name)?;
        config.check_patience()?;
        check_stages(&config)?;
        Ok(config)
    }

    /// Steps are counted through all stages, and a stage that stops early would leave a gap before the next.
    fn check_patience(&self) -> Result<()> {
        let early = (0..self.last_stage()).find_map(|stage| Some((stage, self.stage(stage).patience?)));
        let Some((stage, patience)) = early else { return Ok(()) };
        let key = format!("{}.patience", Self::section(stage));
        let last = Self::section(self.last_stage());
        Err(Error::value(&key, patience, "only the last stage can stop early").hint(format!(
            "leave it out here, or write it in the last stage, as `{last}.patience = {patience}`"
        )))
    }
}

/// L is what other lengths are multiples of, and no multiple itself.
fn check_is_number(train: &Table) -> Result<()> {
    match train.get("length") {
        Some(length @ Value::String(_)) => {
            Err(Error::value("train.length", length, "it is L itself, a whole number of tokens")
                .hint("write `length = 128` in `[train]`, and multiples such as \"2L\" elsewhere"))
        }
        _ => Ok(()),
    }
}

/// The sequences of a task fit every stage and are drawn at every step; `section` is the stage's place in the
/// file.
fn check_task(task: Option<&TaskConfig>, section: &str, train: &TrainConfig) -> Result<()> {
    let Some(task) = task else { return Ok(()) };
    task.check_length(&format!("{section}.length"), train.length)?;
    if train.sampling != Sampling::default() {
        return Err(Error::usage(format!("`{section}.sampling` has no meaning beside `data.task`"))
            .hint("remove it: every step draws new sequences"));
    }
    Ok(())
}

/// At the top there must be `name` and `seed`; an error for another key lists the sections too.
fn read_top(table: &Table) -> Result<Top> {
    const KNOWN: [&str; 9] =
        ["name", "seed", "imported", "data", "model", "position", "train", "stage", "evaluate"];
    if let Some(key) = table.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(unknown_key(key, key, &KNOWN));
    }
    read(table, "")
}

/// Checks that the encoding of a config can be trained as every stage says.
///
/// Errors: positions that no row could be given; some that the encoding has no value for, or would learn nothing from; it
/// carries a memory, and rows do not continue those of the step before; or positions are drawn in a way that would
/// tear a task's sequences apart.
fn check_stages(config: &RunConfig) -> Result<()> {
    let stages = 0..=config.last_stage();
    stages.clone().try_for_each(|stage| check_rows(config, stage))?;
    let plain = |stage: usize| config.stage(stage).positions.is_contiguous();
    if config.position.memory() == 0 && stages.clone().all(plain) {
        return Ok(());
    }
    // The vocabulary is not known yet, and plays no part in this; nor do the numbers of parameters.
    let resolved = config.model.resolve(1, config.train.length)?;
    let init = Init::counting(&Device::flex());
    let fresh = config.position.build("position", &resolved.dimensions, &init, resolved.log_n())?;
    for stage in stages {
        let reading = reading_after(config, &fresh, stage)?;
        let section = format!("{}.positions", RunConfig::section(stage));
        config.stage(stage).positions.check(&section, &reading, config.lengths(stage))?;
    }
    Ok(())
}

/// Whether the rows of a stage can be what its positions and a memory make of them.
fn check_rows(config: &RunConfig, stage: usize) -> Result<()> {
    let (train, section) = (config.stage(stage), RunConfig::section(stage));
    let positions = format!("{section}.positions");
    train.positions.validate(&positions, config.lengths(stage))?;
    let rows = train.positions.rows_per_text();
    if !train.sequences().is_multiple_of(rows) {
        let allowed = format!("it must divide the {} sequences of a batch", train.sequences());
        return Err(Error::value(&format!("{positions}.count"), rows, allowed));
    }
    let memory = config.position.memory();
    if config.data.task.is_some() {
        check_task_positions(&positions, &train.positions, memory)?;
    }
    if memory > 0 && train.sampling != Sampling::Sequential {
        return Err(Error::value(
            "position.memory",
            memory,
            "rows must go on where they ended a step before",
        )
        .hint(format!("set `{section}.sampling = \"sequential\"`")));
    }
    Ok(())
}

/// A task's sequences are read whole, and each for itself.
fn check_task_positions(section: &str, positions: &TrainingPositions, memory: usize) -> Result<()> {
    if memory > 0 {
        return Err(Error::value(
            "position.memory",
            memory,
            "a task draws new sequences at every step, and none goes on where another ended",
        )
        .hint("leave it out, or train on a corpus"));
    }
    let (key, value, what) = match positions {
        TrainingPositions::Segments { count, .. } if *count > 1 => ("count", *count, "cut in pieces"),
        TrainingPositions::Pose { max_skip: Some(0), .. } => return Ok(()),
        TrainingPositions::Pose { max_skip, .. } => {
            let Some(most) = max_skip else {
                return Err(Error::usage(format!(
                    "`{section}.max_skip` is missing: a task's sequence has no tokens to skip"
                ))
                .hint("set `max_skip = 0`, which leaves a gap between positions alone"));
            };
            ("max_skip", *most, "read with gaps")
        }
        _ => return Ok(()),
    };
    let allowed = format!("a task's sequence {what} has no answer any more");
    Err(Error::value(&format!("{section}.{key}"), value, allowed)
        .hint("use `randpos`, `offset`, or `pose` with `max_skip = 0`, which change positions alone"))
}
