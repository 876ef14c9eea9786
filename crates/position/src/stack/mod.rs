//! `[position]`: which encodings each layer reads.
//!
//! One encoding, a list of them whose hooks compose in order, or a mixed stack: `kind = "mixed"` lists what a
//! layer may read, and `pattern` says which entry each layer takes, repeated over the depth. An entry is an
//! encoding with its keys, or `encodings = [..]` for several; each also takes `window`, `sinks` and `log_n`.
//! Published stacks are `RNoPE` (Yang et al. 2025, arXiv:2501.18795) and HWFA (kexue.fm/archives/9603).
//!
//! An entry's encoding exists once, with one set of parameters, and counts the layers that read it from 0. So what
//! enters "before the first block" enters before the first block of its entry, and stays in the residual
//! stream for all that follow; what every layer has of its own exists for those layers alone.

mod entry;
mod lengths;
mod serialization;
mod size;
mod together;

use crate::encoding::Dimensions;
use crate::encodings::{self, Encoding, EncodingConfig};
use crate::init::Init;
use crate::layout::TextLayout;
use crate::reading::{
    AdaptiveLogN, LayerEncoding, LayerReading, LearnedLogN, LogN, Mask, Reading, Temperature,
};
use crate::tokens::{Lengths, Tokens};
pub(crate) use entry::KEYS as ENTRY_KEYS;
use entry::{StackEntry, StackEntryKeys, listed};
use lengths::in_tokens;
use longwave_core::config::{kind_and_rest, read, unknown_kind};
use longwave_core::{Error, Result};
use serde::Deserialize;
use toml::Value;

/// `[position]`: one encoding, a list of them, or a mixed stack.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionConfig {
    entries: Vec<StackEntry>,
    /// The entry of each layer, repeated; `None` where every layer reads the same.
    pattern: Option<Vec<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MixedKeys {
    layers: Vec<Value>,
    #[serde(default)]
    pattern: Option<Vec<usize>>,
}

impl PositionConfig {
    /// Reads the `[position]` table or list.
    pub fn from_value(value: &Value, section: &str) -> Result<Self> {
        let is_mixed = value.get("kind").unwrap_or(value).as_str() == Some(encodings::MIXED);
        if !is_mixed {
            let encodings = match value {
                Value::Array(list) => listed(list, section)?,
                one => vec![
                    EncodingConfig::from_value(one, section)
                        .map_err(|error| or_mixed(one, section, error))?,
                ],
            };
            let entries = vec![StackEntry { encodings, keys: StackEntryKeys::default() }];
            return Ok(Self { entries, pattern: None });
        }
        Self::mixed(value, section)
    }

    /// The same where L is known: lengths of encodings may be multiples of it, such as `table_size = "8L"`.
    pub fn for_length(value: &Value, section: &str, train_length: usize) -> Result<Self> {
        let lengths = Lengths { train: train_length, length: train_length };
        Self::from_value(&in_tokens(value, section, lengths)?, section)
    }

    fn mixed(value: &Value, section: &str) -> Result<Self> {
        let MixedKeys { layers, pattern } = read(&kind_and_rest(value, section)?.1, section)?;
        if layers.is_empty() {
            return Err(Error::value(&format!("{section}.layers"), "[]", "a stack has layers")
                .hint("list what they read, such as `layers = [\"rope\", \"none\"]`"));
        }
        let entries = layers
            .iter()
            .enumerate()
            .map(|(index, entry)| StackEntry::from_value(entry, &format!("{section}.layers[{index}]")))
            .collect::<Result<Vec<_>>>()?;
        let pattern = pattern.unwrap_or_else(|| (0..entries.len()).collect());
        let key = format!("{section}.pattern");
        if pattern.is_empty() {
            return Err(Error::value(&key, "[]", "it says which of `layers` each layer reads")
                .hint("leave it out to take them in turn"));
        }
        if let Some(stranger) = pattern.iter().find(|&&entry| entry >= entries.len()) {
            let allowed =
                format!("`layers` has no entry {stranger}: it counts from 0 to {}", entries.len() - 1);
            return Err(Error::value(&key, format!("{pattern:?}"), allowed)
                .hint("list another entry, or change the pattern"));
        }
        Ok(Self { entries, pattern: Some(pattern) })
    }

    /// The encoding, where it is only one for all layers.
    pub fn only(&self) -> Option<&EncodingConfig> {
        match (&self.pattern, self.entries[0].encodings.as_slice()) {
            (None, [one]) => Some(one),
            _ => None,
        }
    }

    /// The encodings of all entries, in the order in which a reading has them.
    pub fn encodings(&self) -> impl Iterator<Item = &EncodingConfig> {
        self.entries.iter().flat_map(|entry| &entry.encodings)
    }

    /// Names the encoding in tables and rows: the kinds joined by `+`; in a mixed stack `rope[64]:3/none` for three
    /// layers with a window of 64 and one that sees everything.
    pub fn name(&self) -> String {
        let Some(pattern) = &self.pattern else { return self.entries[0].name(false) };
        let runs = pattern.chunk_by(|a, b| a == b).map(|run| {
            let name = self.entries[run[0]].name(true);
            if run.len() == 1 { name } else { format!("{name}:{}", run.len()) }
        });
        runs.collect::<Vec<_>>().join("/")
    }

    /// The encodings that a layer of a fresh model reads, in order, and how many of its `depth` layers read them.
    pub fn of_layer(&self, layer: usize, depth: usize) -> (&[EncodingConfig], usize) {
        let entry = self.entry_of(layer);
        (&self.entries[entry].encodings, self.layers_of(entry, depth).len())
    }

    fn entry_of(&self, layer: usize) -> usize {
        self.pattern.as_ref().map_or(0, |pattern| pattern[layer % pattern.len()])
    }

    /// The layers that read an entry, in order.
    fn layers_of(&self, entry: usize, depth: usize) -> Vec<usize> {
        (0..depth).filter(|&layer| self.entry_of(layer) == entry).collect()
    }

    /// Where an entry and its list of encodings stand in the config.
    fn sections(&self, section: &str, index: usize) -> (String, String) {
        if self.pattern.is_none() {
            return (section.to_owned(), section.to_owned());
        }
        let entry = format!("{section}.layers[{index}]");
        let list = format!("{entry}.encodings");
        (entry, list)
    }

    /// Every encoding, with its entry and where it stands in the config.
    fn placed(&self, section: &str) -> impl Iterator<Item = (usize, String, &EncodingConfig)> {
        self.entries.iter().enumerate().flat_map(move |(index, entry)| {
            let (of_entry, of_list) = self.sections(section, index);
            let alone = entry.encodings.len() == 1;
            entry.encodings.iter().enumerate().map(move |(place, encoding)| {
                let section = if alone { of_entry.clone() } else { format!("{of_list}[{place}]") };
                (index, section, encoding)
            })
        })
    }

    /// Tokens of the segment before that every layer also attends to.
    pub fn memory(&self) -> usize {
        self.encodings().map(|encoding| encoding.memory()).max().unwrap_or_default()
    }

    /// The least distances that read the farthest entries of tables, each with the key that says so, but for tables whose layers
    /// have a window that ends before.
    pub fn farthest_entries(&self, section: &str, train_length: usize) -> Vec<(String, usize)> {
        let farthest = self.placed(section).filter_map(|(entry, section, encoding)| {
            let window = self.entries[entry].keys.window;
            let seen = window.map_or(usize::MAX, |window| window.rounded_down(train_length));
            let (key, distance) = encoding.farthest_entry().filter(|(_, distance)| *distance < seen)?;
            Some((format!("{section}.{key}"), distance))
        });
        farthest.collect()
    }

    /// The windows that layers are trained with, each with its key.
    pub fn windows(&self, section: &str) -> Vec<(String, Tokens)> {
        let window = |(index, entry): (usize, &StackEntry)| {
            Some((format!("{}.window", self.sections(section, index).0), entry.keys.window?))
        };
        self.entries.iter().enumerate().filter_map(window).collect()
    }

    /// Checks the values against the model's sizes.
    pub fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        let root = section;
        for (index, entry) in self.entries.iter().enumerate() {
            let layers = self.layers_of(index, dimensions.layers).len();
            let (section, _) = self.sections(root, index);
            if layers == 0 {
                return Err(Error::usage(format!(
                    "no layer reads `{section}`: the model has {} and the pattern ends before it comes",
                    dimensions.layers
                ))
                .hint("remove it, change `position.pattern`, or give the model more layers"));
            }
            for (_, section, encoding) in self.placed(root).filter(|(entry, ..)| *entry == index) {
                encoding.validate(&section, &Dimensions { layers, ..*dimensions })?;
            }
            entry.check_keys(&section, dimensions.train_length)?;
        }
        Ok(())
    }

    /// Builds the reading of a fresh model; `log_n` is that of the layers that do not say otherwise.
    pub fn build(&self, section: &str, dimensions: &Dimensions, init: &Init, log_n: LogN) -> Result<Reading> {
        self.validate(section, dimensions)?;
        self.check_memory(section, dimensions, init)?;
        let train_length = dimensions.train_length;
        let mut encodings = Vec::new();
        let mut layers = vec![None; dimensions.layers];
        for (index, entry) in self.entries.iter().enumerate() {
            let (section, _) = self.sections(section, index);
            let init = match &self.pattern {
                Some(_) => init.scoped(&format!("layers[{index}]")),
                None => init.clone(),
            };
            let own = self.layers_of(index, dimensions.layers);
            let sizes = Dimensions { layers: own.len(), ..*dimensions };
            let built: Vec<Encoding> =
                entry.encodings.iter().map(|config| config.build(&sizes, &init)).collect();
            together::check(&built, &section, &entry.name(false))?;
            if own[0] > 0
                && let Some(encoding) = built.iter().find(|one| one.capabilities().replaces_hidden())
            {
                return Err(Error::usage(format!(
                    "`{section}` is first read by layer {}, where `{}` would discard what earlier layers made",
                    own[0],
                    encoding.kind()
                ))
                .hint("let the first layer of the pattern read it"));
            }
            let keys = &entry.keys;
            let window = entry.window(&section, train_length)?;
            let log_n = keys.log_n.map_or(log_n, |kind| kind.of(train_length, log_n.has_bias()));
            for (local, &layer) in own.iter().enumerate() {
                let places = (encodings.len()..).take(built.len());
                layers[layer] = Some(LayerReading {
                    encodings: places.map(|encoding| LayerEncoding { encoding, layer: local }).collect(),
                    geometry: None,
                    mask: Mask { window, sinks: keys.sinks.unwrap_or(0) },
                    log_n: match log_n {
                        LogN::Learned { bias, scale_bias, .. } => {
                            LogN::Learned { row: layer, bias, scale_bias }
                        }
                        other => other,
                    },
                    logit_scale: 1.0,
                    length_factor: None,
                    temperature: Temperature::default(),
                    head_scale: None,
                });
            }
            encodings.extend(built);
        }
        // Every layer is that of one entry.
        let mut layers: Vec<LayerReading> = layers.into_iter().flatten().collect();
        if log_n.has_bias() && !layers.iter().any(|layer| layer.log_n.has_bias()) {
            let why = format!("every entry of `{section}` has a `log_n` without one");
            return Err(Error::value("model.log_n_bias", true, why).hint("leave it out"));
        }
        let learned = learned_log_n(&mut layers, dimensions, init);
        let adaptive = adaptive_log_n(&mut layers, &encodings, dimensions, init)?;
        let mut reading = Reading::new(
            self.name(),
            encodings,
            (learned, adaptive),
            layers,
            [dimensions.heads, dimensions.head_dim],
            init,
        );
        reading.parameters()?;
        reading.set_layout(self.layout(&reading, section, dimensions)?);
        Ok(reading)
    }

    /// How a fresh model lays texts out: in segments of the training length where its encoding carries a memory.
    fn layout(&self, reading: &Reading, section: &str, dimensions: &Dimensions) -> Result<TextLayout> {
        let memory = self.memory();
        if memory == 0 {
            return Ok(TextLayout::Contiguous);
        }
        let rejected =
            |why: &str, hint: &str| Err(Error::value(&format!("{section}.memory"), memory, why).hint(hint));
        if self.only().is_none() {
            return rejected(
                "it carries what one encoding reads in every layer, without others, windows or sinks",
                "keep `transformer_xl` alone, or leave `memory` out",
            );
        }
        if reading.layers().iter().any(|layer| layer.log_n != LogN::Off) {
            return rejected(
                "`model.log_n` scales queries by their position in the text, and a segment does not know its own",
                "leave `model.log_n` or `memory` out",
            );
        }
        Ok(TextLayout::Recurrent { length: dimensions.train_length, memory })
    }
}

/// The error of an unknown `kind` of the whole section, with `mixed` among those allowed.
fn or_mixed(value: &Value, section: &str, error: Error) -> Error {
    match kind_and_rest(value, section) {
        Ok((kind, _)) if encodings::kinds().iter().all(|entry| entry.kind != kind) => {
            let kinds = encodings::kinds().iter().map(|entry| entry.kind).chain([encodings::MIXED]);
            unknown_kind(&format!("{section}.kind"), &kind, kinds)
        }
        _ => error,
    }
}

/// The numbers of the layers whose log-n scaling is learned, which are numbered in their order.
fn learned_log_n(layers: &mut [LayerReading], dimensions: &Dimensions, init: &Init) -> Option<LearnedLogN> {
    let (mut count, mut biased) = (0, false);
    for layer in layers {
        if let LogN::Learned { row, bias, .. } = &mut layer.log_n {
            *row = count;
            count += 1;
            biased |= *bias;
        }
    }
    let Dimensions { heads, train_length, .. } = *dimensions;
    (count > 0).then(|| LearnedLogN::new(count, heads, biased, train_length, init))
}

/// The parameters of the layers whose log-n scaling is adaptive, which are numbered in their order: all of one form, since they
/// share tensors.
fn adaptive_log_n(
    layers: &mut [LayerReading],
    encodings: &[Encoding],
    dimensions: &Dimensions,
    init: &Init,
) -> Result<Option<AdaptiveLogN>> {
    let mut form = None;
    let mut count = 0;
    for layer in layers {
        let LogN::Adaptive { row, from_input, bias } = &mut layer.log_n else { continue };
        *row = count;
        count += 1;
        let of_layer =
            layer.encodings.iter().map(|place| encodings[place.encoding].capabilities().first_heads());
        let own = (of_layer.max().flatten().unwrap_or(0), [*from_input, *bias]);
        if *form.get_or_insert(own) != own {
            return Err(Error::usage(
                "layers have adaptive log-n scaling of several forms, or of other heads",
            )
            .hint("give all that have it the same `log_n`, and encodings of as many heads"));
        }
        if own.0 >= dimensions.heads {
            return Err(Error::usage("`log_n` scales heads without an encoding, and every head has one")
                .hint("leave `log_n` out, or give fewer heads an encoding"));
        }
    }
    Ok(form.map(|(encoded, form)| AdaptiveLogN::new(count, encoded, form, dimensions, init)))
}

#[cfg(test)]
mod tests;
