//! What a published file's scaling of positions is, and what L is because of it.

use longwave_core::{Result, written};
use longwave_position::ExtensionConfig;
use longwave_train::{FileScaling, Imported, RunConfig};
use std::path::Path;

/// The scaling of a model that was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// Its kind, with its scale where it has one, and the length that it counts from.
    pub what: String,
    /// What it is to the model.
    pub scaling: FileScaling,
    /// L in tokens.
    pub train_length: usize,
    /// What L would be with the other choice, in tokens.
    pub otherwise: usize,
}

impl Scaled {
    /// That of a run; `None` where its file scales nothing.
    pub(crate) fn of(config: &RunConfig) -> Result<Option<Self>> {
        let Some(Imported { scaling: Some(scaling), .. }) = &config.imported else { return Ok(None) };
        let json = config.imported.as_ref().and_then(|imported| imported.config().transpose()).transpose()?;
        let Some(json) = json else { return Ok(None) };
        let described = crate::fields::read(&json)?;
        let Some(extend) = described.scaling() else { return Ok(None) };
        let from = described.train_length(FileScaling::Added);
        let other = match scaling {
            FileScaling::Trained => FileScaling::Added,
            FileScaling::Added => FileScaling::Trained,
        };
        Ok(Some(Self {
            what: format!("{}, from {from} tokens on", shown(extend)?),
            scaling: *scaling,
            train_length: config.train.length,
            otherwise: described.train_length(other),
        }))
    }

    pub(crate) fn note(&self, config: &Path) -> String {
        let Self { what, train_length, otherwise, .. } = self;
        match self.scaling {
            FileScaling::Trained => format!(
                "its file scales positions ({what}): this is part of the model (`--scaling trained`), so `direct` reads with it, \
                 every extension comes on top of it, and L = {train_length} is the length after scaling. If it was added for \
                 reading, and the model was not trained with it, import with `--scaling added`, where L = {otherwise}"
            ),
            FileScaling::Added => format!(
                "its file scales positions ({what}), which was added for reading (`--scaling added`): `direct` reads the model \
                 without it, `--extend {}` with it, and L = {train_length} is the length before scaling",
                config.display()
            ),
        }
    }

    pub fn line(&self) -> String {
        let Self { what, scaling, train_length, .. } = self;
        let reads = match scaling {
            FileScaling::Trained => format!("part of the model, L = {train_length} is the length after it"),
            FileScaling::Added => format!("left to `--extend`, L = {train_length} is the length before it"),
        };
        format!("{what}: {reads} (`--scaling {scaling}`)")
    }
}

/// A kind, with its scale.
fn shown(extend: &ExtensionConfig) -> Result<String> {
    let keys = written::json_value("an extension", extend)?;
    let scale = ["scale", "factor"].iter().find_map(|key| Some((key, keys.get(*key)?.as_f64()?)));
    Ok(match scale {
        Some((key, number)) => format!("`{}` with {key} {number}", extend.kind()),
        None => format!("`{}`", extend.kind()),
    })
}
