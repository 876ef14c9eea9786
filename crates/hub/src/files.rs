//! The files of the weights: `model.safetensors`, or several that an index lists.

use crate::tensors::{self, Tensors};
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result, file};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ONE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// What programs write where `git lfs` has not fetched a file yet.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// The weights of a folder as they lie on disk.
#[derive(Clone, Debug)]
pub(crate) struct WeightFiles {
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Where an index says that each tensor is.
    places: BTreeMap<String, PathBuf>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl WeightFiles {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let one = folder.join(ONE);
        let index = folder.join(INDEX);
        if one.exists() {
            let bytes = read(&one)?;
            return Ok(Self { files: vec![(one, bytes)], places: BTreeMap::new() });
        }
        if index.exists() {
            return Self::listed(folder, &index);
        }
        let (shown, older) = (folder.display(), folder.join("pytorch_model.bin").exists());
        let error = Error::usage(format!("`{shown}` holds no weights: it has no `{ONE}`"));
        Err(error.hint(if older {
            "`pytorch_model.bin` may run code as it is read: save the model with `safe_serialization=True`"
        } else {
            "name a folder with `config.json`, `model.safetensors` and `tokenizer.json`"
        }))
    }

    fn listed(folder: &Path, index: &Path) -> Result<Self> {
        let text = file::read_text(index)?;
        let Index { weight_map } = serde_json::from_str(&text).map_err(|error| {
            Error::failed(format!("`{}` is damaged: {error}", index.display()))
                .hint("it must hold `weight_map`, which names the file of each tensor: download it again")
        })?;
        let names: BTreeSet<&String> = weight_map.values().collect();
        if names.is_empty() {
            return Err(
                Error::failed(format!("`{}` lists no tensor", index.display())).hint("download it again")
            );
        }
        let mut files = Vec::new();
        for name in names {
            let path = folder.join(name);
            if Path::new(name).file_name().is_none_or(|plain| plain != name.as_str()) || !path.exists() {
                return Err(Error::failed(format!(
                    "`{}` names the file `{name}`, and `{}` has none",
                    index.display(),
                    folder.display()
                ))
                .hint("download all files that it lists into the same folder"));
            }
            files.push((path.clone(), read(&path)?));
        }
        let places = weight_map.into_iter().map(|(tensor, name)| (tensor, folder.join(name))).collect();
        Ok(Self { files, places })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// SHA-256 of the file; of several, of their hashes one after the other.
    pub(crate) fn sha256(&self) -> String {
        match self.files.as_slice() {
            [(_, bytes)] => sha256_of(bytes),
            files => {
                let hashes: Vec<String> = files.iter().map(|(_, bytes)| sha256_of(bytes)).collect();
                sha256_of(hashes.concat().as_bytes())
            }
        }
    }

    /// What messages name: the file, or the index of several.
    pub(crate) fn shown(&self) -> String {
        match self.files.as_slice() {
            [(path, _)] => path.display().to_string(),
            files => files
                .first()
                .map_or_else(String::new, |(path, _)| path.with_file_name(INDEX).display().to_string()),
        }
    }

    pub(crate) fn tensors(&self) -> Result<Tensors> {
        let mut all = Tensors::new();
        for (path, bytes) in &self.files {
            let named = |error: Error| error.context(format!("`{}`", path.display()));
            let mut found = tensors::from_bytes(bytes).map_err(named)?;
            let here = |name: &str| self.places.get(name).is_none_or(|place| place == path);
            for (name, _) in self.places.iter().filter(|(_, place)| *place == path) {
                if !found.contains_key(name) {
                    return Err(named(
                        Error::failed(format!("it has no tensor `{name}`, which `{INDEX}` says is there"))
                            .hint("download the files again, all of one version"),
                    ));
                }
            }
            found.retain(|name, _| here(name));
            check(&found).map_err(named)?;
            all.extend(found);
        }
        Ok(all)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| Error::io("read", path, &error))?;
    not_a_pointer(path, &bytes)?;
    Ok(bytes)
}

/// Rejects what stands in a clone in the place of a large file.
pub(crate) fn not_a_pointer(path: &Path, bytes: &[u8]) -> Result<()> {
    if !bytes.starts_with(LFS_POINTER) {
        return Ok(());
    }
    Err(Error::usage(format!("`{}` is a Git LFS pointer, not the file itself", path.display()))
        .hint("fetch the file: run `git lfs pull` in that folder, or download it from its page"))
}

/// Rejects names and numbers that are no weights of a model.
fn check(tensors: &Tensors) -> Result<()> {
    if let Some(name) = tensors.keys().find(|name| name.contains("_orig_mod.")) {
        return Err(Error::usage(format!(
            "the tensor `{name}` is of a compiled model: `torch.compile` puts `_orig_mod.` before every name"
        ))
        .hint("save the model beneath it, `model._orig_mod.save_pretrained(..)`"));
    }
    for (name, stored) in tensors {
        if let Some(number) = stored.numbers.iter().find(|number| !number.is_finite()) {
            return Err(Error::failed(format!(
                "the tensor `{name}` holds {number}, so no loss would be a number"
            ))
            .hint("download the file again, or take a checkpoint from before the training broke"));
        }
    }
    Ok(())
}
