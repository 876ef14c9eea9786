//! An `[[evaluate]]` block of a study.

use crate::axis::Axis;
use longwave_core::config::{take_table, unknown_key, unknown_kind};
use longwave_core::{Error, Result};
use longwave_position::encodings;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// What `only` calls the encoding of a run, unless an axis has that name.
const ENCODING: &str = "encoding";

/// An `[[evaluate]]` block and the runs it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluateBlock {
    pub block: Table,
    /// Axis name to labels: only runs with one of the labels on each named axis; empty means all runs. `encoding` names
    /// kinds of encodings, unless an axis has that name.
    pub only: BTreeMap<String, Vec<String>>,
}

impl EvaluateBlock {
    pub(super) fn read(mut block: Table, section: &str, axes: &[Axis]) -> Result<Self> {
        let only = take_table(&mut block, "only").map_err(|error| error.context(section))?;
        let only = only
            .iter()
            .map(|(name, value)| {
                let key = format!("{section}.only.{name}");
                let known: Vec<&str> = match axes.iter().find(|axis| axis.name == *name) {
                    Some(axis) => axis.points.iter().map(|point| point.label.as_str()).collect(),
                    None if name == ENCODING => {
                        encodings::kinds().iter().map(|entry| entry.kind).chain(["mixed"]).collect()
                    }
                    None => {
                        let known: Vec<&str> =
                            axes.iter().map(|axis| axis.name.as_str()).chain([ENCODING]).collect();
                        return Err(unknown_key(&key, name, &known));
                    }
                };
                let labels = labels(value).filter(|labels| !labels.is_empty()).ok_or_else(|| {
                    Error::value(&key, value, "it must be a label of that axis, or a list of them")
                        .hint("leave `only` out to read all runs")
                })?;
                match labels.iter().find(|label| !known.contains(&label.as_str())) {
                    Some(label) => Err(unknown_kind(&key, label, known)),
                    None => Ok((name.clone(), labels)),
                }
            })
            .collect::<Result<_>>()?;
        Ok(Self { block, only })
    }

    pub(crate) fn is_for(&self, names: &Names<'_>) -> bool {
        self.only
            .iter()
            .all(|(name, allowed)| allowed.iter().any(|label| Some(label.as_str()) == names.get(name)))
    }
}

/// What `only` may name of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) axes: &'a [Axis],
    pub(crate) labels: &'a [String],
    pub(crate) encoding: &'a str,
}

impl<'a> Names<'a> {
    /// The run's label on an axis, or its encoding.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        match self.axes.iter().position(|axis| axis.name == name) {
            Some(axis) => Some(&self.labels[axis]),
            None => (name == ENCODING).then_some(self.encoding),
        }
    }
}

fn labels(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(label) => Some(vec![label.clone()]),
        Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}
