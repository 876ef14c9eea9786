//! Where the trained models of a study attend, from its committed `attention.csv`.

use super::super::results::Study;
use super::super::{program, repository};
use crate::common::csv::Csv;
use longwave_report::plot::{Axis, Chart, Point, Role, Scale, Series};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Probabilities below it are left out.
const LEAST: f64 = 1e-6;

/// The mean attention probability by distance, of each label's model of seed 0.
pub(super) struct Attention {
    /// Label, layer, distance and probability; or label and why there is none.
    rows: Vec<Vec<String>>,
    train_length: usize,
}

impl Attention {
    pub(super) fn read(study: &Study) -> Self {
        let text = fs::read_to_string(repository(&path(&study.name))).unwrap();
        Self { rows: Csv::read(&text).lines, train_length: study.train_length }
    }

    /// A line a layer; `None` for a model without probabilities.
    pub(super) fn chart(&self, label: &str) -> Option<Chart> {
        let mut series: Vec<Series> = Vec::new();
        for row in self.rows.iter().filter(|row| row[0] == label && row[4].is_empty()) {
            let [layer, distance, probability] = [1, 2, 3].map(|index| row[index].parse::<f64>().unwrap());
            let style = layer as usize;
            if series.len() <= style {
                series.push(Series {
                    name: format!("layer {style}"),
                    points: Vec::new(),
                    style,
                    role: Role::Method,
                });
            }
            let y = if probability < LEAST { f64::NAN } else { probability };
            series[style].points.push(Point { x: distance, y, bar: None });
        }
        let axis = |label: &str| Axis::new(label, Scale::LogWhole);
        (!series.is_empty()).then(|| Chart {
            title: format!("{label}: attention by distance"),
            subtitle: format!("trained at L = {}, read at {}", self.train_length, 4 * self.train_length),
            x: axis("tokens back"),
            y: axis("mean probability"),
            mark: Some((self.train_length as f64, format!("L = {}", self.train_length))),
            series,
            ..Chart::default()
        })
    }

    pub(super) fn why_not(&self, label: &str) -> Option<&str> {
        self.rows.iter().find(|row| row[0] == label && !row[4].is_empty()).map(|row| row[4].as_str())
    }
}

fn path(study: &str) -> String {
    format!("experiments/{study}/attention.csv")
}

/// Measures the models of a study's store again and writes the file. A label whose model the store lacks keeps its rows.
pub(super) fn measure(study: &Study, store: &Path) {
    let before = fs::read_to_string(repository(&path(&study.name))).unwrap_or_default();
    let mut text = "label,layer,distance,probability,why_not\n".to_owned();
    for (label, run) in study.runs_of_seed_0() {
        let folder = store.join(run);
        if !folder.join("checkpoints").exists() {
            let kept = before.lines().filter(|row| row.split(',').next() == Some(label));
            kept.for_each(|row| text.extend([row, "\n"]));
            continue;
        }
        let folder = folder.to_str().unwrap();
        // A table that ends at L is read within it.
        let printed = ["4L", "L"].into_iter().find_map(|length| {
            let arguments = ["inspect", folder, "--trained", "--length", length, "--json"];
            super::printed(&arguments)
        });
        let pictures: Value =
            serde_json::from_str(&printed.unwrap_or_else(|| program(&["inspect", folder, "--trained"])))
                .unwrap();
        let attention =
            pictures.as_array().unwrap().iter().map(|it| &it["attention"]).find(|it| !it.is_null()).unwrap();
        if let Some(why) = attention["why_not"].as_str() {
            let _ = writeln!(text, "{label},,,,\"{why}\"");
            continue;
        }
        for layer in attention["layers"].as_array().unwrap() {
            let probabilities = layer["mean"]["probability"].as_array().unwrap();
            // A query's own key has no place on a logarithmic axis.
            for (bin, probability) in
                attention["distances"].as_array().unwrap().iter().zip(probabilities).skip(1)
            {
                let [first, last] = [0, 1].map(|end| bin[end].as_f64().unwrap());
                let probability = probability.as_f64().unwrap();
                let _ = writeln!(
                    text,
                    "{label},{},{:.4},{probability:.4e},",
                    layer["index"],
                    (first * last).sqrt()
                );
            }
        }
    }
    fs::write(repository(&path(&study.name)), text).unwrap();
}
