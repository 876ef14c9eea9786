//! Which colour and marker a method has: the same in every chart of a report.

use super::draw::COLOURS;
use crate::block::{Block, Line};
use longwave_core::in_order::distinct;

/// The methods of a report. The place of a method chooses its colour and marker.
///
/// A run as it was trained is a method under the name of the run, also in its own chart, which calls it `direct`. An
/// extension is one method in the charts of single runs. It is the same method in charts of several runs where one run
/// alone is read with it; otherwise each run has its own there.
#[derive(Clone, Debug, Default)]
pub struct Styles {
    /// Runs, then extensions, then pairs of both, each in order of first appearance.
    methods: Vec<Method>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Method {
    Run(String),
    Extension(String),
    Pair(String, String),
}

impl Styles {
    pub fn of(blocks: &[Block]) -> Self {
        // The baseline is drawn in grey.
        let lines = || blocks.iter().flat_map(|block| &block.lines).filter(|line| !line.is_baseline());
        let is_shared = |line: &&Line| {
            let is_other = |other: &Line| other.label == line.label && other.run != line.run;
            line.extend != "direct" && lines().any(is_other)
        };
        let runs = blocks.iter().flat_map(Block::runs).map(|run| Method::Run(run.to_owned()));
        let pairs = lines().filter(is_shared).map(pair);
        Self { methods: distinct(runs.chain(lines().map(alone)).chain(pairs)) }
    }

    /// The places of lines in a chart of several runs.
    pub(super) fn among_runs(&self, lines: &[&Line]) -> Vec<usize> {
        let place = |line: &&Line| self.place(&pair(line)).or_else(|| self.place(&alone(line)));
        apart(lines.iter().map(place))
    }

    /// The places of lines in the chart of one run.
    pub(super) fn of_one_run(&self, lines: &[&Line]) -> Vec<usize> {
        apart(lines.iter().map(|line| self.place(&alone(line))))
    }

    /// The place of a run as it was trained, by its name; `None` for a name that no row has.
    pub(super) fn of_name(&self, run: &str) -> Option<usize> {
        self.place(&Method::Run(run.to_owned()))
    }

    fn place(&self, method: &Method) -> Option<usize> {
        self.methods.iter().position(|known| known == method)
    }
}

/// The method of a line where no other run is in the chart.
fn alone(line: &Line) -> Method {
    if line.extend == "direct" {
        Method::Run(line.run.clone())
    } else {
        Method::Extension(line.label.clone())
    }
}

fn pair(line: &Line) -> Method {
    Method::Pair(line.run.clone(), line.label.clone())
}

/// More methods than colours repeat them: within a chart a repeated colour gives way to one that is free. The baseline
/// has no place, and needs none.
fn apart(places: impl Iterator<Item = Option<usize>>) -> Vec<usize> {
    let mut used = [false; COLOURS];
    let of_chart = places.map(|place| {
        let place = place?;
        let free = (place..place + COLOURS).find(|place| !used[place % COLOURS]).unwrap_or(place);
        used[free % COLOURS] = true;
        Some(free)
    });
    of_chart.map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_colour_gives_way() {
        assert_eq!(apart([Some(1), None, Some(9), Some(10)].into_iter()), [1, 0, 10, 11]);
        let many: Vec<usize> = (0..10).collect();
        assert_eq!(apart(many.iter().copied().map(Some)), many);
    }
}
