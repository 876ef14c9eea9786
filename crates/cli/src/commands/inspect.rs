//! `longwave inspect`: shows an encoding and what an extension makes of it.

use super::session::find_config;
use crate::args;
use crate::output::data;
use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_eval::Config;
use longwave_position::encodings::ENCODINGS;
use longwave_position::frequency::Frequencies;
use longwave_position::reading::LogN;
use longwave_position::{ExtensionConfig, Init, Lengths, Position, Reading};
use longwave_train::reading_after;
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
    /// Bases and factors as trained and as read; absent where the encoding has no frequencies.
    spectrum: Option<Spectrum>,
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
    let dimensions = config.run.model.resolve(1, train)?.dimensions;
    let init = Init::new(config.run.seed, &Device::flex());
    let fresh = config.run.position.build("position", &dimensions, &init, LogN::Off)?;
    let trained = reading_after(&config.run, &fresh, config.run.last_stage())?;
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
    let pairs = trained.encodings().iter().zip(read.encodings());
    pairs
        .filter_map(|(trained, read)| {
            let entry = ENCODINGS.iter().find(|entry| entry.kind == trained.kind())?;
            let frequencies = trained.frequencies().zip(read.frequencies());
            Some(Picture {
                encoding: entry.kind,
                summary: entry.summary,
                source: entry.source,
                train_length: lengths.train,
                length: lengths.length,
                extend: extend.clone(),
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
