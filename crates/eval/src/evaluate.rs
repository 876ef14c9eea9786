//! Runs evaluations: every extension at every length, and the window baseline.

use crate::config::{Protocol, WINDOW_BASELINE};
use crate::document::Evaluation;
use crate::memory;
use crate::metrics::Summary;
use crate::protocol::{Plan, truncate};
use crate::row::{FORMAT, ResultRow};
use crate::score::{Scorer, by_position};
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_data::Dataset;
use longwave_model::config::Resolved;
use longwave_model::{Gpt, Size};
use longwave_position::{ExtensionConfig, Lengths, Reading};
use longwave_train::{RunConfig, VERSION};
use serde_json::Value;
use std::collections::HashMap;

/// A trained model and what its rows say about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What was trained.
    pub config: &'a RunConfig,
    /// The run's identity.
    pub config_hash: &'a str,
    /// The model's sizes.
    pub resolved: &'a Resolved,
    /// The weights, without gradients.
    pub model: &'a Gpt,
    /// The corpus.
    pub dataset: &'a Dataset,
    /// Where the model is.
    pub device: &'a Device,
    /// The device in words.
    pub device_name: &'a str,
    /// Threads of the CPU.
    pub threads: usize,
    /// `last` or `best`.
    pub checkpoint: &'a str,
    /// Steps of that checkpoint.
    pub step: u64,
}

/// One measurement that is to be made.
#[derive(Clone, Debug)]
struct Task {
    length: usize,
    extend: String,
    extend_config: Value,
    reading: Reading,
    plan: Plan,
}

/// How far an evaluation has come, in tokens read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens read.
    pub done: usize,
    /// Tokens to read in all.
    pub total: usize,
}

/// Checks that every evaluation can be made, before anything is trained.
///
/// # Errors
/// An extension does not apply to the encoding, a length has positions the encoding has no value for,
/// no document is long enough, or a reading does not fit in memory.
pub fn check(
    model: &Reading,
    resolved: &Resolved,
    dataset: &Dataset,
    evaluations: &[Evaluation],
) -> Result<()> {
    evaluations.iter().try_for_each(|evaluation| tasks(model, resolved, dataset, evaluation).map(|_| ()))
}

/// Makes all measurements of an evaluation that are not among the `known` rows; rows come in the order
/// of lengths within extensions, the window baseline last.
///
/// `store` is given every new row as soon as it is measured, `show` how far the work has come.
///
/// # Errors
/// As [`check`], or `store` or `show` ends it.
pub fn evaluate(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    known: &[ResultRow],
    store: &mut dyn FnMut(&ResultRow) -> Result<()>,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Vec<ResultRow>> {
    let tasks = tasks(&subject.model.position, subject.resolved, subject.dataset, evaluation)?;
    let total = tasks.iter().map(|task| tokens_read(&task.plan)).sum();
    let mut done = 0;
    let tokens = subject.dataset.tokens(evaluation.block.split);
    let scorer = Scorer { model: subject.model, tokens, device: subject.device };
    let known = known.iter().map(|row| Ok((row.identity()?, row))).collect::<Result<HashMap<_, _>>>()?;
    let mut rows: Vec<ResultRow> = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let mut row = blank(subject, evaluation, task);
        // The baseline is the same measurement at every length past 2L: read it once.
        let twin = tasks[..index].iter().position(|earlier| {
            task.extend == WINDOW_BASELINE && earlier.extend == task.extend && earlier.plan == task.plan
        });
        if let Some(finished) = known.get(&row.identity()?) {
            row = (*finished).clone();
            done += tokens_read(&task.plan);
            show(Progress { done, total })?;
        } else if let Some(twin) = twin {
            row = ResultRow { settings: row.settings, ..rows[twin].clone() };
            done += tokens_read(&task.plan);
            store(&row)?;
            show(Progress { done, total })?;
        } else {
            let losses = scorer.losses(&task.plan, &task.reading, &mut |tokens| {
                done += tokens;
                show(Progress { done, total })
            })?;
            measure(&mut row, evaluation, task, &scorer, &losses)?;
            store(&row)?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn tokens_read(plan: &Plan) -> usize {
    plan.windows.iter().map(crate::protocol::Window::reading).sum()
}

/// Every measurement of an evaluation, each checked.
fn tasks(
    model: &Reading,
    resolved: &Resolved,
    dataset: &Dataset,
    evaluation: &Evaluation,
) -> Result<Vec<Task>> {
    let block = &evaluation.block;
    let tokens = dataset.tokens(block.split);
    let documents: Vec<usize> = (0..tokens.documents()).map(|index| tokens.document(index).len()).collect();
    let free = memory::available();
    let mut tasks = Vec::new();
    for extension in &evaluation.extensions {
        for &length in &block.lengths {
            let plan = block.plan(length, &documents)?;
            let scored = plan.windows.iter().map(crate::protocol::Window::targets).max().unwrap_or(0);
            let needed = Size::reading_bytes(resolved, plan.longest_reading(), scored);
            memory::check(length, needed as u64, free)?;
            let extend_config = serde_json::to_value(extension)
                .map_err(|error| Error::failed(format!("an extension cannot be written as JSON: {error}")))?;
            tasks.push(Task {
                length,
                extend: extension.kind().to_owned(),
                extend_config,
                reading: reading(model, extension, block.train_length, length)?,
                plan,
            });
        }
    }
    // By position the baseline's places would be those of the short windows: it has no curve.
    if block.protocol != Protocol::ByPosition {
        for &length in &block.lengths {
            let plan = truncate(&block.plan(length, &documents)?, block.train_length, block.exact);
            tasks.push(Task {
                length,
                extend: WINDOW_BASELINE.to_owned(),
                extend_config: Value::Null,
                reading: model.clone(),
                plan,
            });
        }
    }
    Ok(tasks)
}

/// The reading of a model at a length, checked for the positions it will meet.
fn reading(model: &Reading, extension: &ExtensionConfig, train: usize, length: usize) -> Result<Reading> {
    let reading = extension.apply(model, Lengths { train, length })?;
    reading
        .check(&reading.layout().positions(length))
        .map_err(|error| error.context(format!("`{}` at length {length}", extension.kind())))?;
    Ok(reading)
}

/// The row of a measurement before it is made.
fn blank(subject: &Subject<'_>, evaluation: &Evaluation, task: &Task) -> ResultRow {
    ResultRow {
        format: FORMAT,
        run: subject.config.name.clone(),
        config_hash: subject.config_hash.to_owned(),
        seed: subject.config.seed,
        encoding: subject.config.position.name(),
        extend: task.extend.clone(),
        extend_config: task.extend_config.clone(),
        checkpoint: subject.checkpoint.to_owned(),
        step: subject.step,
        settings: evaluation.block.settings(task.length, &task.extend),
        tokens: 0,
        documents: 0,
        skipped_documents: 0,
        bytes: 0,
        nll: f64::NAN,
        nll_se: None,
        ppl: f64::NAN,
        bpb: None,
        positions: None,
        device: subject.device_name.to_owned(),
        threads: subject.threads,
        version: VERSION.to_owned(),
    }
}

/// Fills in what was measured.
fn measure(
    row: &mut ResultRow,
    evaluation: &Evaluation,
    task: &Task,
    scorer: &Scorer<'_>,
    losses: &[Vec<f64>],
) -> Result<()> {
    let Summary { tokens, documents, skipped_documents, nll, nll_se, ppl, bytes, bpb } = scorer
        .tally(&task.plan, losses)
        .summary()
        .ok_or_else(|| Error::failed(format!("no token was scored at length {}", task.length)))?;
    row.positions =
        evaluation.block.bucket.map(|bucket| by_position(&task.plan, losses, task.length, bucket).rows());
    (row.tokens, row.documents, row.skipped_documents) = (tokens, documents, skipped_documents);
    (row.nll, row.nll_se, row.ppl) = (nll, nll_se, ppl);
    (row.bytes, row.bpb) = (bytes, bpb);
    Ok(())
}
