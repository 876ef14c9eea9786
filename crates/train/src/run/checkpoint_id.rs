//! The checkpoints of a run by name, and where they are.

use longwave_core::{Error, Result};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointId {
    /// After the last step.
    #[default]
    Last,
    /// What was `last` before: one generation more than training needs.
    Previous,
    /// At the best validation of the last stage begun.
    Best,
    /// Before the final decay of `wsd` in `[train]`.
    Stable,
    /// At the end of a stage: 0 is `[train]`, n the n-th `[[stage]]`.
    Stage(usize),
    /// After a step, counted through all stages, that `keep_checkpoints` names. It has no moments.
    Step(u64),
}

impl CheckpointId {
    /// Those that training may go on from, in a run whose last stage is this one.
    pub(super) fn to_go_on_from(last_stage: usize) -> impl Iterator<Item = Self> {
        [Self::Last, Self::Previous, Self::Stable].into_iter().chain((0..=last_stage).map(Self::Stage))
    }

    /// Its name in rows and on the command line.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Last => "last".into(),
            Self::Previous => "previous".into(),
            Self::Best => "best".into(),
            Self::Stable => "stable".into(),
            Self::Stage(stage) => format!("stage-{stage}").into(),
            Self::Step(step) => format!("step-{step}").into(),
        }
    }
}

impl FromStr for CheckpointId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "last" => Ok(Self::Last),
            "previous" => Ok(Self::Previous),
            "best" => Ok(Self::Best),
            "stable" => Ok(Self::Stable),
            _ => numbered(text).ok_or_else(|| {
                Error::value(
                    "checkpoint",
                    text,
                    "it must be `last`, `previous`, `best`, `stable`, `stage-0`, `stage-1`, .., or `step-N`",
                )
                .hint(
                    "`stage-0` is the end of `[train]`, `stage-1` that of the first `[[stage]]`; `step-N` is a step that \
                     `train.keep_checkpoints` names",
                )
            }),
        }
    }
}

/// `stage-N` or `step-N`.
fn numbered(text: &str) -> Option<CheckpointId> {
    match text.split_once('-')? {
        ("stage", number) => number.parse().ok().map(CheckpointId::Stage),
        ("step", number) => number.parse().ok().map(CheckpointId::Step),
        _ => None,
    }
}

pub fn checkpoint_path(folder: &Path, which: CheckpointId) -> PathBuf {
    folder.join("checkpoints").join(format!("{}.safetensors", which.name()))
}

pub fn existing_checkpoint(folder: &Path, which: CheckpointId) -> Result<PathBuf> {
    let path = checkpoint_path(folder, which);
    if path.exists() {
        return Ok(path);
    }
    let hint = match which {
        CheckpointId::Step(_) => "`step-N` is there for the steps that `train.keep_checkpoints` names",
        _ => {
            "train it first; `best` needs a validation split, and `stage-0`, `stage-1`, .. a run with `[[stage]]`"
        }
    };
    Err(Error::failed(format!("`{}` has no checkpoint `{}`", folder.display(), which.name())).hint(hint))
}
