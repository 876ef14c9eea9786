//! An experiment on the terminal: what is about to be done, how far it is, what was decided.

use crate::interrupt;
use crate::options::introduce;
use crate::output::{grouped, status};
use crate::progress::{Progress, Training};
use longwave_core::memory_check::shown;
use longwave_data::{Dataset, Note, Scoring, Split};
use longwave_eval::memory_check::Need;
use longwave_eval::sweep::chosen_value;
use longwave_eval::{Selection, measure};
use longwave_experiment::{Event, Observer, Overview};
use longwave_kernels::Precision;
use longwave_study::execute::Phase;
use longwave_train::config::ScheduleKind;
use longwave_train::stage::TrainedPart;
use longwave_train::trainer::validation_off;
use longwave_train::{Run, RunConfig};
use std::time::{Duration, Instant};

/// Shows an experiment, and stops it on Ctrl-C.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    bar: Option<Bar>,
    began: Option<Instant>,
}

#[derive(Debug)]
enum Bar {
    Data(longwave_data::Stage, Progress),
    Training(Training),
    Reading(Phase, u64, Progress),
}

impl Observer for Terminal {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Data(progress) => self.data(&progress),
            Event::Step(config, metric) => {
                // The step has been made already: its time belongs to training.
                let step = Duration::from_secs_f64(metric.seconds);
                self.began
                    .get_or_insert_with(|| Instant::now().checked_sub(step).unwrap_or_else(Instant::now));
                self.bar.take_if(|bar| !matches!(bar, Bar::Training(bar) if bar.stage() == metric.stage));
                let fresh = || Bar::Training(Training::new(config, metric));
                if let Bar::Training(bar) = self.bar.get_or_insert_with(fresh) {
                    bar.step(metric);
                }
            }
            Event::Selecting(progress) => self.reading(Phase::Choosing, progress),
            Event::Evaluating(progress) => self.reading(Phase::Evaluating, progress),
            event => {
                // The bar makes room for lines that stay.
                let summary = match self.bar.take() {
                    Some(Bar::Training(bar)) => {
                        self.began.map(|began| bar.summary(began.elapsed().as_secs()))
                    }
                    _ => None,
                };
                match event {
                    Event::Ready(overview) => {
                        describe(&overview);
                        if let Some(why) = validation_off(&overview.run.config, overview.dataset) {
                            tracing::warn!("{why}");
                        }
                    }
                    Event::AlreadyTrained { run, stopped_early, notes } => {
                        if !stopped_early {
                            status(&finished(run));
                        }
                        for note in notes {
                            status(note);
                        }
                    }
                    Event::Resumed { step, how, instead_of } => {
                        if let Some(how) = how {
                            status(how);
                        }
                        for error in instead_of {
                            tracing::warn!("{}; it is left out", error.message());
                        }
                        status(&format!("resuming after step {}", grouped(step as usize)));
                    }
                    Event::RolledBack { why, step } => {
                        let message = why.message();
                        tracing::warn!(
                            "{message}; training goes on from step {step} and leaves the batch out"
                        );
                    }
                    Event::Trained { skipped_batches, skipped, notes } => {
                        if let Some(summary) = summary {
                            status(&summary);
                        }
                        for note in notes {
                            status(note);
                        }
                        describe_left_out(
                            skipped,
                            ["step was", "steps were"],
                            "whose gradients overflowed f16",
                        );
                        let why = "whose loss or gradient was not finite";
                        describe_left_out(skipped_batches, ["batch was", "batches were"], why);
                    }
                    Event::Selected(selection) => describe_selection(selection),
                    _ => {}
                }
            }
        }
    }

    fn stop(&self) -> bool {
        interrupt::asked()
    }
}

impl Terminal {
    fn data(&mut self, progress: &longwave_data::Progress) {
        self.bar.take_if(|bar| !matches!(bar, Bar::Data(stage, _) if *stage == progress.stage));
        let fresh =
            || Bar::Data(progress.stage, Progress::new(Phase::Data, "bytes", progress.done, progress.total));
        if let Bar::Data(stage, bar) = self.bar.get_or_insert_with(fresh) {
            bar.at(progress.done, &stage.to_string(), false);
        }
    }

    fn reading(&mut self, what: Phase, progress: measure::Progress) {
        let (done, total) = (progress.done as u64, progress.total as u64);
        // Another total is another measurement.
        self.bar.take_if(|bar| !matches!(bar, Bar::Reading(of, all, _) if (*of, *all) == (what, total)));
        let fresh = || Bar::Reading(what, total, Progress::new(what, "tokens", 0, total));
        if let Bar::Reading(_, _, bar) = self.bar.get_or_insert_with(fresh) {
            bar.at(done, "", false);
        }
    }
}

/// Describes what is about to be trained, on what, and what it takes.
fn describe(overview: &Overview<'_>) {
    let Overview { machine, run, dataset, notes, resolved, size } = overview;
    let (config, d) = (&run.config, &resolved.dimensions);
    status(&format!("run       {} in {}", config.name, run.folder.display()));
    introduce(machine);
    status(&format!("data      {}", describe_text(dataset, d.vocab_size)));
    describe_notes(notes);
    status(&format!(
        "model     {}: {} layers, width {}, {} heads of {}; {} parameters, {:.2} MFLOP a token, about {} to train",
        config.position.name(),
        d.layers,
        d.width,
        d.heads,
        d.head_dim,
        grouped(size.parameters),
        size.flops_per_token as f64 / 1e6,
        shown(size.training_bytes),
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
        let trained = match config.trained_part(stage) {
            TrainedPart::All => "",
            TrainedPart::HeadScale { .. } => ", a factor for each head alone",
        };
        status(&format!(
            "{name:<9} {} steps of {} x {} tokens, {} tokens in all{precision}{extend}{trained}",
            grouped(train.steps as usize),
            train.sequences(),
            train.length,
            grouped(train.steps as usize * train.batch_tokens),
        ));
    }
}

pub(crate) fn describe_notes(notes: &[Note]) {
    for Note { label, text } in notes {
        if let Some(label) = label { status(&format!("{label:<9} {text}")) } else { tracing::warn!("{text}") }
    }
}

pub(crate) fn memory(need: &Need) -> String {
    let [all, weights, opening, reading] =
        [need.bytes(), need.weights, need.opening(), need.reading].map(shown);
    format!(
        "about {all}: {weights} of weights, and {opening} to open them, then {reading} to read {} tokens at once",
        grouped(need.tokens)
    )
}

fn describe_text(dataset: &Dataset, vocab_size: usize) -> String {
    if let Some(task) = dataset.task() {
        let scored = match task.scoring() {
            Some(Scoring::Every) => ", every answer of a sequence is scored",
            Some(Scoring::Last) => ", the last answer of a sequence alone is scored",
            None => "",
        };
        return format!("{}: new sequences every step{scored}, vocabulary {vocab_size}", dataset.name());
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

/// What a finished run allows.
fn finished(run: &Run) -> String {
    let steps = grouped(run.config.total_steps() as usize);
    let last = run.config.last_stage();
    let (train, section) = (run.config.stage(last), RunConfig::section(last));
    let longer = match train.schedule {
        ScheduleKind::Wsd => format!("a larger `{section}.steps` goes on from before its final decay"),
        ScheduleKind::Cosine if train.final_ratio > 0.0 => {
            format!("a larger `{section}.steps` goes on at its last learning rate")
        }
        ScheduleKind::Cosine => "its learning rate has come to 0".to_owned(),
    };
    format!(
        "training is finished at step {steps}; {longer}, and another `[[stage]]` with a learning rate of its own"
    )
}

fn describe_left_out(count: usize, [one, many]: [&str; 2], why: &str) {
    if count > 0 {
        let were = if count == 1 { one } else { many };
        status(&format!("{} {were} left out, {why}", grouped(count)));
    }
}

fn describe_selection(selection: &Selection) {
    for (&place, among) in &selection.evaluation.chosen {
        let extension = &selection.evaluation.extensions[place];
        let config = serde_json::to_value(extension).unwrap_or_default();
        let values: Vec<String> = match among.as_object() {
            Some(among) if !among.contains_key("search") => {
                let chosen = |key: &str, values| chosen_value(&config, key, values).unwrap_or_default();
                among
                    .iter()
                    .map(|(key, values)| format!("{key} = {} of {values}", chosen(key, values)))
                    .collect()
            }
            _ => vec![format!("long_factor = {}, n_hat = {}", config["long_factor"], config["n_hat"])],
        };
        status(&format!("chosen    {}: {}, by validation loss", extension.kind(), values.join(", ")));
    }
}
