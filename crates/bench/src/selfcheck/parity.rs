//! How close a device comes to the CPU in every operation, encoding and extension: a table for users to send in.
//!
//! Values and gradients are compared with those of plain operations on the CPU in the same precision, relative to the
//! largest (of a model's gradients, the largest of the parameter, or a fiftieth of the largest of all).

use super::operation::Operation;
use super::small_model::{Make, Total, differentiate, model};
use super::{Checked, difference, gradient_differences, kernels, largest};
use burn::tensor::Device;
use longwave_core::Result;
use longwave_kernels::Precision;
use longwave_position::extensions::examples;
use longwave_position::{Lengths, encodings};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The lengths of texts, and the numbers of rows, that are compared. No power of two divides all of them.
pub const LENGTHS: [usize; 5] = [37, 48, 96, 300, 1000];

/// A third of it is the length that extensions take as trained.
pub const SHORTEST: usize = 24;

/// Pairs of channels of a head of the small model.
const BANDS: usize = 6;

/// What the gradients of a model may be off by, where that is more than its values may. Those of a bias by distance add up
/// a number for every pair of tokens, and nearly cancel, since a softmax does not see what all logits have in common: fused
/// and plain operations on the same CPU are 2.5e-5 apart for `cpb` at length 1000. The biases of a network of scores are the
/// same for all logits: their gradients, a millionth of the others, are rounding errors alone, and 3e-5 apart.
const GRADIENTS: f32 = 1e-4;

/// How far values and gradients are off at a length, or what went wrong; nothing where the default keys of an encoding do
/// not allow the length.
pub type Cell = std::result::Result<Option<[f32; 2]>, String>;

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was computed.
    pub name: String,
    pub precision: Precision,
    /// For each length.
    pub cells: Vec<Cell>,
    /// What values and gradients may be off by.
    pub allowed: [f32; 2],
}

impl Row {
    /// Whether every value and gradient is as close as it must be.
    pub fn holds(&self) -> bool {
        let close = |off: &[f32; 2]| off.iter().zip(&self.allowed).all(|(off, allowed)| off <= allowed);
        self.cells.iter().all(|cell| cell.as_ref().is_ok_and(|off| off.as_ref().is_none_or(close)))
    }

    /// The line in Markdown.
    pub fn line(&self) -> String {
        let pair = |[values, gradients]: &[f32; 2]| format!("{values:>7.1e} / {gradients:>7.1e}");
        let cell = |cell: &Cell| match cell {
            Ok(Some(off)) => pair(off),
            Ok(None) => format!("{:>17}", "not defined"),
            Err(_) => format!("{:>17}", "error"),
        };
        let cells: Vec<String> = self.cells.iter().map(cell).collect();
        format!(
            "| {:52} | {:4} | {} | {} | {} |\n",
            self.name.replace('|', "\\|"),
            self.precision.name(),
            cells.join(" | "),
            pair(&self.allowed),
            if self.holds() { "pass" } else { "FAIL" },
        )
    }

    /// What went wrong, a line each, for below the table.
    pub fn errors(&self) -> String {
        let errors = self.cells.iter().filter_map(|cell| cell.as_ref().err());
        errors.fold(String::new(), |lines, error| lines + &format!("{}: {error}\n", self.name))
    }
}

/// The head of the table in Markdown.
pub fn head(lengths: &[usize]) -> String {
    let columns = lengths.iter().fold(String::new(), |columns, length| columns + &format!(" {length:>17} |"));
    let rules = format!("{}:|", "-".repeat(18)).repeat(lengths.len());
    format!(
        "| {:52} | in   |{columns} {:>17} |      |\n|{}|------|{rules}{}:|------|\n",
        "values / gradients off by, at length",
        "allowed",
        "-".repeat(54),
        "-".repeat(18)
    )
}

/// Compares everything at some lengths, models in some precisions, and shows each line as it ends; the number of lines that
/// failed.
pub fn table(
    checked: &Checked,
    lengths: &[usize],
    precisions: &[Precision],
    show: &mut dyn FnMut(&Row) -> Result<()>,
) -> Result<usize> {
    let mut failed = 0;
    let mut row = |name: String, precision: Precision, gradients: f32, of: &dyn Fn(usize) -> Cell| {
        let cells = lengths.iter().map(|&length| {
            // A backend says with a panic that it cannot do something.
            let cell = catch_unwind(AssertUnwindSafe(|| of(length)));
            longwave_kernels::use_reference(checked.reference);
            cell.unwrap_or_else(|_| Err("it panicked; the message is above".to_owned()))
        });
        let cells = cells.collect();
        let values = checked.tolerance_in(precision);
        let row = Row { name, precision, cells, allowed: [values, values.max(gradients)] };
        failed += usize::from(!row.holds());
        show(&row)
    };
    for (index, operation) in operations(LENGTHS[0]).into_iter().enumerate() {
        let of = |length: usize| operations(length)[index].differences(checked).map(Some);
        let gradients = least_of_gradients(&operation);
        row(operation.name, Precision::F32, gradients, &of)?;
    }
    for &half in precisions.iter().filter(|one| **one != Precision::F32) {
        let of = |length: usize| kernels::feed_forward(half, length).differences(checked).map(Some);
        row("linear and gelu".to_owned(), half, 0.0, &of)?;
    }
    for &precision in precisions {
        for kind in encodings::kinds().iter().map(|entry| entry.kind) {
            let of = |length| of_model(checked, precision, length, &|device| model(kind, length, device));
            row(format!("encoding: {kind}"), precision, GRADIENTS, &of)?;
        }
        for (index, (extension, example)) in examples(BANDS, read_at(LENGTHS[0]))?.into_iter().enumerate() {
            let keys = if example.keys.is_empty() { String::new() } else { format!(", {}", example.keys) };
            let name = format!("extension: {}{keys}", extension.kind());
            row(name, precision, GRADIENTS, &|length| of_extension(checked, precision, length, index))?;
        }
    }
    Ok(failed)
}

/// What the gradients of an operation may be off by, where that is more than its values may.
fn least_of_gradients(operation: &Operation) -> f32 {
    if operation.sums_pairs { GRADIENTS } else { 0.0 }
}

fn operations(length: usize) -> Vec<Operation> {
    kernels::every(length, length, length)
}

/// A text three times as long as those of the training.
fn read_at(length: usize) -> Lengths {
    Lengths { train: length / 3, length }
}

/// An example of an extension, by its place among all of them.
fn of_extension(checked: &Checked, precision: Precision, length: usize, index: usize) -> Cell {
    let message_of = |error: longwave_core::Error| error.to_string();
    let lengths = read_at(length);
    let (extension, example) = examples(BANDS, lengths).map_err(message_of)?.swap_remove(index);
    of_model(checked, precision, length, &|device: &Device| {
        let mut model = model(example.encoding, lengths.train, device)?;
        model.position = extension.apply(&model.position, lengths).map_err(message_of)?;
        Ok(model)
    })
}

/// The losses of a model, and the gradients of all its parameters.
fn of_model(checked: &Checked, precision: Precision, length: usize, model: Make<'_>) -> Cell {
    let make = |device: &Device| model(device).map(|model| model.with_precision(precision));
    let Ok(on_cpu) = make(&Device::flex()) else { return Ok(None) };
    let positions = on_cpu.position.layout().positions(length);
    let run = |device: &Device| differentiate(&make, &positions, Total::Sum, device);
    let [actual, expected] = checked.both(run);
    let (actual, expected) = (actual?, expected?);
    let values = difference(largest(&expected.losses), &actual.losses, &expected.losses)?;
    let gradients: Vec<f32> = gradient_differences(&actual.gradients, &expected.gradients)
        .collect::<std::result::Result<_, _>>()?;
    Ok(Some([values, largest(&gradients)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;

    /// Sums over pairs grow with the length, and so do their rounding errors.
    #[test]
    fn operations_are_close_at_a_longer_text() {
        let _alone = alone();
        let checked = Checked { device: Device::flex(), reference: false };
        let allowed = checked.tolerance_in(Precision::F32);
        for operation in operations(LENGTHS[3]) {
            let [values, gradients] = operation.differences(&checked).unwrap();
            assert!(
                values <= allowed && gradients <= allowed.max(least_of_gradients(&operation)),
                "{}: {values}, {gradients}",
                operation.name
            );
        }
    }

    #[test]
    fn a_line_tells_what_is_off() {
        let row = |cells: Vec<Cell>| Row {
            name: "encoding: x".to_owned(),
            precision: Precision::F32,
            cells,
            allowed: [2e-5, 1e-4],
        };
        let close = row(vec![Ok(Some([1e-5, 1e-4])), Ok(None)]);
        assert!(close.holds() && close.line().contains("not defined") && close.line().ends_with("pass |\n"));
        for wrong in [Ok(Some([3e-5, 0.0])), Ok(Some([0.0, 2e-4])), Ok(Some([f32::INFINITY, 0.0]))] {
            let row = row(vec![Ok(Some([0.0, 0.0])), wrong]);
            assert!(!row.holds() && row.line().ends_with("FAIL |\n"), "{}", row.line());
        }
        let error = row(vec![Err("no such operation".to_owned())]);
        assert!(error.line().ends_with("FAIL |\n"), "{}", error.line());
        assert_eq!(error.errors(), "encoding: x: no such operation\n");
        assert_eq!(close.errors(), "");
        let columns = |line: &str| line.matches('|').count();
        let head = head(&[37, 1000]);
        assert!(head.lines().all(|line| columns(line) == columns(close.line().trim_end())), "{head}");
    }
}
