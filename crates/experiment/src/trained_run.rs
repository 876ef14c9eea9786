//! A trained model with its data, and its evaluations.

use crate::found_run::FoundRun;
use crate::machine::Machine;
use crate::observer::{Event, Observer};
use longwave_core::config::read;
use longwave_core::file::{existing_folder, holds_leftovers_only, make_folders, sha256};
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Note};
use longwave_eval::block::Checkpoints;
use longwave_eval::diagnostics::{Explained, explain};
use longwave_eval::key_choice::{Choice, choose};
use longwave_eval::measure::Progress;
use longwave_eval::memory_check::Need;
use longwave_eval::{
    Evaluation, KeyTokens, ResultRow, Subject, TokenLog, evaluate, notes_of_other_texts, row, select,
};
use longwave_model::resolved::Resolved;
use longwave_model::{Gpt, Size};
use longwave_train::checkpoint::Meta;
use longwave_train::run::{CheckpointId, existing_checkpoint, remove_leftovers};
use longwave_train::{Run, restored_model};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A run that has been trained, and may be measured.
#[derive(Debug)]
pub struct TrainedRun<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) run: Run,
    pub(crate) dataset: Dataset,
    pub(crate) resolved: Resolved,
    pub(crate) weights: Weights,
    /// What a reader of its numbers should know, in a sentence.
    pub(crate) warning: Option<String>,
    /// The folder of its rows, where that is not the run's.
    pub(crate) out: Option<PathBuf>,
}

/// The model as a checkpoint has it.
#[derive(Debug)]
pub(crate) struct Weights {
    /// Without gradients.
    pub(crate) model: Gpt,
    /// The checkpoint's name.
    pub(crate) checkpoint: String,
    pub(crate) step: u64,
    pub(crate) stage: usize,
}

impl Weights {
    pub(crate) fn of(model: Gpt, id: CheckpointId, saved: &Meta) -> Self {
        Self { model, checkpoint: id.name().into_owned(), step: saved.step, stage: saved.stage() }
    }
}

/// The rows of evaluations.
#[derive(Debug, Default)]
pub struct Measured {
    /// The rows that are reported.
    pub rows: Vec<ResultRow>,
    /// The rows of the validation split, from which extensions were selected.
    pub tried: Vec<ResultRow>,
}

impl<'a> TrainedRun<'a> {
    /// Opens a checkpoint of a run's folder, and the run's text where it is found: as the config says, near the folder,
    /// or where it lay when the run was trained. Without it the run still reads other text.
    ///
    /// # Errors
    /// The folder holds no such checkpoint.
    pub fn open(
        folder: &Path,
        id: CheckpointId,
        machine: &'a Machine,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        Self::open_found(FoundRun::find(folder, id, None, observer)?, machine, observer)
    }

    /// Opens a run whose text has been looked for.
    ///
    /// # Errors
    /// The text cannot be tokenized, or the checkpoint belongs to another config.
    pub fn open_found(found: FoundRun, machine: &'a Machine, observer: &mut dyn Observer) -> Result<Self> {
        let FoundRun { run, id, saved, text, tokenizer } = found;
        let dataset = text.open(&tokenizer, &mut |progress| observer.event(Event::Data(progress)))?;
        let resolved = run.config.model.resolve(tokenizer.vocab_size(), run.config.train.length)?;
        let warning = unfinished(&run, id, &saved.meta);
        let model = restored_model(&run.config, &resolved, &tokenizer, &machine.device, &saved)?;
        let weights = Weights::of(model, id, &saved.meta);
        Ok(Self { machine, run, dataset, resolved, weights, warning, out: None })
    }

    /// The same run, whose rows are written into another folder: nothing in the run's own is changed. What was measured there
    /// is not measured again.
    ///
    /// # Errors
    /// The folder holds something else than rows of this run, or cannot be made.
    pub fn writing_to(mut self, folder: &Path) -> Result<Self> {
        let shown = folder.display();
        let refused = |holds: String| {
            Err(Error::usage(format!("`--out {shown}` {holds}")).hint("choose another folder with `--out`"))
        };
        let own = |path: &Path| path.canonicalize().ok();
        if own(folder).is_some() && own(folder) == own(&self.run.folder) {
            return Ok(self);
        }
        if folder.join("config.toml").exists() {
            return refused("holds a run of its own".to_owned());
        }
        let rows = folder.join("results.jsonl");
        if rows.exists() {
            let is_other = |row: &ResultRow| row.config_hash != self.run.hash;
            if let Some(other) = row::read_rows_left(&rows)?.into_iter().find(is_other) {
                return refused(format!("holds rows of another run, `{}` of seed {}", other.run, other.seed));
            }
        } else if !folder.join("searches").is_dir() && !holds_leftovers_only(folder) {
            return refused("is not empty and holds no rows of this run".to_owned());
        }
        make_folders(folder).map_err(|error| Error::io("make", folder, &error))?;
        self.out = Some(folder.to_owned());
        Ok(self)
    }

    /// Why its numbers are not those of a finished training, in a sentence; nothing where they are.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Checks that every evaluation can be made, and says what memory the weights and the largest reading take.
    ///
    /// # Errors
    /// An extension does not apply to the encoding, a length has positions that the encoding has no value for, no
    /// document is long enough, or a reading does not fit in memory.
    pub fn check(&self, evaluations: &[Evaluation]) -> Result<Need> {
        let need =
            longwave_eval::check(&self.weights.model.position, &self.resolved, &self.dataset, evaluations)?;
        let Size { parameters, .. } = Size::of(&self.weights.model, &self.resolved, 1, 1);
        Ok(Need { weights: 4 * parameters as u64, ..need })
    }

    /// How the other texts that evaluations read were read.
    ///
    /// # Errors
    /// Such a text cannot be read.
    pub fn notes(&self, evaluations: &[Evaluation]) -> Result<Vec<Note>> {
        notes_of_other_texts(&self.dataset, evaluations)
    }

    /// Tokens of the longest texts that it was trained on so far.
    pub fn longest_trained(&self) -> usize {
        let of = |stage: usize| self.run.config.stage(stage).length;
        (0..=self.weights.stage).map(of).max().unwrap_or_default()
    }

    /// Chooses the key tokens of a text, which other runs may then be scored on.
    ///
    /// # Errors
    /// The text cannot be read, none of its tokens is a key token, or the observer stops it.
    pub fn key_tokens(&self, choice: &Choice, observer: &mut dyn Observer) -> Result<KeyTokens> {
        let file = existing_checkpoint(&self.run.folder, self.weights.checkpoint.parse()?)?;
        let mut show = |progress| {
            observer.event(Event::Evaluating(progress));
            if observer.stop() {
                return Err(Error::interrupted("stopped while choosing key tokens; no file was written"));
            }
            Ok(())
        };
        choose(&self.subject(&self.weights), &sha256(&file)?, choice, &mut show)
    }

    /// Measures what one `[[evaluate]]` block of TOML keys asks for; see [`evaluate`](Self::evaluate).
    ///
    /// # Errors
    /// A key or value is not allowed, or as [`evaluate`](Self::evaluate).
    pub fn evaluate_block(&self, keys: &str, observer: &mut dyn Observer) -> Result<Vec<ResultRow>> {
        let table = crate::config::parse(keys, "the evaluation")?;
        let evaluation =
            Evaluation::new(&read(&table, "evaluate")?, "evaluate", self.run.config.train.length)?;
        self.check(std::slice::from_ref(&evaluation))?;
        Ok(self.evaluate(&[evaluation], None, observer)?.rows)
    }

    /// Makes the measurements that the run's folder lacks, keeps each as soon as it is made, and gives all of them.
    /// With `tokens`, a file of the loss of every token, all that are reported are made again.
    ///
    /// # Errors
    /// As [`check`](Self::check), a file cannot be written, or the observer stops it.
    pub fn evaluate(
        &self,
        evaluations: &[Evaluation],
        mut tokens: Option<&mut TokenLog>,
        observer: &mut dyn Observer,
    ) -> Result<Measured> {
        let folder = self.out.as_ref().unwrap_or(&self.run.folder);
        remove_leftovers(folder);
        let path = folder.join("results.jsonl");
        existing_folder::check_writable(&path)?;
        let rows_of = |path: &Path| if path.exists() { row::read_rows_left(path) } else { Ok(Vec::new()) };
        let mut known = rows_of(&path)?;
        let stored: HashSet<String> = known.iter().map(ResultRow::identity).collect::<Result<_>>()?;
        if self.out.is_some() {
            known.extend(rows_of(&self.run.folder.join("results.jsonl"))?);
        }
        let mut store = |row: &ResultRow| row::write_rows(&path, std::slice::from_ref(row));
        let mut measured = Measured::default();
        for (evaluation, id) in self.readings(evaluations)? {
            let kept = id.map(|id| self.kept(id)).transpose()?;
            let subject = self.subject(kept.as_ref().unwrap_or(&self.weights));
            let mut show = |progress| report(observer, Event::Selecting, progress);
            let selection = select(&subject, evaluation, &known, folder, &mut store, &mut show)?;
            observer.event(Event::Selected(&selection));
            let mut show = |progress| report(observer, Event::Evaluating, progress);
            let evaluation = &selection.evaluation;
            let rows = evaluate(&subject, evaluation, &known, tokens.as_deref_mut(), &mut store, &mut show)?;
            measured.rows.extend(rows);
            measured.tried.extend(selection.tried);
        }
        if self.out.is_some() {
            copy_rows(&path, &stored, &measured)?;
        }
        if path.exists() {
            row::record_count(&path)?;
        }
        Ok(measured)
    }

    /// What the model does with the texts of an evaluation at each of its lengths, see [`longwave_eval::diagnostics`]. Nothing is kept.
    ///
    /// # Errors
    /// As [`check`](Self::check), or the observer stops it.
    pub fn explain(&self, evaluation: &Evaluation, observer: &mut dyn Observer) -> Result<Explained> {
        self.check(std::slice::from_ref(evaluation))?;
        let mut show = |progress| report(observer, Event::Evaluating, progress);
        explain(&self.subject(&self.weights), evaluation, &mut show)
    }

    /// Each evaluation with each checkpoint that it reads, ascending by step: those of kept steps and then the weights at hand, or the best
    /// ones. Another checkpoint than the last is read alone.
    fn readings<'e>(
        &self,
        evaluations: &'e [Evaluation],
    ) -> Result<Vec<(&'e Evaluation, Option<CheckpointId>)>> {
        let kept = self.run.config.kept_steps();
        let mut readings = Vec::new();
        for evaluation in evaluations {
            let is_last = self.weights.checkpoint == CheckpointId::Last.name();
            if is_last && evaluation.reads_best() {
                readings.push((evaluation, Some(CheckpointId::Best)));
                continue;
            }
            if is_last {
                // A training that its patience ended has not come to all of them, and an imported one has its end alone.
                let is_all = evaluation.block.checkpoints == Checkpoints::All;
                let is_there = |step: &u64| {
                    *step < self.weights.step
                        && (!is_all || self.run.checkpoint(CheckpointId::Step(*step)).exists())
                };
                let steps = evaluation.steps(&kept)?.into_iter().filter(is_there);
                readings.extend(steps.map(|step| (evaluation, Some(CheckpointId::Step(step)))));
            }
            readings.push((evaluation, None));
        }
        Ok(readings)
    }

    /// The model as another checkpoint has it.
    fn kept(&self, id: CheckpointId) -> Result<Weights> {
        let saved = self.run.load(id)?;
        let model = restored_model(
            &self.run.config,
            &self.resolved,
            self.dataset.tokenizer(),
            &self.machine.device,
            &saved,
        )?;
        Ok(Weights::of(model, id, &saved.meta))
    }

    /// A model, and what its rows record about it.
    fn subject<'s>(&'s self, weights: &'s Weights) -> Subject<'s> {
        Subject {
            config: &self.run.config,
            config_hash: &self.run.hash,
            resolved: &self.resolved,
            model: &weights.model,
            dataset: &self.dataset,
            device: &self.machine.device,
            device_name: &self.machine.device_name,
            repeatable: self.machine.repeatable,
            threads: self.machine.threads,
            checkpoint: &weights.checkpoint,
            step: weights.step,
            stage: weights.stage,
        }
    }
}

/// What to know of a checkpoint of a run whose training has not come to its end. The end of a stage is one.
fn unfinished(run: &Run, id: CheckpointId, saved: &Meta) -> Option<String> {
    let come = match id {
        CheckpointId::Last => saved.clone(),
        CheckpointId::Best | CheckpointId::Previous if run.checkpoint(CheckpointId::Last).exists() => {
            match run.load(CheckpointId::Last) {
                Ok(last) => last.meta,
                Err(error) => return Some(error.message().to_owned()),
            }
        }
        _ => return None,
    };
    let (folder, total) = (run.folder.display(), run.config.total_steps());
    let unfinished = run.config.imported.is_none() && !come.is_end_of(&run.config);
    let (step, come) = (saved.step, come.step);
    unfinished.then(|| {
        format!(
            "the training of `{folder}` is not finished: its checkpoint `{}` is of step {step}, and it has come to step \
             {come} of {total}; `longwave train` with `--resume` goes on",
            id.name()
        )
    })
}

/// Reports the progress of an evaluation, which ends where the observer stops it.
fn report(
    observer: &mut dyn Observer,
    event: fn(Progress) -> Event<'static>,
    progress: Progress,
) -> Result<()> {
    observer.event(event(progress));
    if observer.stop() {
        return Err(Error::interrupted("stopped while evaluating; what was measured is kept")
            .hint("the same command goes on where this one stopped (`train` with `--resume`)"));
    }
    Ok(())
}

/// Writes the rows that the run's own folder had already.
fn copy_rows(path: &Path, stored: &HashSet<String>, measured: &Measured) -> Result<()> {
    let mut missing = Vec::new();
    for row in measured.tried.iter().chain(&measured.rows) {
        if !stored.contains(&row.identity()?) {
            missing.push(row.clone());
        }
    }
    if missing.is_empty() { Ok(()) } else { row::write_rows(path, &missing) }
}
