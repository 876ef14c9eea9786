//! One file that holds a step of training, whole.
//!
//! A checkpoint is a safetensors file: `model.NAME` for the weights, `optimizer.STATE.NAME` for what the optimizer keeps, such as
//! `optimizer.first.NAME` (absent in `best`, which is only read), `memory.PART.LAYER` where
//! the encoding carries a memory, and a JSON text under the metadata key `longwave`, which also holds the factor of the
//! loss in f16. Batches, dropout and the learning rate are functions of the step, so nothing else needs saving. The same state gives the same
//! bytes.
//!
//! **Checksums.** The metadata has a checksum of each tensor and one of the whole state: the metadata itself, and names,
//! shapes and checksums of all tensors. Every reader verifies all of them.
//!
//! **Format policy.** `format` counts up when a reader of the old format would misread a file. A reader rejects another
//! format by name.

mod checksums;

use crate::VERSION;
use crate::config::TrainConfig;
use crate::loss_scale::LossScale;
use crate::optimizer_state::Optimizer;
use crate::parameters::{self, Parameter};
use crate::run_config::RunConfig;
use crate::segment_memory;
use burn::tensor::{Device, Tensor, TensorData};
pub use checksums::Checksums;
use longwave_core::file::existing_folder;
use longwave_core::{Error, Result};
use longwave_kernels::Layout;
use longwave_model::{Gpt, SegmentMemory};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The format this version writes.
pub const FORMAT: u32 = 1;

const META_KEY: &str = "longwave";

/// The best validation so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done.
    pub step: u64,
    /// Nats a token.
    pub loss: f64,
}

/// What a checkpoint says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    pub format: u32,
    /// The version that wrote it.
    pub version: String,
    /// Steps done.
    pub step: u64,
    /// The run's identity.
    pub config_hash: String,
    /// The best validation of the stage so far.
    pub best: Option<Best>,
    /// Validations since that one, none of them better.
    pub without_improvement: u64,
    /// Which channels of q and k turn together, layer by layer, none where a layer turns none; written by
    /// [`save`]. Weights mean nothing under another layout, and no shape tells them apart.
    pub rotary_layouts: Vec<Option<Layout>>,
    /// The readings of the stages after `[train]` that have begun, in order: the model reads by all of them.
    pub stages: Vec<StageReading>,
    /// The factor of the loss for the next step; none where nothing is scaled.
    pub loss_scale: Option<LossScale>,
    /// The number of updates of each parameter since its optimizer state was zero, in the order of [`parameters::list`]. Only training that goes
    /// on needs it.
    #[serde(default)]
    pub updates: Vec<u64>,
    /// The steps that updated nothing, as earlier versions counted them for all parameters at once, from the stage in which the state was zero.
    #[serde(default, skip_serializing)]
    pub skipped: Option<u64>,
    /// Numbers of the batches that are left out, ascending: steps that read them had a loss or a gradient that was not finite.
    pub skipped_batches: Vec<u64>,
    /// SHA-256 of the `tokenizer.json` beside it.
    pub tokenizer: Option<String>,
    /// Written by [`save`], and verified by [`Checkpoint::load`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
}

/// What a stage made of the reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReading {
    /// Tokens of its sequences: the L' its extension was applied for.
    pub length: usize,
    /// The extension, with every default written out.
    pub extend: Value,
    /// What the factors on the logits of each head started at, where the stage trains them.
    pub head_scale: Option<f64>,
}

/// A step of training, read from a file.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub meta: Meta,
    pub path: PathBuf,
    /// Newer checkpoints of the run that are damaged, and why: training goes on from this one in their place.
    pub instead_of: Vec<Error>,
    tensors: HashMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Meta {
    pub fn new(step: u64, config_hash: &str, best: Option<Best>, stages: Vec<StageReading>) -> Self {
        Self {
            format: FORMAT,
            version: VERSION.to_owned(),
            step,
            config_hash: config_hash.to_owned(),
            best,
            without_improvement: 0,
            rotary_layouts: Vec::new(),
            stages,
            loss_scale: None,
            updates: Vec::new(),
            skipped: None,
            skipped_batches: Vec::new(),
            tokenizer: None,
            checksums: None,
        }
    }

    /// The number of updates of each of `parameters`; `None` where an earlier version wrote it in a later stage, which may
    /// have reset the optimizer state, or trained some parameters alone.
    fn updates_of(&self, parameters: usize) -> Option<Vec<u64>> {
        match self.skipped {
            None => Some(self.updates.clone()),
            Some(skipped) => {
                self.stages.is_empty().then(|| vec![self.step.saturating_sub(skipped); parameters])
            }
        }
    }

    /// Whether training can go on from it.
    pub(crate) fn goes_on(&self) -> bool {
        self.updates_of(0).is_some()
    }

    /// The stage the state is of: 0 is `[train]`, n the n-th `[[stage]]`.
    pub fn stage(&self) -> usize {
        self.stages.len()
    }

    /// Whether the training of a config ends here: its steps are done, or `patience` stops it.
    pub fn is_end_of(&self, config: &RunConfig) -> bool {
        self.step >= config.total_steps()
            || config.stage(self.stage()).is_out_of_patience(self.without_improvement)
    }
}

/// Which channels turn together in each layer.
fn rotary_layouts(model: &Gpt) -> Vec<Option<Layout>> {
    let layout = |layer| model.position.rotation(layer).map(|rotation| rotation.layout);
    (0..model.blocks.len()).map(layout).collect()
}

/// Writes a checkpoint, whole or not at all, into a folder that must be there; without `optimizer` it can be read but not trained on.
/// `memories` are those a training carries, if any.
pub fn save(
    path: &Path,
    model: &Gpt,
    optimizer: Option<&Optimizer>,
    memories: &[SegmentMemory],
    meta: &Meta,
) -> Result<()> {
    existing_folder::write(path, &encoded(path, model, optimizer, memories, meta)?)
}

/// The bytes of a checkpoint, as [`save`] writes them to `path`.
pub fn encoded(
    path: &Path,
    model: &Gpt,
    optimizer: Option<&Optimizer>,
    memories: &[SegmentMemory],
    meta: &Meta,
) -> Result<Vec<u8>> {
    let parameters = parameters::list(model);
    let mut tensors: Vec<Stored> = Vec::new();
    let mut add = |group: &str, name: &str, shape: &[usize], value: Tensor<1>| -> Result<()> {
        let numbers = parameters::numbers(&format!("`{name}`"), value)?;
        let bytes = numbers.iter().map(|number| number.to_le_bytes()).collect::<Vec<_>>().into_flattened();
        tensors.push((format!("{group}{name}"), shape.to_vec(), bytes));
        Ok(())
    };
    for (Parameter { name, shape, .. }, value) in parameters.iter().zip(parameters::values(model)) {
        add("model.", name, shape, value)?;
    }
    let state = optimizer.into_iter().flat_map(|optimizer| &optimizer.state);
    for (Parameter { name, shape, .. }, state) in parameters.iter().zip(state) {
        for (kept, value) in state {
            add(&format!("optimizer.{kept}."), name, shape, value.clone())?;
        }
    }
    for (name, tensor) in segment_memory::tensors(memories) {
        add("", &name, &tensor.dims(), tensor.flatten(0, 2))?;
    }
    let failed =
        |error: &dyn std::fmt::Display| Error::failed(format!("cannot write `{}`: {error}", path.display()));
    let mut meta = Meta { rotary_layouts: rotary_layouts(model), checksums: None, ..meta.clone() };
    let metadata = serde_json::to_value(&meta).map_err(|error| failed(&error))?;
    let described =
        tensors.iter().map(|(name, shape, bytes)| (name.as_str(), shape.as_slice(), bytes.as_slice()));
    meta.checksums = Some(Checksums::of(&metadata, described));
    let meta = serde_json::to_string(&meta).map_err(|error| failed(&error))?;
    safetensors_of(&tensors, (META_KEY, meta)).map_err(|error| failed(&error))
}

/// The bytes of a safetensors file of 32-bit floats. It has one entry of metadata: the order of several would differ from run to run.
pub fn safetensors_of(
    tensors: &[Stored],
    (key, value): (&str, String),
) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    safetensors::serialize(views, Some(HashMap::from([(key.to_owned(), value)])))
}

/// Why a checkpoint cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// Its content is damaged: another one may take its place.
    Damaged(Error),
    /// It is missing, locked away or of a newer format.
    Other(Error),
}

/// Name, shape and bytes of a tensor.
pub type Stored = (String, Vec<usize>, Vec<u8>);

impl Checkpoint {
    pub fn load(path: &Path) -> Result<Self> {
        Self::try_load(path).map_err(|why| match why {
            Unreadable::Damaged(error) | Unreadable::Other(error) => error,
        })
    }

    /// The same, which tells damage from other reasons.
    pub(crate) fn try_load(path: &Path) -> Result<Self, Unreadable> {
        let bytes = fs::read(path).map_err(|error| Unreadable::Other(Error::io("read", path, &error)))?;
        let damaged = |what: &dyn std::fmt::Display| {
            Unreadable::Damaged(Error::failed(format!("`{}` is damaged: {what}", path.display())).hint(
                "`longwave train` with `--resume` goes on from the newest checkpoint that is whole, and \
                           `--checkpoint previous` reads the one before `last`",
            ))
        };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| damaged(&error))?;
        let text = header.metadata().as_ref().and_then(|metadata| metadata.get(META_KEY));
        let text = text.ok_or_else(|| damaged(&"it has no `longwave` metadata"))?;
        let mut metadata: Value = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        let format = metadata.get("format").and_then(Value::as_u64).unwrap_or_default();
        if format > u64::from(FORMAT) {
            let error = Error::failed(format!(
                "`{}` has checkpoint format {format}, and this version reads {FORMAT}",
                path.display()
            ));
            return Err(Unreadable::Other(error.hint("use the newer version that wrote it")));
        }
        let mut meta: Meta = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| damaged(&error))?;
        // What they cover is what the file says, also in fields that this program does not know.
        let written = meta.checksums.take().ok_or_else(|| damaged(&"it has no checksums"))?;
        metadata.as_object_mut().map(|metadata| metadata.remove("checksums"));
        let views = file.iter().map(|(name, view)| (name, view.shape().to_vec(), view.data()));
        let views: Vec<_> = views.collect();
        let described = views.iter().map(|(name, shape, data)| (*name, shape.as_slice(), *data));
        if let Some(difference) = written.difference(&Checksums::of(&metadata, described)) {
            return Err(damaged(&difference));
        }
        let mut tensors = HashMap::new();
        for (name, view) in file.tensors() {
            if view.dtype() != Dtype::F32 {
                return Err(damaged(&format!("`{name}` is not of 32-bit floats")));
            }
            let numbers =
                view.data().as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
            tensors.insert(name, (view.shape().to_vec(), numbers));
        }
        Ok(Self { meta, path: path.to_owned(), instead_of: Vec::new(), tensors })
    }

    /// The weights, put into a model of the same shape.
    pub fn weights(&self, model: Gpt, device: &Device) -> Result<Gpt> {
        let now = rotary_layouts(&model);
        let saved = &self.meta.rotary_layouts;
        if *saved != now {
            return Err(Error::usage(format!(
                "the checkpoint was trained with {}, and the config says {}",
                named(saved),
                named(&now)
            ))
            .hint("give `position.layout` the value it was trained with: the same weights turn other channels under \
                   another one"));
        }
        let values = parameters::list(&model).into_iter().map(|it| self.one("model", &it, device));
        let mut values = values.collect::<Result<Vec<_>>>()?.into_iter();
        Ok(parameters::replace(model, |_, old| values.next().unwrap_or(old)))
    }

    /// The weights by name, each flat, in the order of their names.
    pub fn parameters(&self) -> BTreeMap<&str, &[f32]> {
        let weights = self.tensors.iter().filter_map(|(name, (_, numbers))| {
            name.strip_prefix("model.").map(|name| (name, numbers.as_slice()))
        });
        weights.collect()
    }

    /// The optimizer of a run whose first stage is `first`.
    pub fn optimizer(&self, first: &TrainConfig, model: &Gpt, device: &Device) -> Result<Optimizer> {
        let parameters = parameters::list(model);
        let Some(updates) = self.meta.updates_of(parameters.len()) else {
            return Err(Error::failed(format!(
                "`{}` is of a stage and of an earlier version, which did not count the updates of each parameter",
                self.path.display()
            ))
            .hint("it can be read, and not trained further: train again under another name, or delete this run's folder"));
        };
        if updates.len() != parameters.len() {
            let (counts, parameters) = (updates.len(), parameters.len());
            return Err(Error::failed(format!(
                "the checkpoint counts updates of {counts} parameters of {parameters}"
            )));
        }
        Optimizer::with(first, &parameters, updates, |parameter, name| {
            self.one(&format!("optimizer.{name}"), parameter, device)
        })
    }

    /// A tensor of three dimensions by its name; `None` where the file has none.
    pub(crate) fn tensor(&self, name: &str, device: &Device) -> Option<Tensor<3>> {
        let (shape, numbers) = self.tensors.get(name)?;
        (shape.len() == 3).then(|| Tensor::from_data(TensorData::new(numbers.clone(), shape.clone()), device))
    }

    fn one(&self, group: &str, parameter: &Parameter, device: &Device) -> Result<Tensor<1>> {
        let name = format!("{group}.{}", parameter.name);
        match self.tensors.get(&name) {
            Some((shape, numbers)) if *shape == parameter.shape => {
                let shape = [numbers.len()];
                Ok(Tensor::from_data(TensorData::new(numbers.clone(), shape), device))
            }
            Some((shape, _)) => Err(Error::failed(format!(
                "the checkpoint's `{name}` has shape {shape:?}, the model's {:?}",
                parameter.shape
            ))),
            None => Err(Error::failed(format!("the checkpoint has no `{name}`"))),
        }
    }

    /// The memories of a training in progress, in the place of as many `fresh` ones.
    pub fn memories(&self, fresh: Vec<SegmentMemory>, device: &Device) -> Result<Vec<SegmentMemory>> {
        if self.meta.step == 0 {
            return Ok(fresh);
        }
        let restored = |(part, memory): (usize, SegmentMemory)| {
            let layers: Vec<Tensor<3>> =
                (0..).map_while(|layer| self.tensor(&segment_memory::name(part, layer), device)).collect();
            if layers.is_empty() {
                return Err(Error::failed(format!(
                    "the checkpoint has no `{}`",
                    segment_memory::name(part, 0)
                ))
                .hint("train on from `last` or `stable`; `best` is only read"));
            }
            Ok(memory.holding(layers))
        };
        fresh.into_iter().enumerate().map(restored).collect()
    }
}

/// The layouts of all layers in words, each run of them once.
fn named(layouts: &[Option<Layout>]) -> String {
    let mut names: Vec<&str> = layouts
        .iter()
        .map(|layout| match layout {
            Some(Layout::Half) => "the rotary layout \"half\"",
            Some(Layout::Interleaved) => "the rotary layout \"interleaved\"",
            None => "no rotation",
        })
        .collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests;
