//! `longwave train`: trains, checkpoints, evaluates as the config says, prints the table.

use super::session::{Session, default_folder, load_config, measure, open_data, print_tables, write_report};
use crate::args;
use crate::interrupt;
use crate::output::{grouped, status};
use crate::progress::Training;
use burn::module::Module;
use longwave_core::memory_check::shown;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split};
use longwave_eval::{Config, ResultRow, Subject, check};
use longwave_kernels::Precision;
use longwave_model::config::Resolved;
use longwave_model::{Gpt, Size};
use longwave_position::Init;
use longwave_train::batch::TrainBatch;
use longwave_train::config::ScheduleKind;
use longwave_train::run::CheckpointId;
use longwave_train::trainer::open_folder;
use longwave_train::{Event, Outcome, Run, RunConfig, Start, Trainer, memory_check, reading_after, restore};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(arguments: &args::Train) -> Result<()> {
    if let Some(seeds) = arguments.seeds {
        return super::study::run_seeds(arguments, seeds);
    }
    let config = load_config(&arguments.config, &arguments.set)?;
    let folder = arguments.out.clone().unwrap_or_else(|| default_folder(&config.run));
    let rows = complete(&config, &folder, arguments.resume, &arguments.compute)?;
    if rows.is_empty() {
        return Ok(());
    }
    print_tables(&rows)?;
    write_report(&folder, None)
}

/// Trains what is left to train in `folder`, makes the measurements that are missing, and gives the rows
/// of all that the config asks for.
pub(crate) fn complete(
    config: &Config,
    folder: &Path,
    resume: bool,
    compute: &args::Compute,
) -> Result<Vec<ResultRow>> {
    let session = Session::open(compute)?;
    config.run.check_precision(&session.device)?;
    let dataset = open_data(&config.run.data)?;
    let resolved = config.run.model.resolve(dataset.tokenizer().vocab_size(), config.run.train.length)?;
    memory_check::check(&config.run, dataset.tokenizer().vocab_size(), &session.device)?;
    let hash = config.run.hash(dataset.content_hash())?;
    let (run, start) = Run::prepare(folder, config.run.clone(), hash, resume)?;
    let model = Gpt::new(&resolved, &config.run.position, &Init::new(config.run.seed, &session.device))?;
    // All that can be wrong is found before a file is written or a step is trained.
    let last = reading_after(&run.config, &model.position, run.config.last_stage())?;
    check(&last, &resolved, &dataset, &config.evaluations()?)?;
    first_batches(&run, &dataset)?;
    introduce(&session, &run, &dataset, &model, &resolved);
    open_folder(&run, &config.to_table()?, &dataset)?;
    train(&session, &run, &dataset, &resolved, &start)?;
    evaluate(&session, &run, config, &dataset, &resolved)
}

/// The training text must hold a sequence of every stage.
fn first_batches(run: &Run, dataset: &Dataset) -> Result<()> {
    (0..=run.config.last_stage()).try_for_each(|stage| {
        let first = TrainBatch::of_step(&run.config, stage, dataset, 0);
        let section = RunConfig::section(stage);
        let explain = |error: Error| match stage {
            0 => error,
            _ => error
                .context(format!("`{section}`"))
                .hint(format!("shorten `{section}.length`, or add text to `data.corpus`")),
        };
        first.map(|_| ()).map_err(explain)
    })
}

/// Says what is about to be trained, on what, at which cost.
fn introduce(session: &Session, run: &Run, dataset: &Dataset, model: &Gpt, resolved: &Resolved) {
    let (config, d) = (&run.config, &resolved.dimensions);
    let largest = (0..=config.last_stage())
        .map(|stage| config.stage(stage))
        .map(|train| Size::of(model, resolved, train.micro_batch(), train.length).training_bytes);
    let (size, bytes) = (Size::of(model, resolved, 1, config.train.length), largest.max().unwrap_or(0));
    status(&format!("run       {} in {}", config.name, run.folder.display()));
    session.introduce();
    status(&format!("data      {}", text_in_words(dataset, d.vocab_size)));
    status(&format!(
        "model     {}: {} layers, width {}, {} heads of {}; {} parameters, {:.2} MFLOP a token, about {} to train",
        config.position.name(),
        d.layers,
        d.width,
        d.heads,
        d.head_dim,
        grouped(size.parameters),
        size.flops_per_token as f64 / 1e6,
        shown(bytes),
    ));
    for stage in 0..=config.last_stage() {
        let train = config.stage(stage);
        let name = if stage == 0 { "train".to_owned() } else { format!("stage {stage}") };
        let precision = match train.precision {
            Precision::F32 => String::new(),
            half => format!(", linear maps in {half}"),
        };
        let extend = match stage.checked_sub(1).map(|stage| config.stages[stage].extend.kind()) {
            Some(kind) => format!(", read as `{kind}`"),
            None => String::new(),
        };
        status(&format!(
            "{name:<9} {} steps of {} x {} tokens, {} tokens in all{precision}{extend}",
            grouped(train.steps as usize),
            train.sequences(),
            train.length,
            grouped(train.steps as usize * train.batch_tokens),
        ));
    }
}

/// The corpus or the task.
fn text_in_words(dataset: &Dataset, vocab_size: usize) -> String {
    if dataset.task().is_some() {
        return format!("{}: new sequences every step, vocabulary {vocab_size}", dataset.name());
    }
    let documents = Split::ALL.map(|split| dataset.tokens(split).documents().to_string()).join(" / ");
    format!(
        "{}: {documents} documents to train / validate / test, {} training tokens, vocabulary {}{}",
        dataset.name(),
        grouped(dataset.tokens(Split::Train).len()),
        grouped(vocab_size),
        if dataset.cached() { ", from the cache" } else { "" },
    )
}

fn train(session: &Session, run: &Run, dataset: &Dataset, resolved: &Resolved, start: &Start) -> Result<()> {
    let from = match start {
        Start::Fresh => None,
        Start::Resume(checkpoint) => Some(&**checkpoint),
        Start::Finished => {
            status(&finished(run));
            return Ok(());
        }
    };
    if let Some(checkpoint) = from {
        status(&format!("resuming after step {}", grouped(checkpoint.meta.step as usize)));
    }
    let config = &run.config;
    let mut trainer = Trainer::new(run, dataset, resolved, &session.device, from)?;
    let mut bar: Option<Training> = None;
    let mut skipped = 0;
    let outcome = trainer.train(&interrupt::asked, &mut |event| {
        if let Event::Step(metric) = event {
            skipped += usize::from(metric.skipped);
            if let Some(old) = bar.take_if(|bar| bar.stage() != metric.stage) {
                old.finish();
            }
            bar.get_or_insert_with(|| Training::new(config, metric)).step(metric);
        }
    });
    if let Some(bar) = bar {
        bar.finish();
    }
    if skipped > 0 {
        let steps = if skipped == 1 { "step was" } else { "steps were" };
        status(&format!("{} {steps} left out, whose gradients overflowed f16", grouped(skipped)));
    }
    match outcome? {
        Outcome::Done => Ok(()),
        Outcome::Interrupted => Err(Error::interrupted(format!(
            "stopped after step {} of {}; the checkpoint is `{}`",
            trainer.step(),
            config.total_steps(),
            run.checkpoint(CheckpointId::Last).display()
        ))
        .hint("the same command with `--resume` goes on from there")),
    }
}

/// What a finished run allows.
fn finished(run: &Run) -> String {
    let steps = grouped(run.config.total_steps() as usize);
    if run.config.last_stage() > 0 {
        return format!(
            "training is finished at step {steps}, the end of its last stage; another `[[stage]]` goes on"
        );
    }
    match run.config.train.schedule {
        ScheduleKind::Wsd => format!(
            "training is finished at step {steps}; a larger `train.steps` goes on from before its final decay"
        ),
        ScheduleKind::Cosine => format!(
            "training is finished at step {steps}; its cosine schedule ends there, so it cannot go on (a `wsd` run can)"
        ),
    }
}

fn evaluate(
    session: &Session,
    run: &Run,
    config: &Config,
    dataset: &Dataset,
    resolved: &Resolved,
) -> Result<Vec<ResultRow>> {
    let checkpoint = run.load(CheckpointId::Last)?;
    let init = Init::new(run.config.seed, &session.device);
    let model = restore(&run.config, resolved, &init, &session.device, &checkpoint)?.valid();
    let subject = Subject {
        config: &run.config,
        config_hash: &run.hash,
        resolved,
        model: &model,
        dataset,
        device: &session.device,
        device_name: &session.device_name,
        threads: session.threads,
        checkpoint: &CheckpointId::Last.name(),
        step: checkpoint.meta.step,
        stage: checkpoint.meta.stage(),
    };
    Ok(measure(&subject, &config.evaluations()?, None, &run.folder)?.rows)
}
