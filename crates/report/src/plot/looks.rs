//! Which colour and marker a method has: the same in every chart of a report.

use crate::block::{Block, Line};

/// The methods of a report, in order of first appearance. The place of a method chooses its colour and marker.
///
/// Charts of several runs name runs, those of one run name its extensions; each kind has places of its own.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// Runs as they were trained, then runs with an extension.
    runs: Vec<String>,
    extensions: Vec<String>,
}

impl Looks {
    /// The methods of all blocks of a report.
    pub fn of(blocks: &[Block]) -> Self {
        let mut looks = Self::default();
        for run in blocks.iter().flat_map(Block::runs) {
            add(&mut looks.runs, run);
        }
        // The baseline is drawn in grey.
        for line in blocks.iter().flat_map(|block| &block.lines).filter(|line| !line.is_baseline()) {
            add(&mut looks.extensions, &line.label);
            add(&mut looks.runs, &method(line));
        }
        looks
    }

    /// The place of a line among runs.
    pub(super) fn of_run(&self, line: &Line) -> usize {
        self.of_name(&method(line)).unwrap_or(0)
    }

    /// The place of a run as it was trained, by its name; `None` for a name that no row has.
    pub(super) fn of_name(&self, run: &str) -> Option<usize> {
        self.runs.iter().position(|known| known == run)
    }

    /// The place of a line among the extensions.
    pub(super) fn of_extension(&self, line: &Line) -> usize {
        self.extensions.iter().position(|known| *known == line.label).unwrap_or(0)
    }
}

/// A run, and how it is read unless that is as it was trained.
fn method(line: &Line) -> String {
    if line.extend == "direct" { line.run.clone() } else { format!("{}: {}", line.run, line.label) }
}

fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}
