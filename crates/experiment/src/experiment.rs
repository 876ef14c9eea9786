//! A config, its data and its fresh model, checked; and its training.

use crate::config::Config;
use crate::data::open_data;
use crate::machine::Machine;
use crate::observer::{Event, Observer, Overview};
use crate::reading::{obstacles, undrawn_first};
use crate::trained_run::{TrainedRun, Weights};
use burn::module::Module;
use burn::tensor::Device;
use longwave_core::{Error, Result, file};
use longwave_data::{Dataset, Note};
use longwave_eval::{Evaluation, ResultRow, notes_of_other_texts};
use longwave_model::resolved::Resolved;
use longwave_model::{Gpt, Size};
use longwave_position::Reading;
use longwave_train::batch::TrainBatch;
use longwave_train::metrics::validated;
use longwave_train::run::CheckpointId;
use longwave_train::trainer::{self, open_folder, validation_off};
use longwave_train::{
    Outcome, Run, RunConfig, Start, Trainer, fresh_model, memory_check, reading_after, restore,
};
use std::cell::RefCell;
use std::path::Path;

/// An experiment that may begin: everything that can be wrong has been checked, and nothing is written yet.
#[derive(Debug)]
pub struct Experiment<'a> {
    /// Where it is computed.
    pub machine: &'a Machine,
    /// What is trained, and where it is kept.
    pub run: Run,
    /// The corpus or the task.
    pub dataset: Dataset,
    /// The model's sizes.
    pub resolved: Resolved,
    config: Config,
    notes: Vec<Note>,
    /// The config that the run's folder held when `start` was decided.
    found: Option<String>,
    start: Start,
    /// Fresh weights, whose gradients are tracked.
    model: Gpt,
}

/// Trains what is left to train in `folder`, measures what is missing, and gives the rows of all that the config asks
/// for. A folder that holds the run already is continued where `resume` says so.
///
/// # Errors
/// The config does not fit its data or the machine, the folder holds another run, a loss is not finite, a file cannot
/// be written, or the observer stops it.
pub fn run(
    config: Config,
    folder: &Path,
    resume: bool,
    machine: &Machine,
    observer: &mut dyn Observer,
) -> Result<Vec<ResultRow>> {
    Experiment::open(config, folder, resume, machine, observer)?.complete(observer)
}

impl<'a> Experiment<'a> {
    /// Opens the data, draws the model and checks everything, before a file is written or a step is trained.
    ///
    /// # Errors
    /// As [`run`].
    pub fn open(
        config: Config,
        folder: &Path,
        resume: bool,
        machine: &'a Machine,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        config.run.check_precision(&machine.device)?;
        let dataset = open_data(&config.run.data, observer)?;
        let vocab_size = dataset.tokenizer().vocab_size();
        let resolved = config.run.model.resolve(vocab_size, config.run.train.length)?;
        memory_check::check(&config.run, vocab_size, &machine.device)?;
        let found = written_config(folder)?;
        let (run, start) = Run::prepare(folder, config.run.clone(), dataset.content_hash(), resume)?;
        let config = config.of_prepared(run.config.clone())?;
        let mut model = fresh_model(&run.config, &resolved, &machine.device.clone().autodiff())?;
        model.position.set_digits(|| dataset.tokenizer().digits())?;
        let evaluations = config.evaluations();
        check_validation(&run.config, &dataset, evaluations)?;
        check_texts(&run.config, &model.position, &resolved, &dataset, evaluations)?;
        let notes = [dataset.notes(), notes_of_other_texts(&dataset, evaluations)?].concat();
        Ok(Self { machine, run, dataset, resolved, config, notes, found, start, model })
    }

    /// The same, which begins with the steps that it shares with the run in another folder, if it has none of its own yet and that has a
    /// checkpoint of them.
    ///
    /// # Errors
    /// The folder holds no run.
    pub fn going_on_from(mut self, folder: &Path) -> Result<Self> {
        if let Start::Fresh = self.start {
            let reads_best = self.config.evaluations().iter().any(Evaluation::reads_best);
            let shared =
                self.run.config.shared_checkpoint(folder, self.dataset.content_hash(), reads_best)?;
            if let Some(shared) = shared {
                let how = self.run.described_source(&shared).unwrap_or_default();
                self.start = Start::Longer(Box::new(shared), how);
            }
        }
        Ok(self)
    }

    /// Identifies the text or task that it is trained on.
    pub fn content_hash(&self) -> &str {
        self.dataset.content_hash()
    }

    /// Trains what is left, measures what is missing, and gives the rows of all that the config asks for.
    ///
    /// # Errors
    /// As [`run`].
    pub fn complete(self, observer: &mut dyn Observer) -> Result<Vec<ResultRow>> {
        let evaluations = self.config.evaluations().to_vec();
        let trained = self.train(observer)?;
        Ok(trained.evaluate(&evaluations, None, observer)?.rows)
    }

    /// What is about to be trained, and what it takes.
    fn overview(&self) -> Overview<'_> {
        let config = &self.run.config;
        let of = |rows, length| Size::of(&self.model, &self.resolved, rows, length);
        let stages = (0..=config.last_stage()).map(|stage| config.stage(stage));
        let bytes = stages.map(|train| of(train.micro_batch(), train.length).training_bytes);
        let size = Size { training_bytes: bytes.max().unwrap_or(0), ..of(1, config.train.length) };
        let Self { machine, run, dataset, notes, resolved, .. } = self;
        Overview { machine, run, dataset, notes, resolved, size }
    }

    /// Trains to the last step of the last stage; a run that was trained before is loaded.
    ///
    /// # Errors
    /// A loss or a gradient is not finite, a file cannot be written, or the observer stops it, which leaves a
    /// checkpoint.
    pub fn train(self, observer: &mut dyn Observer) -> Result<TrainedRun<'a>> {
        observer.event(Event::Ready(self.overview()));
        let document = self.config.to_table()?;
        let Self { machine, run, dataset, resolved, config, found, start, model, .. } = self;
        let evaluations = config.evaluations();
        // Nothing is written before: the config may be that of a process which trains there.
        let _lock = run.lock()?;
        check_unchanged(&run.folder, found.as_deref())?;
        // The folder of a new run must have its config before all else but the folder that is locked.
        let is_new = found.is_none();
        if is_new {
            open_folder(&run, &document, &dataset)?;
        }
        let last = CheckpointId::Last;
        let (from, how) = match start {
            Start::Fresh => (None, None),
            Start::Resume(saved) => (Some(saved), None),
            Start::Longer(saved, how) => (Some(saved), Some(how)),
            Start::Finished(saved) => {
                open_folder(&run, &document, &dataset)?;
                let notes = notes_on_validation(&run, saved.meta.step, evaluations)?;
                let stopped_early = saved.meta.step < run.config.total_steps();
                observer.event(Event::AlreadyTrained { run: &run, stopped_early, notes: &notes });
                let model = restore(&run.config, model, &machine.device, &saved)?.valid();
                let weights = Weights::of(model, last, &saved.meta);
                return Ok(TrainedRun { machine, run, dataset, resolved, weights, warning: None, out: None });
            }
        };
        if let Some(saved) = &from {
            let (step, how) = (saved.meta.step, how.as_deref());
            observer.event(Event::Resumed { step, how, instead_of: &saved.instead_of });
            run.bring(saved)?;
        }
        let mut trainer = Trainer::new(&run, &dataset, model, &machine.device, from.as_deref())?;
        drop(from);
        trainer.take_over()?;
        if !is_new {
            open_folder(&run, &document, &dataset)?;
        }
        train(&mut trainer, &run, evaluations, observer)?;
        let (checkpoint, step, stage) = (last.name().into_owned(), trainer.step(), run.config.last_stage());
        let weights = Weights { model: trainer.into_model(), checkpoint, step, stage };
        Ok(TrainedRun { machine, run, dataset, resolved, weights, warning: None, out: None })
    }
}

/// Opens the data of a config and checks everything that [`Experiment::open`] does but the run's folder and device, without
/// a drawn weight. Gives how the texts were read, and what is allowed and most likely a mistake.
///
/// # Errors
/// As [`Experiment::open`].
pub fn check(config: &Config, observer: &mut dyn Observer) -> Result<Vec<Note>> {
    let (run, device) = (&config.run, Device::flex());
    // What needs no text comes first: it is found at once.
    memory_check::check(run, run.data.vocab_size().unwrap_or(1), &device)?;
    if let Some(obstacle) = obstacles(config)?.into_iter().flatten().flatten().next() {
        return Err(obstacle.error);
    }
    let dataset = open_data(&run.data, observer)?;
    let vocab_size = dataset.tokenizer().vocab_size();
    memory_check::check(run, vocab_size, &device)?;
    let (mut fresh, resolved) = undrawn_first(run, vocab_size)?;
    fresh.set_digits(|| dataset.tokenizer().digits())?;
    let evaluations = config.evaluations();
    check_validation(run, &dataset, evaluations)?;
    check_texts(run, &fresh, &resolved, &dataset, evaluations)?;
    let off = validation_off(run, &dataset).map(|text| Note { label: None, text });
    Ok([dataset.notes(), notes_of_other_texts(&dataset, evaluations)?, Vec::from_iter(off)].concat())
}

/// Checks that a patience, and evaluations that read the step of the best validation, have a validation.
///
/// # Errors
/// The last stage has none.
pub fn check_validation(config: &RunConfig, dataset: &Dataset, evaluations: &[Evaluation]) -> Result<()> {
    let best = evaluations.iter().find(|evaluation| evaluation.reads_best());
    let key = best.map(|evaluation| format!("{}.checkpoints", evaluation.section));
    trainer::check_validation(config, dataset, key.as_deref())
}

/// The config that a run's folder holds; `None` where it holds none.
fn written_config(folder: &Path) -> Result<Option<String>> {
    let path = folder.join("config.toml");
    if path.exists() { file::read_text(&path).map(Some) } else { Ok(None) }
}

/// Checks that a run's folder holds the config that it held when it was decided where training begins: another process may have trained there
/// since.
fn check_unchanged(folder: &Path, found: Option<&str>) -> Result<()> {
    if written_config(folder)?.as_deref() == found {
        return Ok(());
    }
    let shown = folder.display();
    Err(match found {
        None => Error::usage(format!("`{shown}` already holds a run: another process has just begun it"))
            .hint("continue it with `--resume`, or choose another folder with `--out`"),
        Some(_) => Error::usage(format!("another process has just changed the run in `{shown}`"))
            .hint("the same command again goes on from what that process has trained"),
    })
}

/// What the validations of a training that has ended say, a sentence each: that its patience ended it after `step`, and that an earlier step was
/// better than its end.
fn notes_on_validation(run: &Run, step: u64, evaluations: &[Evaluation]) -> Result<Vec<String>> {
    let (total, last) = (run.config.total_steps(), run.config.last_stage());
    let Some(validated) = validated(&run.folder)? else { return Ok(Vec::new()) };
    let best = validated.best;
    let patience = run.config.stage(last).patience.filter(|_| step < total);
    let stopped = patience.map(|patience| {
        let section = RunConfig::section(last);
        format!(
            "stopped early at step {step} of {total}: no validation after step {} was better than its loss of {:.3} \
             (`{section}.patience = {patience}`)",
            best.step, best.loss
        )
    });
    let reads_best = !evaluations.is_empty() && evaluations.iter().all(Evaluation::reads_best);
    let hint = match (reads_best, &stopped) {
        (true, _) => "the evaluations read it",
        (false, Some(_)) => "hint: `evaluate.checkpoints = \"best\"` reads it",
        (false, None) => {
            "hint: `evaluate.checkpoints = \"best\"` reads it, and `train.patience` stops in time"
        }
    };
    let earlier = validated.earlier().map(|sentence| format!("{sentence}; {hint}"));
    let others =
        evaluations.iter().any(Evaluation::reads_best) && !run.config.was_validated_as_said(&run.folder)?;
    let others = others.then(|| {
        format!(
            "the run was validated at other steps than its `validate_every` says now: the best is the best of those, step {}",
            best.step
        )
    });
    Ok(stopped.into_iter().chain(earlier).chain(others).collect())
}

/// Checks that the text is enough for every evaluation and every stage.
fn check_texts(
    config: &RunConfig,
    fresh: &Reading,
    resolved: &Resolved,
    dataset: &Dataset,
    evaluations: &[Evaluation],
) -> Result<()> {
    for stage in 0..=config.last_stage() {
        let read = read_in(config, stage, evaluations)?;
        if !read.is_empty() {
            let reading = reading_after(config, fresh, stage)?;
            longwave_eval::check(&reading, resolved, dataset, &read)?;
        }
    }
    check_first_batches(config, dataset)
}

/// The evaluations that read a checkpoint of a stage: all that of the last one, and those that read steps kept in it.
fn read_in(config: &RunConfig, stage: usize, evaluations: &[Evaluation]) -> Result<Vec<Evaluation>> {
    if stage == config.last_stage() {
        return Ok(evaluations.to_vec());
    }
    let (kept, within) =
        (config.kept_steps(), config.steps_before(stage) + 1..=config.steps_before(stage + 1));
    let mut read = Vec::new();
    for evaluation in evaluations {
        if evaluation.steps(&kept)?.iter().any(|step| within.contains(step)) {
            read.push(evaluation.clone());
        }
    }
    Ok(read)
}

fn train(
    trainer: &mut Trainer<'_>,
    run: &Run,
    evaluations: &[Evaluation],
    observer: &mut dyn Observer,
) -> Result<()> {
    let mut skipped = Vec::new();
    // The loop asks whether to stop between the steps that it reports.
    let shared = RefCell::new(&mut *observer);
    let outcome = trainer.train(&|| shared.borrow().stop(), &mut |event| match event {
        trainer::Event::Step(metric) => {
            skipped.extend(metric.skipped.then_some(metric.step));
            shared.borrow_mut().event(Event::Step(&run.config, metric));
        }
        trainer::Event::RolledBack { why, step } => {
            skipped.retain(|skipped| skipped <= step);
            shared.borrow_mut().event(Event::RolledBack { why, step: *step });
        }
        trainer::Event::Checkpoint { .. } => {}
    });
    let skipped_batches = trainer.skipped_batches().len();
    let notes = match outcome {
        Ok(Outcome::Done) => notes_on_validation(run, trainer.step(), evaluations)?,
        Ok(Outcome::Interrupted) | Err(_) => Vec::new(),
    };
    observer.event(Event::Trained { skipped_batches, skipped: skipped.len(), notes: &notes });
    // Which of its files could not be written says less.
    let outcome = outcome.map_err(|error| if run.folder.is_dir() { error } else { Error::gone(&run.folder) });
    match outcome? {
        Outcome::Done => Ok(()),
        Outcome::Interrupted => Err(Error::interrupted(format!(
            "stopped after step {} of {}; the checkpoint is `{}`",
            trainer.step(),
            run.config.total_steps(),
            run.checkpoint(CheckpointId::Last).display()
        ))
        .hint("the same command with `--resume` goes on from there")),
    }
}

/// Checks that the training text holds a sequence of every stage.
fn check_first_batches(config: &RunConfig, dataset: &Dataset) -> Result<()> {
    (0..=config.last_stage()).try_for_each(|stage| {
        let section = RunConfig::section(stage);
        TrainBatch::of_step(config, stage, dataset, 0).map(|_| ()).map_err(|error: Error| match stage {
            0 => error,
            _ => error
                .context(format!("`{section}`"))
                .hint(format!("shorten `{section}.length`, or add text to `data.corpus`")),
        })
    })
}
