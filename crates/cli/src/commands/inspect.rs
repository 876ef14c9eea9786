//! `longwave inspect`: shows an encoding and what an extension makes of it.

use super::session::find_config;
use crate::args;
use crate::output::data;
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_eval::Config;
use longwave_position::encodings::ENCODINGS;
use longwave_position::frequency::Frequencies;
use longwave_position::reading::{LayerReading, LogN, Mask};
use longwave_position::{ExtensionConfig, Init, Lengths, Position, Reading};
use serde::Serialize;
use std::f64::consts::TAU;
use std::fmt::Write;

/// What is shown of one encoding.
#[derive(Debug, Serialize)]
struct Picture {
    encoding: &'static str,
    summary: &'static str,
    source: &'static str,
    train_length: usize,
    length: usize,
    extend: ExtensionConfig,
    /// The layers that read the encoding, as the extension leaves them.
    layers: Vec<Layer>,
    /// Whether all layers are alike and see everything, which goes without saying.
    #[serde(skip)]
    plain: bool,
    /// Bases and factors as trained and as read; absent where the encoding has no frequencies.
    spectrum: Option<Spectrum>,
}

/// What a layer sees besides the causal mask, and whether its queries are scaled by log n.
#[derive(Debug, Serialize)]
struct Layer {
    index: usize,
    window: Option<usize>,
    sinks: usize,
    log_n: bool,
}

#[derive(Debug, Serialize)]
struct Spectrum {
    base: f64,
    base_read: f64,
    attention_factor: f64,
    bands: Vec<Band>,
}

/// One frequency, in radians per position, as trained and as read.
#[derive(Debug, Serialize)]
struct Band {
    inv_freq: f64,
    /// Positions a turn takes.
    wavelength: f64,
    /// Turns within the training length.
    turns: f64,
    inv_freq_read: f64,
}

/// Runs the command.
pub(crate) fn run(arguments: &args::Inspect) -> Result<()> {
    let config = Config::load(&find_config(&arguments.config)?, &arguments.set)?;
    let train = config.run.train.length;
    let lengths = Lengths { train, length: arguments.length.unwrap_or(train) };
    let extend = super::eval::one_extension(arguments.extend.as_deref())?;
    let resolved = config.run.model.resolve(1, train)?;
    let init = Init::new(config.run.seed, &Device::flex());
    let trained = config.run.position.build("position", &resolved.dimensions, &init, resolved.log_n())?;
    let read = extend.apply(&trained, lengths)?;
    let pictures = pictures(&trained, &read, &extend, lengths);
    if arguments.json {
        let text = serde_json::to_string_pretty(&pictures)
            .map_err(|error| Error::failed(format!("the picture cannot be written as JSON: {error}")))?;
        return data(&(text + "\n"));
    }
    data(&pictures.iter().map(Picture::text).collect::<Vec<_>>().join("\n"))
}

fn pictures(trained: &Reading, read: &Reading, extend: &ExtensionConfig, lengths: Lengths) -> Vec<Picture> {
    let pairs = trained.encodings().iter().zip(read.encodings()).enumerate();
    let encodings =
        |layer: &LayerReading| -> Vec<usize> { layer.encodings.iter().map(|place| place.encoding).collect() };
    let first = encodings(read.layer(0));
    let plain = read
        .layers()
        .iter()
        .all(|layer| layer.mask == Mask::default() && layer.log_n == LogN::Off && encodings(layer) == first);
    pairs
        .filter_map(|(index, (trained, encoding))| {
            let layers = read.layers().iter().enumerate();
            let layers =
                layers.filter(|(_, layer)| layer.encodings.iter().any(|place| place.encoding == index));
            let entry = ENCODINGS.iter().find(|entry| entry.kind == trained.kind())?;
            let frequencies = trained.frequencies().zip(encoding.frequencies());
            Some(Picture {
                encoding: entry.kind,
                summary: entry.summary,
                source: entry.source,
                train_length: lengths.train,
                length: lengths.length,
                extend: extend.clone(),
                plain,
                layers: layers
                    .map(|(index, reading)| Layer {
                        index,
                        window: reading.mask.window,
                        sinks: reading.mask.sinks,
                        log_n: reading.log_n != LogN::Off,
                    })
                    .collect(),
                spectrum: frequencies.map(|(trained, read)| spectrum(trained, read, lengths.train)),
            })
        })
        .collect()
}

fn spectrum(trained: &Frequencies, read: &Frequencies, train_length: usize) -> Spectrum {
    let bands = trained.inv_freq.iter().zip(&read.inv_freq);
    Spectrum {
        base: trained.base,
        base_read: read.base,
        attention_factor: read.attention_factor,
        bands: bands
            .map(|(&inv_freq, &inv_freq_read)| Band {
                inv_freq,
                wavelength: TAU / inv_freq,
                turns: inv_freq * train_length as f64 / TAU,
                inv_freq_read,
            })
            .collect(),
    }
}

impl Layer {
    fn text(&self) -> String {
        let window =
            self.window.map_or("every earlier key".to_owned(), |window| format!("a window of {window}"));
        let sinks = if self.sinks > 0 { format!(" and the first {}", self.sinks) } else { String::new() };
        let log_n = if self.log_n { ", queries scaled by log n" } else { "" };
        format!("layer {} sees {window}{sinks}{log_n}\n", self.index)
    }
}

impl Picture {
    fn text(&self) -> String {
        let mut text = format!(
            "{}: {} ({})\ntrained at L = {}, read at {} as `{}`\n",
            self.encoding,
            self.summary,
            self.source,
            self.train_length,
            self.length,
            self.extend.kind()
        );
        for layer in self.layers.iter().filter(|_| !self.plain) {
            text.push_str(&layer.text());
        }
        let Some(spectrum) = &self.spectrum else {
            text.push_str("it is not made of frequencies\n");
            return text;
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "base {:.1} -> {:.1}, attention factor {:.6}\n\n{:>4}  {:>12}  {:>12}  {:>10}  {:>12}  {:>8}",
            spectrum.base,
            spectrum.base_read,
            spectrum.attention_factor,
            "band",
            "inv_freq",
            "wavelength",
            "turns in L",
            "read as",
            "ratio"
        );
        for (index, band) in spectrum.bands.iter().enumerate() {
            let _ = writeln!(
                text,
                "{index:>4}  {:>12.6e}  {:>12.2}  {:>10.3}  {:>12.6e}  {:>8.4}",
                band.inv_freq,
                band.wavelength,
                band.turns,
                band.inv_freq_read,
                band.inv_freq_read / band.inv_freq
            );
        }
        text
    }
}
