//! The pictures of the atlas.

use super::super::{program, repository};
use burn::tensor::Device;
use longwave_inspect::charts::{Drawing, drawings};
use longwave_inspect::{Detail, View, pictures};
use longwave_position::reading::LogN;
use longwave_position::{Dimensions, ExtensionConfig, Init, Lengths, PositionConfig, Reading};
use longwave_report::plot::{self, Chart};
use std::collections::BTreeMap;
use std::fs;

/// The model of the main job.
const SIZES: Dimensions = Dimensions {
    layers: 4,
    width: 128,
    heads: 4,
    kv_heads: 4,
    head_dim: 32,
    train_length: 128,
    vocab_size: 512,
};

/// What a page of an extension shows, in this order, as far as there is any.
const OF_EXTENSIONS: [&str; 6] =
    ["frequencies", "decay-read", "bias-read", "logits", "logits-head-0", "vectors"];

/// A title, a caption and a file.
pub(super) type Figure = (String, String, String);

/// Files by name; drawn only where they are to be written.
#[derive(Default)]
pub(super) struct Pictures {
    pub(super) is_drawn: bool,
    pub(super) files: BTreeMap<String, String>,
}

impl Pictures {
    fn add(&mut self, file: &str, draw: impl FnOnce() -> longwave_core::Result<String>) {
        let text = if self.is_drawn { draw().unwrap() } else { String::new() };
        assert!(self.files.insert(file.to_owned(), text).is_none(), "{file} is drawn twice");
    }

    pub(super) fn chart(&mut self, file: &str, chart: &Chart) {
        self.add(file, || plot::svg(chart));
    }

    pub(super) fn small(&mut self, file: &str, chart: &Chart) {
        self.add(file, || plot::small_svg(chart));
    }

    fn drawing(&mut self, name: &str, drawing: &Drawing) -> Figure {
        let file = format!("{name}-{}.svg", drawing.file);
        self.add(&file, || drawing.svg());
        (drawing.title.clone(), drawing.caption.clone(), file)
    }
}

/// The pictures of an encoding with its default keys.
pub(super) fn of_encoding(kind: &str, pictures: &mut Pictures) -> Vec<Figure> {
    let reading = reading(kind, &SIZES);
    let drawn = drawn(&reading, &direct(), &SIZES, 4 * SIZES.train_length).unwrap_or_default();
    // One head stands for all.
    let shown = drawn.iter().filter(|it| !it.file.starts_with("logits-head-") || it.file == "logits-head-0");
    let mut figures: Vec<Figure> = shown.map(|drawing| pictures.drawing(kind, drawing)).collect();
    if kind == "sinusoidal" {
        figures.push(classic(pictures));
    }
    if kind == "radix" {
        figures.extend(["linear", "convert"].map(digits));
    }
    figures
}

/// 100 positions in 512 channels, as the picture is usually drawn.
fn classic(pictures: &mut Pictures) -> Figure {
    let sizes = Dimensions { width: 512, heads: 8, kv_heads: 8, head_dim: 64, train_length: 100, ..SIZES };
    let drawn = drawn(&reading("sinusoidal", &sizes), &direct(), &sizes, sizes.train_length).unwrap();
    let vectors = drawn.iter().find(|drawing| drawing.file == "vectors").unwrap();
    let (_, _, file) = pictures.drawing("sinusoidal-100x512", vectors);
    let caption = "The well-known picture: 100 positions in 512 channels. Sine and cosine alternate, and the waves grow longer from \
                   left to right.";
    ("Vectors of 512 channels".to_owned(), caption.to_owned(), file)
}

/// Digits as they are read at 8L, as text: a figure without a file.
fn digits(extend: &str) -> Figure {
    let text = program(&["inspect", "--config", "radix.toml", "--length", "8L", "--extend", extend]);
    let from = text.find("digits as they are read").unwrap();
    let table = text[from..].split("\n\n").next().unwrap();
    (format!("Digits read at 8L with `{extend}`"), format!("```text\n{table}\n```"), String::new())
}

/// What is drawn of an extension.
pub(super) struct OfExtension {
    pub(super) encoding: &'static str,
    pub(super) figures: Vec<Figure>,
}

/// The pictures of `rope`, or of the first encoding that it applies to, as the extension reads it; none where it changes the
/// layout of the text.
pub(super) fn of_extension(
    extend: &ExtensionConfig,
    applies_to: &[&'static str],
    pictures: &mut Pictures,
) -> OfExtension {
    let encoding = shown_with(applies_to);
    let reading = reading(encoding, &SIZES);
    let drawn = drawn(&reading, extend, &SIZES, 4 * SIZES.train_length).unwrap_or_default();
    let shown = OF_EXTENSIONS.iter().filter_map(|file| drawn.iter().find(|drawing| drawing.file == *file));
    let name = format!("extension-{}", extend.kind());
    OfExtension { encoding, figures: shown.map(|drawing| pictures.drawing(&name, drawing)).collect() }
}

/// As trained.
pub(super) fn direct() -> ExtensionConfig {
    ExtensionConfig::from_value(&"direct".into(), "extend").unwrap()
}

/// Whether an encoding is defined at a multiple of L, as an extension reads it.
pub(super) fn is_defined(kind: &str, extend: &ExtensionConfig, multiple: f64) -> bool {
    let lengths =
        Lengths { train: SIZES.train_length, length: (multiple * SIZES.train_length as f64) as usize };
    let read = extend.apply(&reading(kind, &SIZES), lengths);
    read.is_ok_and(|read| read.check(&read.layout().positions(lengths.length)).is_ok())
}

/// The encoding that shows an extension: `rope`, or the first one that it applies to.
pub(super) fn shown_with(applies_to: &[&'static str]) -> &'static str {
    applies_to.iter().copied().find(|kind| *kind == "rope").unwrap_or(applies_to[0])
}

/// An encoding with its default keys. A formula has none: the one of its config.
pub(super) fn default_of(kind: &str) -> toml::Value {
    if kind != "formula" {
        return kind.into();
    }
    let text = fs::read_to_string(repository("configs/formula.toml")).unwrap();
    text.parse::<toml::Table>().unwrap().remove("position").unwrap()
}

fn reading(kind: &str, sizes: &Dimensions) -> Reading {
    let config = PositionConfig::from_value(&default_of(kind), "position").unwrap();
    config.build("position", sizes, &Init::new(0, &Device::flex()), LogN::Off).unwrap()
}

fn drawn(
    trained: &Reading,
    extend: &ExtensionConfig,
    sizes: &Dimensions,
    length: usize,
) -> Option<Vec<Drawing>> {
    let lengths = Lengths { train: sizes.train_length, length };
    let read = extend.apply(trained, lengths).ok()?;
    let view = View { lengths, dimensions: sizes, detail: Detail::Drawing };
    let all = pictures(trained, &read, extend, &view);
    // An encoding whose table ends at L is drawn within it.
    match all {
        Ok(all) => all.first().map(drawings),
        Err(_) if length > sizes.train_length => drawn(trained, extend, sizes, sizes.train_length),
        Err(_) => None,
    }
}
