//! A trained run's folder, and its text, found again wherever they lie.

use crate::observer::{Event, Observer};
use longwave_core::Result;
use longwave_data::{Record, RunText, Split, Tokenizer, Wanted};
use longwave_eval::Sample;
use longwave_train::Run;
use longwave_train::checkpoint::Checkpoint;
use longwave_train::run::{CheckpointId, existing_checkpoint};
use std::path::Path;

/// A trained run whose text has been looked for; nothing is tokenized yet.
#[derive(Clone, Debug)]
pub struct FoundRun {
    pub(crate) run: Run,
    pub(crate) id: CheckpointId,
    pub(crate) saved: Checkpoint,
    pub(crate) text: RunText,
    pub(crate) tokenizer: Tokenizer,
}

impl FoundRun {
    /// Reads a checkpoint of a run's folder and looks for the run's text, first at `corpus`.
    ///
    /// # Errors
    /// The folder holds no such checkpoint or the checkpoint is of another config, or nothing can be read at `corpus`.
    pub fn find(
        folder: &Path,
        id: CheckpointId,
        corpus: Option<&str>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let config = Run::read(folder)?;
        let saved = Checkpoint::load(&existing_checkpoint(folder, id)?)?;
        let tokenizer = Tokenizer::of_run(folder, saved.meta.tokenizer.as_deref())?;
        let is_trained =
            |content: &str| config.hash(content).is_ok_and(|hash| hash == saved.meta.config_hash);
        let trained_here = config.imported.is_none();
        let wanted = Wanted {
            folder,
            config: &config.data,
            is_trained: trained_here.then_some(&is_trained as &dyn Fn(&str) -> bool),
        };
        let text = RunText::find(&wanted, corpus, &mut |progress| observer.event(Event::Data(progress)))?;
        let recorded = Record::read(folder)?.map(|record| record.content_hash);
        let hash = match text.content_hash().or(recorded.as_deref()) {
            Some(content) => config.hash(content)?,
            None if trained_here => saved.meta.config_hash.clone(),
            None => config.weights_hash()?,
        };
        let run = Run { folder: folder.to_owned(), config, hash };
        run.check(&saved, id)?;
        Ok(Self { run, id, saved, text, tokenizer })
    }

    /// Whether a corpus was given, and its text is not the one that the run was trained on.
    pub fn other_given(&self) -> bool {
        self.text.other_given()
    }

    /// At most `most` windows of `length` tokens of a split of the run's own text, see [`Sample::of`].
    ///
    /// # Errors
    /// The text is not found or cannot be tokenized, or has no such windows.
    pub fn sample(
        &self,
        split: Split,
        length: usize,
        most: usize,
        observer: &mut dyn Observer,
    ) -> Result<Sample> {
        let dataset =
            self.text.open(&self.tokenizer, &mut |progress| observer.event(Event::Data(progress)))?;
        Sample::of(&dataset, split, length, most)
    }
}
