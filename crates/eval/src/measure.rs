//! Runs evaluations: every extension at every length, and the window baseline.

use crate::bigram;
use crate::block::ResolvedEvaluate;
use crate::combinations::as_json;
use crate::diagnostics;
use crate::evaluation::Evaluation;
use crate::key_tokens::OpenedKeys;
use crate::known::Known;
use crate::memory_check::{self, Need};
use crate::metrics::chance::{CHANCE, share_of_most_frequent};
use crate::metrics::{DocumentSums, PositionTally, Score, Tally, Values};
use crate::parts::Parts;
use crate::plan::{Plan, WINDOW_BASELINE, Window, truncate};
use crate::row::{FORMAT, ResultRow, Settings};
use crate::scorer::{Scorer, batches};
use crate::source::Source;
use crate::text::{Material, Text};
use crate::token_log::TokenLog;
use burn::tensor::Device;
use longwave_core::memory_check::available;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split};
use longwave_model::Gpt;
use longwave_model::resolved::Resolved;
use longwave_position::{ExtensionConfig, Lengths, Reading};
use longwave_train::{RunConfig, VERSION};
use serde_json::Value;
use std::cell::OnceCell;
use std::rc::Rc;

/// A trained model and what its rows say about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub config: &'a RunConfig,
    pub config_hash: &'a str,
    pub resolved: &'a Resolved,
    /// The weights, without gradients.
    pub model: &'a Gpt,
    pub dataset: &'a Dataset,
    pub device: &'a Device,
    pub device_name: &'a str,
    /// Whether the device gives the same bits again, where that is known.
    pub repeatable: Option<bool>,
    /// Threads of the CPU.
    pub threads: usize,
    /// `last`, `previous`, `best`, or the end of a stage such as `stage-0`.
    pub checkpoint: &'a str,
    pub step: u64,
    pub stage: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) settings: Settings,
    pub(crate) extend: String,
    /// How it is read; none for the window baseline.
    pub(crate) extension: Option<ExtensionConfig>,
    extend_config: Value,
    chosen_among: Option<Value>,
    pub(crate) reading: Reading,
    pub(crate) text: Text,
    pub(crate) plan: Plan,
    /// What its sums are over.
    pub(crate) parts: Parts,
    /// The tokens that alone are scored, where not all are.
    keys: Option<Rc<OpenedKeys>>,
    /// The memory that it takes, without the weights.
    pub(crate) need: Need,
}

/// How far an evaluation has come, in tokens read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens read.
    pub done: usize,
    pub total: usize,
}

/// Counts the tokens that are read, and shows how far the work has come.
pub(crate) struct Counter<'a> {
    done: usize,
    pub(crate) total: usize,
    show: &'a mut dyn FnMut(Progress) -> Result<()>,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(total: usize, show: &'a mut dyn FnMut(Progress) -> Result<()>) -> Self {
        Self { done: 0, total, show }
    }

    pub(crate) fn read(&mut self, tokens: usize) -> Result<()> {
        self.done = (self.done + tokens).min(self.total);
        (self.show)(Progress { done: self.done, total: self.total })
    }
}

/// Makes all measurements of an evaluation that are not among the `known` rows; rows come in the order
/// of lengths within extensions, the window baseline last, and say how far they are from the reading that the
/// evaluation compares with.
///
/// `store` is given every new row as soon as it is measured, `show` how far the work has come. Where a
/// file takes the loss of every token (`tokens`), every row is measured, whatever is known.
pub fn evaluate(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    known: &[ResultRow],
    mut tokens: Option<&mut TokenLog>,
    store: &mut dyn FnMut(&ResultRow) -> Result<()>,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Vec<ResultRow>> {
    let source = evaluation.block.source(subject.dataset)?;
    let tasks = measurements(&subject.model.position, subject.resolved, &source, evaluation)?;
    if let (Some(keys), Some(file)) =
        (tasks.first().and_then(|task| task.keys.as_ref()), &evaluation.block.key_tokens)
    {
        keys.keys.check_model(subject.config_hash, &evaluation.section, file)?;
    }
    let plans: Vec<&Plan> = tasks.iter().map(|task| &task.plan).collect();
    let mut counter = Counter::new(plans.iter().map(|plan| plan.tokens_read()).sum(), show);
    // Nothing is looked up where all is known.
    let seen = OnceCell::new();
    let mut known = Known::new(known)?;
    let mut rows: Vec<ResultRow> = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let mut row = blank(subject, evaluation, task, &source);
        // The baseline is the same measurement at every length past 2L: read it once.
        let twin = tasks[..index].iter().position(|earlier| {
            task.extend == WINDOW_BASELINE && earlier.extend == task.extend && earlier.plan == task.plan
        });
        // Sequences of a task are others at every length.
        let twin =
            twin.filter(|_| tokens.is_none() && evaluation.block.protocol.material() != Material::Answers);
        let measurement = row.measurement()?;
        let finished = known.find(&measurement, row.chosen_among.as_ref(), &rows);
        if row.settings.split == Split::Valid {
            // One row, which a search finds again by what it was chosen among.
            row.chosen_among = row.chosen_among.or_else(|| finished.and_then(|row| row.chosen_among.clone()));
        }
        if let (Some(finished), None) = (finished, &tokens) {
            row = ResultRow { chosen_among: row.chosen_among, ..finished.clone() };
            if row.chosen_among != finished.chosen_among {
                store(&row)?;
            }
            counter.read(task.plan.tokens_read())?;
        } else if let Some(twin) = twin {
            row = ResultRow { settings: row.settings, ..rows[twin].clone() };
            store(&row)?;
            counter.read(task.plan.tokens_read())?;
        } else {
            let scorer = Scorer { model: subject.model, text: &task.text, device: subject.device };
            let scores = scorer.scores(&task.plan, &task.reading, &mut |tokens| counter.read(tokens))?;
            let (plan, scores) = match &task.keys {
                Some(keys) => keys.keys.only(&task.plan, &scores),
                None => (task.plan.clone(), scores),
            };
            let mut tally = scorer.tally(&plan, &scores, &task.parts);
            if evaluation.block.protocol.material() == Material::Watched {
                let train_length = evaluation.block.train_length;
                // These windows are counted already.
                let mut read = |_| counter.read(0);
                let of_attention =
                    diagnostics::sums(subject, task, &plan, train_length, tally.of_documents(), &mut read)?;
                tally = tally.with(of_attention);
            }
            measure(&mut row, evaluation, task, (&plan, &scores), &tally)?;
            (row.unknown_tokens, row.unread_bytes) = unread(&task.text, &plan, source.unknown_token());
            let seen =
                seen.get_or_init(|| bigram::last_seen_in(&task.text, &plans, evaluation.block.train_length));
            row.bigrams = seen.as_ref().map(|seen| bigram::split(&plan, &scores, seen));
            if let Some(log) = &mut tokens {
                log.add(&row, &task.text, &plan, &scores)?;
            }
            store(&row)?;
        }
        known.add(measurement, rows.len());
        rows.push(row);
    }
    let before: Vec<_> = rows.iter().map(|row| row.difference.clone()).collect();
    evaluation.reference.fill(&mut rows)?;
    let changed = rows.iter().zip(before).filter(|(row, before)| row.difference != *before);
    changed.map(|(row, _)| row).try_for_each(store)?;
    Ok(rows)
}

/// The loss of one reading of what `source` holds, averaged over the lengths of a block, in nats per token;
/// nothing is stored.
pub(crate) fn mean_loss(
    subject: &Subject<'_>,
    source: &Source<'_>,
    evaluation: &Evaluation,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<f64> {
    let tasks = measurements(&subject.model.position, subject.resolved, source, evaluation)?;
    let mut counter = Counter::new(tasks.iter().map(|task| task.plan.tokens_read()).sum(), show);
    let mut sum = 0.0;
    for task in &tasks {
        let scorer = Scorer { model: subject.model, text: &task.text, device: subject.device };
        let mut progress = |tokens| counter.read(tokens);
        sum += scorer.mean_loss(&task.plan, &task.reading, &task.parts, &mut progress)?;
    }
    Ok(sum / tasks.len() as f64)
}

/// Every measurement of an evaluation, each checked.
pub(crate) fn measurements(
    model: &Reading,
    resolved: &Resolved,
    source: &Source<'_>,
    evaluation: &Evaluation,
) -> Result<Vec<Measurement>> {
    let block = &evaluation.block;
    block.protocol.check_source(source)?;
    let free = available();
    let mut tasks = Vec::new();
    // All lengths and readings have the same.
    let parts = Parts::of(block, source)?;
    let section = &evaluation.section;
    let keys = block.key_tokens.as_ref().map(|file| OpenedKeys::open(file, section, source).map(Rc::new));
    let keys = keys.transpose()?;
    let task = |block: &ResolvedEvaluate, length, extend: &str, reading, text, plan: Plan| {
        Ok::<_, Error>(Measurement {
            settings: settings(block, source, length, extend)?,
            extend: extend.to_owned(),
            extension: None,
            extend_config: Value::Null,
            chosen_among: None,
            reading,
            text,
            need: needed(&plan, resolved),
            plan,
            parts: parts.clone(),
            keys: keys.clone(),
        })
    };
    for (place, extension) in evaluation.extensions.iter().enumerate() {
        let extend_config = as_json(extension)?;
        for (block, length) in each(block) {
            block.protocol.check_memory(&block.keys, length, resolved, free)?;
            let text = block.text(length, source)?;
            let plan = block.windows(length, &text)?;
            if let (Some(keys), Some(file)) = (&keys, &block.key_tokens) {
                keys.keys.check_plan(&plan, section, file)?;
            }
            memory_check::check(length, needed(&plan, resolved).reading, free)?;
            let reading = reading(model, extension, block.train_length, length)?;
            tasks.push(Measurement {
                extension: Some(extension.clone()),
                extend_config: extend_config.clone(),
                chosen_among: evaluation.chosen.get(&place).cloned(),
                ..task(&block, length, extension.kind(), reading, text, plan)?
            });
        }
    }
    for (block, length) in each(block).filter(|_| evaluation.baseline) {
        let text = block.text(length, source)?;
        let mut plan = truncate(&block.windows(length, &text)?, block.train_length, block.exact);
        // Between two answers there is nothing to score.
        plan.windows.retain(|it| text.scored(it.document, it.first..it.end).next().is_some());
        tasks.push(task(&block, length, WINDOW_BASELINE, model.clone(), text, plan)?);
    }
    Ok(tasks)
}

/// What a row says of the protocol and of what is read, asked in the block's first way.
pub(crate) fn settings(
    block: &ResolvedEvaluate,
    source: &Source<'_>,
    length: usize,
    extend: &str,
) -> Result<Settings> {
    let asked = source.asking(&block.tasks[0])?;
    Ok(Settings {
        score: asked.scoring(),
        corpus_hash: source.hash.clone(),
        bos: source.bos(),
        ..block.settings(length, extend)
    })
}

/// Every way to ask a block's task, at every length.
fn each(block: &ResolvedEvaluate) -> impl Iterator<Item = (ResolvedEvaluate, usize)> {
    block.variants().flat_map(|variant| {
        let lengths = variant.lengths.clone();
        lengths.into_iter().map(move |length| (variant.clone(), length))
    })
}

/// What the largest batch of a plan takes besides the weights.
pub(crate) fn needed(plan: &Plan, resolved: &Resolved) -> Need {
    batches(plan)
        .map(|batch| {
            let (rows, window) = (batch.len(), &plan.windows[batch[0]]);
            Need::of(0, resolved, rows * window.reading(), rows * window.targets())
        })
        .fold(Need::default(), Need::or_more)
}

/// The reading of a model at a length, checked for the positions it will meet.
pub(crate) fn reading(
    model: &Reading,
    extension: &ExtensionConfig,
    train: usize,
    length: usize,
) -> Result<Reading> {
    let reading = extension.apply(model, Lengths { train, length })?;
    reading
        .check(&reading.layout().positions(length))
        .map_err(|error| error.context(format!("`{}` at length {length}", extension.kind())))?;
    Ok(reading)
}

/// The row of a measurement before it is made.
fn blank(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    task: &Measurement,
    source: &Source<'_>,
) -> ResultRow {
    let key_tokens = task.keys.as_ref().map(|keys| keys.hash.clone());
    let settings = Settings { key_tokens, ..task.settings.clone() };
    ResultRow {
        format: FORMAT,
        run: subject.config.name.clone(),
        config_hash: subject.config_hash.to_owned(),
        seed: subject.config.seed,
        encoding: subject.config.position.name(),
        extend: task.extend.clone(),
        extend_config: task.extend_config.clone(),
        chosen_among: task.chosen_among.clone(),
        checkpoint: subject.checkpoint.to_owned(),
        step: subject.step,
        stage: subject.stage,
        settings,
        corpus: Some(source.name.clone()),
        text_hash: source.text_hash.clone(),
        key_tokens_file: evaluation.block.key_tokens.clone(),
        tokens: 0,
        documents: 0,
        skipped_documents: 0,
        bytes: 0,
        unknown_tokens: 0,
        unread_bytes: 0,
        values: Values::default(),
        bigrams: None,
        positions: None,
        per_document: None,
        difference: None,
        device: subject.device_name.to_owned(),
        repeatable: subject.repeatable.filter(|repeatable| !repeatable),
        threads: subject.threads,
        version: VERSION.to_owned(),
    }
}

/// The places of a window that are scored, and their tokens.
fn scored(text: &Text, window: &Window) -> impl Iterator<Item = (usize, u32)> {
    let (first, targets) = (window.first, window.first..window.end);
    let tokens = text.read(window.document, targets.clone());
    text.scored(window.document, targets).map(move |place| (place, tokens[place - first]))
}

/// How many of the scored tokens are the unknown one, and how many bytes of their text the tokenizer does not know or leaves out.
fn unread(text: &Text, plan: &Plan, unknown: Option<u32>) -> (u64, u64) {
    let (mut tokens, mut bytes) = (0, 0);
    for window in &plan.windows {
        bytes += text.unread_bytes(window.document, window.first..window.end);
        tokens += scored(text, window).filter(|(_, token)| Some(*token) == unknown).count() as u64;
    }
    (tokens, bytes)
}

fn measure(
    row: &mut ResultRow,
    evaluation: &Evaluation,
    task: &Measurement,
    (plan, scores): (&Plan, &[Vec<Score>]),
    tally: &Tally,
) -> Result<()> {
    let block = &evaluation.block;
    row.values = tally
        .values(block.protocol.material())
        .ok_or_else(|| Error::failed(format!("no token was scored at length {}", task.settings.length)))?;
    if task.text.material() == Material::Answers {
        let targets = plan.windows.iter().flat_map(|window| scored(&task.text, window));
        row.values.set(CHANCE, share_of_most_frequent(targets.map(|(_, token)| token)));
    }
    row.positions = block
        .protocol
        .bucket(&block.keys)
        .map(|bucket| PositionTally::of(plan, scores, task.settings.length, bucket).rows());
    (row.tokens, row.bytes) = (tally.tokens(), tally.bytes());
    (row.documents, row.skipped_documents) = (tally.documents(), tally.skipped_documents());
    let sums = tally.sums();
    row.per_document = (sums.scored() <= DocumentSums::MOST).then_some(sums);
    Ok(())
}
