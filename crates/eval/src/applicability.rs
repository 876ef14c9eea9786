//! Which readings of a block a model allows, before any text is opened.

use crate::block::ResolvedEvaluate;
use crate::measure::reading;
use crate::sweep::{ExtendEntry, Sweep};
use longwave_core::{Error, Result};
use longwave_position::{ExtensionConfig, Reading, extensions};

/// Longer texts are not tried: their positions alone take much memory, and hardly any corpus has one.
const LONGEST: usize = 1 << 22;

/// Why an entry of `extend` cannot be read at a length.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    /// Its index in `extend`.
    pub entry: usize,
    /// The length, in tokens.
    pub length: usize,
    pub error: Error,
}

/// The extensions that a model can be read with, and why not with the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applicable {
    /// Those that apply at every length, by kind, with the default of every key.
    pub kinds: Vec<&'static str>,
    pub left_out: Vec<(&'static str, Error)>,
}

/// Tries every extension there is at some lengths, with the default of every key.
pub fn applicable(model: &Reading, lengths: &[usize], train: usize) -> Applicable {
    let mut all = Applicable::default();
    for entry in extensions::kinds() {
        let tried = ExtensionConfig::from_value(&entry.kind.into(), "extend").and_then(|extension| {
            lengths.iter().try_for_each(|&length| reading(model, &extension, train, length).map(|_| ()))
        });
        match tried {
            Ok(()) => all.kinds.push(entry.kind),
            Err(error) => all.left_out.push((entry.kind, error)),
        }
    }
    all
}

/// Tries every entry of a block at every length, as an evaluation does, and gives what does not apply; `section` is
/// the block's place in the file.
pub fn obstacles(model: &Reading, block: &ResolvedEvaluate, section: &str) -> Result<Vec<Obstacle>> {
    let mut found = Vec::new();
    for (entry, value) in block.extend.iter().enumerate() {
        let read = ExtendEntry::from_value(value, &format!("{section}.extend[{entry}]"))?;
        for &length in block.lengths.iter().filter(|length| **length <= LONGEST) {
            let all = |extensions: &[ExtensionConfig]| {
                let mut extensions = extensions.iter();
                extensions.try_for_each(|it| reading(model, it, block.train_length, length).map(|_| ()))
            };
            let tried = match &read {
                ExtendEntry::Sweep(Sweep::Search(search)) => search.check(model, block).map(|_| ()),
                fixed_or_values => all(fixed_or_values.extensions()),
            };
            found.extend(tried.err().map(|error| Obstacle { entry, length, error }));
        }
    }
    Ok(found)
}
